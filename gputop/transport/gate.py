"""How fast we may knock: limits on handshakes, and how long to wait after a failure."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random

from gputop.ports import Clock

BASE_SECONDS = 1.0
CAP_SECONDS = 60.0

HANDSHAKES_PER_HOP = 8
"""sshd drops unauthenticated connections at random beyond 10 (`MaxStartups 10:30:100`)."""
HANDSHAKES_TOTAL = 32
"""A handshake is some 20 ms of one core: more at once only makes each of them late."""


def backoff_seconds(failures: int, random: Random) -> float:
    """How long to wait after `failures` (1 or more) in a row, with full jitter: anything from 0 to the doubling limit,
    so that hosts lost together do not come back together."""
    return random.uniform(0.0, min(CAP_SECONDS, BASE_SECONDS * 2.0 ** min(max(failures, 1) - 1, 16)))


async def sleep_unless(woken: asyncio.Event, clock: Clock, seconds: float) -> None:
    """Sleep for `seconds`, or until `woken` is set."""
    waits = [asyncio.create_task(clock.sleep(seconds)), asyncio.ensure_future(woken.wait())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waits:
            task.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


@dataclass(slots=True)
class _Pause:
    until: float = 0.0
    drops: int = 0


class Gate:
    """Lets connections through, so many at a time: per first hop and in all."""

    def __init__(
        self,
        clock: Clock,
        *,
        per_hop: int = HANDSHAKES_PER_HOP,
        total: int = HANDSHAKES_TOTAL,
        random: Random | None = None,
    ) -> None:
        self._clock = clock
        self._random = random or Random()
        self._hops: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(per_hop))
        self._total = asyncio.Semaphore(total)
        self._pauses: defaultdict[str, _Pause] = defaultdict(_Pause)
        self._forgotten = asyncio.Event()

    @asynccontextmanager
    async def hop(self, name: str) -> AsyncIterator[None]:
        """One of the places at first hop `name`; waits for the end of its pause as well."""
        async with self._hops[name]:
            while (left := self._pauses[name].until - self._clock.monotonic()) > 0:
                await sleep_unless(self._forgotten, self._clock, left)
            yield

    @asynccontextmanager
    async def handshake(self) -> AsyncIterator[None]:
        """One of the places for handshakes of all hops together."""
        async with self._total:
            yield

    def dropped(self, name: str) -> None:
        """First hop `name` dropped a connection before it introduced itself: nobody knocks there for a while."""
        pause, now = self._pauses[name], self._clock.monotonic()
        if now >= pause.until:  # those dropped together are one event
            pause.drops += 1
            pause.until = now + BASE_SECONDS + backoff_seconds(pause.drops, self._random)

    def passed(self, name: str) -> None:
        """First hop `name` let a connection in."""
        self._pauses.pop(name, None)

    def forget(self) -> None:
        """End all pauses: a person wants it tried now."""
        self._pauses.clear()
        self._forgotten.set()
        self._forgotten = asyncio.Event()
