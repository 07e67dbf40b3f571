"""Instances of Amazon EC2: what a stop would cost is read first, and the state is EC2's word.

Instances are found by their id, else by the host's private address or private DNS name, and never guessed. What could
not be read counts as the worse case: protection that is not known blocks, storage that is not known may be lost.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from gputop.domain.action import ActionRequest, Block, Check, CheckState, Goal, Step
from gputop.domain.backend import Ec2
from gputop.domain.call import Api, Performed
from gputop.domain.host import Host
from gputop.domain.instance import Instance, PowerState
from gputop.domain.problem import Problem, ProblemKind
from gputop.ports import Clock, Runner
from gputop.power.aws import Aws, Place, place_of
from gputop.power.ec2_facts import Facts, instance_of, power_of
from gputop.power.proof import another_boot, id_of, in_state

FILTER_VALUES = 200
"""The most values of one filter."""
AT_ONCE = 50
"""Instances whose further facts are read at the same time; the most that Auto Scaling tells of in one call."""
STOP_SECONDS = 900.0
START_SECONDS = 600.0
POLL_SECONDS = 5.0

ATTRIBUTES = {
    "disableApiStop": "DisableApiStop",
    "disableApiTermination": "DisableApiTermination",
    "instanceInitiatedShutdownBehavior": "InstanceInitiatedShutdownBehavior",
}
"""Attributes that only a call of their own tells -> their name in its answer."""

OPERATIONS = {
    "StopInstances": "stop_instances",
    "StartInstances": "start_instances",
    "RebootInstances": "reboot_instances",
}


class Ec2PowerProvider:
    """Implements `ports.PowerProvider`, `CanStop`, `CanStart`, `CanReboot` and `CanHibernate`."""

    name = "ec2"

    def __init__(self, runner: Runner, clock: Clock) -> None:
        self._runner = runner
        self._clock = clock
        self._aws = Aws()

    async def observe(self, hosts: Sequence[Host]) -> Mapping[str, Instance]:
        by_place: dict[Place, list[Host]] = {}
        for host in hosts:
            power = host.spec.power
            if isinstance(power, Ec2):
                place = Place(region=power.region, profile=power.profile, endpoint=power.endpoint)
                by_place.setdefault(place, []).append(host)
        found = {host.name: self._blocked(host, "no-power", "the inventory names no instance for it") for host in hosts}
        for instances in await asyncio.gather(*(self._observe(place, its) for place, its in by_place.items())):
            found |= instances
        return found

    async def _observe(self, place: Place, hosts: Sequence[Host]) -> dict[str, Instance]:
        """Hosts of one place, with one call for each kind of fact."""
        listed = await self._described(place, hosts)
        if isinstance(listed, Problem):
            return {
                host.name: self._blocked(host, "no-answer", f"EC2: {listed.summary}", listed.hint) for host in hosts
            }
        chosen: dict[str, dict[str, Any]] = {}
        found: dict[str, Instance] = {}
        for host in hosts:
            those = [instance for instance in listed if _is(instance, host)]
            if len(those) == 1:
                chosen[host.name] = those[0]
            else:
                found[host.name] = self._not_one(host, those)
        instances = list(chosen.values())
        facts: dict[str, Facts] = {}
        for start in range(0, len(instances), AT_ONCE):
            facts |= await self._facts(place, instances[start : start + AT_ONCE])
        for name, instance in chosen.items():
            found[name] = structs.replace(
                instance_of(name, instance, facts[instance["InstanceId"]]),
                values={"service": place.service()},
                observed_at=self._clock.now(),
            )
        return found

    async def _described(self, place: Place, hosts: Sequence[Host]) -> list[dict[str, Any]] | Problem:
        """The instances that may be `hosts`. Filters, because one unknown id fails a call that names ids."""
        wanted: dict[str, list[str]] = {}
        for host in hosts:
            name, value = _filter_of(host)
            wanted.setdefault(name, []).append(value)
        calls = [
            self._aws.read(
                place, "describe_instances", Filters=[{"Name": name, "Values": values[start : start + FILTER_VALUES]}]
            )
            for name, values in wanted.items()
            for start in range(0, len(values), FILTER_VALUES)
        ]
        instances = {}
        for answer in await asyncio.gather(*calls):
            if isinstance(answer, Problem):
                return answer
            for reservation in answer.get("Reservations", ()):
                for instance in reservation.get("Instances", ()):
                    instances[instance["InstanceId"]] = instance
        return list(instances.values())

    async def _facts(self, place: Place, instances: Sequence[dict[str, Any]]) -> dict[str, Facts]:
        """What describing an instance does not tell, by its id. At most `AT_ONCE` instances."""
        types = sorted({instance["InstanceType"] for instance in instances})
        spots = sorted({its for instance in instances if (its := instance.get("SpotInstanceRequestId"))})
        scaled = sorted(instance["InstanceId"] for instance in instances if _group(instance) is not None)
        attributes = [(instance["InstanceId"], name) for instance in instances for name in ATTRIBUTES]
        kinds, requests, members, *values = await asyncio.gather(
            self._aws.read(place, "describe_instance_types", Filters=[{"Name": "instance-type", "Values": types}]),
            self._if(spots, place, "describe_spot_instance_requests", SpotInstanceRequestIds=spots),
            self._if(scaled, place, "describe_auto_scaling_instances", service="autoscaling", InstanceIds=scaled),
            *(
                self._aws.read(place, "describe_instance_attribute", InstanceId=instance_id, Attribute=name)
                for instance_id, name in attributes
            ),
        )
        by_type = {} if isinstance(kinds, Problem) else {kind["InstanceType"]: kind for kind in kinds["InstanceTypes"]}
        by_spot = (
            {}
            if isinstance(requests, Problem)
            else {its["SpotInstanceRequestId"]: its for its in requests.get("SpotInstanceRequests", ())}
        )
        by_member = (
            {}
            if isinstance(members, Problem)
            else {its["InstanceId"]: its["LifecycleState"] for its in members.get("AutoScalingInstances", ())}
        )
        told: dict[str, dict[str, Any]] = {instance["InstanceId"]: {} for instance in instances}
        problems: dict[str, Problem] = {}
        for (instance_id, name), answer in zip(attributes, values, strict=True):
            if isinstance(answer, Problem):
                problems[instance_id] = answer
            else:
                told[instance_id][name] = answer.get(ATTRIBUTES[name], {}).get("Value")
        return {
            instance["InstanceId"]: Facts(
                kind=by_type.get(instance["InstanceType"]),
                spot=by_spot.get(instance.get("SpotInstanceRequestId", "")),
                group=_group(instance),
                group_state=by_member.get(instance["InstanceId"]),
                stop_protected=told[instance["InstanceId"]].get("disableApiStop"),
                termination_protected=told[instance["InstanceId"]].get("disableApiTermination"),
                shutdown_behavior=told[instance["InstanceId"]].get("instanceInitiatedShutdownBehavior"),
                problem=problems.get(instance["InstanceId"]),
            )
            for instance in instances
        }

    async def _if(
        self, wanted: Sequence[str], place: Place, operation: str, service: str = "ec2", **parameters: Any
    ) -> Any:
        return await self._aws.read(place, operation, service, **parameters) if wanted else {}

    def stop_steps(self, instance: Instance, request: ActionRequest) -> tuple[Step, ...] | Block:
        return self._steps(instance, "StopInstances", Goal.STOPPED, "stop the instance", STOP_SECONDS)

    def start_steps(self, instance: Instance, request: ActionRequest) -> tuple[Step, ...] | Block:
        return self._steps(instance, "StartInstances", Goal.RUNNING, "start the instance", START_SECONDS)

    def reboot_steps(self, instance: Instance, request: ActionRequest) -> tuple[Step, ...] | Block:
        return self._steps(instance, "RebootInstances", Goal.REBOOTED, "reboot the instance", STOP_SECONDS)

    def hibernate_steps(self, instance: Instance, request: ActionRequest) -> tuple[Step, ...] | Block:
        if not instance.can_hibernate:
            summary = "it was not launched with hibernation: EC2 would only stop it, and its memory would be lost"
            return Block(kind="no-hibernation", summary=summary)
        return self._steps(
            instance, "StopInstances", Goal.HIBERNATED, "hibernate the instance", STOP_SECONDS, Hibernate=True
        )

    def _steps(
        self, instance: Instance, operation: str, goal: Goal, title: str, seconds: float, **more: bool
    ) -> tuple[Step, ...] | Block:
        if instance.power is PowerState.GONE:
            return Block(kind="gone", summary=f"EC2 says it is {instance.raw}: it will not come back")
        once = goal in (Goal.REBOOTED, Goal.HIBERNATED)
        return (
            Step(
                id=f"ec2.{'Hibernate' if goal is Goal.HIBERNATED else operation}",
                actor="power",
                title=title,
                call=Api(
                    service=instance.values["service"],
                    operation=operation,
                    parameters={"InstanceIds": [instance.id], **more},
                ),
                goal=goal,
                deadline_seconds=seconds,
                poll_seconds=POLL_SECONDS,
                repeatable=not once,
                why_no_undo="only another act can bring it back",
            ),
        )

    async def check(self, host: str, step: Step) -> Check:
        if step.goal is Goal.REBOOTED:
            return await another_boot(self._runner, host, step)
        assert isinstance(step.call, Api)
        ids = step.call.parameters["InstanceIds"]
        filters = [{"Name": "instance-id", "Values": ids}]
        answer = await self._aws.read(place_of(step.call.service), "describe_instances", Filters=filters)
        if isinstance(answer, Problem):
            return Check(state=CheckState.UNKNOWN, summary=f"EC2: {answer.summary}")
        instances = [instance for its in answer.get("Reservations", ()) for instance in its.get("Instances", ())]
        if len(instances) != 1:
            return Check(state=CheckState.UNKNOWN, summary=f"EC2 knows {len(instances)} instances of this id")
        power, said = power_of(instances[0])
        why = instances[0].get("StateReason", {}).get("Message") if power is PowerState.STOPPED else None
        return in_state(step.goal, power, f"{said}: {why}" if why and step.goal is Goal.RUNNING else said)

    async def perform(self, host: str, step: Step) -> Performed:
        assert isinstance(step.call, Api)
        operation = OPERATIONS[step.call.operation]
        answer = await self._aws.change(place_of(step.call.service), operation, **step.call.parameters)
        if isinstance(answer, Problem):
            may_have_worked = answer.kind in (ProblemKind.TIMED_OUT, ProblemKind.CONNECTION_LOST)
            return Performed(ok=False, pending=may_have_worked, problem=answer, output=answer.detail or "")
        return Performed(ok=True)

    def _blocked(self, host: Host, kind: str, summary: str, hint: str | None = None) -> Instance:
        block = Block(kind=kind, summary=summary, hint=hint)
        return Instance(host=host.name, provider=self.name, block=block, observed_at=self._clock.now())

    def _not_one(self, host: Host, those: Sequence[dict[str, Any]]) -> Instance:
        name, value = _filter_of(host)
        if those:
            ids = ", ".join(sorted(instance["InstanceId"] for instance in those))
            return self._blocked(host, "instance-ambiguous", f"{name} {value} fits {ids}", "name its instance_id")
        hint = None if name == "instance-id" else "name its instance_id"
        return self._blocked(host, "instance-not-found", f"EC2 has no instance with {name} {value} there", hint)


def _filter_of(host: Host) -> tuple[str, str]:
    """EC2's name of what a host is found by, and the value."""
    power = host.spec.power
    assert isinstance(power, Ec2)
    if (instance_id := id_of(power.instance_id, host.spec)) is not None:
        return "instance-id", instance_id
    address = host.endpoint.address if host.endpoint is not None else host.spec.address or host.name
    try:
        return "private-ip-address", str(ipaddress.ip_address(address))
    except ValueError:
        return "private-dns-name", address


def _is(instance: dict[str, Any], host: Host) -> bool:
    name, value = _filter_of(host)
    match name:
        case "instance-id":
            return bool(instance["InstanceId"] == value)
        case "private-ip-address":
            return value in {
                instance.get("PrivateIpAddress"),
                *(its.get("PrivateIpAddress") for its in instance.get("NetworkInterfaces", ())),
            }
    return bool(instance.get("PrivateDnsName") == value)


def _group(instance: dict[str, Any]) -> str | None:
    """The auto-scaling group; its tag is reserved, nobody but EC2 can set it."""
    tags = {tag.get("Key"): tag.get("Value") for tag in instance.get("Tags", ())}
    return tags.get("aws:autoscaling:groupName")
