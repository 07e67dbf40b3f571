"""Ordinary evidence and back ends for tests of acts; what a test does not name is in order."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import structs

from gputop.actions.device import ProcessFound
from gputop.actions.evidence import Evidence
from gputop.actions.faults import Fault
from gputop.actions.guards import Surroundings
from gputop.actions.plan import BackEnds, make_plan
from gputop.domain.action import (
    ActionKind,
    ActionRequest,
    Block,
    Check,
    CheckState,
    Goal,
    HostActState,
    HostIdentity,
    Plan,
    ProcessTarget,
    Signal,
    Step,
)
from gputop.domain.backend import Kubernetes, Slurm, SshPower
from gputop.domain.call import Api, Performed
from gputop.domain.host import Host, HostSpec, Way
from gputop.domain.instance import Instance, PowerState
from gputop.domain.job import AdminState, Job, NodeState, Pod, PodFate
from gputop.domain.policy import Policy
from gputop.domain.reading import ProcessReading
from gputop.ports import Scheduler
from gputop.schedulers.kubernetes import KubernetesScheduler
from gputop.schedulers.none import Found, Marker, MarkerScheduler
from gputop.schedulers.slurm import SlurmScheduler

from .builders import a_frame, a_link, a_spec
from .clock import START, ManualClock

BOOT = "11111111-2222-4333-8444-555555555555"
MIB = 1024**2


def boot_of(host: str) -> str:
    return BOOT if host == "gpu-01" else str(uuid.uuid5(uuid.NAMESPACE_DNS, host))


def a_policy(**fields: Any) -> Policy:
    return Policy(**{"idle_samples": 1, "max_percent": 100.0, **fields})


def a_host(name: str = "gpu-01", *, processes: Sequence[ProcessReading] = (), frame: Any = ..., **fields: Any) -> Host:
    """One that answers, with two devices."""
    link = fields.pop("link", a_link())
    policy = fields.pop("policy", a_policy())
    spec = a_spec(name, **{"power": SshPower(), "policy": policy, **fields})
    if frame is ...:
        columns = {"memory_used_bytes": [4 * MIB] * 2, "power_limit_watts": [700.0] * 2}
        frame = a_frame(utilization=(0.0, 0.0), processes=tuple(processes), columns=columns)
    return Host(spec=spec, link=link, reported=link, frame=frame)


def a_process(
    pid: int = 4242, user: str | None = "carol", name: str | None = "python", **fields: Any
) -> ProcessReading:
    return ProcessReading(**{"device_index": 0, "pid": pid, "user": user, "name": name, "kind": "compute", **fields})


def a_node(host: str = "gpu-01", *, drained: bool = False, **fields: Any) -> NodeState:
    own: dict[str, Any] = {
        "host": host,
        "scheduler": "none",
        "node": host,
        "admin": AdminState.DRAINED if drained else AdminState.SCHEDULABLE,
        "cordoned": drained,
        "observed_at": START,
    }
    if drained:
        own |= {"by": "ann", "reason": "NIC", "since": START}
    return NodeState(**(own | fields))


def an_instance(host: str = "gpu-01", **fields: Any) -> Instance:
    return Instance(**{"host": host, "provider": "lab", "id": f"i-{host}", "power": PowerState.RUNNING, **fields})


def an_evidence(name: str = "gpu-01", *, drained: bool = False, **fields: Any) -> Evidence:
    host = fields.pop("host", None) or a_host(name)
    own: dict[str, Any] = {
        "host": host,
        "node": a_node(host.name, drained=drained),
        "instance": an_instance(host.name),
        "identity": HostIdentity(boot_id=boot_of(host.name), machine_id=f"machine-of-{host.name}"),
        "as_of": START,
    }
    return Evidence(**(own | fields))


def a_request(kind: ActionKind = ActionKind.DRAIN, *hosts: str, **fields: Any) -> ActionRequest:
    return ActionRequest(**{"kind": kind, "hosts": hosts or ("gpu-01",), "reason": "NIC", "by": "ann", **fields})


def some_back_ends(evidence: Sequence[Evidence]) -> dict[str, BackEnds]:
    """Each host has the scheduler that its evidence speaks of."""
    specs = {one.host.name: one.host.spec for one in evidence}
    schedulers: dict[str, Scheduler] = {
        "none": SeenMarkers(specs),
        "slurm": SlurmScheduler(Slurm(), NobodyRuns(), ManualClock()),
        "kubernetes": KubernetesScheduler(Kubernetes(context="prod"), NobodyRuns(), ManualClock()),
    }
    kinds = {one.host.name: one.node.scheduler if one.node is not None else "none" for one in evidence}
    return {name: BackEnds(scheduler=schedulers[kinds[name]], power=LabPower()) for name in specs}


def a_plan(request: ActionRequest, *evidence: Evidence, at: datetime = START) -> Plan:
    plan = make_plan(request, evidence, some_back_ends(evidence), at)
    assert isinstance(plan, Plan), plan
    return plan


def some_surroundings(plan: Plan, *evidence: Evidence, **fields: Any) -> Surroundings:
    specs = {one.host.name: one.host.spec for one in evidence}
    own: dict[str, Any] = {"allowed": True, "specs": specs, "states": dict.fromkeys(specs, HostActState.ACTIVE)}
    return Surroundings(**(own | fields))


def every_act() -> dict[str, tuple[ActionRequest, Evidence]]:
    """A request of each kind with evidence that lets it be planned."""
    policy = a_policy(
        pre_drain=("/opt/site/pre", "{host}"), post_resume=("/opt/site/post",), stop_units=("launcher",), nologin=True
    )
    full = a_host(policy=policy)
    target = ProcessTarget(pid=4242, started_ticks=99, user="carol", command="python train.py")
    return {
        "cordon": (a_request(ActionKind.CORDON), an_evidence()),
        "drain": (a_request(ActionKind.DRAIN), an_evidence(host=full)),
        "resume": (a_request(ActionKind.RESUME), an_evidence(host=full, drained=True)),
        "stop": (a_request(ActionKind.STOP), an_evidence(drained=True)),
        "start": (
            a_request(ActionKind.START),
            an_evidence(node=None, identity=None, instance=an_instance(power=PowerState.STOPPED)),
        ),
        "reboot": (a_request(ActionKind.REBOOT), an_evidence(drained=True)),
        "reset": (a_request(ActionKind.RESET), an_evidence(units=("nvidia-persistenced", "nvidia-dcgm"))),
        "signal": (
            a_request(ActionKind.SIGNAL, process=target, signal=Signal.TERM),
            an_evidence(process=ProcessFound(target=target, levels=1)),
        ),
        "power-cap": (a_request(ActionKind.POWER_CAP, watts=500.0), an_evidence()),
        "message": (a_request(ActionKind.MESSAGE, text="maintenance at noon"), an_evidence()),
        "ack": (
            a_request(ActionKind.ACK),
            an_evidence(faults=(Fault(words="Xid 79 on 0000:3b:00", uptime_seconds=99.5),)),
        ),
        "hibernate": (a_request(ActionKind.HIBERNATE), an_evidence(drained=True)),
        "cancel": (a_request(ActionKind.CANCEL, jobs=("57381", "57382")), an_evidence(node=a_busy_node("slurm"))),
        "requeue": (a_request(ActionKind.REQUEUE, jobs=("57381", "57382")), an_evidence(node=a_busy_node("slurm"))),
    }


def every_variant() -> dict[str, tuple[ActionRequest, Evidence]]:
    """Acts whose steps differ with the back end."""
    drained = {"raw": "IDLE+DRAIN", "reason": "gputop:ann:-: NIC"}
    marker = a_policy(nologin=True, compute_mode=True)
    return {
        "drain by Slurm": (a_request(ActionKind.DRAIN), an_evidence(node=a_busy_node("slurm"))),
        "drain by Kubernetes": (a_request(ActionKind.DRAIN), an_evidence(node=a_busy_node("kubernetes"))),
        "cordon by Kubernetes": (a_request(ActionKind.CORDON), an_evidence(node=a_busy_node("kubernetes"))),
        "resume by Slurm": (
            a_request(ActionKind.RESUME),
            an_evidence(node=a_node(drained=True, **{"scheduler": "slurm", **drained})),
        ),
        "resume by Kubernetes": (
            a_request(ActionKind.RESUME),
            an_evidence(node=a_node(drained=True, **{"scheduler": "kubernetes", **drained})),
        ),
        "reboot by Slurm": (a_request(ActionKind.REBOOT), an_evidence(node=a_busy_node("slurm"))),
        "resume with logins": (a_request(ActionKind.RESUME), an_evidence(host=a_host(policy=marker), drained=True)),
        "reset of several": (a_request(ActionKind.RESET, devices=("0",)), an_evidence(units=("nvidia-dcgm",))),
    }


def a_busy_node(scheduler: str) -> NodeState:
    """One with two jobs, or two pods."""
    jobs = tuple(Job(id=f"5738{number}", user="carol", nodes=("gpu-01",), requeueable=True) for number in (1, 2))
    pods = tuple(Pod(namespace="ml", name=f"train-{number}", uid=f"u-{number}", fate=PodFate.EVICT) for number in "ab")
    work: dict[str, Any] = {"jobs": jobs} if scheduler == "slurm" else {"pods": pods}
    return a_node(scheduler=scheduler, raw="MIXED", booted_at=START, **work)


DEVICES = ("GPU-0", "GPU-1")


class SeenMarkers(MarkerScheduler):
    """Has looked at its hosts: those that are drained were drained by ann, by their policies."""

    def __init__(self, specs: Mapping[str, HostSpec]) -> None:
        super().__init__(specs, NobodyRuns(), ManualClock())
        for name, spec in specs.items():
            modes = dict.fromkeys(DEVICES, "default")
            self._found[name] = Found(
                units=spec.policy.stop_units, logins_open=True, modes=modes, devices=frozenset(modes)
            )

    def resume_steps(self, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block:
        policy = self._specs[node.host].policy
        marker = Marker(
            by="ann",
            reason="NIC",
            since=START,
            units=policy.stop_units,
            nologin=policy.nologin,
            compute_modes=dict.fromkeys(DEVICES, "default") if policy.compute_mode else {},
        )
        found = self._found[node.host]
        self._found[node.host] = structs.replace(found, marker=marker if node.cordoned else None)
        return super().resume_steps(node, request)


async def straight(spec: HostSpec) -> Way:
    """Every host is reached without a hop."""
    return Way(place=spec.address or spec.name)


class NobodyRuns:
    """A Runner that must not be asked."""

    async def run(self, call: object, *, deadline_seconds: float) -> Any:
        raise AssertionError(f"a pure plan ran {call}")


class LabPower:
    """A provider that can do everything; its steps are calls of an API."""

    name = "lab"

    async def observe(self, hosts: Sequence[Host]) -> Mapping[str, Instance]:
        return {host.name: an_instance(host.name) for host in hosts}

    async def check(self, host: str, step: Step) -> Check:
        return Check(state=CheckState.UNKNOWN)

    async def perform(self, host: str, step: Step) -> Performed:
        return Performed(ok=False)

    def stop_steps(self, instance: Instance, request: ActionRequest) -> tuple[Step, ...] | Block:
        return (_api(instance, "Stop", Goal.STOPPED, undo=_api(instance, "Start", Goal.RUNNING, "undo.")),)

    def start_steps(self, instance: Instance, request: ActionRequest) -> tuple[Step, ...] | Block:
        return (_api(instance, "Start", Goal.RUNNING),)

    def hibernate_steps(self, instance: Instance, request: ActionRequest) -> tuple[Step, ...] | Block:
        return (_api(instance, "Hibernate", Goal.HIBERNATED),)

    def reboot_steps(self, instance: Instance, request: ActionRequest) -> tuple[Step, ...] | Block:
        return (_api(instance, "Reboot", Goal.REBOOTED, repeatable=False),)


def _api(instance: Instance, operation: str, goal: Goal, prefix: str = "", **fields: Any) -> Step:
    return Step(
        id=f"{prefix}lab.{operation.lower()}",
        actor="power",
        title=operation.lower(),
        call=Api(service="lab", operation=operation, parameters={"id": instance.id}),
        goal=goal,
        **fields,
    )


class FastClock(ManualClock):
    """Sleeping takes no time, but time passes."""

    async def sleep(self, seconds: float) -> None:
        self._elapsed += seconds
        await asyncio.sleep(0)
