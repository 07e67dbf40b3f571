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
    state_after: str | None = None
    result: str | None = None
    """A `StepState`, an `OutcomeState`, or the guard that refused."""
    exit_status: int | None = None
    duration_seconds: float | None = None
    summary: str = ""


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
    """A drained host: by whom, why, until when."""

    host: str
    by: str
    reason: str
    since: datetime
    until: datetime | None = None
    plan: str = ""
