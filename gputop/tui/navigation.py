"""Going from place to place: views, host pages, help, and back."""

from __future__ import annotations

from gputop.tui.history import History
from gputop.tui.private_api import ScreenApp
from gputop.tui.screens.actions import ActionsScreen
from gputop.tui.screens.fleet import FleetScreen
from gputop.tui.screens.page import HelpScreen, HostScreen
from gputop.tui.views import VIEWS

ACTIONS = "actions"


class Navigator(ScreenApp):
    """The fleet screen at the bottom, pages over it, and where the user has been."""

    def __init__(self, view: str) -> None:
        super().__init__()
        self.fleet_screen = FleetScreen(view)
        self.history = History()

    def go(self, place: str, *, record: bool = True) -> None:
        """Show a view, `actions` or `host:NAME`. On the start page there is nothing to go to."""
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
            self.push_screen(HostScreen(place.removeprefix("host:")))

    def leave(self) -> None:
        """Leave a page for what is under it."""
        if isinstance(self.screen, HostScreen | ActionsScreen):
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
