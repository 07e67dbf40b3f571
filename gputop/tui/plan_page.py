"""A plan and what guards say of it, as lines: pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gputop.catalog import format as show
from gputop.catalog.text import clean, counted, wrap
from gputop.domain.action import (
    ActionKind,
    Block,
    Confirm,
    Deny,
    HostPlan,
    Loss,
    LossKind,
    Plan,
    Step,
    Verdict,
)
from gputop.domain.scripts import command_in, name_of, scripts_of
from gputop.tui.draw import Spans, remote, spread
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
    ActionKind.ACK: "Acknowledge faults of",
}

COUNTED = {LossKind.JOB: ("job", "jobs"), LossKind.PROCESS: ("process", "processes")}
"""Losses of which a host may have many."""


def verb(kind: ActionKind) -> str:
    """`Drain`, for titles and buttons."""
    return VERBS.get(kind) or kind.value.replace("-", " ").capitalize()


def plan_title(plan: Plan) -> str:
    """`Drain 3 hosts`, `Drain gpu-001`, `Send TERM to 4242 on gpu-001`."""
    hosts, request = plan.hosts, plan.request
    does = verb(request.kind)
    if request.signal is not None and request.process is not None:
        does = f"Send {request.signal} to {request.process.pid} on"
    return f"{does} {remote(hosts[0].host) if len(hosts) == 1 else counted(len(hosts), 'host')}"


def plan_lines(
    plan: Plan,
    verdict: Verdict,
    look: Look,
    width: int,
    *,
    hints: Mapping[str, str] | None = None,
    seen_seconds: float = 0.0,
) -> list[Spans]:
    """Everything that a person is to know before agreeing, refusals first. `hints`: what to do about a refusal, by its
    guard, in place of the guard's own words. `seen_seconds`: how long ago the plan was made."""
    lines: list[Spans] = []
    if isinstance(verdict, Deny):
        for refusal in verdict.refusals:
            where = f"{remote(refusal.host)}: " if refusal.host is not None else ""
            lines += labeled(
                "✕", "bad", f"{where}{clean(refusal.summary)} ({refusal.guard})", "strong", width, label_width=3
            )
            hint = (hints or {}).get(refusal.guard, refusal.hint)
            if hint:
                lines += labeled("→", "accent", clean(hint), "text", width, label_width=3)
    if len(plan.hosts) > 1:
        lines.append(_sum_line(plan))
    said = {(refusal.host, refusal.summary) for refusal in verdict.refusals} if isinstance(verdict, Deny) else set()
    scripts = scripts_of(plan)
    for host in plan.hosts:
        blocks = [block for block in host.blocks if (host.host, block.summary) not in said]
        lines += _host_lines(plan, host, blocks, width, seen_seconds)
        lines += _steps_lines(host, scripts, width)
    if len(plan.hosts) > 1:
        first = f"first {remote(plan.hosts[0].host)} alone, then {plan.at_once} at a time; stop at the first failure"
        lines.append(((f" {first}", "dim"),))
    if plan.request.until is not None:
        until = f"until {plan.request.until.astimezone(look.zone):%Y-%m-%d %H:%M %Z}"
        lines.append(((f" {until}: then gputop reminds you; nothing is resumed by itself", "dim"),))
    if isinstance(verdict, Confirm) and plan.loses:
        lines.append(((" something is lost for certain: say why", "warn"),))
    for script in scripts:
        lines.append(((f" {name_of(scripts, script)} is", "dim"),))
        lines += labeled("", "dim", clean(script), "dim", width)
    return [look.plain(line) for line in lines]


def _sum_line(plan: Plan) -> Spans:
    """`3 hosts: loses 2 processes of carol; waits for 1 job of dave`: what the details below come to."""
    parts = []
    losses = {(host.host, loss.key or loss.summary): loss for host in plan.hosts for loss in host.losses}
    for word in ("loses", "waits for", "risks"):
        some = [loss for loss in losses.values() if loss.verb == word]
        counts = [
            f"{count} {one if count == 1 else more}"
            for kind, (one, more) in COUNTED.items()
            if (count := sum(loss.kind is kind for loss in some))
        ]
        if others := sum(loss.kind not in COUNTED for loss in some):
            counts.append(counted(others, "other thing"))
        users = sorted({clean(loss.user or "nobody known") for loss in some})
        if counts:
            parts.append(f"{word} {', '.join(counts)} of {', '.join(users)}")
    blocked = sum(bool(host.blocks) for host in plan.hosts)
    parts += [f"{counted(blocked, 'host')} blocked"] if blocked else []
    return ((f" {counted(len(plan.hosts), 'host')}: ", "strong"), ("; ".join(parts) or "nobody is disturbed", "text"))


