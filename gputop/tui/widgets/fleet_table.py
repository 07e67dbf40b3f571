"""The fleet table: draws only visible lines, from column data, and repaints only cells that changed."""

from __future__ import annotations

from dataclasses import dataclass, field

from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gputop.fleet.fleet import Fleet
from gputop.query.filter import Predicate
from gputop.tui.arrange import REASONS_UP_TO_HOSTS, Line, RowStore, arranged, lines_of, partition_cell, under_text
from gputop.tui.columns import Placed, place
from gputop.tui.draw import Span, Spans, fit
from gputop.tui.look import WORDS, Look
from gputop.tui.rows import GpuRow, Key, Row
from gputop.tui.views import View, tone, toned
from gputop.tui.widgets.painted import Palette

INDENT = 4
"""Cells before a line that spans all columns."""

LEAST_HEIGHT_FOR_REASONS = 12

WHEEL_ROWS = 3

WIDE = 140
"""From so many cells on states get the room that their words need."""
STATE_WIDTH = 11

NAME_WIDTH = (6, 28)
"""The least and the most cells that host names get."""


@dataclass
class TableState:
    """How the user looks at one view: kept while another view is shown."""

    view: View
    sort: str
    descending: bool
    skip: int = 0
    """Columns scrolled off."""
    wide: bool = False
    cursor: Key | None = None
    """The row the user stands on; `None`: the first one, until a key is pressed."""
    top: int = 0
    marks: set[Key] = field(default_factory=set)
    last_mark: Key | None = None
    store: RowStore = field(init=False)

    def __post_init__(self) -> None:
        self.store = RowStore(self.view)

    @classmethod
    def of(cls, view: View) -> TableState:
        return cls(view, view.sort, view.column(view.sort).descending)


@dataclass(frozen=True, slots=True)
class Drawn:
    """One line as it stands on the screen: a ground and one piece a column (or one for the whole line)."""

    ground: str
    pieces: tuple[Spans, ...]
    whole: bool = False


