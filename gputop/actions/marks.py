"""What rows say of acts: a word for each host that one is at work on, or has left in another state. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

from gputop.actions.admission import Admission, Word
from gputop.domain.action import ActionKind, HostActState, OutcomeState
from gputop.domain.host import Host
from gputop.domain.record import AuditEvent, AuditRecord
from gputop.fleet.fleet import Fleet

NEWS_SECONDS = 3600.0
"""So long a row says that the last act on its host failed, or could not be verified."""

SMALL = frozenset({ActionKind.SIGNAL, ActionKind.POWER_CAP, ActionKind.MESSAGE})
"""Acts after which a host stands where it stood, well or not."""

Tone = Literal["now", "closed", "bad", "doubt"]


class Mark(Struct, frozen=True, kw_only=True):
    """What a row says of acts."""

    word: str
    """At most 11 cells."""
    tone: Tone
    """`now`: an act is at work on it."""
    admission: Admission | None = None
    """What the word rests on; or `record`."""
    record: AuditRecord | None = None


def marks(
    fleet: Fleet | None,
    admissions: Mapping[str, Admission],
    history: Sequence[AuditRecord],
    at_work: Iterable[tuple[ActionKind, str]],
    now: datetime,
) -> dict[str, Mark]:
    """A mark for each host that has one. `history`: newest first. `at_work`: what is done to which host right now."""
    found: dict[str, Mark] = {}
    for name, one in admissions.items():
        if not one.is_open:
            found[name] = Mark(word=one.word.value, tone="doubt" if one.word is Word.MAYBE else "closed", admission=one)
    for name, record in _newest(history).items():
        mark = _of_record(record, fleet.get(name) if fleet is not None else None, found.get(name), now)
        if mark is not None:
            found[name] = mark
    return found | {name: Mark(word=DOING[kind], tone="now") for kind, name in at_work}


def _newest(history: Sequence[AuditRecord]) -> dict[str, AuditRecord]:
    """The last outcome of each host on which anything was done that changes how it stands."""
    found: dict[str, AuditRecord] = {}
    for record in history:
        is_news = record.event is AuditEvent.OUTCOME and record.result != OutcomeState.SKIPPED
        if is_news and record.host is not None and record.act not in SMALL:
            found.setdefault(record.host, record)
    return found


def _of_record(record: AuditRecord, host: Host | None, known: Mark | None, now: datetime) -> Mark | None:
    """What the newest act on a host came to, as long as that is news and nothing speaks against it."""
    if record.result == OutcomeState.VERIFIED and record.state_after == HostActState.STOPPED:
        has_answered = host is not None and host.frame is not None and host.frame.received_at > record.time
        return None if has_answered else Mark(word="stopped", tone="closed", record=record)
    if (now - record.time).total_seconds() > NEWS_SECONDS:
        return None
    if record.result in (OutcomeState.FAILED, OutcomeState.UNVERIFIED):
        return Mark(word=record.result or "", tone="bad", record=record)
    if record.result == OutcomeState.PENDING and known is None:
        return Mark(word=OutcomeState.PENDING.value, tone="doubt", record=record)
    return None


DOING = {kind: kind.value for kind in ActionKind} | {
    ActionKind.CORDON: "cordoning",
    ActionKind.DRAIN: "draining",
    ActionKind.RESUME: "resuming",
    ActionKind.STOP: "stopping",
    ActionKind.START: "starting",
    ActionKind.REBOOT: "rebooting",
    ActionKind.HIBERNATE: "stopping",
    ActionKind.RESET: "resetting",
    ActionKind.POWER_CAP: "capping",
    ActionKind.MESSAGE: "telling",
    ActionKind.SIGNAL: "signaling",
    ActionKind.CANCEL: "canceling",
    ActionKind.REQUEUE: "requeuing",
}
"""At most 11 cells."""
