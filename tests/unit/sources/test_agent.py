from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import TypeVar

from gputop.domain.event import EndpointResolved, FrameReceived, HostsChanged, LinkChanged, SourceEvent
from gputop.domain.host import Endpoint, HostSpec
from gputop.domain.link import Link, LinkFailure, LinkState
from gputop.domain.problem import ProblemKind
from gputop.domain.reading import Frame
from gputop.ports import Clock, Connection, RemoteProcess, Told
from gputop.sources.agent import AgentSource
from tests.fakes.builders import a_frame, a_problem, a_spec
from tests.fakes.clock import ManualClock

Event = TypeVar("Event", bound=SourceEvent)


def a_failure(state: LinkState = LinkState.UNREACHABLE) -> LinkFailure:
    return LinkFailure(state=state, problem=a_problem(ProblemKind.CONNECTION_REFUSED, "refused"))


class FakeConnection:
    host_key: str | None = None

    def __init__(self, items: asyncio.Queue[Frame | LinkFailure | Exception]) -> None:
        self.items = items
        self.open = True

    async def start(self, command: str) -> RemoteProcess | LinkFailure:
        raise AssertionError("the fake session starts nothing")

    async def close(self) -> None:
        self.open = False


class FakeTransport:
    """Answers each `connect` with the next planned outcome of that host; then it never answers."""

    def __init__(self, **plans: list[LinkFailure | FakeConnection | Exception]) -> None:
        self.plans = plans
        self.forgotten = 0
        self.forgotten_by_person = 0
        self.told: dict[str, Told | None] = {}
        self.closed = False

    async def locate(self, spec: HostSpec) -> Endpoint | LinkFailure:
        return Endpoint(address=spec.name)

    async def connect(self, spec: HostSpec, told: Told | None = None) -> Connection | LinkFailure:
        self.told[spec.name] = told
        if not (plan := self.plans.get(spec.name)):
            await asyncio.Event().wait()
            raise AssertionError("unreachable")
        outcome = plan.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def forget(self, *, by_person: bool = True) -> None:
        self.forgotten += 1
        self.forgotten_by_person += by_person

    async def close(self) -> None:
        self.closed = True


class FakeSession:
    made: list[FakeSession]

    def __init__(self, connection: FakeConnection, interval: float) -> None:
        self.connection = connection
        self.intervals = [interval]
        self.samples = 0

    async def frames(self) -> AsyncGenerator[Frame | LinkFailure]:
        while True:
            item = await self.connection.items.get()
            if isinstance(item, Exception):
                raise item
            yield item
            if isinstance(item, LinkFailure):
                return

    def set_interval(self, seconds: float) -> None:
        self.intervals.append(seconds)

    def sample_now(self) -> None:
        self.samples += 1


class World:
    """A source over fakes, and all that it said."""

    def __init__(self, *names: str, **plans: list[LinkFailure | FakeConnection | Exception]) -> None:
        self.clock = ManualClock()
        self.transport = FakeTransport(**plans)
        self.sessions: list[FakeSession] = []
        specs = [a_spec(name) for name in names]
        self.source = AgentSource("ssh", self.transport, specs, self.clock, session=self.session, random=Random(1))
        self.said: list[SourceEvent] = []

    def session(self, connection: Connection, spec: HostSpec, clock: Clock, interval: float) -> FakeSession:
        assert isinstance(connection, FakeConnection)
        self.sessions.append(FakeSession(connection, interval))
        return self.sessions[-1]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async def listen() -> None:
            async for event in self.source.events():
                self.said.append(event)

        task = asyncio.create_task(listen())
        await self.clock.advance(0)
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.said if isinstance(event, kind)]

    def links(self, host: str) -> list[Link]:
        return [event.link for event in self.of(LinkChanged) if event.host == host]

    def states(self, host: str) -> list[LinkState]:
        return [link.state for link in self.links(host)]


