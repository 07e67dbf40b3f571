"""Hosts that run the agent, over SSH or on this machine: one supervised task per host."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from random import Random
from typing import Protocol

from gputop.domain.event import EndpointResolved, FrameReceived, HostsChanged, LinkChanged, SourceEvent
from gputop.domain.host import Endpoint, HostSpec
from gputop.domain.link import NOT_RETRIED, Link, LinkFailure, LinkState
from gputop.domain.problem import Problem, ProblemKind
from gputop.domain.reading import Frame
from gputop.ports import Clock, Connection, Transport
from gputop.probes.session import Session
from gputop.transport.gate import backoff_seconds, sleep_unless

SETTLED_SECONDS = 30.0
"""A session that lived for so long worked: the next failure is the first in a row again."""
QUEUE_EVENTS = 4096
"""A slow reader makes the hosts wait, not the memory grow."""

logger = logging.getLogger(__name__)


class AgentSession(Protocol):
    """What is needed of `probes.session.Session`."""

    def frames(self) -> AsyncGenerator[Frame | LinkFailure]: ...

    def set_interval(self, seconds: float) -> None: ...

    def sample_now(self) -> None: ...


SessionFactory = Callable[[Connection, HostSpec, Clock, float], AgentSession]


def agent_session(connection: Connection, spec: HostSpec, clock: Clock, interval_seconds: float) -> AgentSession:
    """The true session."""
    return Session(connection, spec, clock, interval_seconds=interval_seconds)


class AgentSource:
    """Implements `ports.Source`. Owns its transport: the end of `events` closes it."""

    def __init__(
        self,
        name: str,
        transport: Transport,
        specs: Sequence[HostSpec],
        clock: Clock,
        *,
        session: SessionFactory = agent_session,
        random: Random | None = None,
    ) -> None:
        self._name = name
        self._transport = transport
        self._events: asyncio.Queue[SourceEvent] = asyncio.Queue(QUEUE_EVENTS)
        random = random or Random()
        self._hosts = {
            spec.name: _HostTask(spec, transport, clock, session, random, self._events.put) for spec in specs
        }

    @property
    def name(self) -> str:
        return self._name

    async def events(self) -> AsyncGenerator[SourceEvent]:
        yield HostsChanged(source=self._name, hosts=tuple(host.spec for host in self._hosts.values()))
        supervisor = asyncio.create_task(self._supervise())
        try:
            while True:
                yield await self._events.get()
        finally:
            supervisor.cancel()
            await asyncio.gather(supervisor, return_exceptions=True)

    def retry(self, hosts: Collection[str], *, by_person: bool = True) -> None:
        self._transport.forget(by_person=by_person)
        for name in hosts:
            if (host := self._hosts.get(name)) is not None:
                host.retry()

    async def let_go(self, hosts: Collection[str]) -> None:
        await asyncio.gather(*(self._hosts[name].let_go() for name in hosts if name in self._hosts))

    def set_interval(self, seconds: float) -> None:
        for host in self._hosts.values():
            host.set_interval(seconds)

    async def _supervise(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                for host in self._hosts.values():
                    tasks.create_task(host.run(), name=f"host {host.spec.name}")
        finally:
            await self._transport.close()


class _HostTask:
    """Keeps one host connected: connect, session, wait, again."""

    def __init__(
        self,
        spec: HostSpec,
        transport: Transport,
        clock: Clock,
        session: SessionFactory,
        random: Random,
        emit: Callable[[SourceEvent], Awaitable[None]],
    ) -> None:
        self.spec = spec
        self._transport = transport
        self._clock = clock
        self._make_session = session
        self._random = random
        self._emit = emit
        self._interval_seconds = spec.interval_seconds
        self._session: AgentSession | None = None
        self._endpoint: Endpoint | None = None
        self._settled = False
        self._failures = 0
        self._attempt: asyncio.Task[LinkFailure] | None = None
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._say(LinkState.CONNECTING)
            attempt = self._attempt = asyncio.create_task(self._once(), name=f"attempt at {self.spec.name}")
            try:
                failure = await attempt
            except asyncio.CancelledError:
                me = asyncio.current_task()
                if me is None or me.cancelling():
                    raise
                await self._say(LinkState.PENDING)  # let go
                await self._woken.wait()
                continue
            except Exception as error:
                logger.exception("%s: unexpected error", self.spec.name)
                failure = _internal(error)
            self._failures = 1 if self._settled else self._failures + 1
            self._settled = False
            await self._wait_after(failure)

    def retry(self) -> None:
        """Sooner than planned: connect, or ask for a frame."""
        self._woken.set()
        if self._session is not None:
            self._session.sample_now()

    async def let_go(self) -> None:
        """End the connection with all that runs over it; the next one is made after `retry`."""
        self._woken.clear()
        if self._attempt is not None and not self._attempt.done():
            self._attempt.cancel()
            await asyncio.wait([self._attempt])

    def set_interval(self, seconds: float) -> None:
        self._interval_seconds = seconds
        if self._session is not None:
            self._session.set_interval(seconds)

    async def _once(self) -> LinkFailure:
        """One connection from its beginning to its end."""
        endpoint = await self._transport.locate(self.spec)
        if isinstance(endpoint, LinkFailure):
            return endpoint
        if endpoint != self._endpoint:
            self._endpoint = endpoint
            await self._emit(EndpointResolved(host=self.spec.name, endpoint=endpoint))
        connection = await self._transport.connect(self.spec, self._wait_for_person)
        if isinstance(connection, LinkFailure):
            return connection
        try:
            await self._say(LinkState.OK)
            began = self._clock.monotonic()
            session = self._session = self._make_session(connection, self.spec, self._clock, self._interval_seconds)
            async with aclosing(session.frames()) as items:
                async for item in items:
                    if isinstance(item, LinkFailure):
                        return item
                    self._settled = self._clock.monotonic() - began >= SETTLED_SECONDS
                    await self._emit(FrameReceived(host=self.spec.name, frame=item))
        finally:
            self._session = None
            await connection.close()
        return _failure(ProblemKind.AGENT_FAILED, "the agent ended without a reason")

    async def _wait_for_person(self, problem: Problem | None) -> None:
        await self._say(LinkState.CONNECTING, problem)

    async def _wait_after(self, failure: LinkFailure) -> None:
        """Say what happened; return when it is time to try again."""
        self._woken.clear()
        if failure.state in NOT_RETRIED:
            await self._say(failure.state, failure.problem)
            await self._woken.wait()
            return
        seconds = backoff_seconds(self._failures, self._random)
        await self._say(failure.state, failure.problem, retry_at=self._clock.now() + timedelta(seconds=seconds))
        await sleep_unless(self._woken, self._clock, seconds)

    async def _say(self, state: LinkState, problem: Problem | None = None, *, retry_at: datetime | None = None) -> None:
        attempts = 0 if state is LinkState.OK else self._failures
        link = Link(state=state, since=self._clock.now(), problem=problem, attempts=attempts, retry_at=retry_at)
        await self._emit(LinkChanged(host=self.spec.name, link=link))


def _internal(error: Exception) -> LinkFailure:
    return _failure(ProblemKind.INTERNAL, f"unexpected error: {type(error).__name__}", str(error))


def _failure(kind: ProblemKind, summary: str, detail: str = "") -> LinkFailure:
    hint = "run with --debug --log-file FILE and report what it says"
    problem = Problem(kind=kind, summary=summary, detail=detail or None, hint=hint)
    return LinkFailure(state=LinkState.UNREACHABLE, problem=problem)
