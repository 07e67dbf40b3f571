"""Screens of text: the detail of a host, everything about a row, help, the start page."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from gputop.domain.host import Host
from gputop.tui.bindings import bindings
from gputop.tui.commands import Command, Scope
from gputop.tui.draw import Spans, remote, spread
from gputop.tui.look import Look
from gputop.tui.pages.details import row_page
from gputop.tui.pages.guide import help_page, start_page
from gputop.tui.pages.host import host_head, host_page
from gputop.tui.pages.log import events_of, log_page
from gputop.tui.rows import HostRow, Row
from gputop.tui.screens.base import CommandScreen
from gputop.tui.summary import footer
from gputop.tui.widgets.painted import Lines, Page


class PageScreen(CommandScreen):
    """A head line, a page that scrolls, the footer."""

    scope = Scope.HOST
    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.HOST)

    def compose(self) -> ComposeResult:
        yield Lines(id="page-header", ground="head")
        yield Page(id="page")
        yield Lines(id="page-footer", ground="head")

    def on_mount(self) -> None:
        self.page.focus()
        self.draw()

    @property
    def page(self) -> Page:
        return self.query_one("#page", Page)

    def head(self, look: Look, width: int) -> Spans:
        raise NotImplementedError

    def body(self, look: Look, width: int) -> list[Spans]:
        raise NotImplementedError

    def draw(self) -> None:
        look, width = self.gputop.look, self.size.width
        self.query_one("#page-header", Lines).show([self.head(look, width)])
        self.page.show(self.body(look, width))
        line = footer(self.hints(), None, self.gputop.head(), self.gputop.fleet, look, width)
        self.query_one("#page-footer", Lines).show([line])

    def hints(self) -> tuple[Command, ...]:
        return tuple(command for command in self.commands if command.id != "help" or not isinstance(self, HelpScreen))

    def do_help_page(self) -> None:
        self.gputop.do_help()

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

    def do_row_copy(self) -> None:
        self.gputop.say("there is no row to copy here")

    def do_row_log(self) -> None:
        self.gputop.say("there is no row here that has a log")

    def do_back(self) -> None:
        self.gputop.leave()

    def do_quit(self) -> None:
        self.gputop.leave()


class HostScreen(PageScreen):
    """One host: facts, problems, devices, trends, processes, link history."""

    def __init__(self, host: str) -> None:
        super().__init__()
        self.host = host

    def _host(self) -> Host | None:
        return self.gputop.fleet.get(self.host)

    def targets(self) -> tuple[str, ...]:
        return (self.host,)

    def do_row_copy(self) -> None:
        host = self._host()
        if host is not None:
            self.gputop.copy(HostRow(host, 0))

    def do_row_log(self) -> None:
        host = self._host()
        if host is not None:
            self.gputop.push_screen(LogScreen(HostRow(host, 0)))

    def head(self, look: Look, width: int) -> Spans:
        host = self._host()
        return ((f" {remote(self.host)} ", "title"),) if host is None else host_head(host, look, width)

    def body(self, look: Look, width: int) -> list[Spans]:
        host = self._host()
        if host is None:
            return [(("  This host is not in the inventory any more. Esc goes back.", "dim"),)]
        return host_page(host, look, width)


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

    def titled(self, words: str, width: int) -> Spans:
        """The head line: which row, and at the right what is told of it."""
        return spread(((f" {remote(' '.join(self.row.key))} ", "title"),), ((words + " ", "dim"),), width)


class RowScreen(RowPageScreen):
    """Every value of one row, as it was when the page was opened."""

    def __init__(self, row: Row, as_of: datetime) -> None:
        super().__init__(row)
        self.as_of = as_of

    def do_row_log(self) -> None:
        self.gputop.push_screen(LogScreen(self.row))

    def head(self, look: Look, width: int) -> Spans:
        return self.titled(f"everything known at {self.as_of.astimezone(look.zone):%H:%M:%S %Z}", width)

    def body(self, look: Look, width: int) -> list[Spans]:
        return row_page(self.row, look, width)


class LogScreen(RowPageScreen):
    """The kernel log of a row, as far as it is about devices. New events come in while it is open."""

    def do_row_log(self) -> None:
        """It is open already."""

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

    def key_d(self) -> None:
        self.gputop.wants_demo = True
        self.gputop.do_quit_now()

    def head(self, look: Look, width: int) -> Spans:
        return ((" gputop ", "title"), ("  start", "dim"))

    def body(self, look: Look, width: int) -> list[Spans]:
        return start_page(look, width)

    def hints(self) -> tuple[Command, ...]:
        return tuple(command for command in self.commands if command.id in ("quit", "help"))

    def do_back(self) -> None:
        """There is nothing behind the start page."""

    def do_quit(self) -> None:
        self.gputop.do_quit_now()
