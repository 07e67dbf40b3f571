"""The app: theme, navigation, global commands. Knows nothing of how a Fleet comes to be."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

from textual.binding import BindingType
from textual.command import CommandPalette
from textual.timer import Timer

from gputop.actions.desk import Desk
from gputop.fleet.fleet import Fleet
from gputop.fleet.series import SeriesStore
from gputop.tui.bindings import PaletteCommands, bindings, textual_keymap
from gputop.tui.bridge import Feed, FleetUpdated, follow
from gputop.tui.commands import COMMANDS, Command, Scope, with_keymap
from gputop.tui.copying import row_json
from gputop.tui.draw import remote
from gputop.tui.leaving import Leaving
from gputop.tui.look import Look
from gputop.tui.options import ScreenOptions
from gputop.tui.questions import Questions
from gputop.tui.rows import Row
from gputop.tui.saving import save_picture
from gputop.tui.screens.base import CommandScreen
from gputop.tui.screens.fleet import FleetScreen
from gputop.tui.screens.page import StartScreen
from gputop.tui.summary import Head
from gputop.tui.terminal import ending_signals, guarded
from gputop.tui.views import VIEWS

__all__ = ["WANTS_DEMO", "GputopApp", "ScreenOptions", "run_screen"]

STYLES = Path(__file__).parent / "styles"

INTERVALS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Seconds between two frames that `+` and `_` step through."""

MESSAGE_SECONDS = 4

COLLECT_AFTER = (20_000, 20, 20)
"""Thresholds of the garbage collector: with Python's own, 20,000 rows made anew cost 270 ms an update, so 60 ms."""

WANTS_DEMO = -1
"""What `run_screen` returns when the user asks for the demo on the start page."""

EMPTY = Fleet(as_of=datetime(1970, 1, 1, tzinfo=UTC))
"""What is drawn before there is a Fleet."""


