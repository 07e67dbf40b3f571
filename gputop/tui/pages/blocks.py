"""What pages are put together from: frames, tables, wrapped text. Pure functions to lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gputop.catalog.text import cut, wrap
from gputop.tui.arrange import partition_cell
from gputop.tui.columns import Column, place
from gputop.tui.draw import Span, Spans, fit, width_of
from gputop.tui.look import Look
from gputop.tui.rows import GpuRow, Row
from gputop.tui.summary import table_header
from gputop.tui.views import tone, toned

LEAST_TEXT_WIDTH = 16


def panel(title: str, body: Sequence[Spans], width: int, look: Look) -> list[Spans]:
    """`body` in a frame of `width` cells."""
    if width < 24:
        return [((title, "dim"),), *body]
    inner = width - 4
    title = cut(title, width - 8)
    head: Spans = (
        ("╭─ ", "rule"), (title, "strong"), (" " + "─" * (width - 5 - width_of(((title, ""),))) + "╮", "rule"),
    )  # fmt: skip
    lines: list[Spans] = [head]
    lines += [(("│ ", "rule"), *fit(line, inner), (" │", "rule")) for line in body]
    lines.append((("╰" + "─" * (width - 2) + "╯", "rule"),))
    return [look.plain(line) for line in lines]


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


def table(columns: Sequence[Column], rows: Iterable[Row], look: Look, width: int, sort: str = "") -> list[Spans]:
    """A table without cursor: titles, then one line a row (and one a partition)."""
    placed = place(columns, width, natural={})
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
                spans += fit(look.plain(cell), item.width, right=item.column.right)
            lines.append(tuple(spans))
    return lines
