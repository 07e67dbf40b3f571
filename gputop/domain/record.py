"""What acts leave behind: the audit log, the journal of each plan, leases of drained hosts."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from gputop.domain.action import ActionKind, Outcome, Plan, StepResult


class AuditEvent(StrEnum):
    INTENT = "intent"
    STEP = "step"
    OUTCOME = "outcome"
    REFUSED = "refused"
    """A guard said no; nothing was done."""


class AuditRecord(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """One line of the audit log. No secrets: calls hold only where a secret is found."""

    time: datetime
    event: AuditEvent
    plan: str
    act: ActionKind
    host: str | None = None
    """`None`: about the plan as a whole."""
    user: str = ""
    tty: str | None = None
    ssh_connection: str | None = None
    instance_id: str | None = None
    reason: str = ""
    step: str | None = None
    command: str | None = None
    state_before: str | None = None
    """Where the host stood before the act."""
    state_after: str | None = None
    """Of a step: where it stands in the middle of the act; `None`: that is not known."""
    result: str | None = None
    """A `StepState`, an `OutcomeState`, or the guard that refused."""
    exit_status: int | None = None
    duration_seconds: float | None = None
    summary: str = ""
    hint: str | None = None
    """What to do about it."""


class PlanOpened(Struct, frozen=True, kw_only=True, tag="plan"):
    """First entry of a journal: everything needed to go on without the process that began."""

    time: datetime
    plan: Plan
    inventory: tuple[str, ...] = ()
    """Files and words that the hosts came from."""


class StepBegan(Struct, frozen=True, kw_only=True, tag="began"):
    """Written and synced before the call: after a crash the call may or may not have been made."""

    time: datetime
    host: str
    step: str


class StepEnded(Struct, frozen=True, kw_only=True, tag="ended"):
    time: datetime
    host: str
    result: StepResult


class HostEnded(Struct, frozen=True, kw_only=True, tag="host"):
    time: datetime
    outcome: Outcome


class PlanClosed(Struct, frozen=True, kw_only=True, tag="closed"):
    """Nothing is left to do. A journal without it is an unfinished plan."""

    time: datetime
    how: str
    """`finished`, `rolled-back` or `forgotten`."""


JournalEntry = PlanOpened | StepBegan | StepEnded | HostEnded | PlanClosed


class Lease(Struct, frozen=True, kw_only=True):
    """A drain that was begun: of which host, by whom, why, until when. What was known then, not what is so now."""

    host: str
    by: str
    reason: str
    since: datetime
    until: datetime | None = None
    plan: str = ""
    act: ActionKind = ActionKind.DRAIN
    """Or a cordon, which waits for nothing."""
    verified: bool = False
    """Proven empty at its end; `False`: something was left, or it could not be proven."""
    boot_id: str | None = None
    """The boot in which it was drained; `None`: not known."""
    ends_at_boot: bool = False
    """Only a marker below /run stands for it, which a boot removes."""
    doubt: str = ""
    """Why it may be over: "reboot at 2026-03-01 10:15 UTC: unverified". Empty: nothing speaks against it."""


class Standing(StrEnum):
    """What is known of a lease."""

    DRAINED = "drained"
    """Proven when the drain ended; nothing speaks against it since."""
    DRAINING = "draining"
    """It was begun and never proven."""
    DOUBTFUL = "doubtful"
    """An act may have ended it; `Lease.doubt` says which."""
    GONE = "gone"
    """Another boot runs: the marker that stood for it is gone, and the host takes work."""


def standing(lease: Lease, boot_id: str | None = None) -> Standing:
    """Where a drain stands. `boot_id`: of the host now, where it is known."""
    if lease.ends_at_boot and boot_id is not None and lease.boot_id not in (None, boot_id):
        return Standing.GONE
    same_boot = boot_id is not None and lease.boot_id == boot_id
    if lease.doubt and not same_boot:
        return Standing.DOUBTFUL
    return Standing.DRAINED if lease.verified else Standing.DRAINING


class Ack(Struct, frozen=True, kw_only=True):
    """Somebody knows of the fatal events of a host so far, in this boot of it."""

    host: str
    by: str
    reason: str
    at: datetime
    boot_id: str
    through_seconds: float
    """Since boot, by the host's kernel: later events are not covered."""
    faults: tuple[str, ...] = ()
    """What was known then, in words."""


class Holder(Struct, frozen=True, kw_only=True):
    """Who acts on a host now. What another account of the host has written is untrusted text."""

    by: str
    act: ActionKind | None
    """`None`: not known, as all else then."""
    plan: str
    since: datetime | None
    bastion: str
    """The machine that their gputop runs on."""
    account: str = ""
    """To which the lock on the host belongs; empty: it is of this machine."""
