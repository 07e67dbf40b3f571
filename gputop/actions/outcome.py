"""From results of steps to outcomes of hosts and lines of the audit. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from gputop.actions.lease import OPENED
from gputop.domain.action import (
    BESIDE,
    ActionKind,
    Check,
    CheckState,
    Goal,
    HostActState,
    HostPlan,
    Outcome,
    OutcomeState,
    Plan,
    Step,
    StepResult,
    StepState,
)
from gputop.domain.call import Performed, Watch
from gputop.domain.record import AuditEvent, AuditRecord

STATE_AFTER = {
    ActionKind.DRAIN: HostActState.DRAINED,
    ActionKind.CORDON: HostActState.DRAINING,
    ActionKind.RESUME: HostActState.ACTIVE,
    ActionKind.STOP: HostActState.STOPPED,
    ActionKind.HIBERNATE: HostActState.STOPPED,
}
"""What a verified act makes of a host; acts that are not here leave it in the state it had."""

STATE_DURING = {
    ActionKind.DRAIN: HostActState.DRAINING,
    ActionKind.CORDON: HostActState.DRAINING,
    ActionKind.REBOOT: HostActState.REBOOTING,
}

KEEPS = BESIDE | {ActionKind.CANCEL, ActionKind.REQUEUE}
"""Acts that leave a host where it stood, whatever came of them."""

CLOSING = frozenset({ActionKind.DRAIN, ActionKind.CORDON})

_RANK = {
    StepState.FAILED: (4, OutcomeState.FAILED),
    StepState.UNVERIFIED: (3, OutcomeState.UNVERIFIED),
    StepState.PENDING: (2, OutcomeState.PENDING),
    StepState.SKIPPED: (0, OutcomeState.VERIFIED),
    StepState.ALREADY: (0, OutcomeState.VERIFIED),
    StepState.UNDONE: (0, OutcomeState.VERIFIED),
    StepState.VERIFIED: (0, OutcomeState.VERIFIED),
}


_REACHED = frozenset({StepState.ALREADY, StepState.VERIFIED, StepState.PENDING})
"""After these it is known where a host stands in the middle of an act."""


def is_settled(result: StepResult) -> bool:
    """Whether a resumed plan need not look at the step again."""
    return result.state not in (StepState.PENDING, StepState.SKIPPED)


def step_result(
    step: Step,
    state: StepState,
    check: Check | None,
    summary: str | None = None,
    performed: Performed | None = None,
) -> StepResult:
    """`check`: what the last look found. `summary`: instead of its words."""
    problem = performed.problem if performed is not None and _RANK[state][0] else None
    return StepResult(
        step=step.id,
        state=state,
        blocked=state is StepState.FAILED and check is not None and check.state is CheckState.BLOCKED,
        summary=summary if summary is not None else check.summary if check is not None else "",
        hint=problem.hint if problem is not None else None,
        left=check.left if check is not None else (),
        exit_status=performed.exit_status if performed is not None else None,
        output=performed.output if performed is not None else "",
        values=check.values if check is not None else {},
    )


def outcome_of(
    kind: ActionKind, host: HostPlan, results: Sequence[StepResult], summary: str, state: OutcomeState | None
) -> Outcome:
    """The worst step decides; optional ones do not count. `summary` says why nothing was done."""
    optional = {step.id for step in host.steps if step.optional}
    counted = [result for result in results if result.step not in optional]
    taken = [result for result in results if result.state is not StepState.SKIPPED]
    hint = None
    if state is None and not host.steps:
        state, summary = OutcomeState.VERIFIED, f"nothing to do: {host.now}"
    elif state is None:
        worst = max(counted, key=lambda result: _RANK[result.state][0], default=None)
        state = _RANK[worst.state][1] if worst is not None and taken else OutcomeState.SKIPPED
        if summary:
            state = OutcomeState.SKIPPED
        elif worst is not None and _RANK[worst.state][0]:
            summary = f"{_title(host, worst.step)}: {worst.summary}{_console(host, worst)}"
            hint = worst.hint
    if not summary and results:
        empty = {step.id for step in host.steps if step.goal is Goal.DEVICES_EMPTY}
        waited = {step.id for step in host.steps if step.waits}
        proofs = [result for result in results if result.step in empty]
        proofs = proofs or [result for result in results if result.step in waited] or list(results)
        summary = next((result.summary for result in reversed(proofs) if result.summary), "")
    if host.drained_by and host.steps and kind in CLOSING and state in (OutcomeState.VERIFIED, OutcomeState.PENDING):
        summary = f"{summary}; {host.drained_by}"
    return Outcome(
        host=host.host,
        state=state,
        host_state=_host_state(kind, host, state, results),
        summary=summary,
        hint=hint,
        steps=tuple(results),
    )


def _host_state(kind: ActionKind, host: HostPlan, state: OutcomeState, results: Sequence[StepResult]) -> HostActState:
    if kind in KEEPS and state is not OutcomeState.FAILED:
        return host.state
    match state:
        case OutcomeState.VERIFIED:
            if any(result.state is StepState.UNDONE for result in results):
                return host.state
            return host.state_after or STATE_AFTER.get(kind, host.state)
        case OutcomeState.PENDING:
            return STATE_DURING.get(kind, HostActState.UNKNOWN)
        case OutcomeState.FAILED:
            return HostActState.BLOCKED if any(result.blocked for result in results) else HostActState.FAILED
        case OutcomeState.UNVERIFIED:
            return HostActState.UNKNOWN
        case OutcomeState.SKIPPED:
            return host.state


def state_during(kind: ActionKind, host: HostPlan, step: Step) -> HostActState:
    """What to show while `step` is taken."""
    return HostActState.REBOOTING if step.goal is Goal.REBOOTED else STATE_DURING.get(kind, host.state)


def _state_after(kind: ActionKind, host: HostPlan, step: Step, result: StepResult) -> HostActState | None:
    """Where the host stands after a step: once opened it takes work, even if more is to be done."""
    if result.state not in _REACHED:
        return None
    opened = step.goal in OPENED and result.state is not StepState.PENDING
    return HostActState.ACTIVE if opened else state_during(kind, host, step)


def intent(plan: Plan, host: HostPlan, now: datetime, summary: str = "") -> AuditRecord:
    """Written before anything is done to `host`."""
    commands = [step.command for step in host.steps if not isinstance(step.call, Watch)]
    return AuditRecord(
        time=now,
        event=AuditEvent.INTENT,
        plan=plan.id,
        act=plan.request.kind,
        host=host.host,
        instance_id=host.identity.instance_id,
        reason=plan.request.reason or plan.request.override,
        command="; ".join(commands),
        state_before=host.state.value,
        summary=summary,
    )


def audit_step(plan: Plan, host: HostPlan, step: Step, result: StepResult, now: datetime) -> AuditRecord:
    return AuditRecord(
        time=now,
        event=AuditEvent.STEP,
        plan=plan.id,
        act=plan.request.kind,
        host=host.host,
        instance_id=host.identity.instance_id,
        reason=plan.request.reason,
        step=step.id,
        command=step.command,
        state_before=host.state.value,
        state_after=_state_after(plan.request.kind, host, step, result),
        result=result.state.value,
        exit_status=result.exit_status,
        duration_seconds=result.duration_seconds,
        summary=result.summary,
        hint=result.hint,
    )


def audit_outcome(plan: Plan, host: HostPlan, outcome: Outcome, now: datetime) -> AuditRecord:
    return AuditRecord(
        time=now,
        event=AuditEvent.OUTCOME,
        plan=plan.id,
        act=plan.request.kind,
        host=host.host,
        instance_id=host.identity.instance_id,
        reason=plan.request.reason,
        state_before=host.state.value,
        state_after=outcome.host_state.value,
        result=outcome.state.value,
        duration_seconds=round(sum(result.duration_seconds for result in outcome.steps), 3),
        summary=outcome.summary,
        hint=outcome.hint,
    )


def _console(host: HostPlan, result: StepResult) -> str:
    """What to do about a host that was rebooted and did not come back."""
    boots = any(step.id == result.step and step.goal in (Goal.REBOOTED, Goal.FIRST_FRAME) for step in host.steps)
    is_lost = result.state is not StepState.PENDING and result.exit_status in (None, 0)
    return "; look at its console, by its BMC or its cloud" if boots and is_lost else ""


def _title(host: HostPlan, step_id: str) -> str:
    for step in host.steps:
        if step.id == step_id:
            return step.title
        if step.undo is not None and step.undo.id == step_id:
            return step.undo.title
    return step_id
