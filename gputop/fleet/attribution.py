"""Memory of a device that no process accounts for."""

from __future__ import annotations

from gputop.domain.reading import Frame

_MIB = 1024 * 1024
_IDLE_BYTES = 64 * _MIB
"""What an idle device holds; up to 59 MiB were seen, with MIG."""
_IDLE_WITH_RESERVED_BYTES = 768 * _MIB
"""The same, of drivers that count their own reserve as used: up to 614 MiB were seen, on an H200."""


def unattributed_bytes(frame: Frame, position: int) -> int | None:
    """Memory in use beyond that of the listed processes and of an idle device: 0 where they cover it. `None` where that
    cannot be told: the list could not be read, or a process does not say how much it has."""
    used = frame.value("memory_used_bytes", position)
    if used is None or frame.value("state", position) != "ok" or not frame.value("processes_known", position):
        return None
    sizes = [process.memory_used_bytes for process in frame.processes_of(position)]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return None
    reserve_is_apart = frame.value("memory_reserved_bytes", position) is not None
    rest = int(used) - sum(known)
    return rest if rest > (_IDLE_BYTES if reserve_is_apart else _IDLE_WITH_RESERVED_BYTES) else 0
