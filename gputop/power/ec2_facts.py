"""What EC2 says of an instance, as what a stop would lose and what stands in its way. Pure."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from gputop.domain.action import Block, Loss, LossKind
from gputop.domain.instance import Instance, PowerState
from gputop.domain.problem import Problem

STATES = {
    "pending": PowerState.STARTING,
    "running": PowerState.RUNNING,
    "stopping": PowerState.STOPPING,
    "stopped": PowerState.STOPPED,
    "shutting-down": PowerState.GONE,
    "terminated": PowerState.GONE,
}
HIBERNATED = "Client.UserInitiatedHibernate"
"""`StateReason.Code` of an instance whose memory was written to its disk."""


class Facts(Struct, frozen=True, kw_only=True):
    """What other calls tell of an instance. `None`: not told."""

    kind: dict[str, Any] | None = None
    """Of DescribeInstanceTypes."""
    spot: dict[str, Any] | None = None
    """Of DescribeSpotInstanceRequests."""
    group: str | None = None
    """Its auto-scaling group."""
    group_state: str | None = None
    """Its place in that: `InService`, `Standby`, …"""
    stop_protected: bool | None = None
    termination_protected: bool | None = None
    shutdown_behavior: str | None = None
    problem: Problem | None = None
    """Why one of the attributes is not told."""


def power_of(instance: dict[str, Any]) -> tuple[PowerState, str]:
    """The state, and EC2's own word for it."""
    said = str(instance.get("State", {}).get("Name", "no state"))
    power = STATES.get(said, PowerState.UNKNOWN)
    if power is PowerState.STOPPED and instance.get("StateReason", {}).get("Code") == HIBERNATED:
        return PowerState.HIBERNATED, "hibernated"
    return power, said


def instance_of(host: str, instance: dict[str, Any], facts: Facts) -> Instance:
    power, said = power_of(instance)
    gone = Block(kind="gone", summary=f"EC2 says it is {said}: it will not come back")
    is_spot = instance.get("InstanceLifecycle") == "spot"
    hibernates = bool(instance.get("HibernationOptions", {}).get("Configured"))
    stops_billing, billing = _billing(instance)
    return Instance(
        host=host,
        provider="ec2",
        id=instance["InstanceId"],
        power=power,
        raw=said,
        kind=instance.get("InstanceType"),
        stop_blocks=_stop_blocks(instance, facts),
        stop_losses=_stop_losses(instance, facts),
        stops_billing=stops_billing,
        billing=billing,
        can_hibernate=hibernates and not is_spot and instance.get("RootDeviceType") == "ebs",
        notes=_notes(instance, facts),
        console_hint=f"aws ec2 get-console-output --latest --instance-id {instance['InstanceId']}",
        block=gone if power is PowerState.GONE else None,
    )


def _stop_blocks(instance: dict[str, Any], facts: Facts) -> tuple[Block, ...]:
    blocks = []
    if facts.stop_protected is None:
        why = f": {facts.problem.summary}" if facts.problem is not None else ""
        hint = "allow ec2:DescribeInstanceAttribute"
        blocks.append(Block(kind="protection-unknown", summary=f"whether it is protected is not known{why}", hint=hint))
    elif facts.stop_protected:
        hint = f"aws ec2 modify-instance-attribute --no-disable-api-stop --instance-id {instance['InstanceId']}"
        blocks.append(Block(kind="stop-protection", summary="stop protection is on (disableApiStop)", hint=hint))
    if instance.get("RootDeviceType") != "ebs":
        summary = "its root is on instance store: it cannot be stopped, and a shutdown inside it terminates it"
        blocks.append(Block(kind="instance-store-root", summary=summary))
    if instance.get("InstanceLifecycle") == "spot" and (block := _spot_block(facts)) is not None:
        blocks.append(block)
    if facts.group is not None and facts.group_state != "Standby":
        state = facts.group_state or "its place there is not known"
        blocks.append(
            Block(
                kind="auto-scaling-group",
                summary=f"auto-scaling group {facts.group} would replace it ({state})",
                hint="put it into standby there, or detach it",
            )
        )
    return tuple(blocks)


