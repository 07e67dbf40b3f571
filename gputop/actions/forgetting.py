"""Letting go of an unfinished plan."""

from __future__ import annotations

import logging
from pathlib import Path

from gputop.actions.audit import AuditLog
from gputop.actions.journal import Story, journal_of, locked
from gputop.actions.lease import remember_begun
from gputop.domain.action import HostPlan
from gputop.domain.record import AuditEvent, AuditRecord, PlanClosed
from gputop.ports import Clock

log = logging.getLogger(__name__)


def left_behind(story: Story, host: HostPlan) -> str:
    """What an unfinished plan did to `host`, and what it would have brought back."""
    begun = [step.title for step in host.steps if (host.host, step.id) in story.began]
    if not begun:
        return "the host was left as it is: nothing was called on it"
    owed = [step.title for step in host.steps if step.always and (host.host, step.id) not in story.began]
    return f"the host was left as it is: begun was {', '.join(begun)}" + (f"; not {', '.join(owed)}" if owed else "")


def forget(story: Story, audit: AuditLog, state_folder: Path, clock: Clock) -> None:
    """Close an unfinished plan and leave its hosts as they are."""
    plan = story.plan
    with locked(state_folder, plan):
        now = clock.now()
        for host in plan.hosts:
            audit.write(
                AuditRecord(
                    time=now,
                    event=AuditEvent.OUTCOME,
                    plan=plan.id,
                    act=plan.request.kind,
                    host=host.host,
                    result="forgotten",
                    summary=f"closed by hand; {left_behind(story, host)}",
                )
            )
        journal_of(state_folder, plan.id).write(PlanClosed(time=now, how="forgotten"))
        try:
            remember_begun(state_folder, story, now)
        except OSError as error:
            log.warning("the lease of %s cannot be written: %s", plan.id, error)