class FleetTable(ScrollView, can_focus=True, inherit_bindings=False):
    """Rows of one view of a Fleet with a cursor."""

    class Changed(Message):
        """Cursor, columns or rows are other ones now."""

    class Opened(Message):
        """A row was clicked twice."""

    def __init__(self, state: TableState, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.state = state
        self.palette = Palette(self)
        self.look: Look | None = None
        self.placed: tuple[Placed, ...] = ()
        self.rows: list[Row] = []
        self.lines: list[Line] = []
        self.cursor_line = 0
        self.lost_row: Key | None = None
        """The row under the cursor that left the table in the last update; the cursor then stands on a neighbor."""
        self.cells_formatted = 0
        self.lines_painted = 0
        self._drawn: dict[int, Drawn] = {}
        self._last: tuple[Fleet, Look, Predicate | None] | None = None

    def on_resize(self) -> None:
        self._drawn.clear()
        if self._last is not None:
            self.show(*self._last)

    # --- what is shown --------------------------------------------------------------------------------------

    def show(self, fleet: Fleet, look: Look, passes: Predicate | None) -> None:
        """Draw `fleet`. The cursor stays on its row wherever that row goes."""
        self._last = (fleet, look, passes)
        if not self.size.width:
            return
        state = self.state
        self.look = look
        self.rows = arranged(state.store.rows(fleet), state.view, state.sort, state.descending, passes,
                             look.acts)  # fmt: skip
        self.lines = lines_of(self.rows, reasons=self.has_room_for_reasons(fleet))
        self._place(fleet)
        self._find_cursor()
        size = Size(self.size.width, len(self.lines))
        if size != self.virtual_size:
            self.virtual_size = size
        self._keep_cursor_visible()
        self._repaint_changed()
        self.post_message(self.Changed())

    def has_room_for_reasons(self, fleet: Fleet) -> bool:
        """Whether reasons stand under their hosts; else the screen shows that of the row under the cursor."""
        return len(fleet.hosts) <= REASONS_UP_TO_HOSTS and self.size.height >= LEAST_HEIGHT_FOR_REASONS

    def use(self, state: TableState) -> None:
        """Show another view; `show` must follow."""
        self.state.top = self.scroll_offset.y
        self.state = state
        self._drawn.clear()
        self.placed = ()
        self.cursor_line = 0
        self.refresh()

    def _place(self, fleet: Fleet) -> None:
        least, most = NAME_WIDTH
        longest = max((len(name) for name in fleet.hosts), default=least)
        narrow = 10 if self.size.width < 60 else most
        natural = {"host": min(max(least, longest), narrow, most)}
        if self.size.width >= WIDE:
            longest_words = (len(WORDS[host.link.state]) for host in fleet)
            natural["state"] = max(STATE_WIDTH, max(longest_words, default=0))
        placed = place(self.state.view.columns, self.size.width - 1, natural=natural, skip=self.state.skip,
                       wide=self.state.wide)  # fmt: skip
        if placed != self.placed:
            self.placed = placed
            self._drawn.clear()
            self.refresh()

    def _find_cursor(self) -> None:
        wanted = self.state.cursor
        if wanted is None:
            self.cursor_line = 0
            return
        here = self.lines[self.cursor_line : self.cursor_line + 1]
        if here and here[0][1] == 0 and here[0][0].key == wanted:
            return
        for index, (row, part) in enumerate(self.lines):
            if part == 0 and row.key == wanted:
                self.cursor_line = index
                return
        self.lost_row = wanted
        self.cursor_line = self._own_line(min(self.cursor_line, len(self.lines) - 1))
        row_now = self.cursor_row
        self.state.cursor = row_now.key if row_now is not None else None

    def _own_line(self, index: int) -> int:
        """The line of the row that line `index` belongs to."""
        while index > 0 and self.lines[index][1]:
            index -= 1
        return max(0, index)

    @property
    def cursor_row(self) -> Row | None:
        return self.lines[self.cursor_line][0] if self.cursor_line < len(self.lines) else None

    def held_row(self) -> Row | None:
        """The row under the cursor, which the cursor stays on from now on: something is done with it."""
        row = self.cursor_row
        if row is not None:
            self.state.cursor = row.key
        return row

    # --- moving ---------------------------------------------------------------------------------------------

    def move_to(self, index: int) -> None:
        """Put the cursor on the row of line `index`."""
        if not self.lines:
            return
        before = self.cursor_line
        self.cursor_line = self._own_line(min(max(0, index), len(self.lines) - 1))
        self.state.cursor = self.lines[self.cursor_line][0].key
        self._repaint_lines(before, self.cursor_line)
        self._keep_cursor_visible()
        self.post_message(self.Changed())

    def move_by(self, rows: int) -> None:
        """Move by so many rows, over the lines under them."""
        index, step = self.cursor_line, 1 if rows > 0 else -1
        for _ in range(abs(rows)):
            following = index + step
            while 0 <= following < len(self.lines) and self.lines[following][1]:
                following += step
            if not 0 <= following < len(self.lines):
                break
            index = following
        self.move_to(index)

    def move_page(self, direction: int) -> None:
        target = self.cursor_line + direction * max(1, self.size.height - 1)
        self.move_to(min(max(0, target), len(self.lines) - 1))

    def move_to_problem(self, direction: int) -> bool:
        """To the next (1) or previous (-1) row in trouble, round the end; `False` when there is none."""
        count = len(self.lines)
        for distance in range(1, count + 1):
            index = (self.cursor_line + direction * distance) % count
            row, part = self.lines[index]
            if part == 0 and row.is_problem:
                self.move_to(index)
                return True
        return False

    def _keep_cursor_visible(self) -> None:
        height = max(1, self.size.height)
        top = self.scroll_offset.y
        last = self.cursor_line
        while last + 1 < len(self.lines) and self.lines[last + 1][1] and last - self.cursor_line < height - 1:
            last += 1
        if self.cursor_line < top:
            top = self.cursor_line
        elif last >= top + height:
            top = last - height + 1
        top = min(top, max(0, len(self.lines) - height))
        if top != self.scroll_offset.y:
            self._drawn.clear()
            self.scroll_to(y=top, animate=False, force=True)

    # --- marks ----------------------------------------------------------------------------------------------

    def mark(self, *, through: bool = False) -> None:
        """Mark or unmark the row under the cursor; `through`: mark all from the last marked row to it."""
        row = self.cursor_row
        if row is None:
            return
        state = self.state
        keys = [found.key for found in self.rows]
        if through and state.last_mark in keys:
            first, last = sorted((keys.index(state.last_mark), keys.index(row.key)))
            state.marks.update(keys[first : last + 1])
        elif row.key in state.marks and not through:
            state.marks.discard(row.key)
        else:
            state.marks.add(row.key)
        state.last_mark = row.key
        state.cursor = row.key
        self._repaint_changed()
        self.post_message(self.Changed())

    def mark_all(self, *, on: bool) -> None:
        """Mark every row shown, or unmark all."""
        if on:
            self.state.marks.update(row.key for row in self.rows)
        else:
            self.state.marks.clear()
        self._repaint_changed()
        self.post_message(self.Changed())

    # --- painting -------------------------------------------------------------------------------------------

    def _repaint_changed(self) -> None:
        top = self.scroll_offset.y
        before, self._drawn = self._drawn, {}
        regions: list[Region] = []
        for y in range(self.size.height):
            index = top + y
            if index >= len(self.lines):
                if index in before:
                    regions.append(Region(0, y, self.size.width, 1))
                continue
            now = self._line(index)
            regions += self._differences(before.get(index), now, y)
        regions += [Region(0, index - top, self.size.width, 1) for index in before if index - top >= self.size.height]
        if regions:
            self.refresh(*regions)

    def _repaint_lines(self, *indices: int) -> None:
        top = self.scroll_offset.y
        for index in indices:
            self._drawn.pop(index, None)
        self.refresh(*(Region(0, index - top, self.size.width, 1) for index in indices))

    def _differences(self, before: Drawn | None, now: Drawn, y: int) -> list[Region]:
        if before is None or before.whole or now.whole or before.ground != now.ground:
            return [] if before == now else [Region(0, y, self.size.width, 1)]
        return [
            Region(placed.x - placed.column.gap, y, placed.width + placed.column.gap, 1)
            for placed, old, new in zip(self.placed, before.pieces, now.pieces, strict=False)
            if old != new
        ]

    def _line(self, index: int) -> Drawn:
        found = self._drawn.get(index)
        if found is None:
            found = self._drawn[index] = self._format(index)
        return found

    def _format(self, index: int) -> Drawn:
        assert self.look is not None
        row, part = self.lines[index]
        look = self.look
        ground = "row"
        if row.key in self.state.marks:
            ground = "marked"
        if index == self.cursor_line:
            ground = "cursor"
        if part:
            text = under_text(row, look)
            if text is not None:
                spans = look.plain(fit(text, max(1, self.size.width - INDENT - 1)))
                return Drawn(ground, (((" " * INDENT, "text"), *spans),), whole=True)
        pieces = []
        mood = tone(row)
        marked = ">" if row.key in self.state.marks and part == 0 else " "
        for placed in self.placed:
            column = placed.column
            if part:
                assert isinstance(row, GpuRow)
                cell = partition_cell(row, part, column.id, look, placed.width)
            else:
                cell = column.cell(row, look, placed.width)
            self.cells_formatted += 1
            cell = look.plain(fit(toned(cell, mood, column.id), placed.width, right=column.right))
            blank = marked if column.id == "sign" else " " * column.gap
            pieces.append(_joined(blank, cell))
        return Drawn(ground, tuple(pieces))

    def render_line(self, y: int) -> Strip:
        self.lines_painted += 1
        index = y + self.scroll_offset.y
        if index >= len(self.lines) or self.look is None:
            return self.palette.strip((), self.size.width)
        drawn = self._line(index)
        return self.palette.strip((span for piece in drawn.pieces for span in piece), self.size.width, drawn.ground)

    def notify_style_update(self) -> None:
        self.palette.forget()
        super().notify_style_update()

    # --- the mouse, where it is switched on -----------------------------------------------------------------

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._wheel(event, WHEEL_ROWS)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._wheel(event, -WHEEL_ROWS)

    def _wheel(self, event: events.MouseEvent, rows: int) -> None:
        """The wheel takes the cursor along: what is acted on is always in sight."""
        event.prevent_default()
        event.stop()
        self.move_by(rows)

    def on_click(self, event: events.Click) -> None:
        self.move_to(event.y + self.scroll_offset.y)
        if event.chain == 2:
            self.post_message(self.Opened())


def _joined(blank: str, cell: Spans) -> Spans:
    """The gap before a cell and the cell, in as few pieces as look the same: each piece costs bytes."""
    text, name = cell[0]
    if name.startswith(("meter", "track")):
        return ((blank, "text"), *cell)
    first: Span = (blank + text, name)
    return (first, *cell[1:])
