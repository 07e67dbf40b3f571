"""Where a host stands before an act, in one state and in words, and what an act would cost it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from gputop.actions.evidence import UNSEEN
from gputop.actions.verify import ANSWERING, busy_processes, emptiness
from gputop.catalog.text import counted
from gputop.domain.action import ActionRequest, Block, CheckState, HostActState, Loss, LossKind
from gputop.domain.host import Host
from gputop.domain.instance import Instance, PowerState
from gputop.domain.job import AdminState, Job, NodeState, Pod, PodFate
from gputop.domain.reading import ProcessReading
from gputop.schedulers.kubernetes_check import describe_budget

LEFT_AT_DRAIN = {PodFate.DAEMON_SET: "of a DaemonSet", PodFate.MIRROR: "static", PodFate.FINISHED: "finished"}
"""Pods that a drain leaves where they are, and why."""
MOST_PODS = 12
"""More are not named in one line."""

OF_NO_JOB = "Slurm reboots it as soon as its jobs have ended: what is of no job ends with it"


def act_state(host: Host, node: NodeState | None, instance: Instance | None) -> HostActState:
    """Drained only when nothing new comes and every device is proven empty now; unknown where nobody can tell."""
    if instance is not None and instance.power in (PowerState.STOPPED, PowerState.HIBERNATED):
        return HostActState.STOPPED
    if node is None or node.block is not None or node.admin is AdminState.UNKNOWN:
        return HostActState.UNKNOWN
    if not node.cordoned:
        answers = host.frame is not None and host.link.state in ANSWERING
        return HostActState.ACTIVE if node.admin is AdminState.SCHEDULABLE and answers else HostActState.UNKNOWN
    if node.jobs or _pods_left(node):
        return HostActState.DRAINING
    proof = emptiness(host, host.spec.policy)
    return HostActState.DRAINED if proof.state is CheckState.DONE else HostActState.DRAINING


def data_age_seconds(host: Host, now: datetime) -> float | None:
    """Age of the newest frame; `None` when it tells nothing about now. Below 0, the clock was set back meanwhile."""
    if host.frame is None or host.link.state not in ANSWERING:
        return None
    return (now - host.frame.received_at).total_seconds()


def describe(host: Host, node: NodeState | None, instance: Instance | None, state: HostActState) -> str:
    """The state in words for a table."""
    parts = []
    if state is HostActState.STOPPED:
        parts.append(f"stopped ({instance.raw})" if instance is not None and instance.raw else "stopped")
    elif host.frame is None or host.link.state not in ANSWERING:
        parts.append(host.link.state.value)
    if node is not None and node.cordoned:
        who = f" by {node.by}" if node.by else ""
        parts.append(f"{state.value}{who}" + (f": {node.reason}" if node.reason else ""))
    if node is not None and node.jobs:
        parts.append(counted(len(node.jobs), "job"))
    if node is not None and (left := _pods_left(node)):
        parts.append(counted(left, "pod"))
    if host.frame is not None and host.link.state in ANSWERING:
        busy = busy_processes(host.frame, host.spec.policy)
        if busy:
            users = sorted({process.user or "?" for process in busy})
            parts.append(f"{counted(len(busy), 'process', 'processes')} of {', '.join(users)}")
        elif (proof := emptiness(host, host.spec.policy)).state is not CheckState.DONE:
            parts.append(f"not known to be idle: {'; '.join(proof.left) or proof.summary}")
        elif not parts:
            parts.append("idle")
    return ", ".join(parts)


def losses_of_drain(host: Host, node: NodeState) -> tuple[Loss, ...]:
    """What a drain waits for: lost only if somebody goes on before it has ended. Pods that are evicted without a
    controller or with data of their own are lost for certain."""
    losses = [loss_of_job(job, certain=False) for job in node.jobs]
    for pod in node.pods:
        for concern in pod.concerns:
            kind = LossKind(concern)
            name = f"{pod.namespace}/{pod.name}"
            key = f"pod {name} {pod.uid} {concern}"
            losses.append(Loss(kind=kind, summary=f"{name}: {kind.value}", user=pod.user, key=key))
    return (*losses, *_processes(host, certain=lambda _: False), *_unseen(host, certain=False))


def unprovable(host: Host) -> tuple[str, ...]:
    """What keeps a drain from being proven, however long it waits."""
    if host.frame is None:
        return ()
    dead = {
        f"GPU {device.index} does not answer ({state})"
        for position, device in enumerate(host.frame.devices)
        if (state := host.frame.value("state", position)) not in ("ok", "excluded")
    }
    if not dead:
        return ()
    return (f"{', '.join(sorted(dead))}: this drain will not be proven, and what comes after it needs an override",)


def pods_of_drain(node: NodeState) -> tuple[str, ...]:
    """What a drain through Kubernetes does with each pod, by name, and the budgets that it will wait for."""
    fates = {
        "evicts": [pod for pod in node.pods if pod.fate in (PodFate.EVICT, PodFate.NEEDS_CONSENT)],
        "waits for": [pod for pod in node.pods if pod.fate is PodFate.TERMINATING],
        "leaves": [pod for pod in node.pods if pod.fate in LEFT_AT_DRAIN],
    }
    told = [f"{does} {counted(len(pods), 'pod')}: {_named(pods)}" for does, pods in fates.items() if pods]
    full = [f"{describe_budget(budget)}: it waits for that" for budget in node.budgets if budget.allowed <= 0]
    return (*told, *full)


def _named(pods: Sequence[Pod]) -> str:
    names = [
        f"{pod.namespace}/{pod.name}" + (f" ({LEFT_AT_DRAIN[pod.fate]})" if pod.fate in LEFT_AT_DRAIN else "")
        for pod in pods[:MOST_PODS]
    ]
    return ", ".join(names) + (f" and {len(pods) - MOST_PODS} more" if len(pods) > MOST_PODS else "")


def losses_of_end(host: Host, node: NodeState | None) -> tuple[Loss, ...]:
    """What ends with the host."""
    jobs = () if node is None else node.jobs
    return (*(loss_of_job(job, certain=True) for job in jobs), *_processes(host), *_unseen(host))


def losses_of_reboot(host: Host, node: NodeState) -> tuple[Loss, ...]:
    """What a reboot behind the jobs of `node` waits for, and what it ends: processes of no such job."""
    jobs = {job.id for job in node.jobs}
    waited = (loss_of_job(job, certain=False) for job in node.jobs)
    return (*waited, *_processes(host, certain=lambda process: process.job not in jobs), *_unseen(host))


def of_no_job(request: ActionRequest, host: Host, node: NodeState) -> tuple[Block, ...]:
    """Why a reboot behind the jobs of `node` must not be: something else is on its devices, or that is not known."""
    check = emptiness(host, host.spec.policy, waited=frozenset(job.id for job in node.jobs))
    if check.state is CheckState.DONE or request.override:
        return ()
    left = f"not of a job that Slurm waits for: {'; '.join(check.left)}" if check.left else check.summary
    return (Block(kind="not-drained", summary=left, hint="drain it first, or --override REASON"),)


def loss_of_job(job: Job, *, certain: bool) -> Loss:
    nodes = f", on {len(job.nodes)} nodes" if len(job.nodes) > 1 else ""
    summary = f"job {job.handle} of {job.user or 'nobody known'}{nodes}"
    return Loss(kind=LossKind.JOB, summary=summary, user=job.user, certain=certain, key=f"job {job.id}")


def _unseen(host: Host, *, certain: bool = True) -> tuple[Loss, ...]:
    """What may run there although nobody can see it."""
    if host.frame is None or host.link.state not in ANSWERING:
        return ()
    proof = emptiness(host, host.spec.policy)
    named = len(busy_processes(host.frame, host.spec.policy))
    held = proof.left[named:]
    if proof.state is CheckState.DONE or (proof.state is CheckState.NOT_DONE and not held):
        return ()
    summary = f"whatever runs there unseen: {'; '.join(held) or proof.summary}"
    return (Loss(kind=LossKind.PROCESS, summary=summary, certain=certain, key=UNSEEN),)


def _processes(host: Host, *, certain: Callable[[ProcessReading], bool] = lambda _: True) -> tuple[Loss, ...]:
    """Those that make devices busy, each once, on however many devices it is."""
    if host.frame is None:
        return ()
    found: dict[int, ProcessReading] = {}
    for process in busy_processes(host.frame, host.spec.policy):
        known = found.setdefault(process.pid, process)
        if known.name is None or known.user is None:
            found[process.pid] = process
    return tuple(_loss_of_process(process, certain=certain(process)) for process in found.values())


def _loss_of_process(process: ProcessReading, *, certain: bool) -> Loss:
    name, user = process.name or "a process that cannot be seen", process.user or "nobody known"
    started = process.started_at if process.started_ticks is None else process.started_ticks
    return Loss(
        kind=LossKind.PROCESS,
        summary=f"{name} (pid {process.pid}) of {user}",
        user=process.user,
        certain=certain,
        key=f"process {process.pid} {started}",
    )


def _pods_left(node: NodeState) -> int:
    """Pods that a drain would move, or waits for."""
    return sum(pod.fate in (PodFate.EVICT, PodFate.TERMINATING, PodFate.NEEDS_CONSENT) for pod in node.pods)
