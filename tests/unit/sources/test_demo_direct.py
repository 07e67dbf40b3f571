"""The demo fleet folded in virtual time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputop.domain.link import LinkState
from gputop.fleet.demo import demo_fleet
from gputop.fleet.fleet import Fleet
from gputop.fleet.series import HOST, SeriesStore
from gputop.fleet.totals import totals

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture(scope="module")
def folded() -> tuple[Fleet, SeriesStore]:
    return demo_fleet(7, 24, AT)


def test_the_same_moment_gives_the_same_fleet(folded: tuple[Fleet, SeriesStore]) -> None:
    assert msgspec.json.encode(demo_fleet(7, 24, AT)[0]) == msgspec.json.encode(folded[0])


def test_the_zone_in_which_a_moment_is_named_changes_nothing() -> None:
    elsewhere = AT.astimezone(timezone(timedelta(hours=5)))
    assert msgspec.json.encode(demo_fleet(7, 6, elsewhere)[0].hosts) == msgspec.json.encode(
        demo_fleet(7, 6, AT)[0].hosts
    )


@given(seed=st.integers(0, 2**31), days=st.floats(-9_000, 30_000))
@settings(max_examples=6, deadline=None)
def test_at_every_moment_the_fleet_shows_each_trouble(seed: int, days: float) -> None:
    at = AT + timedelta(days=days)
    fleet, _ = demo_fleet(seed, 24, at)
    states = [host.link.state for host in fleet]
    assert states.count(LinkState.UNREACHABLE) >= 1
    assert states.count(LinkState.STALE) >= 1
    assert states.count(LinkState.DEGRADED) >= 2
    assert states.count(LinkState.OK) >= 12
    assert set(states) <= {LinkState.OK, LinkState.DEGRADED, LinkState.STALE, LinkState.UNREACHABLE}
    lost = [host for host in fleet if host.frame and "lost" in (host.frame.column("state") or [])]
    assert any(host.link.state is LinkState.DEGRADED for host in lost)
    # One that restarts for it is away, with its last values.
    assert {host.link.state for host in lost} <= {LinkState.DEGRADED, LinkState.UNREACHABLE}
    assert totals(fleet).devices >= 150
    assert all(host.link.problem for host in fleet if host.link.state is not LinkState.OK)


def test_sparklines_are_full_where_frames_came(folded: tuple[Fleet, SeriesStore]) -> None:
    fleet, series = folded
    whole = [host for host in fleet if host.link.state is LinkState.OK and len(host.link_history) == 1]
    assert len(whole) > 12
    for host in whole:
        assert series.trend(host.name, HOST, "memory_percent", AT)[:-1].count(None) == 0


def test_a_stale_host_keeps_its_last_values_and_their_age(folded: tuple[Fleet, SeriesStore]) -> None:
    fleet, _ = folded
    host = next(host for host in fleet if host.link.state is LinkState.STALE)
    age = host.age_seconds(AT)
    assert age is not None
    assert age > 6
    assert host.frame is not None
    assert host.frame.column("utilization_percent")


def test_fresh_values_are_younger_than_an_interval(folded: tuple[Fleet, SeriesStore]) -> None:
    fleet, _ = folded
    ages = [host.age_seconds(AT) for host in fleet if host.link.state in (LinkState.OK, LinkState.DEGRADED)]
    assert all(age is not None and 0 <= age < 2.1 for age in ages)
    assert len(set(ages)) > 10


def test_links_come_and_go_in_the_history(folded: tuple[Fleet, SeriesStore]) -> None:
    fleet, _ = folded
    assert any(len(host.link_history) > 1 for host in fleet)
    for host in fleet:
        times = [change.at for change in host.link_history]
        assert times == sorted(times)
        assert all(at <= AT for at in times)


def test_problems_say_since_when_they_are_there(folded: tuple[Fleet, SeriesStore]) -> None:
    fleet, _ = folded
    problems = [problem for host in fleet for found in host.device_problems.values() for problem in found]
    assert problems
    assert all(problem.since is not None and problem.since <= AT for problem in problems)


@pytest.mark.parametrize("year", [1971, 2199])
def test_any_year_will_do(year: int) -> None:
    assert totals(demo_fleet(7, 6, AT.replace(year=year))[0]).hosts == 6
