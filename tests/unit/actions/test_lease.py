"""Leases: what is remembered of a drain, and what is known of it later."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gputop.actions.journal import Story
from gputop.actions.lease import leases, remember, remember_begun
from gputop.domain.action import ActionKind, HostActState, Outcome, OutcomeState, Plan, StepResult, StepState
from gputop.domain.record import Lease, Standing, standing
from tests.fakes.acts import BOOT, a_host, a_plan, a_policy, a_request, an_evidence, an_instance
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


def ended(plan: Plan, **states: StepState) -> Outcome:
    """What the steps of the plan came to: `states` by goal, all others verified, the rest skipped after a failure."""
    results = []
    failed = False
    for step in plan.hosts[0].steps:
        state = StepState.SKIPPED if failed else states.get(step.goal.value.replace("-", "_"), StepState.VERIFIED)
        failed |= state is StepState.FAILED
        results.append(StepResult(step=step.id, state=state, blocked=state is StepState.FAILED))
    state = OutcomeState.FAILED if failed else OutcomeState.VERIFIED
    return Outcome(host="gpu-01", state=state, host_state=HostActState.FAILED, steps=tuple(results))


def test_a_drain_that_failed_after_the_host_was_closed_is_in_the_list(tmp_path: Path) -> None:
    plan = a_plan(a_request(), an_evidence(host=a_host(policy=a_policy(nologin=True))))
    remember(tmp_path, plan, [ended(plan, logins_closed=StepState.FAILED)], START)
    [lease] = leases(tmp_path)
    assert standing(lease) is Standing.DRAINING


def test_a_drain_whose_host_was_opened_before_its_end_is_not_in_the_list(tmp_path: Path) -> None:
    plan = a_plan(a_request(), an_evidence())
    remember(tmp_path, plan, [ended(plan, cordoned=StepState.FAILED)], START)
    assert leases(tmp_path) == []


def test_a_resume_that_opened_the_host_and_failed_later_ends_the_lease(tmp_path: Path) -> None:
    remember(tmp_path, a_plan(a_request(), an_evidence()), [drained(OutcomeState.VERIFIED)], START)
    host = a_host(policy=a_policy(post_resume=("/opt/site/post",)))
    plan = a_plan(a_request(ActionKind.RESUME), an_evidence(host=host, drained=True))
    remember(tmp_path, plan, [ended(plan, hook=StepState.FAILED)], START)
    assert leases(tmp_path) == []


def test_the_drain_of_somebody_else_is_not_ours(tmp_path: Path) -> None:
    plan = a_plan(a_request(by="bob", until=START + timedelta(hours=2)), an_evidence(drained=True))
    assert plan.hosts[0].notes == (f"already drained by ann since {START:%Y-%m-%d %H:%M} UTC: NIC: it stays theirs",)
    remember(tmp_path, plan, [ended(plan)], START)
    assert leases(tmp_path) == []


def test_a_second_drain_keeps_since_when_and_until_when(tmp_path: Path) -> None:
    end = START + timedelta(hours=2)
    remember(tmp_path, a_plan(a_request(until=end), an_evidence()), [drained(OutcomeState.VERIFIED)], START)
    again = a_plan(a_request(), an_evidence(drained=True))
    remember(tmp_path, again, [drained(OutcomeState.VERIFIED)], START + timedelta(hours=1))
    [lease] = leases(tmp_path)
    assert (lease.since, lease.until) == (START, end)


def test_a_drain_that_is_given_up_in_the_middle_stays_in_the_list(tmp_path: Path) -> None:
    plan = a_plan(a_request(), an_evidence())
    remember_begun(tmp_path, Story(plan=plan, began={("gpu-01", "marker.write")}), START)
    [lease] = leases(tmp_path)
    assert (standing(lease), lease.ends_at_boot) == (Standing.DRAINING, True)


def test_a_drain_of_which_nothing_was_begun_leaves_no_lease(tmp_path: Path) -> None:
    remember_begun(tmp_path, Story(plan=a_plan(a_request(), an_evidence()), began=set()), START)
    assert leases(tmp_path) == []
