"""Supervises Sources and folds what they say into the Fleet, one batch a tick."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Sequence

from msgspec import Struct, structs

from gputop.domain.event import FrameReceived, SourceEvent, SourceFailed
from gputop.domain.problem import Problem, ProblemKind
from gputop.fleet.fleet import Fleet
from gputop.fleet.reduce import EVENTS_LENGTH, reduce
from gputop.fleet.series import SeriesStore
from gputop.health.xid import NO_CATALOG, Catalog
from gputop.ports import Clock, Source

log = logging.getLogger(__name__)

TICK_SECONDS = 0.5
"""Time between two folds."""

EAGER_TICK_SECONDS = 0.1
"""Time between two folds while hosts are still without an answer."""

RESTART_SECONDS = 5.0
"""Pause before a source that broke is started again."""


class Update(Struct, frozen=True, kw_only=True):
    """The Fleet after one tick."""

    fleet: Fleet
    changed: frozenset[str]
    """Names of the hosts that are not as they were in the update before."""


class Inbox:
    """What came since the last tick. Bounded: of each host only the newest frame is kept, and the newest events of its
    log."""

    def __init__(self) -> None:
        self.dropped_frames = 0
        self.waiting = asyncio.Event()
        self._events: list[SourceEvent] = []
        self._frames: dict[str, FrameReceived] = {}

    def put(self, event: SourceEvent) -> None:
        if isinstance(event, FrameReceived):
            waiting = self._frames.get(event.host)
            if waiting is not None:
                self.dropped_frames += 1
                event = _with_events_of(waiting, event)
            self._frames[event.host] = event
        else:
            self._events.append(event)
        self.waiting.set()

    def take(self) -> list[SourceEvent]:
        """Everything, frames last; the inbox is empty then."""
        taken: list[SourceEvent] = [*self._events, *self._frames.values()]
        self._events.clear()
        self._frames.clear()
        self.waiting.clear()
        return taken


class Collector:
    """Runs Sources and yields the Fleet. `updates` may be iterated once."""

    def __init__(
        self,
        sources: Sequence[Source],
        clock: Clock,
        *,
        catalog: Catalog = NO_CATALOG,
        tick_seconds: float = TICK_SECONDS,
    ) -> None:
        """`catalog`: what events of logs ask for."""
        self.series = SeriesStore()
        self.inbox = Inbox()
        self._sources = tuple(sources)
        self._clock = clock
        self._catalog = catalog
        self._tick_seconds = tick_seconds

    @property
    def source(self) -> str:
        """What the JSON output calls the source: that of the only or the first one."""
        return self._sources[0].name if self._sources else "ssh"

    def retry(self, hosts: Collection[str], *, by_person: bool = True) -> None:
        """Ask these hosts again now. `by_person`: what a person did not answer before is asked again too."""
        for source in self._sources:
            source.retry(hosts, by_person=by_person)

    async def let_go(self, hosts: Collection[str]) -> None:
        """End what runs on these hosts until they are asked again."""
        await asyncio.gather(*(source.let_go(hosts) for source in self._sources))

    def set_interval(self, seconds: float) -> None:
        """Time between two frames, for all hosts."""
        for source in self._sources:
            source.set_interval(seconds)

    async def updates(self) -> AsyncGenerator[Update, None]:
        """One `Update` a tick, for ever; closing the iterator ends every source."""
        pumps = [asyncio.create_task(self._pump(source), name=f"source {source.name}") for source in self._sources]
        fleet = Fleet(as_of=self._clock.now(), source=self.source)
        try:
            while True:
                await self._next_tick(fleet)
                events = self.inbox.take()
                for event in events:
                    if isinstance(event, FrameReceived):
                        self.series.push(event.host, event.frame)
                before, fleet = fleet, reduce(fleet, events, self._clock.now(), self._catalog)
                gone = before.hosts.keys() - fleet.hosts.keys()
                if gone:
                    self.series.forget(gone)
                changed = {name for name, host in fleet.hosts.items() if before.hosts.get(name) is not host}
                yield Update(fleet=fleet, changed=frozenset(changed | gone))
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _next_tick(self, fleet: Fleet) -> None:
        """Sleep one tick; at the start, while answers are awaited, wake up for each small batch."""
        eager = not fleet.hosts or any(
            host.frame is None and host.reported.attempts == 0 and host.reported.problem is None for host in fleet
        )
        if not fleet.hosts:
            await self.inbox.waiting.wait()
        await self._clock.sleep(min(self._tick_seconds, EAGER_TICK_SECONDS) if eager else self._tick_seconds)

    async def _pump(self, source: Source) -> None:
        while True:
            try:
                async for event in source.events():
                    self.inbox.put(event)
                return
            except Exception as failure:  # a bug in one source must not end the others
                log.exception("source %s failed", source.name)
                self.inbox.put(SourceFailed(source=source.name, problem=_source_problem(source.name, failure)))
            await self._clock.sleep(RESTART_SECONDS)


def _with_events_of(before: FrameReceived, newest: FrameReceived) -> FrameReceived:
    """The newest frame, and the events that only the one before it tells of."""
    if not before.frame.events:
        return newest
    events = (before.frame.events + newest.frame.events)[-EVENTS_LENGTH:]
    return structs.replace(newest, frame=structs.replace(newest.frame, events=events))


def _source_problem(source: str, failure: Exception) -> Problem:
    return Problem(
        kind=ProblemKind.INTERNAL,
        summary=f"source {source} failed: {type(failure).__name__}: {failure}",
        hint=f"it is started again in {RESTART_SECONDS:.0f} s; run with --log-file FILE --debug for the traceback",
    )
