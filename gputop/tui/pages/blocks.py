"""What pages are put together from: frames, tables, groups of values, wrapped text. Pure functions to lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.cells import cell_len

from gputop.catalog.format import ABSENT
from gputop.catalog.text import cut, wrap
from gputop.export.groups import Group, Item
from gputop.tui.arrange import partition_cell
from gputop.tui.columns import Column, place
from gputop.tui.draw import Span, Spans, fit, width_of
from gputop.tui.look import Look
from gputop.tui.rows import GpuRow, Row
from gputop.tui.summary import table_header
from gputop.tui.views import tone, toned

LEAST_TEXT_WIDTH = 16

TONES = {"": "text", "dim": "dim", "warn": "warn", "bad": "bad"}
"""Styles by tone of a value."""

LABEL_WIDTH = 20
"""The most cells that labels of a group get."""

TWO_COLUMNS, THREE_COLUMNS = 100, 165
"""From these widths on groups stand side by side."""


@dataclass
class Board:
    """Lines of a page, and which of them stand for something that the cursor can be on."""

    lines: list[Spans] = field(default_factory=list)
    places: list[tuple[int, Any]] = field(default_factory=list)
    """Number of the line, and a row or whatever else the page offers."""

    def add(self, lines: Iterable[Spans]) -> None:
        self.lines += lines

    def add_blank(self) -> None:
        self.lines.append(((" ", "text"),))

    def add_row(self, columns: Sequence[Column], row: Row, look: Look, width: int, names: int) -> None:
        """A table of one row, clear of the right edge; `names`: cells that its name gets."""
        lines = table(columns, [row], look, width - 1, names=names)
        self.places.append((len(self.lines) + 1, row))
        self.lines += lines

    def add_table(
        self, title: str, columns: Sequence[Column], rows: Sequence[Row], look: Look, width: int,
        note: str = "", after: Sequence[Spans] = (),
    ) -> None:  # fmt: skip
        """A table in a frame, the lines `after` under it."""
        is_framed = width >= LEAST_FRAME
        lines = table(columns, rows, look, width - 4 if is_framed else width)
        at = len(self.lines) + 2
        for row in rows:
            self.places.append((at, row))
            at += 1 + (len(row.partitions) if isinstance(row, GpuRow) else 0)
        self.lines += panel(title, [*lines, *after], width, look, note)


LEAST_FRAME = 24
"""Narrower blocks have no frame."""


def panel(title: str, body: Sequence[Spans], width: int, look: Look, note: str = "") -> list[Spans]:
    """`body` in a frame of `width` cells; `note` stands at the right of the title where there is room."""
    if width < LEAST_FRAME:
        return [look.plain(line) for line in [((title, "dim"),), *body]]
    inner = width - 4
    title = cut(title, width - 8)
    room = width - 5 - cell_len(title)
    words = f" {note} " if note and cell_len(note) + 4 <= room else ""
    rule = "─" * (room - cell_len(words) - (1 if words else 0))
    head: Spans = (("╭─ ", "rule"), (title, "strong"), (f" {rule}", "rule"), (words, "dim"),
                   ("─╮" if words else "╮", "rule"))  # fmt: skip
    lines: list[Spans] = [head]
    lines += [(("│ ", "rule"), *fit(line, inner), (" │", "rule")) for line in body]
    lines.append((("╰" + "─" * (width - 2) + "╯", "rule"),))
    return [look.plain(line) for line in lines]


def group_panel(group: Group, look: Look, width: int) -> list[Spans]:
    """The values of a group in a frame; one line where none of them is known."""
    if group.is_absent:
        words: Spans = ((f" {group.title}", "strong"), (f"  {group.absence}", "dim"))
        return [look.plain(fit(words, width))]
    if look.ascii_only:
        group = group._replace(items=tuple(one._replace(text=one.text.replace("°C", "C"),
                                                        note=one.note.replace("°C", "C"))
                                           for one in group.items))  # fmt: skip
    inner = width - 4 if width >= LEAST_FRAME else width
    labels = min(LABEL_WIDTH, max(cell_len(item.label) for item in group.items))
    if inner - labels < LEAST_TEXT_WIDTH:
        labels = min(labels, max(1, inner // 2))
    body = [line for item in group.items for line in item_lines(item, labels, inner)]
    return panel(group.title, body, width, look, group.age)


def item_lines(item: Item, labels: int, width: int) -> list[Spans]:
    """A value behind its label of `labels` cells, on as many lines of `width` cells as it needs."""
    style = "faint" if item.text == ABSENT else TONES[item.tone]
    head: Spans = (*fit(((item.label, "dim"),), labels), ("  ", "text"))
    lines = hanging(head, (item.text, style), width)
    if not item.note:
        return lines
    note: Spans = ((f"  {item.note}", "dim" if item.tone != "bad" else "text"),)
    if width_of(lines[-1]) + width_of(note) <= width:
        lines[-1] = (*lines[-1], *note)
        return lines
    return lines + hanging(((" " * (labels + 2), "text"),), (item.note, note[0][1]), width)


def stacked(groups: Iterable[Group], look: Look, width: int) -> list[Spans]:
    """One group under the other."""
    return [line for group in groups for line in group_panel(group, look, width)]


def in_columns(groups: Sequence[Group], places: Sequence[tuple[int, int]], look: Look, width: int) -> list[Spans]:
    """Groups side by side where there is room. `places`: the column of each where there are two, and where there are
    three; fixed, so that no block jumps when another one grows."""
    if width < TWO_COLUMNS:
        return stacked(groups, look, width)
    count = 2 if width < THREE_COLUMNS else 3
    cells = (width - (count - 1)) // count
    widths = [cells] * (count - 1) + [width - (cells + 1) * (count - 1)]
    columns = [
        stacked([group for group, place in zip(groups, places, strict=True) if place[count - 2] == column], look,
                widths[column])
        for column in range(count)
    ]  # fmt: skip
    lines = columns[0]
    taken = widths[0]
    for number in range(1, count):
        lines = beside(lines, columns[number], taken)
        taken += 1 + widths[number]
        if number + 1 < count:
            lines = [fit(line, taken) for line in lines]
    return lines


def hanging(head: Spans, text: Span, width: int) -> list[Spans]:
    """`text` behind `head`, on as many lines of `width` cells as it needs; under it where there is no room."""
    indent = width_of(head)
    words, style = text
    if indent > 6 and width - indent < LEAST_TEXT_WIDTH:
        return [head, *(((" " * 6, "text"), (line, style)) for line in wrap(words, max(2, width - 6)))]
    first, *others = wrap(words, max(2, width - indent))
    return [(*head, (first, style)), *(((" " * indent, "text"), (line, style)) for line in others)]


def beside(left: list[Spans], right: list[Spans], width: int) -> list[Spans]:
    """Two blocks next to each other; `width`: of the left one."""
    count = max(len(left), len(right))
    blank: Spans = ((" " * width, "text"),)
    return [
        (*(left[y] if y < len(left) else blank), (" ", "text"), *(right[y] if y < len(right) else ()))
        for y in range(count)
    ]


def table(
    columns: Sequence[Column], rows: Iterable[Row], look: Look, width: int, sort: str = "", names: int = 0
) -> list[Spans]:
    """A table: titles, then one line a row (and one a partition). `names`: cells that names of hosts get."""
    placed = place(columns, width, natural={"host": names} if names else {})
    lines = [table_header(placed, sort, False, look, width)]
    for row in rows:
        mood = tone(row)
        parts = len(row.partitions) if isinstance(row, GpuRow) else 0
        for part in range(parts + 1):
            spans: list[Span] = []
            for item in placed:
                if part:
                    assert isinstance(row, GpuRow)
                    cell = partition_cell(row, part, item.column.id, look, item.width)
                else:
                    cell = item.column.cell(row, look, item.width)
                cell = toned(cell, mood, item.column.id)
                spans.append((" " * item.column.gap, "text"))
                spans += look.plain(fit(cell, item.width, right=item.column.right))
            lines.append(tuple(spans))
    return lines
