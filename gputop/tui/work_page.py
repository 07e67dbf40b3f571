"""Plans that are or were carried out, as lines: how far each host and each step is. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gputop.actions.desk import GOOD, Work
from gputop.actions.journal import Story
from gputop.catalog import format as show
from gputop.catalog.text import clean, counted, wrap
from gputop.domain.action import (
    HostActState,
    HostPlan,
    Outcome,
    OutcomeState,
    Plan,
    Progress,
    Step,
    StepState,
)
from gputop.tui.draw import Span, Spans, fit, remote, width_of
from gputop.tui.look import Look
from gputop.tui.plan_page import alike, labeled, loss_text, plan_title

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

LEFT_SHOWN = 4
"""Of what is waited for stand under a step; all of it on the plan's own page."""

_BADNESS = {
    OutcomeState.VERIFIED: 0,
    OutcomeState.SKIPPED: 1,
    OutcomeState.PENDING: 2,
    OutcomeState.UNVERIFIED: 3,
    OutcomeState.FAILED: 4,
}


def as_work(story: Story, *, is_alive: bool) -> Work:
    """A plan of a journal, to be drawn like one of this gputop. `is_alive`: somebody is at it, on each host at the
    first step that has not ended; else it stopped where a step was begun and has not ended."""
    outcomes = tuple(story.outcomes.values()) if len(story.outcomes) == len(story.plan.hosts) else None
    work = Work(story.plan, results=dict(story.ended), outcomes=outcomes)
    for host in story.plan.hosts:
        open_steps = [step for step in host.steps if (host.host, step.id) not in story.ended]
        if not is_alive:
            open_steps = [step for step in open_steps if (host.host, step.id) in story.began]
        touched = any(name == host.host for name, _ in (*story.began, *story.ended))
        if open_steps and host.host not in story.outcomes and (touched or len(story.plan.hosts) == 1):
            step = open_steps[0]
            work.progress[host.host] = Progress(plan=story.plan.id, host=host.host, step=step.id, title=step.title)
    return work


def work_line(work: Work) -> Spans:
    """One line: what, on what, and how it stands."""
    count = len(work.plan.hosts)
    sign: Span
    if work.trouble:
        sign, state = ("✕", "bad"), clean(work.trouble)
    elif work.outcomes is None:
        sign, state = ("○", "accent"), _how_far(work)
    else:
        worst = max(work.outcomes, key=lambda outcome: _BADNESS[outcome.state])
        sign = OUTCOME_SIGNS[worst.state]
        good = sum(outcome.state is OutcomeState.VERIFIED for outcome in work.outcomes)
        if count == 1:
            state = f"{worst.state.value}: {clean(worst.summary)}"
        else:
            rest = "" if good == count else f"; {remote(worst.host)} {worst.state.value}: {clean(worst.summary)}"
            state = f"{good} of {count} verified{rest}"
    return (*_title(sign, work.plan), (f"  {state}", "text"))


def _how_far(work: Work) -> str:
    count = len(work.plan.hosts)
    if count > 1:
        return f"{len(work.ended)} of {counted(count, 'host')} done"
    latest = next(iter(work.progress.values()), None)
    return "begins" if latest is None else clean(latest.summary) or clean(latest.title) or "under way"


def _title(sign: Span, plan: Plan) -> Spans:
    return ((f" {sign[0]} ", sign[1]), (f"{plan_title(plan):<26}", "strong"))


def story_line(story: Story, look: Look) -> Spans:
    """One line of a plan of a journal: what, when, by whom, why."""
    request = story.plan.request
    when = story.plan.created_at.astimezone(look.zone)
    by = f" by {clean(request.by)}" if request.by else ""
    why = f": {clean(request.reason)}" if request.reason else ""
    return (*_title(("◌", "warn"), story.plan), (f"  {when:%m-%d %H:%M}{by}{why}", "text"))


def work_lines(work: Work, width: int, *, is_alive: bool = True) -> list[Spans]:
    """Each host, and each step of those that are not done with all well. `is_alive`: somebody is at it."""
    lines: list[Spans] = []
    for host in work.plan.hosts:
        outcome = work.outcome(host.host)
        lines.append(_host_head(host, outcome))
        if outcome is not None and outcome.state is OutcomeState.VERIFIED and len(work.plan.hosts) > 1:
            continue
        for step in _taken(work, host):
            line, left = _step_line(work, host, step, outcome, width, is_alive=is_alive)
            lines.append(line)
            result = work.results.get((host.host, step.id))
            if result is not None and result.hint:
                lines += labeled("", "dim", f"→ {clean(result.hint)}", "dim", width)
            for one in left[:LEFT_SHOWN]:
                lines += labeled("", "dim", f"left: {clean(one)}", "dim", width)
            if len(left) > LEFT_SHOWN:
                lines += labeled("", "dim", f"and {len(left) - LEFT_SHOWN} more", "dim", width)
    return lines


def _taken(work: Work, host: HostPlan) -> Iterator[Step]:
    """The steps of a host, and after each what undoes it where that was begun."""
    progress = work.progress.get(host.host)
    for step in host.steps:
        yield step
        undo = step.undo
        if undo is not None and (
            (host.host, undo.id) in work.results or (progress is not None and progress.step == undo.id)
        ):
            yield undo


