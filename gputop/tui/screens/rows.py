"""Pages with rows on them that a cursor goes through."""

from __future__ import annotations

from typing import Any

from gputop.tui.draw import Spans, remote
from gputop.tui.look import Look
from gputop.tui.pages.blocks import Board
from gputop.tui.rows import GpuRow, HostRow, ProcessRow, Row
from gputop.tui.screens.page import LogScreen, PageScreen, RowScreen
from gputop.tui.widgets.painted import Page

Place = tuple[str, ...]
"""What the cursor is on: the kind of a row and its key. It stays over updates."""


def place_of(row: Row) -> Place:
    return (type(row).__name__, *row.key)


class CursorScreen(PageScreen):
    """A page with a cursor on it. Down and up go from row to row, and on through the text where there is none."""

    has_rows = True

    def __init__(self, cursor: Place | None = None) -> None:
        """`cursor`: where it is at first; `None`: on the first row."""
        super().__init__()
        self.board = Board()
        self._cursor = cursor
        self._index = 0

    def made(self, look: Look, width: int) -> Board:
        """The page as it is now."""
        raise NotImplementedError

    def place_of(self, row: Any) -> Place:
        return place_of(row)

    def body(self, look: Look, width: int) -> list[Spans]:
        self.board = self.made(look, width)
        self._find_cursor()
        return self.board.lines

    def _find_cursor(self) -> None:
        places = self.board.places
        if self._cursor is None or not places:
            self._index = 0
            return
        for index, (_, row) in enumerate(places):
            if self.place_of(row) == self._cursor:
                self._index = index
                return
        lost, self._index = self._cursor, min(self._index, len(places) - 1)
        self._cursor = self.place_of(places[self._index][1])
        self.call_later(self.gputop.say, f"{' '.join(lost[1:])} is gone; the cursor is on {self._where()} now")

    @property
    def row(self) -> Any:
        """What the cursor is on; `None` on an empty page."""
        places = self.board.places
        return places[self._index][1] if places else None

    @property
    def cursor_line(self) -> int | None:
        places = self.board.places
        return places[self._index][0] if places else None

    def grounds(self) -> dict[int, str]:
        line = self.cursor_line
        return super().grounds() | ({} if line is None else {line: "cursor"})

    def _where(self) -> str:
        """The row under the cursor in a few words."""
        match self.row:
            case GpuRow() as row:
                return f"GPU {row.device.index}"
            case ProcessRow() as row:
                return f"pid {row.pid}"
            case HostRow() as row:
                return remote(row.host.name)
        return ""

    def corner(self) -> Spans:
        """What a key would act on, also while it is scrolled out of sight."""
        where = self._where()
        return (("on ", "dim"), (f"{where} ", "strong")) if where else ()

    # --- moving ---------------------------------------------------------------------------------------------

    def go_to(self, index: int) -> None:
        """Put the cursor on the row of that number, and bring it into sight."""
        line, row = self.board.places[index]
        self._cursor, self._index = self.place_of(row), index
        self.draw()
        top, height = self.page.scroll_offset.y, max(1, self.page.size.height)
        if line < top or index == 0:
            self.page.scroll_to(y=0 if index == 0 else line, animate=False)
        elif line >= top + height:
            self.page.scroll_to(y=line - height + 1, animate=False)

    def _seen(self) -> list[int]:
        """Numbers of the rows that are in sight."""
        top, height = self.page.scroll_offset.y, max(1, self.page.size.height)
        return [index for index, (line, _) in enumerate(self.board.places) if top <= line < top + height]

    def do_move_down(self) -> None:
        self._step(1)

    def do_move_up(self) -> None:
        self._step(-1)

    def _step(self, step: int) -> None:
        """To the next row; from a cursor that is out of sight to the first row in sight; else the text scrolls."""
        seen, following = self._seen(), self._index + step
        if self._index in seen or not self.board.places:
            if 0 <= following < len(self.board.places) and self._is_near(following):
                self.go_to(following)
                return
        elif seen:
            self.go_to(seen[0] if step > 0 else seen[-1])
            return
        self.page.scroll_relative(y=step, animate=False)

    def _is_near(self, index: int) -> bool:
        """Whether going there leaves no text unseen."""
        line = self.board.places[index][0]
        top, height = self.page.scroll_offset.y, max(1, self.page.size.height)
        return top - 2 <= line <= top + height + 1 or index == 0

    def do_move_top(self) -> None:
        if self.board.places:
            self.go_to(0)
        self.page.scroll_home(animate=False)

    def on_page_clicked(self, event: Page.Clicked) -> None:
        """The mouse, where it is switched on."""
        for index, (line, _) in enumerate(self.board.places):
            if line == event.line:
                self.go_to(index)
                if event.times == 2:
                    self.do_page_open()

    # --- rows -----------------------------------------------------------------------------------------------

    def meant(self) -> list[object]:
        return [] if self.row is None else [self.row]


class RowsScreen(CursorScreen):
    """A page whose rows are those of the tables: a host, devices, processes."""

    @property
    def row(self) -> Row | None:
        row = super().row
        assert row is None or isinstance(row, HostRow | GpuRow | ProcessRow)
        return row

    def do_page_details(self) -> None:
        if (row := self.row) is not None:
            self.gputop.push_screen(RowScreen(row, self.gputop.fleet.as_of))

    def do_row_copy(self) -> None:
        if (row := self.row) is not None:
            self.gputop.copy(row)

    def do_row_log(self) -> None:
        if (row := self.row) is not None:
            self.gputop.push_screen(LogScreen(row))

    def do_row_raw(self) -> None:
        if (row := self.row) is not None:
            self.gputop.ask_tools(row)
