"""Plans, verdicts, outcomes, audit records and leases as text and as plain data for JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from gputop.catalog.text import clean, counted
from gputop.domain.action import (
    ActionKind,
    Allow,
    Confirm,
    Deny,
    HostActState,
    HostPlan,
    Outcome,
    OutcomeState,
    Plan,
    Progress,
    Seen,
    Step,
    StepState,
    Verdict,
)
from gputop.domain.record import AuditRecord, Lease, Standing, standing
from gputop.domain.scripts import command_in, name_of, scripts_of

SCHEMA = "gputop-act/1"

GATE_STEP = "host.gate"
"""Its result holds every item of the gate."""

MARKS = {
    OutcomeState.VERIFIED: "ok",
    OutcomeState.UNVERIFIED: "??",
    OutcomeState.FAILED: "!!",
    OutcomeState.PENDING: "..",
    OutcomeState.SKIPPED: "--",
}


def plan_text(plan: Plan, verdict: Verdict) -> str:
    """What would be done, for a person."""
    request = plan.request
    count = len(plan.hosts)
    lines = [f"{request.kind.value} {counted(count, 'host')}   plan {plan.id}"]
    scripts = scripts_of(plan)
    for host in plan.hosts:
        lines += ["", f"{host.host}   now: {clean(host.now) or host.state.value}", *_host_lines(host, scripts)]
    lines.append("")
    for script in scripts:
        lines += [f"{name_of(scripts, script)} is", f"  {clean(script)}", ""]
    if count > 1:
        lines.append(f"first {plan.hosts[0].host} alone, then {plan.at_once} at a time; stop at the first failure")
    match verdict:
        case Deny():
            for refusal in verdict.refusals:
                where = f"{refusal.host}: " if refusal.host is not None else ""
                hint = f"   → {clean(refusal.hint)}" if refusal.hint else ""
                lines.append(f"refused by {refusal.guard}: {where}{clean(refusal.summary)}{hint}")
        case Confirm():
            lines.append(f'to confirm, type "{verdict.phrase}"' + (" and a reason" if verdict.reason_required else ""))
        case Allow():
            pass
    return "\n".join(lines).rstrip() + "\n"


def _host_lines(host: HostPlan, scripts: tuple[str, ...]) -> list[str]:
    lines = [f"  will   {step.title}: {clean(command_in(scripts, step))}" for step in host.steps]
    for loss in host.losses:
        lines.append(f"  {loss.verb.partition(' ')[0]:<6} {clean(loss.summary)}")
    lines += [f"  blocks {clean(block.summary)}" for block in host.blocks]
    lines += [f"  note   {clean(note)}" for note in host.notes]
    return lines


def progress_text(progress: Progress) -> str | None:
    """One line of what happens; `None` where there is nothing to say."""
    if progress.step is None:
        return f"{progress.host}: {progress.state.value}: {clean(progress.summary)}".rstrip(": ")
    result = progress.result
    if result is not None and result.state is not StepState.SKIPPED:
        said = f"{progress.host}: {progress.title}: {result.state.value}: {clean(result.summary)}".rstrip(": ")
        return said + _next(result.hint)
    if progress.summary or progress.left:
        left = f" ({'; '.join(clean(one) for one in progress.left[:3])})" if progress.left else ""
        return f"{progress.host}: {progress.title}: {clean(progress.summary)}{left}"
    return None


def _next(hint: str | None) -> str:
    return f" → {clean(hint)}" if hint else ""


def outcomes_text(outcomes: Sequence[Outcome]) -> str:
    width = max((len(outcome.host) for outcome in outcomes), default=0)
    lines = []
    for outcome in outcomes:
        mark = MARKS[outcome.state]
        text = f"{mark} {outcome.host:<{width}}  {outcome.state.value:<10}  {outcome.host_state.value:<10}"
        lines.append(f"{text}  {clean(outcome.summary)}".rstrip())
        lines += [f"    {_next(outcome.hint)}"] if outcome.hint else []
        left = next((result.left for result in reversed(outcome.steps) if result.left), ())
        lines += [f"     left: {clean(one)}" for one in left]
        for result in outcome.steps:
            if result.step == GATE_STEP:
                lines += [f"     gate: {clean(name)}: {clean(value)}" for name, value in result.values.items()]
        undone = any(result.state is StepState.UNDONE for result in outcome.steps)
        for result in outcome.steps if undone else ():
            if result.state is StepState.SKIPPED and result.summary:
                lines.append(f"     not undone: {result.step}: {clean(result.summary)}")
    return "\n".join(lines) + "\n"


def act_document(plan: Plan, verdict: Verdict | None, outcomes: Sequence[Outcome] | None) -> dict[str, Any]:
    """The JSON of an act. `outcomes` is null when nothing was done, `verdict` where the guards gave theirs before."""
    return {
        "schema": SCHEMA,
        "plan": plan_document(plan),
        "verdict": None if verdict is None else msgspec.to_builtins(verdict),
        "outcomes": None if outcomes is None else msgspec.to_builtins(list(outcomes)),
    }


def plan_document(plan: Plan) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(plan)
    for host, plain in zip(plan.hosts, document["hosts"], strict=True):
        plain["steps"] = [_step(step) for step in host.steps]
    return document


def _step(step: Step) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(step)
    return {"id": plain.pop("id"), "title": plain.pop("title"), "command": step.command, **plain}


def audit_text(records: Sequence[AuditRecord]) -> str:
    """One line a record, oldest first."""
    lines = []
    for record in records:
        words = [f"{record.time:%Y-%m-%d %H:%M:%S}", record.user, record.act.value, record.host or "-"]
        words += [record.event.value, record.step or "", record.result or "", clean(record.summary)]
        if record.event.value == "intent":
            words.append(f"reason: {clean(record.reason)}" if record.reason else "")
        words.append(_next(record.hint).strip())
        lines.append("  ".join(filter(None, words)))
    return "".join(f"{line}\n" for line in lines)


def leases_text(leases: Sequence[Lease], now: datetime, seen: Mapping[str, Seen] | None = None) -> str:
    """What is drained, by whom, until when. `seen`: where the hosts stand now; `None`: nobody looked."""
    return "".join(f"{line}\n" for lease in leases for line in _lease_lines(lease, now, (seen or {}).get(lease.host)))


def _lease_lines(lease: Lease, now: datetime, seen: Seen | None) -> Iterator[str]:
    word = standing(lease, seen.boot_id if seen is not None else None)
    until = "no end" if lease.until is None else f"until {lease.until:%Y-%m-%d %H:%M} UTC"
    if lease.until is not None and lease.until <= now:
        until += " (over: resume it)"
    doing = "draining" if word is Standing.DRAINING else "drained"
    if lease.act is ActionKind.CORDON:
        doing = "cordoned"
    by = f"{doing} by {clean(lease.by)} since {lease.since:%Y-%m-%d %H:%M} UTC"
    yield f"{lease.host}  {by}  {until}  {clean(lease.reason)}"
    match word:
        case Standing.GONE:
            yield "     gone by a reboot: its marker with it, and it takes work"
        case Standing.DOUBTFUL:
            yield f"     {clean(lease.doubt)}: its marker may be gone with the boot"
        case Standing.DRAINING if lease.act is ActionKind.DRAIN:
            yield "     not proven empty when the drain was last looked at"
    if seen is not None:
        yield f"     now: {clean(seen.now) or seen.state.value}{_OPEN.get(seen.state, '')}"


_OPEN = {
    HostActState.ACTIVE: "; it takes work",
    HostActState.UNKNOWN: "; whether it takes work is not known",
}
"""What stands behind the words of a host that was drained: `idle` may be either."""


def leases_document(leases: Sequence[Lease], seen: Mapping[str, Seen] | None = None) -> list[dict[str, Any]]:
    """`now` is null where nobody looked."""
    found = []
    for lease in leases:
        one = (seen or {}).get(lease.host)
        known: dict[str, Any] = msgspec.to_builtins(lease)
        known["standing"] = standing(lease, one.boot_id if one is not None else None).value
        known["now"] = None if one is None else msgspec.to_builtins(one)
        found.append(known)
    return found
