"""Who has drained what, until when: one small file a host below the state folder.

A lease tells what was so when the drain ended. Whether it is so still, the host alone can tell: see
`domain.record.standing`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import structs

from gputop.actions.journal import Story
from gputop.actions.statefile import read_own, write_whole
from gputop.domain.action import ActionKind, Goal, HostActState, HostPlan, Outcome, OutcomeState, Plan, StepState
from gputop.domain.record import Lease
from gputop.schedulers.none import MARK_STEP

CLOSES = frozenset({ActionKind.DRAIN, ActionKind.CORDON})
"""Acts after which a host takes no new work."""
BOOTS = frozenset({ActionKind.REBOOT, ActionKind.STOP, ActionKind.HIBERNATE, ActionKind.START})
"""Acts after which a host may be in another boot."""

CLOSED = frozenset({Goal.MARKED, Goal.CORDONED})
OPENED = frozenset({Goal.UNMARKED, Goal.SCHEDULABLE})


def remember(
    state_folder: Path, plan: Plan, outcomes: Sequence[Outcome], now: datetime, marked: Collection[str] = ()
) -> None:
    """A drain or a cordon that has closed a host makes a lease, unless somebody else had drained it; what opens the
    host ends it, and what may have booted it makes it doubtful. `marked`: hosts whose drain only a marker stands for.
    Raises `OSError`."""
    request = plan.request
    is_cordon = request.kind is ActionKind.CORDON  # it proves nothing, and ends no proof
    hosts = {host.host: host for host in plan.hosts}
    for outcome in outcomes:
        host, path = hosts[outcome.host], _path(state_folder, outcome.host)
        takes_work = _takes_work(request.kind, host, outcome)
        drains = request.kind in CLOSES
        if drains and takes_work is False and not host.drained_by:
            known = _read(path) if host.state in (HostActState.DRAINING, HostActState.DRAINED) else None
            lease = Lease(
                host=outcome.host,
                by=request.by,
                reason=request.reason,
                since=known.since if known is not None else now,
                until=request.until or (known.until if known is not None else None),
                plan=plan.id,
                act=known.act if known is not None and is_cordon else request.kind,
                verified=known is not None and known.verified if is_cordon else outcome.state is OutcomeState.VERIFIED,
                boot_id=host.identity.boot_id,
                ends_at_boot=outcome.host in marked,
            )
            write_whole(path, msgspec.json.encode(lease))
        elif takes_work or (drains and host.drained_by):
            path.unlink(missing_ok=True)
        elif request.kind in BOOTS and outcome.state is not OutcomeState.SKIPPED:
            known = _read(path)
            if known is not None and known.ends_at_boot:
                doubt = f"{request.kind.value} at {now:%Y-%m-%d %H:%M} UTC: {outcome.state.value}"
                write_whole(path, msgspec.json.encode(structs.replace(known, doubt=doubt)))


def _takes_work(kind: ActionKind, host: HostPlan, outcome: Outcome) -> bool | None:
    """Whether the host takes new work after an act, by the last of its steps that tells; `None`: nothing tells."""
    if outcome.state is OutcomeState.VERIFIED and outcome.host_state is HostActState.ACTIVE:
        return True
    goals = {step.id: step.goal for step in host.steps}
    found: bool | None = None
    if kind is ActionKind.DRAIN and outcome.state not in (OutcomeState.SKIPPED, OutcomeState.FAILED):
        found = False
    for result in outcome.steps:
        goal = goals.get(result.step)
        reached = result.state in (StepState.VERIFIED, StepState.ALREADY)
        if goal in CLOSED and (reached or result.state is StepState.UNVERIFIED):
            found = False
        if goal in OPENED and reached:
            found = True
        if goal in CLOSED and result.blocked and found is False:  # somebody has opened it
            found = True
    return found


def remember_begun(state_folder: Path, story: Story, now: datetime) -> None:
    """The hosts of a drain that is given up in the middle: what was set on them stays set. Raises `OSError`."""
    begun = {host for host, _ in story.began}
    known = {outcome.host: outcome for outcome in story.outcomes.values()}
    left = [
        Outcome(
            host=name,
            state=OutcomeState.PENDING,
            host_state=HostActState.DRAINING,
            steps=tuple(result for (host, _), result in story.ended.items() if host == name),
        )
        for name in sorted(begun - known.keys())
    ]
    marked = {host for host, step in story.began if step == MARK_STEP}
    remember(state_folder, story.plan, [*known.values(), *left], now, marked)


def leases(state_folder: Path) -> list[Lease]:
    """All of them, those that end first before the others; without an end last."""
    found = [lease for path in sorted((state_folder / "leases").glob("*.json")) if (lease := _read(path)) is not None]
    return sorted(found, key=lambda lease: (lease.until is None, lease.until or lease.since))


def is_over(lease: Lease, now: datetime) -> bool:
    return lease.until is not None and lease.until <= now


def _path(state_folder: Path, host: str) -> Path:
    name = re.sub(r"[^\w.-]", "_", host)
    return state_folder / "leases" / f"{name}.json"


def _read(path: Path) -> Lease | None:
    try:
        return msgspec.json.decode(read_own(path), type=Lease)
    except (OSError, msgspec.DecodeError):
        return None
