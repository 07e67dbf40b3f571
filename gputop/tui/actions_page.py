"""View 9 as lines: plans under way, unfinished ones, hosts that take no new work, what was done. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from gputop.actions.admission import Admission, Word
from gputop.actions.desk import Work
from gputop.actions.journal import Story
from gputop.actions.marks import Mark
from gputop.catalog import format as show
from gputop.catalog.text import clean
from gputop.domain.action import OutcomeState
from gputop.domain.record import AuditEvent, AuditRecord
from gputop.tui.draw import Span, Spans, remote
from gputop.tui.look import Look
from gputop.tui.plan_page import labeled
from gputop.tui.work_page import OUTCOME_SIGNS, as_work, story_line, work_line, work_lines

Item = Work | Story | Admission | AuditRecord
"""What the cursor goes through."""

WORD_SIGNS: dict[Word, Span] = {
    Word.OPEN: ("○", "dim"),
    Word.CORDONED: ("◌", "warn"),
    Word.DRAINING: ("◌", "warn"),
    Word.DRAINED: ("●", "ok"),
    Word.MAYBE: ("?", "warn"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """All that the view shows."""

    works: Sequence[Work] = ()
    """Of this gputop, oldest first."""
    elsewhere: Sequence[Story] = ()
    """Plans that another gputop carries out now."""
    unfinished: Sequence[Story] = ()
    admissions: Sequence[Admission] = ()
    history: Sequence[AuditRecord] = ()
    """Newest first."""

    @property
    def running(self) -> list[Work]:
        return [work for work in self.works if not work.is_over]

    @property
    def over(self) -> list[Work]:
        return [work for work in reversed(self.works) if work.is_over]

    @property
    def items(self) -> list[Item]:
        """What the cursor goes through, in the order of the view."""
        return [*self.running, *self.elsewhere, *self.unfinished, *self.admissions, *self.over, *self.history]


def key_of(item: Item) -> tuple[str, ...]:
    """What an item is, when it is read again."""
    match item:
        case Work():
            return "plan", item.plan.id
        case Story():
            return "plan", item.plan.id
        case Admission():
            return "host", item.host
    return "record", item.plan, item.host or "", item.time.isoformat()


def hosts_of(item: Item | None) -> tuple[str, ...]:
    """Whom an act is about that is asked for with the cursor on `item`."""
    match item:
        case Work() | Story():
            return tuple(host.host for host in item.plan.hosts)
        case Admission():
            return (item.host,)
        case AuditRecord(host=str(host)):
            return (host,)
    return ()


def actions_lines(ledger: Ledger, cursor: int, look: Look, width: int) -> tuple[list[Spans], int]:
    """The lines, and the number of the one that the cursor is on."""
    lines: list[Spans] = []
    at = number = 0

    def title(text: str) -> None:
        lines.extend((((" ", "text"),), ((f" {text}", "strong"),)))

    def item(head: Spans, below: Sequence[Spans] = (), *, is_open: bool = False) -> None:
        nonlocal at, number
        is_here = number == cursor
        number += 1
        if is_here:
            at = len(lines)
        lines.append((("❯", "accent") if is_here else (" ", "text"), *head))
        if is_open or is_here:
            lines.extend(below)

    title("Under way")
    for work in ledger.running:
        item(work_line(work), work_lines(work, width), is_open=True)
    for story in ledger.elsewhere:
        head = (*story_line(story, look), ("  by another gputop", "dim"))
        item(head, work_lines(as_work(story, is_alive=True), width), is_open=True)
    if not ledger.running and not ledger.elsewhere:
        lines.append((("   nothing", "dim"),))
    if ledger.unfinished:
        title("Unfinished: a crash, a lost connection or somebody left them so")
        for story in ledger.unfinished:
            below = work_lines(as_work(story, is_alive=False), width, is_alive=False)
            item(story_line(story, look), below, is_open=True)
    if ledger.admissions:
        title("Hosts that take no new work")
        for one in ledger.admissions:
            doubtful = one.word in (Word.OPEN, Word.MAYBE) or one.is_over(look.as_of)
            item(admission_line(one, look), admission_lines(one, look, width), is_open=doubtful)
    if ledger.over:
        title("Done since gputop was started")
        for work in ledger.over:
            item(work_line(work), work_lines(work, width))
    if ledger.history:
        title("Audit log, newest first")
        for record in ledger.history:
            item(record_line(record, look))
    return [look.plain(line) for line in lines], at


# --- hosts that take no new work ----------------------------------------------------------------------------------


def admission_line(one: Admission, look: Look) -> Spans:
    """`● gpu-001  drained  by ann, until 14:00 (2 h)  replace NIC`."""
    sign, style = WORD_SIGNS[one.word]
    until, until_style = _until(one, look)
    return (
        (f" {sign} ", style),
        (f"{remote(one.host):<16}", "strong"),
        (f" {one.word.value:<10}", style),
        (f"  by {remote(one.by, 'somebody unknown')}, ", "text"),
        (until, until_style),
        (f"  {clean(one.reason)}", "dim"),
    )


def admission_lines(one: Admission, look: Look, width: int) -> list[Spans]:
    """How that is known, and what of it is not."""
    if one.is_open:
        words = f"{one.remark}, by {one.source}{_age(one.known_at, look)}; U closes the entry"
    else:
        words = _evidence(one, look)
    return labeled("", "dim", words, "dim", width, label_width=5)


def _until(one: Admission, look: Look) -> Span:
    if one.until is None:
        return ("no end", "dim")
    words = f"until {show.clock_time(one.until, look.as_of, look.zone)}"
    if one.is_over(look.as_of):
        ago = show.duration((look.as_of - one.until).total_seconds())
        return (f"{words}: over for {ago}, resume it (U) or drain it anew", "bad")
    left = (one.until - look.as_of).total_seconds()
    return (f"{words}" + (f" ({show.duration(left)} left)" if left > 0 else ""), "text")


def _evidence(one: Admission, look: Look) -> str:
    since = f"since {show.clock_time(one.since, look.as_of, look.zone)}; " if one.since is not None else ""
    how = one.source
    match one.source:
        case "noted" | "its drain":
            pass
        case "its marker":
            how = "its marker says so, read"
        case _:
            how = f"{one.source} says so, asked"
    remark = f"; {clean(one.remark)}" if one.remark else ""
    return f"{since}{how}{_age(one.known_at, look)}{remark}"


def _age(at: datetime | None, look: Look) -> str:
    if at is None:
        return ""
    seconds = (look.as_of - at).total_seconds()
    return " now" if seconds < 1 else f" {show.duration(seconds)} ago"


def mark_text(mark: Mark, look: Look) -> str:
    """What stands behind the word in a host's row, in one line; empty: the word says it all."""
    if (one := mark.admission) is not None:
        by, reason = remote(one.by, "somebody unknown"), f": {clean(one.reason)}" if one.reason else ""
        until = f"; {_until(one, look)[0]}" if one.until is not None else ""
        return f"{one.word.value} by {by}{reason}{until}; {_evidence(one, look)}"
    if (record := mark.record) is not None:
        what = f"{record.act.value} by {clean(record.user)}{_age(record.time, look)}"
        return f"{what}: {clean(record.result or '')}; {clean(record.summary)}"
    return ""


# --- what was done ------------------------------------------------------------------------------------------------


def record_line(record: AuditRecord, look: Look) -> Spans:
    when = f"{record.time.astimezone(look.zone):%m-%d %H:%M:%S}"
    if record.event is AuditEvent.REFUSED:
        sign, style, state = "✕", "warn", f"refused: {record.result or ''}"
    else:
        known = {state.value: state for state in OutcomeState}
        state = record.result or ""
        sign, style = OUTCOME_SIGNS[known[state]] if state in known else ("·", "dim")
    why = f"  {clean(record.reason)}" if record.reason else ""
    hint = f" → {clean(record.hint)}" if record.hint else ""
    return (
        (f"  {when} ", "dim"),
        (f"{sign} ", style),
        (f"{record.act.value:<10}", "text"),
        (f"{remote(record.host, 'all'):<16}", "strong"),
        (f"{state:<12}", style),
        (f" {clean(record.user)}{why}  {clean(record.summary)}{hint}", "dim"),
    )
