"""The screen on a demo fleet read directly, for tests that need a real terminal and no servers.

`python show.py [--crash-file FILE] [--ascii] [--slow-end] [--plan FOLDER]`
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec import structs

from gputop.actions.desk import Desk, Work
from gputop.actions.journal import journal_of
from gputop.domain.action import ActionKind
from gputop.domain.record import PlanOpened
from gputop.fleet.collector import Update
from gputop.fleet.demo import demo_fleet
from gputop.fleet.fleet import Fleet
from gputop.fleet.series import SeriesStore
from gputop.tui import theme
from gputop.tui.app import ScreenOptions, run_screen
from tests.fakes.acts import a_plan, a_request, an_evidence
from tests.tui.stage import Stage

START = datetime(2026, 12, 1, 14, 3, 22, tzinfo=UTC)


class MovingFeed:
    """The same Fleet with a time that goes on."""

    def __init__(self, fleet: Fleet, series: SeriesStore, options: argparse.Namespace) -> None:
        self.series = series
        self._fleet = fleet
        self._options = options

    def retry(self, hosts: Collection[str]) -> None:
        """Nothing to ask."""

    def set_interval(self, seconds: float) -> None:
        """Nothing to tell."""

    async def updates(self) -> AsyncIterator[Update]:
        now = START
        sys.stderr.write("a stray line that belongs on no screen\n")
        print("another one")
        try:
            while True:
                yield Update(fleet=structs.replace(self._fleet, as_of=now), changed=frozenset())
                await asyncio.sleep(0.2)
                now += timedelta(seconds=0.2)
                if self._options.crash_file and Path(self._options.crash_file).exists():
                    raise RuntimeError("a bug in the feed")
        finally:
            if self._options.slow_end:
                await asyncio.sleep(60)


def desk_with_a_plan(folder: Path) -> Desk:
    """A desk that has begun to drain a host, in front of books in `folder`."""
    desk = Stage(folder).desk
    plan = a_plan(a_request(ActionKind.DRAIN, "gpu-01"), an_evidence("gpu-01"))
    journal_of(folder, plan.id).write(PlanOpened(time=START, plan=plan))
    desk.works.append(Work(plan))
    return desk


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ascii", action="store_true")
    parser.add_argument("--mouse", action="store_true")
    parser.add_argument("--crash-file")
    parser.add_argument("--slow-end", action="store_true")
    parser.add_argument("--plan", type=Path, help="folder for the journal of a plan under way")
    options = parser.parse_args()
    fleet, series = demo_fleet(1, 24, START)
    look = ScreenOptions(
        theme=theme.named(theme.DEFAULT),  # type: ignore[arg-type]
        ascii_only=options.ascii,
        mouse=options.mouse,
        title="test",
        zone=UTC,
    )
    make_desk = (lambda _: desk_with_a_plan(options.plan)) if options.plan is not None else None
    return run_screen(lambda: MovingFeed(fleet, series, options), look, make_desk)


if __name__ == "__main__":
    sys.exit(main())
