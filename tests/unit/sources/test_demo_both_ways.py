"""The demo fleet over SSH is the demo fleet read directly: transport, wire and decoding change nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import msgspec

from gputop.domain.link import LinkState
from gputop.export.to_json import to_json
from gputop.fleet.demo import demo_fleet
from gputop.fleet.fleet import Fleet
from gputop.sources.demo_server import start_demo
from gputop.wiring import make_collector, xid_catalog

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
HOSTS, SEED = 8, 7
DEADLINE_SECONDS = 60.0

OF_THE_WAY = ("address", "port", "clock_skew_seconds", "age_seconds")
"""What tells how and when a host was reached, and so differs."""


async def over_ssh(is_settled: Callable[[Fleet], bool]) -> Fleet:
    """The fleet as soon as it looks as it will stay."""
    with start_demo(HOSTS, SEED, frozen_at=AT) as demo:
        specs = [msgspec.structs.replace(spec, interval_seconds=0.5) for spec in demo.specs]
        collector = make_collector(specs, source="demo")
        async with asyncio.timeout(DEADLINE_SECONDS), aclosing(collector.updates()) as updates:
            async for update in updates:
                if is_settled(update.fleet):
                    return update.fleet
    raise AssertionError("updates never end by themselves")


def states(fleet: Fleet) -> dict[str, LinkState]:
    return {host.name: host.link.state for host in fleet}


def comparable(fleet: Fleet, names: set[str]) -> list[dict[str, Any]]:
    """What the JSON output says about these hosts, without what tells of the way and of the time of the test."""
    hosts = [host for host in json.loads(to_json(fleet))["hosts"] if host["name"] in names]
    for host in hosts:
        for key in OF_THE_WAY:
            del host[key]
        del host["link"]["since"]
        for problem in (
            host["link"]["problem"],
            *host["problems"],
            *(p for d in host["devices"] for p in d["problems"]),
        ):
            if problem is not None:
                del problem["since"]
    return hosts


async def test_the_way_over_ssh_shows_what_the_direct_way_shows() -> None:
    direct, _ = demo_fleet(SEED, HOSTS, AT, xid_catalog())
    assert set(states(direct).values()) == {
        LinkState.OK,
        LinkState.DEGRADED,
        LinkState.STALE,
        LinkState.UNREACHABLE,
    }
    wired = await over_ssh(lambda fleet: states(fleet) == states(direct))
    fresh = {name for name, state in states(direct).items() if state in (LinkState.OK, LinkState.DEGRADED)}
    assert comparable(wired, fresh) == comparable(direct, fresh)
    for name in states(direct).keys() - fresh:
        ours, theirs = direct.hosts[name], wired.hosts[name]
        assert ours.link.problem is not None
        assert theirs.link.problem is not None
        assert ours.link.problem.kind is theirs.link.problem.kind
        assert ours.spec.labels == theirs.spec.labels
