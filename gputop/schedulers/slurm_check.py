"""Whether what was asked of Slurm has come about. Pure; what could not be read is not judged here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import structs

from gputop.catalog.format import duration
from gputop.domain.action import Check, CheckState, Goal, Step
from gputop.domain.job import Job
from gputop.schedulers.reason import parse_reason
from gputop.schedulers.slurm_read import SlurmJob, SlurmNode, holds_nodes
from gputop.schedulers.slurm_steps import REBOOTS

HIDDEN = Job(id="?", name="hidden: Slurm counts more of the node as used than it shows")
"""What holds a node without being shown (PrivateData). It counts as somebody else's."""
BOOT_JITTER = timedelta(seconds=30)
"""Slurm counts a boot time back from the uptime: without any reboot it moves by seconds."""
RESERVED = frozenset({"maintenance", "reserved"})
"""Flags by which a reservation keeps a node for its own jobs."""
KILL_FAILED = "kill task failed"
"""Slurm's reason when processes of a job outlived it."""


def jobs_on(node: SlurmNode, jobs: Sequence[SlurmJob]) -> tuple[Job, ...]:
    """The jobs that hold this node, with their GPUs on it; `HIDDEN` among them when there must be more: none is shown
    of a busy node, or Slurm counts more GPUs as used than the shown ones have."""
    here = tuple(
        structs.replace(one.job, gpus=one.gpus.get(node.name))
        for one in jobs
        if node.name in one.job.nodes and holds_nodes(one.job)
    )
    if not here:
        return (HIDDEN,) if node.state.base in {"ALLOCATED", "MIXED"} or node.gres.used > 0 else ()
    counts = [job.gpus for job in here if job.gpus is not None]
    told = len(counts) == len(here)
    return (*here, HIDDEN) if told and sum(counts) < node.gres.used else here


def judge_node(step: Step, node: SlurmNode, jobs: Sequence[Job], now: datetime) -> Check:
    """Whether the goal of `step` holds for its node. `jobs`: those that hold it."""
    match step.goal:
        case Goal.CORDONED:
            return _cordoned(node)
        case Goal.NO_WORK:
            return _no_work(node, jobs, now)
        case Goal.SCHEDULABLE:
            return _schedulable(step, node)
        case Goal.REBOOT_REQUESTED | Goal.REBOOT_ISSUED:
            return _rebooting(step, node, jobs, now)
    return Check(state=CheckState.UNKNOWN, summary=f"Slurm cannot tell about {step.goal.value}")


def judge_job(step: Step, jobs: Sequence[Job]) -> Check:
    """Whether the job of `step` is gone, or back in the queue. `jobs`: it alone, or nothing where Slurm has forgotten
    it."""
    job = jobs[0] if jobs else None
    number = step.wanted["job"] if job is None else job.handle
    state = job.state or "" if job is not None else "ended"
    values = {"job": number, "state": state}
    if step.goal is Goal.JOBS_GONE:
        if job is None or (not holds_nodes(job) and state != "PENDING"):
            return Check(state=CheckState.DONE, summary=f"job {number} is gone", values=values)
        return Check(state=CheckState.NOT_DONE, summary=f"job {number} is {state}", values=values)
    if job is None or (not holds_nodes(job) and state not in {"PENDING", "REQUEUED", "REQUEUE_HOLD"}):
        summary = f"job {number} has ended: there is nothing to put back"
        return Check(state=CheckState.BLOCKED, summary=summary, values=values)
    anew = job.started_at is not None and job.started_at.isoformat() > step.before.get("started_at", "~")
    if step.wanted["node"] not in job.nodes or (anew and state == "RUNNING"):
        where = f"runs on {', '.join(job.nodes)}" if job.nodes else "waits in the queue"
        return Check(state=CheckState.DONE, summary=f"job {number} {where}", values=values)
    return Check(state=CheckState.NOT_DONE, summary=f"job {number} is {state}", values=values)


def describe_job(job: Job, now: datetime) -> str:
    """`job 57381 of carol, 6 h 02 m left, 2 nodes`. The name is left out: its owner may write anything into it."""
    if job.id == HIDDEN.id:
        return "a job that Slurm does not show"
    if job.state == "COMPLETING":
        left = "is being cleared away"
    elif job.ends_at is None:
        left = "no time limit"
    else:
        left = f"{duration((job.ends_at - now).total_seconds())} left"
    nodes = f", {len(job.nodes)} nodes" if len(job.nodes) > 1 else ""
    return f"job {job.handle} of {job.user or 'somebody unknown'}, {left}{nodes}"


