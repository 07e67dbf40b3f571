"""`gputop demo`: the live screen on the demo fleet, over SSH."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gputop.cli import demo_options, diagnostics, screen
from gputop.cli.diagnostics import Exit

if TYPE_CHECKING:
    from gputop.actions.desk import Desk
    from gputop.settings.schema import Settings
    from gputop.tui.bridge import Feed

WAIT_SECONDS = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    demo_options.add_demo_options(parser)


def run(args: argparse.Namespace) -> int:
    from gputop.cli.options import preferences

    chosen = demo_options.demo_fleet_options(args)
    if isinstance(chosen, Exit):
        return chosen
    settings = preferences(args)
    if isinstance(settings, Exit):
        return settings
    lack = screen.lack_of_terminal()
    if lack is not None:
        diagnostics.say(f"gputop: {lack}, so this is a snapshot of the demo fleet; in a terminal it is live")
        return _table(*chosen, settings)
    return _screen(*chosen, settings)


def _screen(hosts: int, seed: int, settings: Settings) -> int:
    from gputop.sources.demo import INTERVAL_SECONDS
    from gputop.sources.demo.direct import SOURCE
    from gputop.sources.demo_server import DemoFailed, start_demo

    try:
        demo = start_demo(hosts, seed)
    except DemoFailed as failure:
        return diagnostics.fail(f"the demo server did not start: {failure}", code=Exit.NOTHING)

    def make_feed() -> Feed:
        from gputop.wiring import make_collector  # loads asyncssh, so after the first paint

        return make_collector(demo.specs, source=SOURCE)

    def make_desk(feed: Feed) -> Desk:
        """Acts are allowed from the start: a simulated scheduler and simulated power carry them out."""
        from gputop.fleet.collector import Collector
        from gputop.wiring import make_desk

        assert isinstance(feed, Collector)
        return make_desk(
            demo.specs,
            feed,
            allowed=True,
            relock_seconds=settings.actions.relock.total_seconds(),
            state_folder=demo.folder / "state",
            simulator=demo.simulator,
        )

    with demo:
        return screen.show(settings, make_feed, make_desk=make_desk, title="demo", interval_seconds=INTERVAL_SECONDS)


def _table(hosts: int, seed: int, settings: Settings) -> int:
    """What can be had without a terminal. Done means that it was printed: some demo host is always in trouble."""
    from gputop.cli.collect import read_demo_server
    from gputop.cli.options import draws_ascii
    from gputop.cli.snapshot import table_text
    from gputop.export.write import write_text

    read = read_demo_server(hosts, seed, WAIT_SECONDS)
    if isinstance(read, Exit):
        return read
    write_text(table_text(read[0], zone=None, is_ascii=draws_ascii(settings)), None)
    return Exit.DONE
