"""A plan, what guards say of it, and how far it is, as lines: pure functions."""

from __future__ import annotations

from gputop.actions.desk import GOOD, Work
from gputop.catalog import format as show
from gputop.catalog.text import clean, wrap
from gputop.domain.action import (
    ActionKind,
    Block,
    Confirm,
    Deny,
    HostPlan,
    Outcome,
    OutcomeState,
    Plan,
    Step,
    StepResult,
    StepState,
    Verdict,
)
from gputop.tui.draw import Span, Spans, remote, spread
from gputop.tui.look import Look

LABEL = 9
"""Cells of `loses`, `will` and the like, with the indent."""

VERBS = {
    ActionKind.RESET: "Reset GPUs of",
    ActionKind.SIGNAL: "Signal a process on",
    ActionKind.POWER_CAP: "Set the power cap of",
    ActionKind.MESSAGE: "Write to people on",
    ActionKind.CANCEL: "Cancel jobs on",
    ActionKind.REQUEUE: "Requeue jobs on",
}

STEP_SIGNS: dict[StepState, Span] = {
    StepState.ALREADY: ("●", "ok"),
    StepState.VERIFIED: ("●", "ok"),
    StepState.UNDONE: ("●", "ok"),
    StepState.UNVERIFIED: ("▲", "warn"),
    StepState.FAILED: ("✕", "bad"),
    StepState.PENDING: ("◌", "warn"),
    StepState.SKIPPED: ("–", "faint"),
}

OUTCOME_SIGNS: dict[OutcomeState, Span] = {
    OutcomeState.VERIFIED: ("●", "ok"),
    OutcomeState.UNVERIFIED: ("▲", "warn"),
    OutcomeState.FAILED: ("✕", "bad"),
    OutcomeState.PENDING: ("◌", "warn"),
    OutcomeState.SKIPPED: ("–", "faint"),
}


def verb(kind: ActionKind) -> str:
    """`Drain`, for titles and buttons."""
    return VERBS.get(kind) or kind.value.replace("-", " ").capitalize()


def many(count: int, one: str) -> str:
    return f"{count} {one}" if count == 1 else f"{count} {one}s"


def plan_title(plan: Plan) -> str:
    """`Drain 3 hosts`, `Drain gpu-001`."""
    hosts = plan.hosts
    return f"{verb(plan.request.kind)} {remote(hosts[0].host) if len(hosts) == 1 else many(len(hosts), 'host')}"


def plan_lines(plan: Plan, verdict: Verdict, look: Look, width: int) -> list[Spans]:
    """Everything that a person is to know before agreeing, refusals first."""
    lines: list[Spans] = []
    if isinstance(verdict, Deny):
        for refusal in verdict.refusals:
            where = f"{remote(refusal.host)}: " if refusal.host is not None else ""
            hint = f"  → {clean(refusal.hint)}" if refusal.hint else ""
            text = f"{where}{clean(refusal.summary)} ({refusal.guard}){hint}"
            lines += labeled("✕", "bad", text, "text", width, label_width=3)
    said = {(refusal.host, refusal.summary) for refusal in verdict.refusals} if isinstance(verdict, Deny) else set()
    for host in plan.hosts:
        blocks = [block for block in host.blocks if (host.host, block.summary) not in said]
        lines += _host_lines(plan, host, blocks, width)
    if len(plan.hosts) > 1:
        first = f"first {remote(plan.hosts[0].host)} alone, then {plan.at_once} at a time; stop at the first failure"
        lines.append(((f" {first}", "dim"),))
    if isinstance(verdict, Confirm) and plan.loses:
        lines.append(((" something is lost for certain: say why", "warn"),))
    return [look.plain(line) for line in lines]


def _host_lines(plan: Plan, host: HostPlan, blocks: list[Block], width: int) -> list[Spans]:
    age = "no reading of now" if host.data_age_seconds is None else f"data {show.age(host.data_age_seconds)} old"
    name: Spans = ((f" {remote(host.host)}", "strong"), (f"   {remote(host.now, host.state.value)}", "text"))
    lines = [spread(name, ((f"{age} ", "dim" if host.data_age_seconds is not None else "warn"),), width)]
    for block in blocks:
        hint = f"  → {clean(block.hint)}" if block.hint else ""
        lines += labeled("blocks", "bad", clean(block.summary) + hint, "text", width)
    for loss in host.losses:
        whose = "" if loss.user == plan.request.by else " (not yours)"
        word, style = ("loses", "bad") if loss.certain else ("waits", "warn")
        lines += labeled(word, style, clean(loss.summary) + whose, "text", width)
    for note in host.notes:
        lines += labeled("note", "dim", clean(note), "dim", width)
    for number, step in enumerate(host.steps):
        lines += labeled("will" if not number else "then", "dim", step_text(step), "text", width)
    if not host.steps and not host.blocks:
        lines += labeled("will", "dim", "nothing: it is so already", "text", width)
    return lines