def a_connection(*items: Frame | LinkFailure | Exception) -> FakeConnection:
    queue: asyncio.Queue[Frame | LinkFailure | Exception] = asyncio.Queue()
    for item in items:
        queue.put_nowait(item)
    return FakeConnection(queue)


async def test_the_hosts_come_first_then_the_way_the_link_and_the_frames() -> None:
    world = World("a", a=[a_connection(a_frame())])
    async with world.running():
        assert [type(event) for event in world.said] == [
            HostsChanged,
            LinkChanged,
            EndpointResolved,
            LinkChanged,
            FrameReceived,
        ]
        assert world.states("a") == [LinkState.CONNECTING, LinkState.OK]


async def test_a_host_that_cannot_be_reached_says_when_it_is_tried_again_and_is() -> None:
    world = World("a", a=[a_failure(), a_failure(), a_connection(a_frame())])
    async with world.running():
        failed = world.links("a")[-1]
        assert failed.state is LinkState.UNREACHABLE
        assert failed.problem is not None
        assert failed.attempts == 1
        assert failed.retry_at is not None
        assert failed.retry_at >= world.clock.now()
        await world.clock.advance(1)
        assert world.links("a")[-1].attempts == 2
        await world.clock.advance(2)
        assert world.states("a")[-1] is LinkState.OK
        assert world.links("a")[-1].attempts == 0


async def test_what_a_person_must_act_on_is_not_tried_again_until_asked() -> None:
    for state in (LinkState.AUTH_FAILED, LinkState.HOST_KEY_REJECTED, LinkState.UNSUPPORTED):
        world = World("a", a=[a_failure(state), a_connection(a_frame())])
        async with world.running():
            await world.clock.advance(3600)
            assert world.states("a") == [LinkState.CONNECTING, state]
            assert world.links("a")[-1].retry_at is None
            world.source.retry(["a"])
            await world.clock.advance(0)
            assert world.states("a")[-1] is LinkState.OK
            assert world.transport.forgotten == 1


async def test_asking_again_cuts_a_back_off_short_for_that_host_only() -> None:
    world = World("a", "b", a=[a_failure(), a_connection()], b=[a_failure(), a_connection()])
    async with world.running():
        world.source.retry(["a", "not-ours"])
        await world.clock.advance(0)
        assert world.states("a")[-1] is LinkState.OK
        assert world.states("b")[-1] is LinkState.UNREACHABLE


async def test_what_was_not_answered_is_forgotten_only_for_a_person() -> None:
    world = World("a", a=[a_failure(LinkState.AUTH_FAILED)])
    async with world.running():
        world.source.retry(["a"], by_person=False)
        assert (world.transport.forgotten, world.transport.forgotten_by_person) == (1, 0)
        world.source.retry(["a"])
        assert (world.transport.forgotten, world.transport.forgotten_by_person) == (2, 1)


async def test_a_login_that_waits_for_a_person_says_so_until_it_waits_no_more() -> None:
    world = World("a", a=[])
    async with world.running():
        told = world.transport.told["a"]
        assert told is not None
        await told(a_problem(ProblemKind.ANSWER_AWAITED, "waits"))
        await told(None)
        await world.clock.advance(0)
        assert world.states("a") == [LinkState.CONNECTING] * 3
        assert [link.problem and link.problem.kind for link in world.links("a")] == [
            None,
            ProblemKind.ANSWER_AWAITED,
            None,
        ]


async def test_asking_a_living_host_again_samples_now() -> None:
    world = World("a", a=[a_connection(a_frame())])
    async with world.running():
        world.source.retry(["a"])
        assert world.sessions[0].samples == 1


async def test_a_session_that_ends_is_closed_and_started_anew() -> None:
    first, second = a_connection(a_frame(), a_failure()), a_connection(a_frame())
    world = World("a", a=[first, second])
    async with world.running():
        await world.clock.advance(1)
        assert not first.open
        assert second.open
        assert world.states("a") == [
            LinkState.CONNECTING,
            LinkState.OK,
            LinkState.UNREACHABLE,
            LinkState.CONNECTING,
            LinkState.OK,
        ]
    assert not second.open


