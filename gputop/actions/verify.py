"""What a fresh look at a host proves. Pure; unknown is never taken for good."""

from __future__ import annotations

from collections.abc import Collection

from gputop.catalog.text import counted
from gputop.domain.action import Check, CheckState
from gputop.domain.host import Host
from gputop.domain.link import LinkState
from gputop.domain.policy import Policy
from gputop.domain.reading import Device, Frame, ProcessReading

ANSWERING = frozenset({LinkState.OK, LinkState.DEGRADED})
"""Link states in which the newest frame tells about now."""

MIB = 1024**2


def emptiness(host: Host | None, policy: Policy, expected: Collection[str] = (), waited: Collection[str] = ()) -> Check:
    """Whether all devices of `host` are empty in its newest frame.

    `expected`: keys of the devices that were there when the plan was made. A device that is missing, lost or does not
    tell its processes or its memory is not known to be empty. `waited`: jobs that somebody else waits for, whose
    processes may be left."""
    frame = host.frame if host is not None else None
    if host is None or frame is None or host.link.state not in ANSWERING:
        return Check(state=CheckState.UNKNOWN, summary=_silence(host))
    if doubt := _doubt(host, frame, expected):
        return Check(state=CheckState.UNKNOWN, summary=doubt)
    busy = busy_processes(frame, policy)
    left = tuple(_describe(frame, process) for process in busy if process.job not in waited)
    held = _held_memory(frame, policy, {process.device_index for process in busy})
    if left or held:
        return Check(state=CheckState.NOT_DONE, summary=f"{len(left) + len(held)} left", left=left + held)
    return Check(state=CheckState.DONE, summary=f"{counted(len(frame.devices), 'device')} empty")


def busy_processes(frame: Frame, policy: Policy) -> tuple[ProcessReading, ...]:
    """Processes that make a device busy: all but those of the system that a policy names or that only draw. One whose
    name or owner cannot be read is busy."""
    return tuple(process for process in frame.processes if not _harmless(process, policy))


def _held_memory(frame: Frame, policy: Policy, busy: Collection[int]) -> tuple[str, ...]:
    """Memory in use on devices that no process makes busy, in words."""
    return tuple(
        f"GPU {device.index}: {used // MIB:,} MiB in use without a process that can be seen"
        for position, device in enumerate(frame.devices)
        if frame.value("state", position) != "excluded"
        and (used := _used(frame, position)) > policy.idle_memory_bytes
        and position not in busy
    )


def _harmless(process: ProcessReading, policy: Policy) -> bool:
    name = (process.name or "").rpartition("/")[2]
    of_system = bool(name) and process.user in policy.ignore_users
    return of_system and (process.kind == "graphics" or name in policy.ignore_processes)


def _doubt(host: Host, frame: Frame, expected: Collection[str]) -> str | None:
    """Why the frame cannot prove anything about all devices."""
    if not frame.devices:
        return "no device answers"
    missing = set(expected) - {device.key for device in frame.devices}
    if missing:
        return f"{len(missing)} of {len(expected)} devices are missing"
    wanted = host.spec.expect_devices
    if wanted is not None and len(frame.devices) < wanted:
        return f"{len(frame.devices)} of {wanted} devices answer"
    for position, device in enumerate(frame.devices):
        state = frame.value("state", position)
        if state == "excluded":
            continue
        if state != "ok":
            return f"GPU {device.index} does not answer ({state})"
        if not frame.value("processes_known", position):
            return f"GPU {device.index} does not tell its processes"
        if frame.value("memory_used_bytes", position) is None:
            return f"GPU {device.index} does not tell its memory"
    return None


def _used(frame: Frame, position: int) -> int:
    used: int = frame.value("memory_used_bytes", position) or 0  # absent was sorted out before
    return used


def _describe(frame: Frame, process: ProcessReading) -> str:
    device = frame.devices[process.device_index].index if process.device_index < len(frame.devices) else "?"
    who = process.user or "nobody known"
    memory = f", {process.memory_used_bytes // MIB:,} MiB" if process.memory_used_bytes is not None else ""
    return f"GPU {device}: {process.name or 'a process that cannot be seen'} (pid {process.pid}) of {who}{memory}"


def _silence(host: Host | None) -> str:
    if host is None:
        return "not watched"
    if host.link.problem is not None:
        return host.link.problem.summary
    return "no fresh reading"


def first_frame(host: Host | None, expected: Collection[str] = (), before: int = 0) -> Check:
    """Whether `host` answers with all its devices in order; `before`: how many it had at earlier drains, which counts
    where the inventory does not say how many there are."""
    frame = host.frame if host is not None else None
    if host is None or frame is None or host.link.state not in ANSWERING:
        return Check(state=CheckState.UNKNOWN, summary=_silence(host))
    values = {"boot_id": frame.facts.boot_id} if frame.facts.boot_id else {}
    missing = set(expected) - {device.key for device in frame.devices}
    wanted = before if host.spec.expect_devices is None else host.spec.expect_devices
    states = [frame.value("state", position) for position in range(len(frame.devices))]
    bad = sum(state not in ("ok", "excluded") for state in states)
    if missing or len(states) < wanted or not states or bad:
        total = max(wanted, len(expected), len(states))
        good = len(states) - bad
        return Check(
            state=CheckState.NOT_DONE,
            summary=f"{good} of {counted(total, 'device')} {'is' if good == 1 else 'are'} well",
            values=values,
        )
    return Check(
        state=CheckState.DONE,
        summary=f"{counted(len(states), 'device')} {'is' if len(states) == 1 else 'are'} well",
        values=values,
    )


def well(host: Host | None, keys: Collection[str]) -> Check:
    """Whether those devices of `host` that are named answer, whatever the others do."""
    frame = host.frame if host is not None else None
    if host is None or frame is None or host.link.state not in ANSWERING:
        return Check(state=CheckState.UNKNOWN, summary=_silence(host))
    states = [
        frame.value("state", position) for position, device in enumerate(frame.devices) if is_one_of(device, keys)
    ]
    good = sum(state == "ok" for state in states)
    state = CheckState.DONE if good == len(keys) else CheckState.NOT_DONE
    return Check(state=state, summary=f"{good} of {counted(len(keys), 'GPU')} {'is' if good == 1 else 'are'} well")


def is_one_of(device: Device, keys: Collection[str]) -> bool:
    """Also where a device that had kept nothing but its number has its name again."""
    return device.key in keys or f"#{device.index}" in keys
