"""Whether what kubectl was asked to do has come about. Pure; what could not be read is not judged here."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from gputop.catalog.format import duration
from gputop.domain.action import Check, CheckState, Goal, Step
from gputop.domain.job import DisruptionBudget
from gputop.schedulers.kubernetes_read import LEFT_ALONE, Budget, KubeNode, KubePod, covering
from gputop.schedulers.reason import parse_reason

STUCK = timedelta(seconds=60)
"""How long after its grace period a pod is late."""


def judge_node(step: Step, node: KubeNode) -> Check:
    """Goals that the node object alone answers."""
    values = {"state": node.raw}
    done: bool
    match step.goal:
        case Goal.CORDONED:
            done = node.unschedulable
        case Goal.MARKED:
            done = node.mark == step.wanted["reason"]
        case Goal.UNMARKED:
            done = node.mark is None
        case Goal.SCHEDULABLE:
            return _schedulable(step, node)
        case _:
            return Check(state=CheckState.UNKNOWN, summary=f"Kubernetes cannot tell about {step.goal.value}")
    return Check(state=CheckState.DONE if done else CheckState.NOT_DONE, summary=f"it is {node.raw}", values=values)


def judge_pods(step: Step, node: KubeNode, pods: Sequence[KubePod], budgets: Sequence[Budget], now: datetime) -> Check:
    """Whether every pod that a drain moves is gone; else what has and what has not happened."""
    waiting = [pod for pod in pods if pod.pod.fate not in LEFT_ALONE]
    before = set(filter(None, step.before.get("pods", "").split(",")))
    gone = len(before - {pod.name for pod in waiting})
    values = {"state": node.raw, "pods_left": str(len(waiting))}
    if not node.unschedulable:
        summary = f"no longer cordoned ({node.raw}): it takes new pods; {gone} of {len(before)} pods are gone"
        return Check(state=CheckState.BLOCKED, summary=summary, values=values)
    if not waiting:
        return Check(state=CheckState.DONE, summary="no pod left that a drain moves", values=values)
    consents = frozenset(step.wanted.get("consents", "").split(","))
    told = [_describe(pod, node, covering(pod, budgets), consents, now) for pod in waiting]
    left = tuple(f"{pod.name}: {why}" for pod, (why, _) in zip(waiting, told, strict=True))
    all_pods = before | {pod.name for pod in waiting}
    summary = (
        f"waiting: {len(waiting)} of {len(all_pods)} pods left; the {gone} that are gone stay gone, "
        "and the node stays cordoned"
    )
    reasons = sorted({why for why, _ in told} - {LEAVING, NOT_YET})
    if reasons:
        summary += f"; {'; '.join(reasons)}"
    stuck = all(hopeless for _, hopeless in told)
    return Check(state=CheckState.BLOCKED if stuck else CheckState.NOT_DONE, summary=summary, left=left, values=values)


LEAVING = "leaving"
NOT_YET = "not evicted yet"


def _describe(
    pod: KubePod, node: KubeNode, budgets: Sequence[DisruptionBudget], consents: Collection[str], now: datetime
) -> tuple[str, bool]:
    """Why a pod is still there, and whether waiting is of no use."""
    if pod.ends_at is not None:
        late = now - pod.ends_at
        if late < STUCK:
            return LEAVING, False
        why = f"finalizer {', '.join(pod.finalizers)}" if pod.finalizers else f"the node is {node.raw}"
        return f"stuck terminating for {duration(late.total_seconds())}: {why}", True
    if len(budgets) > 1:
        names = ", ".join(f"{budget.namespace}/{budget.name}" for budget in budgets)
        return f"several PodDisruptionBudgets cover it ({names}): Kubernetes evicts no such pod", True
    for budget in budgets:
        if budget.allowed <= 0:
            return describe_budget(budget), False
    missing = [concern for concern in pod.pod.concerns if concern not in consents]
    if missing:
        return f"needs consent: {', '.join(missing)}", False
    return NOT_YET, False


def describe_budget(budget: DisruptionBudget) -> str:
    numbers = f"{budget.healthy} healthy, {budget.wanted} wanted"
    return f"PDB {budget.namespace}/{budget.name} allows {budget.allowed} disruptions ({numbers})"


def _schedulable(step: Step, node: KubeNode) -> Check:
    values = {"state": node.raw}
    expected = step.before.get("reason")
    if node.unschedulable and expected is not None and (node.mark or "") not in ("", expected):
        ours = parse_reason(node.mark)
        who = f"{ours.by}: {ours.why}" if ours is not None else node.mark or ""
        return Check(state=CheckState.BLOCKED, summary=f"meanwhile cordoned by {who}", values=values)
    if node.unschedulable:
        return Check(state=CheckState.NOT_DONE, summary=f"it is {node.raw}", values=values)
    if not node.ready:
        why = f": {node.why_not_ready}" if node.why_not_ready else ""
        return Check(state=CheckState.NOT_DONE, summary=f"uncordoned, but it is {node.raw}{why}", values=values)
    return Check(state=CheckState.DONE, summary=f"it takes pods ({node.raw})", values=values)