class GputopApp(Leaving, inherit_bindings=False):
    """Draws Fleets as they come from a feed, or one that never changes."""

    CSS_PATH: ClassVar = [STYLES / name for name in ("base.tcss", "fleet.tcss", "pages.tcss", "dialogs.tcss")]
    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.EVERYWHERE)
    ENABLE_COMMAND_PALETTE = False
    TITLE = "gputop"

    def __init__(
        self,
        options: ScreenOptions,
        *,
        make_feed: Callable[[], Feed] | None = None,
        make_desk: Callable[[Feed], Desk] | None = None,
        fixed: tuple[Fleet, SeriesStore] | None = None,
        watches: bool = True,
    ) -> None:
        """`make_feed` is called after the first paint, then `make_desk` for acts on what it watches; without it there
        is nothing to act on. `watches`: `False` shows the start page."""
        self.options = options
        super().__init__(options.view if options.view in VIEWS else "hosts")
        self.register_theme(options.theme)
        self.theme = options.theme.name
        self.ascii_only = options.ascii_only
        self.commands: tuple[Command, ...] = with_keymap(COMMANDS, options.keymap)
        self.newest: Fleet | None = fixed[0] if fixed else None
        self.series = fixed[1] if fixed else SeriesStore()
        self.paused_at: Fleet | None = None
        self.wants_demo = False
        self.message = ""
        self._forget: Timer | None = None
        self.interval_seconds = options.interval_seconds
        self.end_soon: Callable[[int], None] = lambda code: None
        self._make_feed, self._make_desk = make_feed, make_desk
        self._feed: Feed | None = None
        self._watches = watches

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return self.options.theme.variables

    def on_mount(self) -> None:
        self.set_keymap(textual_keymap(self.options.keymap))
        if not self._watches:
            self.push_screen(StartScreen())
            return
        place = self.options.view
        self.push_screen(self.fleet_screen)
        if place in VIEWS:
            self.history.visit(place)
        else:
            self.history.visit("hosts")
            self.go(place)
        if self._make_feed is not None:
            self.call_after_refresh(self._follow)

    def _follow(self) -> None:
        assert self._make_feed is not None
        self._feed = self._make_feed()
        self.series = self._feed.series
        if self._make_desk is not None:
            self.take_desk(self._make_desk(self._feed))
        self.run_worker(follow(self._feed, self), name="feed")

    # --- what screens draw ----------------------------------------------------------------------------------

    @property
    def fleet(self) -> Fleet:
        """What is shown: the newest Fleet, or the one the display was paused at."""
        fleet = self.paused_at or self.newest
        return fleet if fleet is not None else EMPTY

    @property
    def look(self) -> Look:
        acts = self.desk.marks() if self.desk is not None else {}
        return Look(as_of=self.fleet.as_of, series=self.series, ascii_only=self.ascii_only, zone=self.options.zone,
                    acts=acts)  # fmt: skip

    def head(self, screen: FleetScreen | None = None) -> Head:
        """What headers say besides the Fleet."""
        frozen, newest = self.paused_at, self.newest
        paused = (newest.as_of - frozen.as_of).total_seconds() if frozen is not None and newest is not None else None
        head = Head(title=self.options.title, message=self.message, paused_seconds=paused, mode=self.mode,
                    waiting=self.waiting_words, unfinished=self.unfinished_count)  # fmt: skip
        if screen is None:
            return head
        state, desk = screen.state, self.desk
        return replace(
            head, view=screen.view, sort=state.sort, descending=state.descending, filter=screen.filter_text,
            shown=len(screen.table.rows), marks=len(state.marks), hidden=screen.hidden(),
            acts=len(desk.running) if desk else 0, leases_over=len(desk.leases_over()) if desk else 0,
        )  # fmt: skip

    def on_fleet_updated(self, message: FleetUpdated) -> None:
        self.newest = message.update.fleet
        if self.desk is not None:
            self.desk.accept(self.newest)
        self.draw_all()
        self.look_at_questions()

    def draw_all(self) -> None:
        """Draw the screen in front, and the one under a dialog."""
        screen = next((one for one in reversed(self.screen_stack) if isinstance(one, CommandScreen)), None)
        if screen is not None and screen.is_mounted:
            screen.draw()

    def say(self, text: str) -> None:
        """One line for the user in place of the key hints, gone by itself."""
        self.message = remote(text)
        if self._forget is not None:
            self._forget.stop()
        self._forget = self.set_timer(MESSAGE_SECONDS, self._forget_message)
        self.draw_all()

    def _forget_message(self) -> None:
        self.message, self._forget = "", None
        self.draw_all()

    def copy(self, row: Row) -> None:
        """Send a row as JSON to the clipboard of the terminal."""
        self.copy_to_clipboard(row_json(row, self.fleet))
        self.say("sent to the clipboard, if the terminal allows it (OSC 52)")

    def action_run(self, command_id: str) -> None:
        """Run a command of the registry on the screen in front."""
        if isinstance(self.screen, CommandScreen):
            self.screen.action_run(command_id)
        elif command_id == "quit.now":
            self.do_quit_now()

    # --- commands -------------------------------------------------------------------------------------------

    def do_palette(self) -> None:
        if isinstance(self.screen, CommandScreen):
            self.push_screen(CommandPalette([PaletteCommands], placeholder="a command"))

    def do_back(self) -> None:
        """Nothing to go back from."""

    def do_display_pause(self) -> None:
        self.paused_at = self.newest if self.paused_at is None else None
        self.draw_all()

    def do_interval_longer(self) -> None:
        self._set_interval(next((step for step in INTERVALS if step > self.interval_seconds), INTERVALS[-1]))

    def do_interval_shorter(self) -> None:
        self._set_interval(next((step for step in reversed(INTERVALS) if step < self.interval_seconds), INTERVALS[0]))

    def _set_interval(self, seconds: float) -> None:
        self.interval_seconds = seconds
        if self._feed is not None:
            self._feed.set_interval(seconds)
        self.say(f"every host is asked every {seconds:g} s")

    def do_retry(self) -> None:
        screen = self.screen
        hosts = screen.targets() if isinstance(screen, CommandScreen) else ()
        if hosts and self._feed is not None:
            self._feed.retry(hosts)
            self.say(f"asking {hosts[0]} again" if len(hosts) == 1 else f"asking {len(hosts)} hosts again")

    def do_redraw(self) -> None:
        self.refresh(layout=True)

    def do_suspend(self) -> None:
        self.action_suspend_process()

    def do_snapshot(self) -> None:
        self.say(save_picture(self) if self.newest is not None else "there is nothing to save yet")


def run_screen(
    make_feed: Callable[[], Feed] | None,
    options: ScreenOptions,
    make_desk: Callable[[Feed], Desk] | None = None,
    questions: Questions | None = None,
) -> int:
    """Show the screen until the user leaves; the exit code. `make_feed` is called after the first paint; `None` shows
    the start page, and `WANTS_DEMO` is returned when the user asks for the demo there. `questions`: of the hosts."""
    gc.set_threshold(*COLLECT_AFTER)
    with guarded() as terminal:
        app = GputopApp(options, make_feed=make_feed, make_desk=make_desk, watches=make_feed is not None)
        app.terminal_file = terminal.file
        app.take_questions(questions)
        app.end_soon = terminal.end_soon
        terminal.last_words = app.last_words
        with ending_signals(terminal, app.end):
            code = app.run(mouse=options.mouse)
        terminal.is_clean = True
        terminal.tell(app.last_words())
    if app.wants_demo:
        return WANTS_DEMO
    return app.return_code or 0 if code is None else code
