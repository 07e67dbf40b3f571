"""Going from place to place: views, pages of hosts and GPUs, help, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from gputop.actions.raw_tools import raw_tools
from gputop.tui.history import History
from gputop.tui.private_api import ScreenApp
from gputop.tui.rows import GpuRow, ProcessRow, Row, gpu_rows
from gputop.tui.screens.actions import ActionsScreen
from gputop.tui.screens.fleet import FleetScreen
from gputop.tui.screens.host import GpuScreen, HostScreen
from gputop.tui.screens.page import HelpScreen
from gputop.tui.screens.raw import RawScreen, ToolsScreen
from gputop.tui.screens.rows import Place, place_of
from gputop.tui.views import VIEWS

if TYPE_CHECKING:
    from gputop.actions.desk import Desk

ACTIONS = "actions"


def gpu_place(row: GpuRow) -> str:
    """The page of a device as a place."""
    return f"gpu:{row.host.name}:{quote(row.device.key, safe='')}"


def page_at(place: str, cursor: Place | None = None) -> HostScreen | GpuScreen:
    """The page at `host:NAME` or `gpu:NAME:KEY`."""
    kind, _, rest = place.partition(":")
    if kind == "gpu":
        host, _, key = rest.rpartition(":")
        return GpuScreen(host, unquote(key), cursor)
    return HostScreen(rest, cursor)


class Navigator(ScreenApp):
    """The fleet screen at the bottom, pages over it, and where the user has been."""

    desk: Desk | None = None
    """`None`: there is nothing to act on, and nobody to ask."""

    def __init__(self, view: str) -> None:
        super().__init__()
        self.fleet_screen = FleetScreen(view)
        self.history = History()

    def say(self, text: str) -> None:
        """One line for the user."""
        raise NotImplementedError

    def go(self, place: str, *, record: bool = True, cursor: Place | None = None) -> None:
        """Show a view, `actions`, `host:NAME` or `gpu:NAME:KEY`. On the start page there is nothing to go to.
        `cursor`: where it is on a page; `None`: at its beginning."""
        if not self.fleet_screen.is_attached:
            return
        if record:
            self.history.visit(place)
        while len(self.screen_stack) > 1 and self.screen is not self.fleet_screen:
            self.pop_screen()
        if place in VIEWS:
            if self.fleet_screen.is_mounted:
                self.fleet_screen.show_view(place)
        elif place == ACTIONS:
            self.push_screen(ActionsScreen())
        else:
            self.push_screen(page_at(place, cursor))

    def open_row(self, row: Row) -> None:
        """The page of a host or a device; of a process that of its device, or of its host where it has several."""
        match row:
            case GpuRow():
                self.go(gpu_place(row))
            case ProcessRow():
                positions = {reading.device_index for reading in row.readings}
                gpus = [gpu for gpu in gpu_rows(row.host, 0) if isinstance(gpu, GpuRow) and gpu.position in positions]
                place = gpu_place(gpus[0]) if len(gpus) == 1 else f"host:{row.host.name}"
                self.go(place, cursor=place_of(row))
            case _:
                self.go(f"host:{row.host.name}")

    def enter_gpu(self, row: GpuRow) -> None:
        """The page of a device over that of its host, to which Esc comes back."""
        self.visit_gpu(row)
        self.push_screen(GpuScreen(row.host.name, row.device.key))

    def visit_gpu(self, row: GpuRow) -> None:
        """Remember that the user is on the page of a device."""
        self.history.visit(gpu_place(row))

    def ask_tools(self, row: Row) -> None:
        """The tools whose own words can be had about a row; where there is one, its words."""
        desk = self.desk
        if desk is None:
            self.say("not asked: nothing to ask")
            return
        tools = raw_tools(row.host, row.device if isinstance(row, GpuRow) else None)
        if len(tools) == 1:
            self.push_screen(RawScreen(desk, row, tools[0]))
        elif tools:
            self.push_screen(ToolsScreen(desk, row, tools))
        else:
            self.say("gputop knows no tool for these devices")

    def leave(self) -> None:
        """Leave a page for what is under it."""
        below = self.screen_stack[-2] if len(self.screen_stack) > 1 else None
        if isinstance(self.screen, GpuScreen) and isinstance(below, HostScreen):
            self.history.visit(f"host:{below.host}")
            self.pop_screen()
        elif isinstance(self.screen, HostScreen | GpuScreen | ActionsScreen):
            self.go(self.fleet_screen.view)
        elif len(self.screen_stack) > 2:
            self.pop_screen()

    def do_view_hosts(self) -> None:
        self.go("hosts")

    def do_view_gpus(self) -> None:
        self.go("gpus")

    def do_view_processes(self) -> None:
        self.go("processes")

    def do_view_actions(self) -> None:
        self.go(ACTIONS)

    def do_view_last(self) -> None:
        self._go_if(self.history.last(), record=True)

    def do_history_back(self) -> None:
        self._go_if(self.history.back(), record=False)

    def do_history_forward(self) -> None:
        self._go_if(self.history.forward(), record=False)

    def _go_if(self, place: str | None, *, record: bool) -> None:
        if place is not None:
            self.go(place, record=record)

    def do_help(self) -> None:
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen())