def _spot_block(facts: Facts) -> Block | None:
    kind = (facts.spot or {}).get("Type")
    if kind == "one-time":
        return Block(kind="spot-one-time", summary="a one-time Spot request: EC2 cannot stop it, only terminate it")
    if kind != "persistent":
        hint = "allow ec2:DescribeSpotInstanceRequests"
        return Block(kind="spot-unknown", summary="a Spot instance whose kind of request is not known", hint=hint)
    return None


def _stop_losses(instance: dict[str, Any], facts: Facts) -> tuple[Loss, ...]:
    kind = instance.get("InstanceType")
    losses = []
    if facts.kind is None:
        summary = f"all data on instance store, if {kind} has any: that could not be read"
        losses.append(Loss(kind=LossKind.INSTANCE_STORE, summary=summary))
    elif facts.kind.get("InstanceStorageSupported"):
        storage = facts.kind.get("InstanceStorageInfo", {})
        size = f"{storage['TotalSizeInGB']} GB" if "TotalSizeInGB" in storage else "the disks"
        losses.append(Loss(kind=LossKind.INSTANCE_STORE, summary=f"all data on instance store: {size} of {kind}"))
    if facts.shutdown_behavior != "stop":
        verb = "terminates" if facts.shutdown_behavior == "terminate" else "may terminate"
        losses.append(
            Loss(
                kind=LossKind.INSTANCE,
                summary=f"a shutdown from inside {verb} it for good; a stop by EC2, as here, does not",
                certain=False,
            )
        )
    if instance.get("PublicIpAddress") and not _keeps_address(instance):
        losses.append(Loss(kind=LossKind.ADDRESS, summary=f"its public address {instance['PublicIpAddress']}"))
    if instance.get("InstanceLifecycle") == "spot":
        summary = "its place: a Spot instance starts again only when EC2 has room at that price"
        losses.append(Loss(kind=LossKind.CAPACITY, summary=summary))
    elif not instance.get("CapacityReservationId"):
        summary = f"its place: a later start may find no capacity for {kind}"
        losses.append(Loss(kind=LossKind.CAPACITY, summary=summary, certain=False))
    return tuple(losses)


def _keeps_address(instance: dict[str, Any]) -> bool:
    """Whether its public address is an elastic one, which stays."""
    owners = [
        its.get("Association", {}).get("IpOwnerId")
        for its in instance.get("NetworkInterfaces", ())
        if its.get("Association", {}).get("PublicIp") == instance.get("PublicIpAddress")
    ]
    return bool(owners) and all(owner not in (None, "amazon") for owner in owners)


def _billing(instance: dict[str, Any]) -> tuple[bool, str]:
    if instance.get("Placement", {}).get("Tenancy") == "host":
        return False, "the dedicated host stays billed"
    if instance.get("InstanceLifecycle") == "capacity-block":
        return False, "the capacity block is paid to its end"
    if instance.get("CapacityReservationId"):
        return False, "its capacity reservation stays billed"
    return True, "stops the bill of the instance; volumes and elastic addresses stay billed"


def _notes(instance: dict[str, Any], facts: Facts) -> tuple[str, ...]:
    notes = []
    if facts.termination_protected:
        notes.append("termination protection is on, which does not stop a shutdown from inside")
    if facts.group is not None and facts.group_state == "Standby":
        notes.append(f"in standby in auto-scaling group {facts.group}")
    tags = {tag.get("Key") for tag in instance.get("Tags", ())}
    if tags & {"parallelcluster:cluster-name", "aws:parallelcluster:cluster-name", "AWSBatchServiceTag"}:
        notes.append("made by ParallelCluster or Batch, which may replace it")
    return tuple(notes)
