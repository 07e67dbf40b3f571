"""Leases: what is remembered of a drain, and what is known of it later."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gputop.actions.journal import Story
from gputop.actions.lease import leases, remember, remember_begun
from gputop.domain.action import ActionKind, HostActState, Outcome, OutcomeState, Plan
from gputop.domain.record import Lease, Standing, standing
from tests.fakes.acts import BOOT, a_plan, a_request, an_evidence, an_instance
from tests.fakes.clock import START

OTHER_BOOT = "99999999-2222-4333-8444-555555555555"


def a_lease(**fields: Any) -> Lease:
    own = {"host": "gpu-01", "by": "ann", "reason": "NIC", "since": START, "verified": True, "boot_id": BOOT}
    return Lease(**(own | {"ends_at_boot": True} | fields))


@pytest.mark.parametrize(
    ("fields", "boot_id", "found"),
    [
        ({}, None, Standing.DRAINED),
        ({}, BOOT, Standing.DRAINED),
        ({}, OTHER_BOOT, Standing.GONE),
        ({"ends_at_boot": False}, OTHER_BOOT, Standing.DRAINED),
        ({"boot_id": None}, OTHER_BOOT, Standing.DRAINED),
        ({"verified": False}, BOOT, Standing.DRAINING),
        ({"verified": False}, OTHER_BOOT, Standing.GONE),
        ({"doubt": "reboot"}, None, Standing.DOUBTFUL),
        ({"doubt": "reboot"}, BOOT, Standing.DRAINED),
        ({"doubt": "reboot"}, OTHER_BOOT, Standing.GONE),
    ],
)
def test_what_is_known_of_a_lease(fields: dict[str, Any], boot_id: str | None, found: Standing) -> None:
    assert standing(a_lease(**fields), boot_id) is found


def after(kind: ActionKind, state: OutcomeState, host_state: HostActState, folder: Path) -> list[Lease]:
    """The leases once an act on the drained gpu-01 has ended so."""
    remember(folder, a_plan(a_request(), an_evidence()), [drained(OutcomeState.VERIFIED)], START, {"gpu-01"})
    plan = plan_of(kind)
    outcome = Outcome(host="gpu-01", state=state, host_state=host_state)
    remember(folder, plan, [outcome], START + timedelta(hours=1), {"gpu-01"})
    return leases(folder)


def plan_of(kind: ActionKind) -> Plan:
    return a_plan(a_request(kind), an_evidence(drained=True, instance=an_instance()))


def drained(state: OutcomeState) -> Outcome:
    return Outcome(host="gpu-01", state=state, host_state=HostActState.DRAINED)


@pytest.mark.parametrize("state", [OutcomeState.UNVERIFIED, OutcomeState.PENDING, OutcomeState.FAILED])
def test_a_reboot_that_is_not_proven_makes_the_lease_doubtful(state: OutcomeState, tmp_path: Path) -> None:
    [lease] = after(ActionKind.REBOOT, state, HostActState.UNKNOWN, tmp_path)
    assert standing(lease) is Standing.DOUBTFUL
    assert lease.doubt == f"reboot at {START + timedelta(hours=1):%Y-%m-%d %H:%M} UTC: {state.value}"


def test_a_proven_reboot_ends_the_lease_and_one_that_was_refused_does_nothing(tmp_path: Path) -> None:
    assert after(ActionKind.REBOOT, OutcomeState.VERIFIED, HostActState.ACTIVE, tmp_path) == []
    [lease] = after(ActionKind.REBOOT, OutcomeState.SKIPPED, HostActState.UNKNOWN, tmp_path)
    assert standing(lease) is Standing.DRAINED


def test_a_scheduler_remembers_its_drain_over_a_boot(tmp_path: Path) -> None:
    remember(tmp_path, a_plan(a_request(), an_evidence()), [drained(OutcomeState.VERIFIED)], START)
    remember(tmp_path, plan_of(ActionKind.REBOOT), [drained(OutcomeState.UNVERIFIED)], START)
    [lease] = leases(tmp_path)
    assert standing(lease, OTHER_BOOT) is Standing.DRAINED


def test_a_drain_that_is_given_up_in_the_middle_stays_in_the_list(tmp_path: Path) -> None:
    plan = a_plan(a_request(), an_evidence())
    remember_begun(tmp_path, Story(plan=plan, began={("gpu-01", "marker.write")}), START)
    [lease] = leases(tmp_path)
    assert (standing(lease), lease.ends_at_boot) == (Standing.DRAINING, True)


def test_a_drain_of_which_nothing_was_begun_leaves_no_lease(tmp_path: Path) -> None:
    remember_begun(tmp_path, Story(plan=a_plan(a_request(), an_evidence()), began=set()), START)
    assert leases(tmp_path) == []
