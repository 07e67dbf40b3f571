"""What proves a reboot."""

from __future__ import annotations

import uuid

from gputop.domain.action import Check, CheckState


def boot_id(text: str | None) -> str | None:
    """`text` when it is a boot id; an error message taken for one would count as a reboot."""
    try:
        return str(uuid.UUID((text or "").strip()))
    except ValueError:
        return None


def rebooted(before: str | None, now: str | None) -> Check:
    """Whether `now` proves another boot than `before`; both must be valid."""
    old, new = boot_id(before), boot_id(now)
    if new is None:
        return Check(state=CheckState.UNKNOWN, summary="does not answer")
    if old is None:
        return Check(state=CheckState.UNKNOWN, summary="the boot id before is not known")
    if old == new:
        return Check(state=CheckState.NOT_DONE, summary="still the old boot", values={"boot_id": new})
    return Check(state=CheckState.DONE, summary="a new boot", values={"boot_id": new})
