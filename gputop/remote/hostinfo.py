"""Values of the server itself, out of /proc."""

from typing import Any, Dict, Optional, Tuple

from gputop.remote.machine import Machine

_MIN_CPU_TICKS = 4
_DRAIN_MARKER = "/run/gputop/drain.json"
_MARKER_CHARACTERS = 4000


def facts(machine: Machine) -> Dict[str, Any]:
    """Keys of `domain.reading.HostFacts`; what is not known is left out."""
    found = {
        "hostname": _line(machine, "/proc/sys/kernel/hostname"),
        "kernel_version": _line(machine, "/proc/sys/kernel/osrelease"),
        "boot_id": _line(machine, "/proc/sys/kernel/random/boot_id"),
        "machine_id": _line(machine, "/etc/machine-id"),
        "os_name": os_name(machine.text("/etc/os-release") or ""),
        "cores": cores(machine.text("/proc/stat") or ""),
    }
    return {key: value for key, value in found.items() if value is not None}


def os_name(os_release: str) -> Optional[str]:
    """PRETTY_NAME of /etc/os-release."""
    for line in os_release.splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "PRETTY_NAME":
            return value.strip().strip("\"'") or None
    return None


def cores(stat: str) -> Optional[int]:
    """Number of processors in /proc/stat."""
    count = sum(line.startswith("cpu") and line[3:4].isdigit() for line in stat.splitlines())
    return count or None


def boot_time(stat: str) -> Optional[float]:
    """Seconds since the epoch at which the server started, by /proc/stat."""
    for line in stat.splitlines():
        if line.startswith("btime "):
            return float(line.split()[1])
    return None


def cpu_ticks(stat: str) -> Optional[Tuple[int, int]]:
    """Busy and all ticks of all processors since the start, by /proc/stat."""
    words = stat.partition("\n")[0].split()
    if len(words) < 5 or words[0] != "cpu":
        return None
    # The two guest columns are counted within user and nice already.
    ticks = [int(word) for word in words[1:9]]
    return sum(ticks) - sum(ticks[3:5]), sum(ticks)


def memory(meminfo: str) -> Tuple[Optional[int], Optional[int]]:
    """Used and total bytes, by /proc/meminfo. Used is what is not available."""
    kibibytes = {}
    for line in meminfo.splitlines():
        key, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            kibibytes[key] = int(words[0])
    total = kibibytes.get("MemTotal")
    available = kibibytes.get("MemAvailable")
    if available is None and "MemFree" in kibibytes:  # kernels before 3.14
        available = sum(kibibytes.get(key, 0) for key in ("MemFree", "Buffers", "Cached"))
    if total is None:
        return None, None
    return (None if available is None else max(0, total - available) * 1024), total * 1024


def first_number(text: Optional[str]) -> Optional[float]:
    """The first word of /proc/loadavg or /proc/uptime."""
    try:
        return float((text or "").split()[0])
    except (ValueError, IndexError):
        return None


class CpuMeter:
    """Processor load between two looks at /proc/stat."""

    def __init__(self, stat: str) -> None:
        self._last = cpu_ticks(stat)

    def percent(self, stat: str) -> Optional[float]:
        """Busy share since the last call, 0 to 100; `None` when too little time has passed to tell."""
        now = cpu_ticks(stat)
        if now is None or self._last is None:
            self._last = now
            return None
        busy, total = now[0] - self._last[0], now[1] - self._last[1]
        if total < _MIN_CPU_TICKS:
            return None
        self._last = now
        return round(min(100.0, max(0.0, 100.0 * busy / total)), 1)


def drain_marker(machine: Machine) -> Optional[str]:
    """The marker by which people say that the server takes no new work, whoever wrote it; empty: there is none; `None`:
    not known."""
    text = machine.text(_DRAIN_MARKER)
    if text is None:
        return "" if machine.is_missing(_DRAIN_MARKER) else None
    return text[:_MARKER_CHARACTERS] or " "


def reading(machine: Machine, meter: CpuMeter) -> Dict[str, Any]:
    """Keys of `domain.reading.HostReading`."""
    used, total = memory(machine.text("/proc/meminfo") or "")
    return {
        "uptime_seconds": first_number(machine.text("/proc/uptime")),
        "cpu_utilization_percent": meter.percent(machine.text("/proc/stat") or ""),
        "load_1m": first_number(machine.text("/proc/loadavg")),
        "memory_used_bytes": used,
        "memory_total_bytes": total,
        "agent_cpu_seconds": round(machine.own_cpu_seconds(), 3),
        "agent_memory_bytes": machine.own_memory_bytes(),
        "drain_marker": drain_marker(machine),
    }


def _line(machine: Machine, path: str) -> Optional[str]:
    return (machine.text(path) or "").strip() or None