def _host_lines(plan: Plan, host: HostPlan, blocks: list[Block], width: int, seen_seconds: float) -> list[Spans]:
    known = host.data_age_seconds
    age = "no reading of now" if known is None else f"data {show.age(known + seen_seconds)} old"
    name: Spans = ((f" {remote(host.host)}", "strong"), (f"   {remote(host.now, host.state.value)}", "text"))
    lines = [spread(name, ((f"{age} ", "dim" if host.data_age_seconds is not None else "warn"),), width)]
    for block in blocks:
        hint = f"  → {clean(block.hint)}" if block.hint else ""
        lines += labeled("blocks", "bad", clean(block.summary) + hint, "text", width)
    for losses in alike(host.losses):
        style = "bad" if losses[0].certain else "warn"
        lines += labeled(losses[0].verb.partition(" ")[0], style, loss_text(losses, plan.request.by), "text", width)
    if plan.request.text:
        lines += labeled("says", "text", clean(plan.request.text), "text", width)
    for note in (note for note in host.notes if note != host.now):
        lines += labeled("note", "dim", clean(note), "dim", width)
    return lines


def _steps_lines(host: HostPlan, scripts: tuple[str, ...], width: int) -> list[Spans]:
    lines: list[Spans] = []
    for number, step in enumerate(host.steps):
        lines += _step_lines("will" if not number else "then", step, command_in(scripts, step), width)
    if not host.steps and not host.blocks:
        lines += labeled("will", "dim", "nothing: it is so already", "text", width)
    return lines


def alike(losses: Sequence[Loss]) -> list[list[Loss]]:
    """Losses of one kind and one person together, in the order of the first of each."""
    found: dict[tuple[bool, LossKind, str | None], list[Loss]] = {}
    for loss in losses:
        together = loss.user if loss.kind in COUNTED else loss.summary
        found.setdefault((loss.certain, loss.kind, together), []).append(loss)
    return list(found.values())


def loss_text(losses: Sequence[Loss], by: str) -> str:
    """`python (pid 7) of carol (not yours)`, `2 jobs of carol (not yours): 57381, 57382`."""
    first = losses[0]
    whose = "" if first.user == by else " (not yours)"
    if len(losses) == 1:
        return clean(first.summary) + whose
    owner = f" of {first.user or 'nobody known'}"
    one, more = COUNTED[first.kind]
    names = [clean(loss.summary.removesuffix(owner).removeprefix(f"{one} ")) for loss in losses]
    return f"{len(losses)} {more}{clean(owner)}{whose}: {', '.join(_by_program(names))}"


def _by_program(names: Sequence[str]) -> list[str]:
    """`python (pid 7, 8)` for `python (pid 7)` and `python (pid 8)`."""
    found: dict[str, list[str]] = {}
    for name in names:
        program, _, rest = name.rpartition(" (pid ")
        found.setdefault(program if rest.endswith(")") else name, []).append(rest.removesuffix(")"))
    return [f"{program} (pid {', '.join(pids)})" if pids[0] else program for program, pids in found.items()]


def _step_lines(label: str, step: Step, command: str, width: int) -> list[Spans]:
    """What a step is for, and what is run, exactly."""
    title = f"{clean(step.title)}: "
    first, *rest = labeled(label, "dim", f"{title}{clean(command)}", "dim", width)
    (head, style), (text, dim) = first
    return [((head, style), (text[: len(title)], "text"), (text[len(title) :], dim)), *rest]


def labeled(label: str, style: str, text: str, text_style: str, width: int, *, label_width: int = LABEL) -> list[Spans]:
    """`text` after a label, on as many lines as it takes."""
    parts = wrap(text, max(10, width - label_width - 2)) or [""]
    head = f" {label}" if label_width < LABEL else f"   {label}"
    lines: list[Spans] = [((f"{head:<{label_width}} ", style), (parts[0], text_style))]
    return lines + [((" " * (label_width + 1), "text"), (part, text_style)) for part in parts[1:]]