def step_text(step: Step) -> str:
    """What a step is for and what is run, exactly."""
    return f"{clean(step.title)}: {clean(step.command)}"


def labeled(label: str, style: str, text: str, text_style: str, width: int, *, label_width: int = LABEL) -> list[Spans]:
    """`text` after a label, on as many lines as it takes."""
    parts = wrap(text, max(10, width - label_width - 2)) or [""]
    head = f" {label}" if label_width < LABEL else f"   {label}"
    lines: list[Spans] = [((f"{head:<{label_width}} ", style), (parts[0], text_style))]
    return lines + [((" " * (label_width + 1), "text"), (part, text_style)) for part in parts[1:]]


# --- how far it is ------------------------------------------------------------------------------------------------


def work_line(work: Work) -> Spans:
    """One line: what, on what, and how it stands."""
    count = len(work.plan.hosts)
    over = sum(work.outcome(host.host) is not None for host in work.plan.hosts)
    sign: Span
    if work.trouble:
        sign, state = ("✕", "bad"), clean(work.trouble)
    elif work.outcomes is None:
        sign = ("○", "accent")
        latest = next(iter(work.progress.values()), None)
        state = "begins" if latest is None else clean(latest.summary) or clean(latest.title) or "under way"
        if count > 1:
            ended = sum(progress.step is None for progress in work.progress.values())
            state = f"{ended} of {many(count, 'host')} done"
    else:
        worst = max(work.outcomes, key=lambda outcome: _BADNESS[outcome.state])
        sign = OUTCOME_SIGNS[worst.state]
        good = sum(outcome.state is OutcomeState.VERIFIED for outcome in work.outcomes)
        state = f"{worst.state.value}: {clean(worst.summary)}" if good < over or count == 1 else f"all {over} verified"
    return (
        (f" {sign[0]} ", sign[1]),
        (f"{plan_title(work.plan):<26}", "strong"),
        (f"  {state}", "text"),
    )


_BADNESS = {
    OutcomeState.VERIFIED: 0,
    OutcomeState.SKIPPED: 1,
    OutcomeState.PENDING: 2,
    OutcomeState.UNVERIFIED: 3,
    OutcomeState.FAILED: 4,
}


def work_lines(work: Work, width: int) -> list[Spans]:
    """Each host and each of its steps."""
    lines: list[Spans] = []
    for host in work.plan.hosts:
        outcome = work.outcome(host.host)
        lines.append(_host_head(host, outcome))
        progress = work.progress.get(host.host)
        for step in host.steps:
            result = work.results.get((host.host, step.id))
            is_now = outcome is None and not work.is_over and progress is not None and progress.step == step.id
            summary = ""
            left: tuple[str, ...] = ()
            if result is not None and not (is_now and progress is not None and progress.result is None):
                summary, left = result.summary, result.left
            elif is_now and progress is not None:
                summary, left = progress.summary, progress.left
                result = None
            lines.append(_step_line(step, result, is_now=is_now, summary=summary))
            if result is not None and result.hint:
                lines += labeled("", "dim", f"→ {clean(result.hint)}", "dim", width)
            if result is None or result.state not in GOOD:
                for one in left[:4]:
                    lines += labeled("", "dim", f"left: {clean(one)}", "dim", width)
    return lines


def _host_head(host: HostPlan, outcome: Outcome | None) -> Spans:
    name: Spans = ((f"     {remote(host.host)}", "strong"),)
    if outcome is None:
        return name
    sign, style = OUTCOME_SIGNS[outcome.state]
    words = f"  {sign} {outcome.state.value}, {outcome.host_state.value}"
    return (*name, (words, style), (f"  {clean(outcome.summary)}", "dim"))


def _step_line(step: Step, result: StepResult | None, *, is_now: bool, summary: str) -> Spans:
    if result is not None:
        sign, style = STEP_SIGNS[result.state]
        state = result.state.value
    else:
        sign, style, state = ("○", "accent", "now") if is_now else ("·", "faint", "")
    said = f"  {clean(summary)}" if summary else ""
    return ((f"       {sign} ", style), (f"{clean(step.title):<34}", "text"), (f" {state:<10}", style), (said, "dim"))
