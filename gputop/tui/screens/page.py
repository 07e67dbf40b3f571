"""Screens of text: everything about a row, its kernel log, help, the start page."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.widgets import Input

from gputop.tui.bindings import bindings
from gputop.tui.commands import Command, Scope
from gputop.tui.draw import Spans, spread, width_of
from gputop.tui.look import Look
from gputop.tui.pages.details import row_page
from gputop.tui.pages.guide import help_page, start_page
from gputop.tui.pages.log import events_of, log_page
from gputop.tui.rows import Row, row_name
from gputop.tui.screens.base import CommandScreen
from gputop.tui.summary import footer
from gputop.tui.widgets.painted import Lines, Page

SIDE_CELLS = 16
"""How far wide text is scrolled to the side at once."""

LEAST_WIDTH_FOR_CORNER = 40

OF_ROWS = frozenset({"page.open", "page.details", "row.raw"})
"""Commands that are offered only where there is a row."""


class PageScreen(CommandScreen):
    """A head line, a page that scrolls and can be searched, the footer."""

    scope = Scope.HOST
    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.HOST)
    has_rows = False
    """Whether there is something here that can be opened."""

    def __init__(self) -> None:
        super().__init__()
        self._sought = ""
        """Text that is looked for; empty: none."""
        self._match = -1
        """Number of the line that was found last; -1: none."""
        self.lines: list[Spans] = []
        """What the page shows."""

    def compose(self) -> ComposeResult:
        yield Lines(id="page-header", ground="head")
        yield Page(id="page")
        with Horizontal(id="find-line"):
            yield Lines(id="find-sign", ground="head")
            yield Input(id="find", placeholder="text to look for; Enter goes to it, Esc clears")
        yield Lines(id="page-footer", ground="head")

    def on_mount(self) -> None:
        self.page.focus()
        self.query_one("#find-sign", Lines).show([((" /", "key"),)])
        self.draw()

    @property
    def page(self) -> Page:
        return self.query_one("#page", Page)

    def head(self, look: Look, width: int) -> Spans:
        raise NotImplementedError

    def body(self, look: Look, width: int) -> list[Spans]:
        raise NotImplementedError

    def corner(self) -> Spans:
        """What stands at the right of the footer."""
        return ()

    def _mode(self) -> Spans:
        """Whether acts are allowed, where there is something to act on and the head does not say so."""
        offers_acts = self.gputop.desk is not None and self.scope is Scope.HOST and bool(self.targets())
        return (self.gputop.mode, (" ", "text")) if offers_acts else ()

    def grounds(self) -> dict[int, str]:
        """Lines that stand on another ground than the page."""
        return dict.fromkeys(self._matches(), "marked") if self._sought else {}

    def text_width(self) -> int:
        """Of the widest line, where lines may be wider than the pane."""
        return 0

    def draw(self) -> None:
        look, width = self.gputop.look, self.size.width
        self.query_one("#page-header", Lines).show([self.head(look, width)])
        self.lines = self.body(look, width)
        self.page.show(self.lines, grounds=self.grounds(), width=self.text_width())
        right = (*self._mode(), *self.corner()) if width >= LEAST_WIDTH_FOR_CORNER else self._mode()
        room = width - width_of(right) - (1 if right else 0)
        line = footer(self.hints(), None, self.gputop.head(), self.gputop.fleet, look, room)
        self.query_one("#page-footer", Lines).show([look.plain(spread(line, right, width)) if right else line])

    def hints(self) -> tuple[Command, ...]:
        left_out = frozenset() if self.has_rows else OF_ROWS
        if isinstance(self, HelpScreen):
            left_out |= {"help"}
        # In the tables other keys come first, and there is less room.
        return tuple(
            replace(command, footer=4) if command.id == "row.raw" else command
            for command in self.commands
            if command.id not in left_out
        )

    def do_help_page(self) -> None:
        self.gputop.do_help()

    # --- moving ---------------------------------------------------------------------------------------------

    def do_move_down(self) -> None:
        self.page.scroll_relative(y=1, animate=False)

    def do_move_up(self) -> None:
        self.page.scroll_relative(y=-1, animate=False)

    def do_move_page_down(self) -> None:
        self.page.scroll_relative(y=self.page.size.height - 1, animate=False)

    def do_move_page_up(self) -> None:
        self.page.scroll_relative(y=1 - self.page.size.height, animate=False)

    def do_move_top(self) -> None:
        self.page.scroll_home(animate=False)

    def do_move_bottom(self) -> None:
        self.page.scroll_end(animate=False)

    def do_page_next(self) -> None:
        self.page.scroll_relative(x=SIDE_CELLS, animate=False)

    def do_page_previous(self) -> None:
        self.page.scroll_relative(x=-SIDE_CELLS, animate=False)

    # --- finding --------------------------------------------------------------------------------------------

    def do_page_find(self) -> None:
        self.query_one("#find-line").add_class("-open")
        entry = self.query_one("#find", Input)
        entry.value = self._sought
        entry.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._sought = event.value.strip()
        self._close_find()
        if self._sought:
            self._to_match(self.page.scroll_offset.y, 1)

    def do_page_find_next(self) -> None:
        self._to_match(self._match + 1, 1)

    def do_page_find_previous(self) -> None:
        self._to_match(self._match - 1, -1)

    def _to_match(self, start: int, step: int) -> None:
        """To the first line with the text from line `start` on, in that direction, round the end."""
        if not self._sought:
            self.gputop.say("nothing is looked for: / asks for a text")
            return
        found = self._matches()
        ahead = [line for line in found if line >= start] if step > 0 else [line for line in found if line <= start]
        if not found:
            self.gputop.say(f"{self._sought} is nowhere on this page")
            return
        line = self._match = (ahead or found)[0 if step > 0 else -1]
        self.page.scroll_to(y=line, animate=False)
        self.gputop.say(f"{self._sought}: {found.index(line) + 1} of {len(found)} lines")

    def _matches(self) -> list[int]:
        wanted = self._sought.casefold()
        return [
            number for number, line in enumerate(self.lines) if wanted in "".join(text for text, _ in line).casefold()
        ]

    def _close_find(self) -> None:
        self.query_one("#find-line").remove_class("-open")
        self.page.focus()
        self.draw()

    # --- rows -----------------------------------------------------------------------------------------------

    def do_page_open(self) -> None:
        """There is nothing to open here."""

    def do_page_details(self) -> None:
        self.gputop.say("there is no row here")

    def do_row_copy(self) -> None:
        self.gputop.say("there is no row to copy here")

    def do_row_log(self) -> None:
        self.gputop.say("there is no row here that has a log")

    def do_row_raw(self) -> None:
        self.gputop.say("there is no row here whose host could be asked")

    def do_back(self) -> None:
        if self.query_one("#find", Input).has_focus or self._sought:
            self._sought = ""
            self._close_find()
        else:
            self.gputop.leave()

    def do_quit(self) -> None:
        self.gputop.leave()


class RowPageScreen(PageScreen):
    """A page about one row."""

    def __init__(self, row: Row) -> None:
        super().__init__()
        self.row = row

    def targets(self) -> tuple[str, ...]:
        return (self.row.host.name,)

    def meant(self) -> list[object]:
        return [self.row]

    def do_row_copy(self) -> None:
        self.gputop.copy(self.row)

    def do_row_raw(self) -> None:
        self.gputop.ask_tools(self.row)

    def titled(self, words: str, width: int) -> Spans:
        """The head line: which row, and at the right what is told of it."""
        return spread(((f" {row_name(self.row)} ", "title"),), ((words + " ", "dim"),), width)


class RowScreen(RowPageScreen):
    """Every value of one row, as it was when the page was opened."""

    def __init__(self, row: Row, as_of: datetime) -> None:
        super().__init__(row)
        self.as_of = as_of

    def do_row_log(self) -> None:
        self.gputop.push_screen(LogScreen(self.row))

    def do_page_details(self) -> None:
        """It is open already."""

    def head(self, look: Look, width: int) -> Spans:
        return self.titled(f"everything known at {self.as_of.astimezone(look.zone):%H:%M:%S %Z}", width)

    def body(self, look: Look, width: int) -> list[Spans]:
        return row_page(self.row, look, width)


class LogScreen(RowPageScreen):
    """The kernel log of a row, as far as it is about devices. New events come in while it is open."""

    def do_row_log(self) -> None:
        """It is open already."""

    def do_page_details(self) -> None:
        self.gputop.push_screen(RowScreen(self.row, self.gputop.fleet.as_of))

    def head(self, look: Look, width: int) -> Spans:
        return self.titled("kernel log", width)

    def body(self, look: Look, width: int) -> list[Spans]:
        host = self.gputop.fleet.get(self.row.host.name) or self.row.host
        return log_page(host, events_of(self.row, host), look)


class HelpScreen(PageScreen):
    """What every key does."""

    def head(self, look: Look, width: int) -> Spans:
        return ((" gputop ", "title"), ("  help", "dim"))

    def body(self, look: Look, width: int) -> list[Spans]:
        return help_page(self.gputop.commands, look, width, self.gputop.why_locked)


class StartScreen(PageScreen):
    """There is nothing to watch: what to do next."""

    def do_page_details(self) -> None:
        """`d` asks for the demo here."""
        self.gputop.wants_demo = True
        self.gputop.leave_now()

    def head(self, look: Look, width: int) -> Spans:
        return ((" gputop ", "title"), ("  start", "dim"))

    def body(self, look: Look, width: int) -> list[Spans]:
        return start_page(look, width)

    def hints(self) -> tuple[Command, ...]:
        return tuple(command for command in self.commands if command.id in ("quit", "help"))

    def do_page_find(self) -> None:
        """There is nothing to look for."""

    def do_back(self) -> None:
        """There is nothing behind the start page."""

    def do_quit(self) -> None:
        self.gputop.leave_now()
