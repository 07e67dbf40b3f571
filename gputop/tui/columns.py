"""Columns of the fleet tables: title, width, order of leaving, sort key, and how a cell is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gputop.tui.draw import Spans
from gputop.tui.look import Look

EXTRA = 20
"""Columns of this rank and above are shown only where all others have their good width."""

WIDEST = 60
"""Cells that a column gets at most when the user asks for wide columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column. Widths are in cells."""

    id: str
    title: str
    cell: Callable[[Any, Look, int], Spans]
    """Row, look and width to spans; what is wider is cut."""
    width: int
    """The least it is shown with."""
    good: int = 0
    """What it gets before any column grows further; 0: `width`."""
    most: int = 0
    """What it may grow to; 0: `good`."""
    rank: int = 0
    """The higher, the earlier it leaves a narrow pane; from `EXTRA` on it is for wide panes only."""
    right: bool = False
    gap: int = 2
    """Blanks before it."""
    sort: Callable[[Any], Any] | None = None
    """Sort key of a row; `None` values come last. Without it the column cannot be sorted by."""
    descending: bool = False
    """The order in which it is first sorted."""
    letter: str = ""
    """`o` and this letter sort by it."""
    pinned: bool = False
    """Stays when columns are scrolled."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A column with its place on the line."""

    column: Column
    x: int
    width: int


def place(
    columns: Sequence[Column], width: int, *, natural: Mapping[str, int], skip: int = 0, wide: bool = False
) -> tuple[Placed, ...]:
    """The columns that a line of `width` cells shows. `natural`: widths that the data asks for, by column id. `skip`:
    how many columns are scrolled off. `wide`: columns are not squeezed and leave at the right edge only."""
    least = {column.id: natural.get(column.id, column.width) for column in columns}
    shown = [column for column in columns if column.pinned]
    loose = [column for column in columns if not column.pinned]
    if wide:
        least |= {column.id: max(least[column.id], column.good, min(column.most, WIDEST)) for column in loose}
    room = width - sum(column.gap + least[column.id] for column in shown)
    if skip or wide:
        for column in loose[skip:]:
            shown.append(column)
            room -= column.gap + least[column.id]
            if room <= 0:
                break
        last = shown[-1]
        least[last.id] += min(max(0, room), max(0, last.most - least[last.id]))
        return _lay_out(shown, least, width)
    widths: dict[str, int] = {column.id: least[column.id] for column in shown}
    by_rank = sorted(loose, key=lambda column: column.rank)
    for is_extra, target in ((False, "good"), (True, "good"), (False, "most"), (True, "most")):
        for column in by_rank:
            if column.id not in widths and (column.rank >= EXTRA) == is_extra and column.gap + least[column.id] <= room:
                widths[column.id] = least[column.id]
                room -= column.gap + least[column.id]
        for column in sorted(columns, key=lambda column: column.rank):
            if column.id in widths and room > 0:
                grown = min(room, max(0, getattr(column, target) - widths[column.id]))
                widths[column.id] += grown
                room -= grown
    return _lay_out([column for column in columns if column.id in widths], widths, width)


def _lay_out(columns: Sequence[Column], widths: Mapping[str, int], width: int) -> tuple[Placed, ...]:
    placed = []
    x = 0
    for column in columns:
        x += column.gap
        cells = min(widths[column.id], width - x)
        if cells <= 0:
            break
        placed.append(Placed(column, x, cells))
        x += cells
    return tuple(placed)
