"""Whether a host takes work is said from what is seen now; what is noted is never taken for what is so."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from gputop.actions.admission import Admission, Word, admission, admissions
from gputop.domain.action import ActionKind
from gputop.domain.backend import Slurm
from gputop.domain.host import Host
from gputop.domain.job import AdminState, NodeState
from gputop.domain.link import LinkState
from gputop.domain.record import Lease
from gputop.fleet.fleet import Fleet
from tests.fakes.acts import BOOT, a_host, a_node, a_process
from tests.fakes.builders import a_link
from tests.fakes.clock import START

LATER = START + timedelta(hours=1)
MARKER = '{"by":"bob","reason":"RMA","since":"2026-01-01T00:00:00Z","until":"2026-01-03T00:00:00Z"}'


def a_lease(**fields: Any) -> Lease:
    own: dict[str, Any] = {
        "host": "gpu-01", "by": "ann", "reason": "NIC", "since": START, "verified": True, "boot_id": BOOT,
        "ends_at_boot": True,
    }  # fmt: skip
    return Lease(**(own | fields))


def seen(
    marker: str | None = None, *, boot_id: str | None = BOOT, state: LinkState = LinkState.OK, **more: Any
) -> Host:
    """A host as its newest frame tells of it, at `LATER`."""
    host = a_host(link=a_link(state), **more)
    assert host.frame is not None
    frame = structs.replace(
        host.frame,
        received_at=LATER,
        facts=structs.replace(host.frame.facts, boot_id=boot_id),
        host=structs.replace(host.frame.host, drain_marker=marker),
    )
    return structs.replace(host, frame=frame)


def at(host: Host | None, node: NodeState | None = None, lease: Lease | None = None) -> Admission | None:
    return admission(host, node, lease, LATER)


def word(host: Host | None, node: NodeState | None = None, lease: Lease | None = None) -> Word | None:
    found = at(host, node, lease)
    return found.word if found is not None else None


def told(**fields: Any) -> NodeState:
    own: dict[str, Any] = {"observed_at": LATER, "scheduler": "slurm", "drained": True}
    return a_node(**(own | fields))


# --- without a scheduler: the marker in the readings ----------------------------------------------------------------


def test_a_host_of_which_nothing_says_otherwise_has_no_word() -> None:
    for marker in ("", None):
        assert at(seen(marker)) is None


def test_a_marker_of_anybody_is_seen_in_the_readings_with_its_owner_and_its_end() -> None:
    found = at(seen(MARKER))
    assert found is not None
    assert (found.word, found.by, found.reason) == (Word.DRAINED, "bob", "RMA")
    assert found.until is not None
    assert not found.is_over(LATER)
    assert found.is_over(found.until)
    assert word(seen("somebody's own words")) is Word.DRAINED
    assert word(seen(" ")) is Word.DRAINED


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (seen(MARKER, processes=[a_process()]), Word.DRAINING),
        (seen(MARKER, processes=[a_process(name=None, user=None)]), Word.DRAINING),
        (seen(MARKER, expect_devices=8), Word.CORDONED),
    ],
)
def test_a_marked_host_is_drained_only_when_its_devices_are_proven_empty(host: Host, expected: Word) -> None:
    assert word(host) is expected


def test_old_readings_say_nothing_of_a_marker() -> None:
    """The host is silent: what its last frame said was so then."""
    assert word(seen(MARKER, state=LinkState.STALE)) is None
    assert word(seen("", state=LinkState.STALE), lease=a_lease()) is Word.MAYBE


def test_a_drain_that_is_noted_and_whose_marker_is_gone_is_not_claimed() -> None:
    found = at(seen(""), lease=a_lease())
    assert found is not None
    assert found.is_open
    assert "let it work again" in found.remark
    assert not found.is_over(LATER + timedelta(days=9))


def test_a_reading_from_before_the_drain_does_not_end_it() -> None:
    found = at(seen(""), lease=a_lease(since=LATER + timedelta(seconds=1)))
    assert found is not None
    assert found.word is Word.DRAINED
    assert found.source == "its drain"


def test_a_drain_that_is_noted_and_cannot_be_seen_is_in_doubt() -> None:
    for host in (None, seen(None), a_host(frame=None)):
        assert word(host, lease=a_lease()) is Word.MAYBE


def test_another_boot_ends_a_drain_that_only_a_marker_stood_for() -> None:
    found = at(seen(None, boot_id="99999999-2222-4333-8444-555555555555"), lease=a_lease())
    assert found is not None
    assert found.is_open
    assert "rebooted" in found.remark
    assert word(seen(None, boot_id=None), lease=a_lease()) is Word.MAYBE
    kept = a_lease(ends_at_boot=False)
    assert word(seen(None, boot_id="99999999-2222-4333-8444-555555555555"), lease=kept) is Word.MAYBE


def test_a_drain_is_of_now_for_a_moment_after_it_was_proven() -> None:
    fresh = a_lease(since=LATER - timedelta(seconds=5))
    assert word(None, lease=fresh) is Word.DRAINED
    for doubtful in ({"verified": False}, {"doubt": "reboot"}, {"act": ActionKind.CORDON, "verified": False}):
        assert word(None, lease=structs.replace(fresh, **doubtful)) is Word.MAYBE


# --- with a scheduler -----------------------------------------------------------------------------------------------


def slurm_host(**more: Any) -> Host:
    return seen(None, scheduler=Slurm(), **more)


def test_what_the_scheduler_says_counts_whoever_drained_it() -> None:
    found = at(slurm_host(), told(by="carol", reason="fan"))
    assert found is not None
    assert (found.word, found.by, found.reason, found.source) == (Word.DRAINED, "carol", "fan", "slurm")
    assert word(slurm_host(), told(drained=False)) is None


def test_it_counts_more_than_what_is_noted() -> None:
    found = at(slurm_host(), told(drained=False), a_lease(ends_at_boot=False))
    assert found is not None
    assert found.is_open


@pytest.mark.parametrize(
    ("admin", "host", "expected"),
    [
        (AdminState.DRAINED, slurm_host(), Word.DRAINED),
        (AdminState.DRAINING, slurm_host(), Word.DRAINING),
        (AdminState.UNKNOWN, slurm_host(), Word.CORDONED),
        (AdminState.DRAINED, slurm_host(processes=[a_process()]), Word.DRAINING),
        (AdminState.DRAINED, slurm_host(state=LinkState.STALE), Word.CORDONED),
        (AdminState.DRAINED, None, Word.CORDONED),
    ],
)
def test_drained_needs_both_the_scheduler_and_the_devices(admin: AdminState, host: Host | None, expected: Word) -> None:
    assert word(host, told(admin=admin)) is expected


def test_a_scheduler_that_was_asked_long_ago_or_before_the_drain_says_nothing() -> None:
    old = told(observed_at=LATER - timedelta(seconds=91))
    assert word(slurm_host(), old) is None
    assert word(slurm_host(), old, a_lease()) is Word.MAYBE
    before = told(drained=False, observed_at=LATER - timedelta(seconds=30))
    after = a_lease(since=LATER - timedelta(seconds=20), ends_at_boot=False)
    assert word(slurm_host(), before, after) is Word.MAYBE


def test_a_host_with_a_scheduler_is_not_judged_by_a_marker_that_lies_about() -> None:
    assert word(seen(MARKER, scheduler=Slurm())) is None


def test_all_hosts_are_gone_through_and_those_that_end_first_come_first() -> None:
    hosts = {name: structs.replace(seen(MARKER), spec=structs.replace(seen().spec, name=name)) for name in "abc"}
    soon = a_lease(host="c", until=LATER + timedelta(minutes=1))
    late = a_lease(host="b", until=LATER + timedelta(hours=9))
    found = admissions(Fleet(as_of=LATER, hosts=hosts), {}, [soon, late], LATER)
    assert list(found) == ["c", "b", "a"]
