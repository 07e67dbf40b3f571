"""The demo fleet read directly, in virtual time: the events that a source would have told in the last minutes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from gputop.domain.event import EndpointResolved, FrameReceived, HostsChanged, LinkChanged, SourceEvent
from gputop.domain.host import Endpoint
from gputop.domain.link import Link, LinkState
from gputop.domain.problem import Problem, ProblemKind
from gputop.probes.decode import Assembler, BadLine, FrameLine, HelloLine, line_of
from gputop.sources.demo.hosts import INTERVAL_SECONDS, DemoHost
from gputop.sources.demo.messages import Message, frame, hello
from gputop.sources.demo.noise import between, unit
from gputop.sources.demo.trouble import Condition, condition

SOURCE = "demo"
HISTORY_SECONDS = 300.0
"""As far as the sparklines look back."""
TICK_SECONDS = 5.0
"""One frame in so long is enough for them."""
RETRY_SECONDS = 20.0


def sample_phase(host: DemoHost, interval: float = INTERVAL_SECONDS) -> float:
    """By how many seconds the samples of `host` are off whole multiples of `interval`: hosts do not sample in step."""
    return unit(host.key, 201) * interval


def last_sample(host: DemoHost, t: float) -> float:
    """The newest moment, not after `t`, at which `host` takes a sample."""
    phase = sample_phase(host)
    return (t - phase) // INTERVAL_SECONDS * INTERVAL_SECONDS + phase


def latency(host: DemoHost) -> float:
    """Seconds that a frame is on its way."""
    return between(0.004, 0.04, host.key, 202)


def events_until(hosts: Sequence[DemoHost], at: datetime) -> Iterator[tuple[datetime, list[SourceEvent]]]:
    """What happened in the `HISTORY_SECONDS` before `at`, tick by tick with the time of the tick; the last one is `at`
    itself. gputop is as if started at the first."""
    followed = [_Followed(host) for host in hosts]
    end = at.timestamp()
    ticks = int(HISTORY_SECONDS / TICK_SECONDS)
    first: list[SourceEvent] = [HostsChanged(source=SOURCE, hosts=tuple(host.spec for host in hosts))]
    for tick in range(ticks + 1):
        now = end - (ticks - tick) * TICK_SECONDS
        events = [event for one in followed for event in one.until(now)]
        yield moment(now) if tick < ticks else at, first + events
        first = []


def moment(t: float) -> datetime:
    return datetime.fromtimestamp(t, UTC)


@dataclass
class _Followed:
    """One host as a source sees it."""

    host: DemoHost
    assembler: Assembler = field(default_factory=Assembler)
    greeting: Message | None = None
    """The hello of the session; `None` without one."""
    started: float = 0.0
    """First sample of the session."""
    attempts: int = 0
    sampled: float = 0.0

    def until(self, now: float) -> Iterator[SourceEvent]:
        trouble = condition(self.host, now)
        if not trouble.is_reachable:
            yield from self._unreachable(now, trouble)
            return
        newest = last_sample(self.host, now - latency(self.host))
        if trouble.is_silent and trouble.since is not None:
            newest = min(newest, last_sample(self.host, trouble.since))
        if self.greeting is None:
            yield from self._connected(newest)
        if newest > self.sampled:
            yield self._frame(newest)

    def _connected(self, t: float) -> Iterator[SourceEvent]:
        name, before = self.host.name, moment(t - 0.3)
        self.attempts = 0
        self.started = t
        yield EndpointResolved(host=name, endpoint=Endpoint(address=self.host.address, port=22, user="ops"))
        yield LinkChanged(host=name, link=Link(state=LinkState.CONNECTING, since=before))
        yield LinkChanged(host=name, link=Link(state=LinkState.OK, since=moment(t - 0.1)))

    def _frame(self, t: float) -> SourceEvent:
        greeting = hello(self.host, t)
        if greeting != self.greeting:
            self.greeting = greeting
            line = line_of(greeting)
            assert isinstance(line, HelloLine), line
            self.assembler.hello(line)
        self.sampled = t
        line = line_of(frame(self.host, t, round((t - self.started) / INTERVAL_SECONDS) + 1))
        assert isinstance(line, FrameLine), line
        made = self.assembler.frame(line, moment(t + latency(self.host)))
        assert not isinstance(made, BadLine), made
        return FrameReceived(host=self.host.name, frame=made)

    def _unreachable(self, now: float, trouble: Condition) -> Iterator[SourceEvent]:
        since = trouble.since or now
        if self.greeting is not None:
            yield self._frame(max(self.sampled, last_sample(self.host, since)))
            self.greeting = None
        attempts = 1 + int((now - since) / RETRY_SECONDS)
        if attempts == self.attempts:
            return
        self.attempts = attempts
        yield EndpointResolved(host=self.host.name, endpoint=Endpoint(address=self.host.address, port=22, user="ops"))
        yield LinkChanged(
            host=self.host.name,
            link=Link(
                state=LinkState.UNREACHABLE,
                since=moment(since),
                problem=Problem(
                    kind=ProblemKind.CONNECTION_REFUSED,
                    summary=f"connection refused by {self.host.address}:22",
                    hint="is sshd running there, and on this port?",
                    since=moment(since),
                ),
                attempts=attempts,
                retry_at=moment(since + attempts * RETRY_SECONDS),
            ),
        )