def _cordoned(node: SlurmNode) -> Check:
    if not node.state.cordoned:
        return Check(state=CheckState.NOT_DONE, summary=f"it is {node.state.text}", values=_values(node))
    return Check(state=CheckState.DONE, summary=_held(node), values=_values(node))


def _no_work(node: SlurmNode, jobs: Sequence[Job], now: datetime) -> Check:
    left = tuple(describe_job(job, now) for job in jobs)
    if not node.state.cordoned:
        summary = f"no longer drained ({node.state.text}): it takes new jobs"
        return Check(state=CheckState.BLOCKED, summary=summary, left=left, values=_values(node))
    if left:
        summary = f"waiting: {len(left)} {'job' if len(left) == 1 else 'jobs'} left"
        return Check(state=CheckState.NOT_DONE, summary=summary, left=left, values=_values(node))
    if node.state.busy:
        summary = "waiting: what its last job left is being cleared away"
        return Check(state=CheckState.NOT_DONE, summary=summary, left=(node.state.text,), values=_values(node))
    summary = f"no job left ({node.state.text})"
    if not node.state.responding:
        summary += "; it does not respond to Slurm"
    if KILL_FAILED in (node.reason or "").lower():
        summary += "; Slurm could not end every process (Kill task failed): look at the GPUs"
    return Check(state=CheckState.DONE, summary=summary, values=_values(node))


def _schedulable(step: Step, node: SlurmNode) -> Check:
    state = node.state
    expected = step.before.get("reason")
    if state.cordoned and expected is not None and (node.reason or "") != expected:
        return Check(state=CheckState.BLOCKED, summary=f"meanwhile {_held(node)}", values=_values(node))
    takes = not state.cordoned and state.base in {"IDLE", "MIXED", "ALLOCATED"} and not state.flags & REBOOTS
    if takes and state.responding:
        jobs = "jobs of its reservation" if state.flags & RESERVED else "jobs"
        return Check(state=CheckState.DONE, summary=f"it takes {jobs} ({state.text})", values=_values(node))
    return Check(state=CheckState.NOT_DONE, summary=f"it is {state.text}", values=_values(node))


def _rebooting(step: Step, node: SlurmNode, jobs: Sequence[Job], now: datetime) -> Check:
    before = step.before.get("booted_at", "")
    tells = bool(before) and node.booted_at is not None
    if before and node.booted_at and node.booted_at > datetime.fromisoformat(before) + BOOT_JITTER:
        summary = f"it booted at {node.booted_at:%H:%M:%S} UTC"
        return Check(state=CheckState.DONE, summary=summary, values=_values(node))
    flags = node.state.flags & REBOOTS
    if "reboot-issued" in flags or (flags and step.goal is Goal.REBOOT_REQUESTED):
        return Check(state=CheckState.DONE, summary=f"it is {node.state.text}", values=_values(node))
    if step.goal is Goal.REBOOT_REQUESTED:
        return Check(state=CheckState.NOT_DONE, summary=f"no reboot is asked for ({node.state.text})")
    if not flags and not tells:  # of a node that was just resumed
        summary = f"Slurm does not tell whether it has booted ({node.state.text}): its boot id does"
        return Check(state=CheckState.DONE, summary=summary, values=_values(node))
    if not flags:
        summary = f"Slurm no longer means to reboot it ({node.state.text})"
        return Check(state=CheckState.BLOCKED, summary=summary, values=_values(node))
    left = tuple(describe_job(job, now) for job in jobs)
    summary = f"waiting: {len(left)} {'job' if len(left) == 1 else 'jobs'} left"
    return Check(state=CheckState.NOT_DONE, summary=summary, left=left, values=_values(node))


def _held(node: SlurmNode) -> str:
    """Who drained it, when and why."""
    ours = parse_reason(node.reason)
    who = ours.by if ours is not None else node.reason_by or "somebody unknown"
    when = f" at {node.reason_at:%Y-%m-%d %H:%M} UTC" if node.reason_at is not None else ""
    why = ours.why if ours is not None else node.reason or "no reason given"
    return f"drained by {who}{when}: {why}"


def _values(node: SlurmNode) -> dict[str, str]:
    values = {"state": node.state.text}
    if node.reason:
        values["reason"] = node.reason
    return values
