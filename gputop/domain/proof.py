"""What proves a reboot, and which machine one is."""

from __future__ import annotations

import uuid

from gputop.domain.action import Check, CheckState, HostIdentity


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


def same_machine(one: HostIdentity, other: HostIdentity) -> bool:
    """Whether two identities, both asked for now, may be one machine.

    One boot is one machine, whatever else its containers say of themselves. A machine id may have been copied with an
    image: it stands for two machines only where two boots and two host keys say so."""
    if one.boot_id is not None and one.boot_id == other.boot_id:
        return True
    if one.machine_id is None or one.machine_id != other.machine_id:
        return False
    return not (_differ(one.boot_id, other.boot_id) and _differ(one.host_key, other.host_key))


def _differ(one: str | None, other: str | None) -> bool:
    """Whether both are known, and not the same."""
    return None not in (one, other) and one != other