def _host_head(host: HostPlan, outcome: Outcome | None, *, is_short: bool = False) -> Spans:
    name: Spans = ((f"     {remote(host.host)}", "strong"),)
    if outcome is None:
        return name
    sign, style = OUTCOME_SIGNS[outcome.state]
    state = outcome.host_state
    says_more = state.value != outcome.state.value and (
        state is not HostActState.UNKNOWN or outcome.state is OutcomeState.UNVERIFIED
    )
    words = f"  {sign} {outcome.state.value}" + (f", {state.value}" if says_more else "")
    return (*name, (words, style), ("" if is_short else f"  {clean(outcome.summary)}", "dim"))


TITLE, LEAST_TITLE = 36, 12
"""Cells that titles of steps are padded to, and that a narrow pane leaves of them at least."""
STEP_EDGES = 20
"""Cells before the title, and of the state behind it: a pane that cuts the title still shows how it went."""


def _step_line(
    work: Work, host: HostPlan, step: Step, outcome: Outcome | None, width: int, *, is_alive: bool
) -> tuple[Spans, tuple[str, ...]]:
    """The line of a step, and what it waits for."""
    result = work.results.get((host.host, step.id))
    progress = work.progress.get(host.host)
    is_here = outcome is None and not work.is_over and progress is not None and progress.step == step.id
    summary = ""
    left: tuple[str, ...] = ()
    if is_here and progress is not None and progress.result is None:
        sign, style, state = ("○", "accent", "now") if is_alive else ("◌", "warn", "begun")
        summary, left = progress.summary, progress.left
        if not is_alive:
            summary = "how it ended is not known"
    elif result is not None:
        sign, style = STEP_SIGNS[result.state]
        state, summary = result.state.value, result.summary
        left = result.left if result.state not in GOOD else ()
    else:
        sign, style, state = "·", "faint", ""
    title: Spans = ((clean(step.title), "text"),)
    cells = max(LEAST_TITLE, min(max(TITLE, width_of(title)), width - STEP_EDGES))
    said: Spans = ((f" {state:<10}", style), (f"  {clean(summary)}" if summary else "", "dim"))
    return ((f"       {sign} ", style), *fit(title, cells), *said), left


# --- everything about one plan ------------------------------------------------------------------------------------


def whole_lines(work: Work, look: Look, width: int, *, is_alive: bool, deeds: str) -> list[Spans]:
    """A plan with the very commands, what they printed, and what each look found. `deeds`: what can be done about it;
    empty: nothing."""
    plan, request = work.plan, work.plan.request
    when = f"{plan.created_at.astimezone(look.zone):%Y-%m-%d %H:%M:%S %Z}"
    lines: list[Spans] = [((" ", "text"),)]
    if deeds:
        lines += [((" ⏎ ", "key"), (deeds, "text")), ((" ", "text"),)]
    pairs = [("plan", plan.id), ("asked", f"{when} by {request.by or 'nobody known'}"), ("reason", request.reason)]
    pairs += [("set aside", request.override), ("agreed to", ", ".join(sorted(request.consents)))]
    if request.until is not None:
        pairs.append(("until", f"{request.until.astimezone(look.zone):%Y-%m-%d %H:%M %Z}"))
    for name, text in pairs:
        if text:
            lines += labeled(name, "dim", clean(text), "text", width, label_width=PAIR)
    for host in plan.hosts:
        outcome = work.outcome(host.host)
        lines += [((" ", "text"),), _host_head(host, outcome, is_short=True)]
        if outcome is not None and outcome.summary:
            lines += labeled("ended", "dim", clean(outcome.summary), "text", width, label_width=PAIR)
        lines += labeled("before", "dim", clean(host.now) or host.state.value, "dim", width, label_width=PAIR)
        for losses in alike(host.losses):
            lines += labeled(losses[0].verb, "dim", loss_text(losses, request.by), "dim", width, label_width=PAIR)
        for step in _taken(work, host):
            line, left = _step_line(work, host, step, outcome, width, is_alive=is_alive)
            lines += [line] if width_of(line) <= width else [line[:-1]]
            lines += _step_details(work, host, step, left, width)
    return [look.plain(line) for line in lines]


PAIR = 12
"""Cells of the names of what is known of a plan as a whole."""


def _step_details(work: Work, host: HostPlan, step: Step, left: tuple[str, ...], width: int) -> Iterator[Spans]:
    """What was run, how long it took, what it printed, what looks found, what is left, and what would undo it."""
    result = work.results.get((host.host, step.id))
    pieces = [("run", "text", step.command)]
    if result is not None and result.summary:
        pieces.append(("result", "text", result.summary))
    if result is not None and (result.duration_seconds or result.exit_status is not None):
        status = f", exit status {result.exit_status}" if result.exit_status is not None else ""
        took = result.duration_seconds
        pieces.append(("took", "dim", f"{f'{took:.1f} s' if took < 10 else show.duration(took)}{status}"))
    if result is not None:
        pieces += [("said", "text", line) for line in result.output.splitlines() if line.strip()]
        pieces += [("found", "dim", f"{name}: {value}") for name, value in result.values.items()]
    pieces += [("left", "warn", one) for one in left]
    if step.undo is not None:
        pieces.append(("undo", "dim", f"{step.undo.title}: {step.undo.command}"))
    before = ""
    for name, style, text in pieces:
        for part in wrap(clean(text), max(10, width - DETAIL - 2)) or [""]:
            yield ((f"{'' if name == before else name:>{DETAIL}}  ", "dim"), (part, style))
            before = name


DETAIL = 15
"""Cells of the names of what is known of a step, with the indent."""
