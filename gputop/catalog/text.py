"""Untrusted text made fit for one line of a terminal."""

from __future__ import annotations

import re
import unicodedata

from rich.cells import cell_len, chop_cells, set_cell_size

from gputop.domain.plural import counted as counted

_UNFIT = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # C0, delete and C1 control characters: escapes begin here
    "\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff"  # zero width, bidirectional marks, overrides and isolates
    "\ufff9-\ufffb\U000e0000-\U000e007f"  # annotations and tags
    "\ud800-\udfff"  # halves of surrogate pairs: not encodable
    "]+"
)


def clean(text: str) -> str:
    """`text` on one line, without control characters, direction overrides and invisible characters.

    Tabs and line ends become one blank; nothing else is added."""
    if text.isascii() and text.isprintable():
        return text
    flat = re.sub(r"[\t\n\r\v\f]+", " ", text)
    flat = _UNFIT.sub("", flat)
    return "".join(character for character in flat if unicodedata.category(character) != "Cc")


def cut(text: str, width: int, *, ellipsis: str = "…") -> str:
    """`text` in at most `width` terminal cells; what is cut off is marked by `ellipsis`."""
    if width <= 0:
        return ""
    if cell_len(text) <= width:
        return text
    room = width - cell_len(ellipsis)
    if room < 0:
        return set_cell_size(text, width).rstrip()
    return set_cell_size(text, room).rstrip() + ellipsis


def wrap(text: str, width: int) -> list[str]:
    """`text` on lines of at most `width` cells (2 or more), broken at blanks where that can be."""
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if cell_len(longer) <= width:
            line = longer
            continue
        if line:
            lines.append(line)
        *full, line = chop_cells(word, width) or [""]
        lines += full
    return [*lines, line]


def pad(text: str, width: int, *, right: bool = False, ellipsis: str = "…") -> str:
    """`text` in exactly `width` cells: cut, or filled with blanks (`right`: to the right edge)."""
    short = cut(text, width, ellipsis=ellipsis)
    fill = " " * (width - cell_len(short))
    return fill + short if right else short + fill


def ascii_degrees(text: str) -> str:
    """` 66 C` for `66 °C`: in ASCII, as wide as before, and flush right."""
    return _DEGREES.sub(r" \1 C", text)


_DEGREES = re.compile(r"(\d+) °C")


def short_model(model: str | None) -> str:
    """`H100 80GB` from `NVIDIA H100 80GB HBM3`: maker, plug and kind of memory are left out. Empty for no model."""
    name = clean(model or "")
    return " ".join(word for word in re.findall(r"[^\s-]+", name) if not _MODEL_NOISE.fullmatch(word)) or name


_MODEL_NOISE = re.compile(r"nvidia|tesla|geforce|quadro|hbm\d\w*|sxm\d|pcie|graphics", re.IGNORECASE)
