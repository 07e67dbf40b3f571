"""The demo fleet at one moment, folded like any other."""

from __future__ import annotations

from datetime import datetime

from gputop.domain.event import FrameReceived
from gputop.fleet.fleet import Fleet
from gputop.fleet.reduce import reduce
from gputop.fleet.series import SeriesStore
from gputop.health.xid import NO_CATALOG, Catalog
from gputop.sources.demo.direct import SOURCE, events_until
from gputop.sources.demo.hosts import plan


def demo_fleet(seed: int, hosts: int, at: datetime, catalog: Catalog = NO_CATALOG) -> tuple[Fleet, SeriesStore]:
    """The fleet of `hosts` servers drawn from `seed` as seen at `at` (with a time zone), and the five minutes before.
    `catalog`: what events of logs ask for.

    No network and no clock: the same arguments give the same values. Raises `ValueError` for a number of hosts that a
    demo fleet cannot have."""
    series = SeriesStore()
    fleet = Fleet(as_of=at, source=SOURCE)
    for now, events in events_until(plan(seed, hosts), at):
        for event in events:
            if isinstance(event, FrameReceived):
                series.push(event.host, event.frame)
        fleet = reduce(fleet, events, now, catalog)
    return fleet, series
