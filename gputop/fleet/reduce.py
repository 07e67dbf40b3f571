"""Folds events into the Fleet. Pure: the time comes in as an argument."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import assert_never

from msgspec import structs

from gputop.domain.event import EndpointResolved, FrameReceived, HostsChanged, LinkChanged, SourceEvent, SourceFailed
from gputop.domain.host import Host, HostSpec
from gputop.domain.link import TROUBLE, Link, LinkChange, LinkState
from gputop.domain.plural import counted
from gputop.domain.problem import INFORMATIONAL, Problem, ProblemKind
from gputop.domain.reading import DeviceEvent, Frame
from gputop.fleet.fleet import Fleet
from gputop.health.xid import NO_CATALOG, Catalog, graded

STALE_INTERVALS = 3
"""A host without a frame for so many intervals is stale."""

STALE_FLOOR = timedelta(seconds=2)
"""Shorter intervals do not make a host stale sooner: a busy network is late by that much."""

FIRST_FRAME_GRACE = timedelta(seconds=15)
"""How long a fresh session may take to its first frame: slow login files, cold drivers."""

HISTORY_LENGTH = 32

EVENTS_LENGTH = 1000
"""Log events that are kept of a host."""


def reduce(fleet: Fleet, events: Iterable[SourceEvent], now: datetime, catalog: Catalog = NO_CATALOG) -> Fleet:
    """The Fleet after `events`, seen at `now`. Also judges every link anew, since frames stay away without an event.
    Events of logs get the severity that `catalog` has for them."""
    hosts = dict(fleet.hosts)
    problems = fleet.problems
    for event in events:
        match event:
            case HostsChanged():
                hosts = _with_specs(hosts, event, now)
            case SourceFailed():
                problems = (*(known for known in problems if known.summary != event.problem.summary), event.problem)
            case EndpointResolved():
                if host := hosts.get(event.host):
                    hosts[event.host] = structs.replace(host, endpoint=event.endpoint)
            case LinkChanged():
                if host := hosts.get(event.host):
                    hosts[event.host] = structs.replace(host, reported=event.link)
            case FrameReceived():
                if host := hosts.get(event.host):
                    hosts[event.host] = _with_frame(host, event.frame, catalog)
            case _:
                assert_never(event)
    for name, host in hosts.items():
        link = judged(host, now)
        if link is not host.link:
            hosts[name] = _with_link(host, link)
    return Fleet(as_of=now, source=fleet.source, hosts=hosts, problems=problems)


def new_host(spec: HostSpec, now: datetime) -> Host:
    """A host that nobody has tried yet."""
    pending = Link(state=LinkState.PENDING, since=now)
    return Host(spec=spec, link=pending, reported=pending)


def judged(host: Host, now: datetime) -> Link:
    """The link to show. Returns `host.link` itself when nothing changed."""
    reported = host.reported
    match reported.state:
        case LinkState.OK:
            return _of_session(host, now)
        case LinkState.CONNECTING if reported.attempts and host.link.state in TROUBLE and reported.problem is None:
            return host.link  # a retry in progress: the trouble stands until something better is known
        case _:
            same = host.link.state is reported.state
            since = host.link.since if same else reported.since
            link = structs.replace(reported, since=since)
            return host.link if link == host.link else link


def stale_after(interval_seconds: float) -> timedelta:
    """How old the newest frame may be before its host is stale."""
    return max(STALE_FLOOR, STALE_INTERVALS * timedelta(seconds=interval_seconds))


def _of_session(host: Host, now: datetime) -> Link:
    """Whether a host with a running session is ok, degraded, stale or still on its way to the first frame."""
    reported, frame = host.reported, host.frame
    if frame is None or frame.received_at < reported.since:
        waited = now - reported.since
        if waited <= FIRST_FRAME_GRACE:
            if host.link.state in TROUBLE:
                return host.link
            return _entered(host.link, LinkState.CONNECTING, reported.since, None)
        return _entered(host.link, LinkState.STALE, reported.since + FIRST_FRAME_GRACE,
                        _silent(frame.received_at if frame is not None else None, is_new=True))  # fmt: skip
    limit = stale_after(frame.interval_seconds)
    if frame.interval_seconds and now - frame.received_at > limit:
        return _entered(host.link, LinkState.STALE, frame.received_at + limit, _silent(frame.received_at))
    worst = _worst_problem(host)
    return _entered(host.link, LinkState.OK if worst is None else LinkState.DEGRADED, frame.received_at, worst)


def _silent(last: datetime | None, *, is_new: bool = False) -> Problem:
    """`last`: when the newest reading came; `None`: none ever did. `is_new`: none came over this connection."""
    third = "a login file that waits or asks" if is_new else "a cut network"
    again = "connected again, but no readings come" if is_new else "connected, but no readings come"
    return Problem(
        kind=ProblemKind.AGENT_SILENT,
        summary=again if last else "connected, but no first reading came",
        hint=f"a hung driver, an overloaded server or {third}: log in and try nvidia-smi",
        since=last,
    )


def _entered(current: Link, state: LinkState, since: datetime, problem: Problem | None) -> Link:
    """`current` itself when it already says so."""
    if current.state is state and current.problem == problem and not current.attempts and current.retry_at is None:
        return current
    return Link(state=state, since=current.since if current.state is state else since, problem=problem)


def _worst_problem(host: Host) -> Problem | None:
    """The problem that makes a host degraded: of the host first, then of its devices, which it names."""
    for problem in host.problems:
        if problem.kind not in INFORMATIONAL:
            return problem
    for position in sorted(host.device_problems):
        for problem in host.device_problems[position]:
            if problem.kind not in INFORMATIONAL:
                return structs.replace(problem, summary=f"{_device_name(host, position)}: {problem.summary}")
    return None


def _device_name(host: Host, position: int) -> str:
    return host.frame.devices[position].label if host.frame else f"GPU {position}"


def _with_specs(hosts: dict[str, Host], event: HostsChanged, now: datetime) -> dict[str, Host]:
    kept = {spec.name for spec in event.hosts}
    merged: dict[str, Host] = {
        name: host for name, host in hosts.items() if name in kept or host.source != event.source
    }
    for spec in event.hosts:
        known = merged.get(spec.name)
        fresh = new_host(spec, now)
        merged[spec.name] = structs.replace(known or fresh, spec=spec, source=event.source)
    return merged


def _with_frame(host: Host, frame: Frame, catalog: Catalog) -> Host:
    found = frame.problems
    expected = host.spec.expect_devices
    if expected is not None and len(frame.devices) < expected and not found:
        found = (*found, _devices_missing(len(frame.devices), expected))
    at = frame.received_at
    return structs.replace(
        host,
        frame=frame,
        problems=_dated(found, host.problems, at),
        device_problems={
            position: _dated(problems, host.device_problems.get(position, ()), at)
            for position, problems in frame.device_problems.items()
        },
        events=_with_events(host.events, frame.events, catalog),
        clock_skew_seconds=(frame.sampled_at - at).total_seconds(),
    )


def _with_events(
    known: tuple[DeviceEvent, ...], told: tuple[DeviceEvent, ...], catalog: Catalog
) -> tuple[DeviceEvent, ...]:
    """`known` and what is new of `told`: after a reconnect the log is told again from its beginning."""
    if not told:
        return known
    before = {_identity(event) for event in known}
    fresh = [event for event in told if _identity(event) not in before]
    return (*known, *graded(fresh, catalog))[-EVENTS_LENGTH:]


def _identity(event: DeviceEvent) -> tuple[object, ...]:
    """The same whenever an event is told. The date of one that is stamped from boot on is not: clocks are set."""
    when = event.at if event.uptime_seconds is None else event.uptime_seconds
    return when, event.kind, event.code, event.pci_bus_id, event.pid, event.message


def _devices_missing(count: int, expected: int) -> Problem:
    return Problem(
        kind=ProblemKind.DEVICES_MISSING,
        summary=f"{counted(count, 'device')}, {expected} expected",
        hint="look for Xid 79 in the kernel log and at lspci; reboot, or replace the device",
    )


def _dated(found: tuple[Problem, ...], known: tuple[Problem, ...], at: datetime) -> tuple[Problem, ...]:
    """`found` with the time each was first seen."""
    if not found:
        return found
    first_seen = {(problem.kind, problem.summary): problem.since for problem in known}
    return tuple(
        problem
        if problem.since is not None
        else structs.replace(problem, since=first_seen.get((problem.kind, problem.summary)) or at)
        for problem in found
    )


def _with_link(host: Host, link: Link) -> Host:
    if link.state is host.link.state:
        return structs.replace(host, link=link)
    change = LinkChange(state=link.state, at=link.since, summary=link.problem.summary if link.problem else None)
    return structs.replace(host, link=link, link_history=(*host.link_history, change)[-HISTORY_LENGTH:])
