"""Who has drained what, until when: one small file a host below the state folder."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from gputop.actions.audit import FILE_MODE, FOLDER_MODE
from gputop.domain.action import ActionKind, HostActState, Outcome, OutcomeState, Plan
from gputop.domain.record import Lease


def remember(state_folder: Path, plan: Plan, outcomes: Sequence[Outcome], now: datetime) -> None:
    """A drain that was begun makes a lease; what makes the host active for certain ends it. Raises `OSError`."""
    folder = state_folder / "leases"
    request = plan.request
    for outcome in outcomes:
        name = re.sub(r"[^\w.-]", "_", outcome.host)
        path = folder / f"{name}.json"
        if request.kind is ActionKind.DRAIN and outcome.state not in (OutcomeState.SKIPPED, OutcomeState.FAILED):
            folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            lease = Lease(
                host=outcome.host,
                by=request.by,
                reason=request.reason,
                since=now,
                until=request.until,
                plan=plan.id,
            )
            fresh = path.with_suffix(".new")
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(lease))
            fresh.replace(path)
        elif outcome.state is OutcomeState.VERIFIED and outcome.host_state is HostActState.ACTIVE:
            path.unlink(missing_ok=True)


def leases(state_folder: Path) -> list[Lease]:
    """All of them, those that end first before the others; without an end last."""
    found = []
    for path in sorted((state_folder / "leases").glob("*.json")):
        try:
            found.append(msgspec.json.decode(path.read_bytes(), type=Lease))
        except (OSError, msgspec.DecodeError):
            continue
    return sorted(found, key=lambda lease: (lease.until is None, lease.until or lease.since))


def is_over(lease: Lease, now: datetime) -> bool:
    return lease.until is not None and lease.until <= now
