"""What is asked of Slurm for an act. Pure.

DRAIN lets jobs finish; nothing here ever sets a node DOWN or reboots it NOW, which would end them. To cancel jobs and
to put them back into the queue are acts of their own.
"""

from __future__ import annotations

import re

from msgspec import structs

from gputop.domain.action import ActionRequest, Block, Goal, Step
from gputop.domain.backend import Slurm
from gputop.domain.call import Call, RunHere, RunOn, Watch
from gputop.domain.job import AdminState, Job, NodeState
from gputop.schedulers.reason import not_ours, reason_of

CHANGE_SECONDS = 60.0
CANCEL_SECONDS = 180.0
"""KillWait and the epilog are over by then."""

_JOB_ID = re.compile(r"[0-9]+(?:[_+][0-9]+)?")
REBOOTS = frozenset({"reboot-requested", "reboot-issued"})


def program(spec: Slurm, *argv: str) -> RunHere | RunOn:
    """One of Slurm's programs, where the inventory says, changing something."""
    if spec.via is not None:
        return RunOn(host=spec.via, argv=argv, sudo=spec.sudo)
    return RunHere(argv=("sudo", "-n", *argv) if spec.sudo else argv)


# --- steps ---------------------------------------------------------------------------------------------------------


def cordon_steps(spec: Slurm, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block:
    name = node.node
    if name is None:
        return node.block or _no_node()
    reason = reason_of(request)
    drain = program(spec, "scontrol", "update", f"nodename={name}", "state=drain", f"reason={reason}")
    undrain = _step("slurm.undrain", f"undrain {name} in Slurm", _update(spec, name, "undrain"), Goal.SCHEDULABLE, name)
    return (
        _step(
            "slurm.drain",
            f"drain {name} in Slurm",
            drain,
            Goal.CORDONED,
            name,
            undo=None if node.cordoned else _with_reason(undrain, reason),
            why_no_undo="it was drained before" if node.cordoned else "",
        ),
    )


def drain_steps(spec: Slurm, node: NodeState, request: ActionRequest, seconds: float) -> tuple[Step, ...] | Block:
    cordon = cordon_steps(spec, node, request)
    if isinstance(cordon, Block) or node.node is None:
        return cordon
    wait = Watch(what=f"wait until Slurm has no job on {node.node} and nothing of one is being cleared away")
    empty = _step("slurm.empty", "wait for its jobs", wait, Goal.NO_WORK, node.node, seconds=seconds, waits=True)
    return (*cordon, empty)


def resume_steps(spec: Slurm, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block:
    name = node.node
    if name is None:
        return node.block or _no_node()
    if node.cordoned or node.admin is AdminState.DOWN:
        block = not_ours(node, request)
        if block is not None:
            return block
    resume = _step("slurm.resume", f"resume {name} in Slurm", _update(spec, name, "resume"), Goal.SCHEDULABLE, name)
    return (_with_reason(resume, node.reason or ""),)


def cancel_steps(spec: Slurm, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block:
    jobs = _chosen(node, request)
    if isinstance(jobs, Block):
        return jobs
    return tuple(
        _step(
            f"slurm.cancel.{job.id}",
            f"cancel job {job.handle}{' and all its other parts' if job.handle.endswith('+0') else ''}",
            program(spec, "scancel", job.handle),
            Goal.JOBS_GONE,
            node.node or "",
            seconds=CANCEL_SECONDS,
            job=job.id,
            why_no_undo="its work is lost",
        )
        for job in jobs
    )


def requeue_steps(spec: Slurm, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block:
    jobs = _chosen(node, request)
    if isinstance(jobs, Block):
        return jobs
    fixed = [job.handle for job in jobs if job.requeueable is False]
    if fixed:
        return Block(kind="not-requeueable", summary=f"submitted with --no-requeue: job {', '.join(fixed)}")
    parts = [job.handle for job in jobs if "+" in job.handle]
    if parts:
        summary = f"part of a heterogeneous job, which starts anew as a whole: job {', '.join(parts)}"
        return Block(kind="not-requeueable", summary=summary)
    return tuple(
        _step(
            f"slurm.requeue.{job.id}",
            f"put job {job.handle} back into the queue",
            program(spec, "scontrol", "requeue", job.handle),
            Goal.JOBS_REQUEUED,
            node.node or "",
            seconds=CANCEL_SECONDS,
            repeatable=False,
            job=job.id,
            before={"started_at": job.started_at.isoformat()} if job.started_at is not None else None,
            why_no_undo="it starts anew",
        )
        for job in jobs
    )


def reboot_steps(spec: Slurm, node: NodeState, request: ActionRequest, seconds: float) -> tuple[Step, ...] | Block:
    """`reboot asap` drains, reboots when the jobs have ended, and resumes. A node that is drained already stays so:
    with `asap` Slurm 22.05 would resume it, unasked and unseen."""
    name = node.node
    if name is None:
        return node.block or _no_node()
    how = () if node.cordoned else ("asap", "nextstate=resume", f"reason={reason_of(request)}")
    before = {"booted_at": node.booted_at.isoformat() if node.booted_at is not None else ""}
    cancel = _step(
        "slurm.cancel-reboot",
        "cancel the reboot",
        program(spec, "scontrol", "cancel_reboot", name),
        Goal.SCHEDULABLE,
        name,
    )
    requested = bool(REBOOTS & set(node.flags))
    reboot = _step(
        "slurm.reboot",
        f"reboot {name} through Slurm when its jobs have ended",
        program(spec, "scontrol", "reboot", *how, name),
        Goal.REBOOT_REQUESTED,
        name,
        repeatable=False,
        before=before,
        undo=None if node.cordoned or requested else cancel,
        why_no_undo="it was drained or asked to reboot before" if node.cordoned or requested else "",
    )
    wait = Watch(what=f"wait until the jobs on {name} have ended and Slurm reboots it")
    issued = _step(
        "slurm.reboot-issued",
        "wait for its jobs",
        wait,
        Goal.REBOOT_ISSUED,
        name,
        seconds=seconds,
        waits=True,
        before=before,
    )
    return (reboot, issued)


def _step(
    id: str,
    title: str,
    call: Call,
    goal: Goal,
    node: str,
    *,
    seconds: float = CHANGE_SECONDS,
    repeatable: bool = True,
    waits: bool = False,
    job: str | None = None,
    before: dict[str, str] | None = None,
    undo: Step | None = None,
    why_no_undo: str = "",
) -> Step:
    return Step(
        id=id,
        actor="scheduler",
        title=title,
        call=call,
        goal=goal,
        before=before or {},
        wanted={"node": node, **({"job": job} if job is not None else {})},
        deadline_seconds=seconds,
        poll_seconds=5.0 if waits else 1.0,
        repeatable=repeatable,
        waits=waits,
        undo=undo,
        why_no_undo=why_no_undo,
    )


def _with_reason(step: Step, reason: str) -> Step:
    """Only as long as the node carries this reason: another one is another person's."""
    return structs.replace(step, before={"reason": reason})


def _update(spec: Slurm, node: str, state: str) -> RunHere | RunOn:
    return program(spec, "scontrol", "update", f"nodename={node}", f"state={state}")


def _chosen(node: NodeState, request: ActionRequest) -> list[Job] | Block:
    """The jobs that are asked for, all of them on this node. None is an error, never "all"."""
    if node.node is None:
        return node.block or _no_node()
    here = {name: job for job in node.jobs for name in (job.id, job.handle)}
    wrong = [id for id in request.jobs if id not in here or not _JOB_ID.fullmatch(id)]
    if wrong or not request.jobs:
        summary = f"not on {node.node}: job {', '.join(wrong)}" if wrong else "no job was named"
        return Block(kind="no-such-job", summary=summary)
    return list({here[id].id: here[id] for id in request.jobs}.values())


def _no_node() -> Block:
    return Block(kind="node-not-found", summary="Slurm has no node for this host")
