"""What EC2 says of an instance, as losses and blocks: the answers that no emulator gives."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.domain.action import Goal, Loss, LossKind
from gputop.domain.instance import Instance, PowerState
from gputop.domain.problem import Problem, ProblemKind
from gputop.power.ec2_facts import Facts, instance_of, power_of
from gputop.power.proof import in_state

KNOWN: dict[str, Any] = {
    "kind": {"InstanceType": "p5.48xlarge", "InstanceStorageSupported": True},
    "stop_protected": False,
    "termination_protected": False,
    "shutdown_behavior": "stop",
}


def an_instance(fields: dict[str, Any] | None = None, **facts: Any) -> Instance:
    said = {
        "InstanceId": "i-1",
        "InstanceType": "p5.48xlarge",
        "RootDeviceType": "ebs",
        "State": {"Name": "running"},
        **(fields or {}),
    }
    return instance_of("gpu01", said, Facts(**{**KNOWN, **facts}))


def kinds(instance: Instance) -> list[str]:
    return [block.kind for block in instance.stop_blocks]


def losses(instance: Instance) -> dict[LossKind, bool]:
    return {loss.kind: loss.certain for loss in instance.stop_losses}


def test_a_usual_instance_has_nothing_in_the_way() -> None:
    instance = an_instance()
    assert (kinds(instance), instance.block) == ([], None)
    assert losses(instance) == {LossKind.INSTANCE_STORE: True, LossKind.CAPACITY: False}


@pytest.mark.parametrize(
    ("name", "power"),
    [
        ("pending", PowerState.STARTING),
        ("stopping", PowerState.STOPPING),
        ("stopped", PowerState.STOPPED),
        ("shutting-down", PowerState.GONE),
        ("terminated", PowerState.GONE),
        ("a-new-word", PowerState.UNKNOWN),
    ],
)
def test_every_state_of_ec2_has_its_meaning_and_another_has_none(name: str, power: PowerState) -> None:
    assert power_of({"State": {"Name": name}})[0] is power


def test_a_stop_or_start_that_is_taking_is_told_from_one_that_was_never_asked_for() -> None:
    found = {
        (goal, power): in_state(goal, power, "x").under_way
        for goal in (Goal.STOPPED, Goal.HIBERNATED, Goal.RUNNING)
        for power in PowerState
    }
    assert {pair for pair, under_way in found.items() if under_way} == {
        (Goal.STOPPED, PowerState.STOPPING),
        (Goal.HIBERNATED, PowerState.STOPPING),
        (Goal.RUNNING, PowerState.STARTING),
    }


def test_work_is_waited_for_and_everything_else_that_is_not_certain_is_a_risk() -> None:
    assert {kind for kind in LossKind if Loss(kind=kind, summary="", certain=False).verb == "waits for"} == {
        LossKind.JOB,
        LossKind.PROCESS,
    }
    assert Loss(kind=LossKind.CAPACITY, summary="", certain=False).verb == "risks"
    assert Loss(kind=LossKind.CAPACITY, summary="").verb == "loses"


def test_stopped_with_its_memory_kept_is_hibernated() -> None:
    said = {"State": {"Name": "stopped"}, "StateReason": {"Code": "Client.UserInitiatedHibernate"}}
    assert power_of(said) == (PowerState.HIBERNATED, "hibernated")


@pytest.mark.parametrize(
    ("spot", "kind"),
    [({"Type": "one-time"}, ["spot-one-time"]), ({"Type": "persistent"}, []), (None, ["spot-unknown"])],
)
def test_spot_stops_only_where_its_request_persists(spot: dict[str, str] | None, kind: list[str]) -> None:
    instance = an_instance({"InstanceLifecycle": "spot", "HibernationOptions": {"Configured": True}}, spot=spot)
    assert kinds(instance) == kind
    assert losses(instance)[LossKind.CAPACITY], "it starts again only when there is room"
    assert not instance.can_hibernate


def test_what_could_not_be_read_counts_as_the_worse_case() -> None:
    denied = Problem(kind=ProblemKind.PERMISSION, summary="DescribeInstanceAttribute: UnauthorizedOperation")
    instance = an_instance(kind=None, stop_protected=None, shutdown_behavior=None, problem=denied)
    assert kinds(instance) == ["protection-unknown"]
    assert "UnauthorizedOperation" in instance.stop_blocks[0].summary
    assert losses(instance)[LossKind.INSTANCE_STORE]
    assert LossKind.INSTANCE in losses(instance)


def test_a_root_on_instance_store_cannot_be_stopped() -> None:
    assert kinds(an_instance({"RootDeviceType": "instance-store"})) == ["instance-store-root"]


@pytest.mark.parametrize(("state", "kind"), [("InService", 1), ("Standby", 0), (None, 1)])
def test_a_group_blocks_unless_the_member_is_known_to_be_in_standby(state: str | None, kind: int) -> None:
    assert kinds(an_instance(group="workers", group_state=state)) == ["auto-scaling-group"] * kind


@pytest.mark.parametrize(("owner", "lost"), [("amazon", True), ("123456789012", False), (None, True)])
def test_a_public_address_is_lost_unless_it_is_elastic(owner: str | None, lost: bool) -> None:
    association = {"PublicIp": "198.51.100.7", "IpOwnerId": owner}
    said = {"PublicIpAddress": "198.51.100.7", "NetworkInterfaces": [{"Association": association}]}
    assert (LossKind.ADDRESS in losses(an_instance(said))) is lost


@pytest.mark.parametrize(
    ("fields", "stops"),
    [
        ({}, True),
        ({"Placement": {"Tenancy": "host"}}, False),
        ({"InstanceLifecycle": "capacity-block"}, False),
        ({"CapacityReservationId": "cr-1"}, False),
    ],
)
def test_what_stays_billed_is_said(fields: dict[str, Any], stops: bool) -> None:
    instance = an_instance(fields)
    assert instance.stops_billing is stops
    assert instance.billing