async def test_a_host_that_breaks_right_after_it_connects_backs_off_further_each_time() -> None:
    broken = [a_connection(a_frame(), a_failure()) for _ in range(6)]
    world = World("a", a=list(broken))
    async with world.running():
        await world.clock.advance(120)
        assert [link.attempts for link in world.links("a") if link.state is LinkState.UNREACHABLE] == [1, 2, 3, 4, 5, 6]


async def test_a_session_that_lived_starts_the_count_again() -> None:
    long = a_connection(a_frame())
    world = World("a", a=[a_failure(), a_failure(), long, a_connection()])
    async with world.running():
        await world.clock.advance(60)
        long.items.put_nowait(a_frame())
        long.items.put_nowait(a_failure())
        await world.clock.advance(0)
        assert world.links("a")[-1].attempts == 1


async def test_a_bug_costs_one_host_a_moment_and_the_others_nothing() -> None:
    world = World(
        "a",
        "b",
        "c",
        a=[ZeroDivisionError("bug"), a_connection(a_frame())],
        b=[a_connection(RuntimeError("in the session")), a_connection(a_frame())],
        c=[a_connection(a_frame())],
    )
    async with world.running():
        for host in ("a", "b"):
            problem = world.links(host)[-1].problem
            assert problem is not None
            assert problem.kind is ProblemKind.INTERNAL
        assert world.states("c") == [LinkState.CONNECTING, LinkState.OK]
        await world.clock.advance(5)
        assert world.states("a")[-1] is LinkState.OK
        assert world.states("b")[-1] is LinkState.OK


async def test_a_new_interval_holds_for_living_and_for_later_sessions() -> None:
    world = World("a", a=[a_connection(a_failure()), a_connection()])
    async with world.running():
        world.source.set_interval(7.0)
        await world.clock.advance(2)
        assert world.sessions[0].intervals == [2.0]
        assert world.sessions[1].intervals == [7.0]
        world.source.set_interval(9.0)
        assert world.sessions[1].intervals == [7.0, 9.0]


async def test_a_host_that_is_let_go_is_closed_and_stays_so_until_it_is_asked_again() -> None:
    first, second, other = a_connection(a_frame()), a_connection(a_frame()), a_connection(a_frame())
    world = World("a", "b", a=[first, second], b=[other])
    async with world.running():
        await world.source.let_go(["a", "nobody"])
        assert (first.open, other.open) == (False, True)
        await world.clock.advance(600)
        assert world.states("a")[-1] is LinkState.PENDING
        assert len(world.sessions) == 2
        world.source.retry(["a"])
        await world.clock.advance(0)
        assert world.states("a")[-1] is LinkState.OK
        assert world.links("a")[-1].attempts == 0
        await world.source.let_go(["b"])
    assert not second.open


async def test_the_end_closes_every_connection_and_the_transport_and_leaves_no_task() -> None:
    before = asyncio.all_tasks()
    connections = [a_connection(a_frame()) for _ in range(20)]
    plans: dict[str, list[LinkFailure | FakeConnection | Exception]] = {
        f"h{number}": [connection] for number, connection in enumerate(connections)
    }
    world = World(*plans, "waiting", "connecting", waiting=[a_failure()], **plans)
    async with world.running():
        assert len(world.of(FrameReceived)) == 20
    assert not any(connection.open for connection in connections)
    assert world.transport.closed
    assert asyncio.all_tasks() == before


async def test_a_reader_that_stops_early_ends_everything_too() -> None:
    before = asyncio.all_tasks()
    connection = a_connection(a_frame())
    world = World("a", a=[connection])
    events = world.source.events()
    async for event in events:
        if isinstance(event, FrameReceived):
            break
    await events.aclose()
    assert not connection.open
    assert asyncio.all_tasks() == before
