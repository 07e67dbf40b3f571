"""Text with style names, meters, trends and charts: pure functions from values to what one line shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from rich.cells import cell_len

from gputop.catalog.text import ascii_degrees, clean, cut, pad

Span = tuple[str, str]
"""Text and the name of its style (see `STYLES`)."""

Spans = tuple[Span, ...]

STYLES: tuple[str, ...] = (
    "text", "strong", "dim", "faint", "accent", "ok", "warn", "bad",
    "meter-1", "meter-2", "meter-3", "meter-4", "track", "busy", "idle", "trend",
    "key", "badge", "tab", "tab-on", "title", "rule",
)  # fmt: skip
"""Every style a span may name; TCSS gives each its colors as component class `p--NAME`."""

EIGHTHS = " ▏▎▍▌▋▊▉█"
LEVELS = "▁▂▃▄▅▆▇"
"""Without the full block: a thin gap between two rows keeps their trends apart."""
ASCII_LEVELS = ".:|"
UNSEEN = "·"

_ASCII = str.maketrans(
    {
        "–": "-", "—": "-", "…": "~", "·": ".", "°": " ", "→": ">", "←": "<", "↑": "^", "↓": "v", "▲": "!", "✕": "x",
        "●": "*", "◌": "~", "○": "o", "▼": "v", "△": "^", "▽": "v", "├": "|", "└": "`", "│": "|", "─": "-", "┌": "+",
        "┐": "+", "┘": "+", "┤": "+", "┴": "+", "┬": "+", "┼": "+", "■": "#", "›": ">", "‹": "<", "⏎": "^", "×": "x",
        "█": "#", "▁": ".", "▂": ".", "▃": ":", "▄": ":", "▅": ":", "▆": "|", "▇": "|", "▔": "-", "░": ":", "❯": ">",
        "▎": "|", "▏": "|", "▍": "|", "▌": "|", "▋": "|", "▊": "#", "▉": "#", "╭": "+", "╮": "+", "╰": "+", "╯": "+",
        "▐": "|", "━": "-", "╸": "-", "╺": "-", "≤": "<", "≥": ">", "∅": "0",
    }
)  # fmt: skip


def to_ascii(text: str) -> str:
    """`text` in ASCII, as wide as before: known glyphs become look-alikes, everything else `?`."""
    if text.isascii():
        return text
    known = ascii_degrees(text).translate(_ASCII)
    return "".join(character if character.isascii() else "?" * cell_len(character) for character in known)


def remote(text: str | None, absent: str = "–") -> str:
    """Untrusted text for one line; `absent` when there is none."""
    return (clean(text) or absent) if text else absent


def width_of(spans: Iterable[Span]) -> int:
    return sum(cell_len(text) for text, _ in spans)


def fit(spans: Spans, width: int, *, right: bool = False) -> Spans:
    """`spans` in exactly `width` cells."""
    if len(spans) == 1:
        text, style = spans[0]
        return ((pad(text, width, right=right), style),)
    room = width - width_of(spans)
    if room >= 0:
        fill = (" " * room, "text")
        return spans if room == 0 else ((fill, *spans) if right else (*spans, fill))
    kept: list[Span] = []
    left = width
    for text, style in spans:
        cells = cell_len(text)
        if cells >= left:
            kept.append((pad(cut(text, left) if cells > left else text, left), style))
            break
        kept.append((text, style))
        left -= cells
    return tuple(kept)


def spread(left: Spans, right: Spans, width: int) -> Spans:
    """`left` at the left edge, `right` at the right one; the left part gives way."""
    right_width = width_of(right)
    if right_width >= width:
        return fit(right, width)
    room = width - right_width - 1
    return (*fit(left, room), (" ", "text"), *right)


def meter_style(percent: float) -> str:
    """One hue that warms with the value."""
    return "meter-1" if percent < 25 else "meter-2" if percent < 60 else "meter-3" if percent < 90 else "meter-4"


def meter(percent: float | None, width: int, *, ascii_only: bool = False, style: str | None = None) -> Spans:
    """A bar of `width` cells for 0 to 100, in eighths of a cell; a value above 0 shows at least one eighth."""
    if percent is None:
        return ((" " * width, "text"),)
    percent = min(100.0, max(0.0, percent))
    name = style or meter_style(percent)
    if ascii_only:
        cells = round(percent * width / 100)
        return (("#" * cells, name), ("." * (width - cells), "faint"))
    eighths = round(percent * width * 8 / 100)
    if percent > 0:
        eighths = max(1, eighths)
    full, part = divmod(eighths, 8)
    bar = "█" * full + (EIGHTHS[part] if part else "")
    return ((bar + " " * (width - len(bar)), name),)


def shares(parts: Sequence[tuple[int, str]], width: int, *, ascii_only: bool = False) -> Spans:
    """One bar of `width` cells split in proportion to the counts; every count above 0 gets at least one cell."""
    total = sum(count for count, _ in parts)
    if not total:
        return ((" " * width, "track"),)
    cells = [max(1, int(count * width / total)) if count else 0 for count, _ in parts]
    while sum(cells) > width:
        cells[cells.index(max(cells))] -= 1
    remainders = [count * width / total - cell for (count, _), cell in zip(parts, cells, strict=True)]
    while sum(cells) < width:
        widest = remainders.index(max(remainders))
        cells[widest] += 1
        remainders[widest] -= 1
    glyphs = ("#", ".", "?") if ascii_only else ("█", "█", "░")
    return tuple((glyph * cell, name) for glyph, cell, (_, name) in zip(glyphs, cells, parts, strict=False) if cell)


def squeeze(values: Sequence[float | None], width: int, *, phase: int = 0) -> list[float | None]:
    """Means of `values` in at most `width` groups, newest last. `phase` is the number of the newest bucket in absolute
    time: groups are laid on that grid, so that a finished group keeps its mean and its picture as time goes on."""
    if width <= 0:
        return []
    size = max(1, -(-len(values) // width))
    over = (phase + 1) % size
    first = len(values) - over if over else len(values)
    groups = [values[max(0, end - size) : end] for end in range(first, 0, -size)][::-1]
    if over:
        groups.append(values[first:])
    return [_mean(group) for group in groups[-width:]]


def trend(values: Sequence[float | None], width: int, *, phase: int = 0, ascii_only: bool = False) -> Spans:
    """A strip of `width` cells for values of 0 to 100; a dot where nothing was seen, blank before the first group."""
    levels = ASCII_LEVELS if ascii_only else LEVELS
    unseen = " " if ascii_only else UNSEEN
    last = len(levels) - 1
    groups = squeeze(values, width, phase=phase)
    pieces: list[Span] = [(" " * (width - len(groups)), "faint")] if len(groups) < width else []
    for value in groups:
        seen = value is not None
        glyph = levels[min(last, max(0, round(value * last / 100)))] if value is not None else unseen
        name = "trend" if seen else "faint"
        if pieces and pieces[-1][1] == name:
            pieces[-1] = (pieces[-1][0] + glyph, name)
        else:
            pieces.append((glyph, name))
    return tuple(pieces)


def chart(values: Sequence[float | None], width: int, height: int, *, ascii_only: bool = False) -> list[str]:
    """A filled curve of values from 0 to 100, `height` lines, top line first. Braille: two values and four levels a
    cell; ASCII: one value and one level."""
    if ascii_only:
        columns = _stretch(values, width)
        return [
            "".join("|" if value is not None and value * height / 100 > row + 0.5 else " " for value in columns)
            for row in reversed(range(height))
        ]
    points = _stretch(values, width * 2)
    levels = [None if value is None else max(1, round(value * height * 4 / 100)) for value in points]
    lines = []
    for row in reversed(range(height)):
        line = []
        for x in range(width):
            dots = 0
            for column, bits in ((0, (0x40, 0x04, 0x02, 0x01)), (1, (0x80, 0x20, 0x10, 0x08))):
                level = levels[x * 2 + column]
                for bit in range(min(4, max(0, (level or 0) - row * 4))):
                    dots |= bits[bit]
            line.append(chr(0x2800 + dots) if dots else " ")
        lines.append("".join(line))
    return lines


def _stretch(values: Sequence[float | None], width: int) -> list[float | None]:
    """`values` on exactly `width` places: repeated where there are fewer, their means where there are more."""
    count = len(values)
    edges = [x * count // width for x in range(width + 1)]
    return [_mean(values[left : max(left + 1, right)]) for left, right in pairwise(edges)]


def _mean(values: Sequence[float | None]) -> float | None:
    seen = [value for value in values if value is not None]
    return sum(seen) / len(seen) if seen else None
