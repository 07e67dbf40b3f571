"""Fresh looks at hosts, from a Collector that runs anyway."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from msgspec import structs

from gputop.domain.host import Host
from gputop.domain.link import TROUBLE, LinkState
from gputop.fleet.fleet import Fleet
from gputop.ports import Clock

LOOK_SECONDS = 20.0
"""A host that has not answered by then has not answered."""

_MAY_RECOVER = frozenset({LinkState.DEGRADED, LinkState.STALE, LinkState.THROTTLED})


class Watching(Protocol):
    """What is needed of a `Collector`."""

    def retry(self, hosts: Collection[str], *, by_person: bool = True) -> None: ...

    async def let_go(self, hosts: Collection[str]) -> None: ...


class FleetObserver:
    """Implements `ports.Observer`. Whoever reads the Collector's updates hands each Fleet to `accept`."""

    def __init__(self, watching: Watching, clock: Clock, *, look_seconds: float = LOOK_SECONDS) -> None:
        self._watching = watching
        self._clock = clock
        self._look_seconds = look_seconds
        self._fleet: Fleet | None = None
        self._accepted = asyncio.Event()

    @property
    def fleet(self) -> Fleet | None:
        """The newest one; `None` before the first."""
        return self._fleet

    def accept(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._accepted.set()
        self._accepted = asyncio.Event()

    async def look(self, hosts: Sequence[str]) -> Mapping[str, Host]:
        """Each of `hosts` that is watched, with a frame that came after this call; its frame is `None` where none did.
        A host that cannot be reached is given up as soon as a new attempt has failed."""
        asked = self._clock.now()
        before = await self.known(hosts)
        self._watching.retry(hosts, by_person=False)
        try:
            async with asyncio.timeout(self._look_seconds):
                while True:
                    seen = await self.known(hosts)
                    if all(_answered(host, before.get(name), asked) for name, host in seen.items()) and (
                        len(seen) == len(set(hosts)) or self._knows_all()
                    ):
                        break
                    await self._accepted.wait()
        except TimeoutError:
            seen = await self.known(hosts)
        return {
            name: host if _is_new(host, before.get(name), asked) else structs.replace(host, frame=None)
            for name, host in seen.items()
        }

    async def known(self, hosts: Sequence[str]) -> Mapping[str, Host]:
        fleet = self._fleet
        if fleet is None:
            return {}
        return {name: host for name in hosts if (host := fleet.get(name)) is not None}

    async def let_go(self, hosts: Sequence[str]) -> None:
        await self._watching.let_go(hosts)

    def _knows_all(self) -> bool:
        return self._fleet is not None and bool(self._fleet.hosts)


def _is_new(host: Host, before: Host | None, asked: datetime) -> bool:
    """Whether its frame came after `asked`, also where the clock was set back since the one `before`."""
    if host.frame is None or host.frame.received_at <= asked:
        return False
    return before is None or before.frame is None or host.frame.received_at != before.frame.received_at


def _answered(host: Host, before: Host | None, asked: datetime) -> bool:
    if _is_new(host, before, asked):
        return True
    failed = host.link.state in TROUBLE - _MAY_RECOVER and host.reported.state in TROUBLE
    return failed and (before is None or host.reported is not before.reported)
