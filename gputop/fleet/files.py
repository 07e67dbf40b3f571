"""Recordings of tools as a Fleet, folded like any other."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import structs

from gputop.fleet.fleet import Fleet
from gputop.fleet.reduce import reduce
from gputop.health.xid import NO_CATALOG, Catalog
from gputop.readers.load import Recording
from gputop.sources.file import SOURCE, events_of


def file_fleet(recordings: Sequence[Recording], at: datetime, catalog: Catalog = NO_CATALOG) -> Fleet:
    """One host a recording, read at `at`. The clock of its machine is not known. `catalog`: what events ask for."""
    fleet = reduce(Fleet(as_of=at, source=SOURCE), events_of(recordings, at), at, catalog)
    hosts = {name: structs.replace(host, clock_skew_seconds=None) for name, host in fleet.hosts.items()}
    return structs.replace(fleet, hosts=hosts)
