"""View 9 as lines: plans under way, unfinished ones, drained hosts, what was done. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from gputop.actions.desk import Work
from gputop.actions.journal import Story
from gputop.actions.lease import is_over
from gputop.catalog import format as show
from gputop.catalog.text import clean
from gputop.domain.action import OutcomeState
from gputop.domain.record import AuditEvent, AuditRecord, Lease
from gputop.tui.draw import Spans, remote
from gputop.tui.look import Look
from gputop.tui.plan_page import OUTCOME_SIGNS, plan_title, work_line, work_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """All that the view shows."""

    works: Sequence[Work] = ()
    """Of this gputop, oldest first."""
    elsewhere: Sequence[Story] = ()
    """Plans that another gputop carries out now."""
    unfinished: Sequence[Story] = ()
    leases: Sequence[Lease] = ()
    history: Sequence[AuditRecord] = ()
    """Newest first."""

    @property
    def items(self) -> list[Work | Story]:
        """What the cursor goes through, in the order of the view."""
        running = [work for work in self.works if not work.is_over]
        over = [work for work in reversed(self.works) if work.is_over]
        return [*running, *self.unfinished, *over]


def as_work(story: Story) -> Work:
    """A plan of the journal, to be drawn like one of this gputop."""
    outcomes = tuple(story.outcomes.values()) if len(story.outcomes) == len(story.plan.hosts) else None
    return Work(story.plan, results=dict(story.ended), outcomes=outcomes)


def actions_lines(ledger: Ledger, cursor: int, look: Look, width: int) -> tuple[list[Spans], int]:
    """The lines, and the number of the one that the cursor is on."""
    lines: list[Spans] = []
    at = 0
    items = ledger.items

    def title(text: str) -> None:
        lines.extend((((" ", "text"),), ((f" {text}", "strong"),)))

    def item(thing: Work | Story, *, is_open: bool) -> None:
        nonlocal at
        number = next(index for index, one in enumerate(items) if one is thing)
        is_here = number == cursor
        if is_here:
            at = len(lines)
        mark = ("❯", "accent") if is_here else (" ", "text")
        lines.append((mark, *(work_line(thing) if isinstance(thing, Work) else story_line(thing, look))))
        if is_open or is_here:
            lines.extend(work_lines(thing if isinstance(thing, Work) else as_work(thing), width))

    running = [work for work in ledger.works if not work.is_over]
    title("Under way")
    for work in running:
        item(work, is_open=True)
    for story in ledger.elsewhere:
        lines.append(((" ", "text"), *story_line(story, look), ("  by another gputop", "dim")))
    if not running and not ledger.elsewhere:
        lines.append((("   nothing", "dim"),))
    if ledger.unfinished:
        title("Unfinished: a crash, a lost connection or somebody left them so")
        for story in ledger.unfinished:
            item(story, is_open=True)
    if ledger.leases:
        title("Drained")
        lines += [lease_line(lease, look) for lease in ledger.leases]
    over = [work for work in reversed(ledger.works) if work.is_over]
    if over:
        title("Done since gputop was started")
        for work in over:
            item(work, is_open=False)
    if ledger.history:
        title("Audit log, newest first")
        lines += [record_line(record, look) for record in ledger.history]
    return [look.plain(line) for line in lines], at


def story_line(story: Story, look: Look) -> Spans:
    request = story.plan.request
    when = story.plan.created_at.astimezone(look.zone)
    by = f" by {clean(request.by)}" if request.by else ""
    why = f": {clean(request.reason)}" if request.reason else ""
    return (
        (" ◌ ", "warn"),
        (f"{plan_title(story.plan):<26}", "strong"),
        (f"  {when:%Y-%m-%d %H:%M}{by}{why}", "text"),
    )


def lease_line(lease: Lease, look: Look) -> Spans:
    until = "no end" if lease.until is None else f"until {lease.until.astimezone(look.zone):%Y-%m-%d %H:%M}"
    over = lease.until is not None and is_over(lease, look.as_of)
    since = show.duration(max(0.0, (look.as_of - lease.since).total_seconds()))
    return (
        (f"   {remote(lease.host):<16}", "strong"),
        (f" by {clean(lease.by)} for {since}, ", "text"),
        (until + ("; over: resume it" if over else ""), "warn" if over else "dim"),
        (f"  {clean(lease.reason)}", "dim"),
    )


def record_line(record: AuditRecord, look: Look) -> Spans:
    when = _when(record.time, look)
    if record.event is AuditEvent.REFUSED:
        sign, style, state = "✕", "warn", f"refused: {record.result or ''}"
    else:
        known = {state.value: state for state in OutcomeState}
        state = record.result or ""
        sign, style = OUTCOME_SIGNS[known[state]] if state in known else ("·", "dim")
    why = f"  {clean(record.reason)}" if record.reason else ""
    hint = f" → {clean(record.hint)}" if record.hint else ""
    return (
        (f"   {when} ", "dim"),
        (f"{sign} ", style),
        (f"{record.act.value:<10}", "text"),
        (f"{remote(record.host, 'all'):<16}", "strong"),
        (f"{state:<12}", style),
        (f" {clean(record.user)}{why}  {clean(record.summary)}{hint}", "dim"),
    )


def _when(time: datetime, look: Look) -> str:
    return f"{time.astimezone(look.zone):%m-%d %H:%M:%S}"
