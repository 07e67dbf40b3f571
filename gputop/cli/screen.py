"""`gputop HOST ...`: the live screen."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gputop.cli import diagnostics
from gputop.cli.diagnostics import Exit

if TYPE_CHECKING:
    from gputop.actions.desk import Desk
    from gputop.settings.schema import Settings
    from gputop.tui.bridge import Feed
    from gputop.tui.questions import Questions

SCREENLESS = ("dumb", "unknown")
"""Values of TERM for terminals that only print lines, such as a shell within an editor."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--allow-actions", action="store_true", help="leave read-only mode: keys may act on hosts")
    parser.add_argument(
        "--reset-terminal", action="store_true", help="repair a terminal that a killed program left in disorder"
    )


def run(args: argparse.Namespace) -> int:
    if args.reset_terminal:
        from gputop.cli import terminal  # knows the sequences of the screen

        terminal.reset()
        return Exit.DONE
    if (code := refusal()) is not None:
        return code
    from gputop.cli import options  # reads files

    chosen = options.selection(args, may_be_empty=True)
    if isinstance(chosen, Exit):
        return chosen
    if not chosen.specs:
        return _start_page(chosen.settings, args)

    from gputop import wiring
    from gputop.fleet.collector import Collector
    from gputop.settings import locations
    from gputop.tui.questions import Questions

    questions = Questions()
    names = {spec.name for spec in chosen.specs}
    everyone = (*chosen.specs, *(spec for spec in chosen.known if spec.name not in names))
    shakes = chosen.settings.handshakes

    @cache
    def ways() -> wiring.Ways:
        """For what is watched and for acts alike, so that nobody is asked twice."""
        return wiring.make_ways(
            everyone, handshakes_per_hop=shakes.per_hop, handshakes_total=shakes.total, person=questions
        )

    def make_feed() -> Feed:
        return wiring.make_collector(chosen.specs, ways=ways())

    def make_desk(feed: Feed) -> Desk:
        assert isinstance(feed, Collector)
        return wiring.make_desk(
            everyone,
            feed,
            allowed=args.allow_actions or chosen.settings.actions.enabled,
            relock_seconds=chosen.settings.actions.relock.total_seconds(),
            state_folder=locations.state_folder(),
            inventory=chosen.files,
            ways=ways(),
        )

    return show(
        chosen.settings,
        make_feed,
        make_desk=make_desk,
        questions=questions,
        title=_title(chosen.files),
        interval_seconds=min(spec.interval_seconds for spec in chosen.specs),
    )


def refusal() -> Exit | None:
    """An exit code, after it was said, where there is no terminal for a screen."""
    if (lack := lack_of_terminal()) is None:
        return None
    return diagnostics.fail(f"the screen needs a terminal: {lack}", '"gputop snapshot" prints the fleet once')


def lack_of_terminal() -> str | None:
    """Why no screen can be drawn here."""
    for name, stream in (("input", sys.stdin), ("output", sys.stdout)):
        if not stream.isatty():
            return f"standard {name} is no terminal"
    term = os.environ.get("TERM")
    return f"TERM={term} only prints lines" if term in SCREENLESS else None


def show(
    settings: Settings,
    make_feed: Callable[[], Feed] | None,
    *,
    title: str,
    interval_seconds: float,
    make_desk: Callable[[Feed], Desk] | None = None,
    questions: Questions | None = None,
) -> int:
    """The screen as `settings` wish it, until the user leaves; the exit code. `make_feed` is called after the first
    paint, then `make_desk` for acts; `None`: the start page, which may answer `gputop.tui.app.WANTS_DEMO`.
    `questions`: what hosts ask of the user."""
    from gputop.cli.options import draws_ascii, report
    from gputop.settings import locations
    from gputop.tui import environment, theme  # noqa: F401  the environment comes before everything of Textual
    from gputop.tui.app import ScreenOptions, run_screen

    chosen = theme.named(settings.theme, locations.themes_folder())
    if isinstance(chosen, list):
        return report(chosen)
    screen_options = ScreenOptions(
        theme=chosen,
        ascii_only=draws_ascii(settings),
        mouse=settings.mouse,
        keymap=settings.keymap,
        title=title,
        interval_seconds=interval_seconds,
    )
    return run_screen(make_feed, screen_options, make_desk, questions)


def _start_page(settings: Settings, args: argparse.Namespace) -> int:
    code = show(settings, None, title="", interval_seconds=2.0)
    from gputop.tui.app import WANTS_DEMO

    if code != WANTS_DEMO:
        return code
    from gputop.cli.main import main

    look = ["--theme", settings.theme]
    look += [
        f"--{'' if value else 'no-'}{name}" for name in ("ascii", "mouse") if (value := getattr(args, name)) is not None
    ]
    return main(["demo", *look])


def _title(files: tuple[str, ...]) -> str:
    """The inventory's name, unless it is called as every inventory is."""
    names = [Path(file).stem for file in files]
    return ", ".join(name for name in names if name != "inventory")
