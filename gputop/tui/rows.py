"""Rows of the fleet tables: handles to hosts, devices and processes of a Fleet, with what their cells are made of.

Making a row costs almost nothing; what costs (sums, texts) is computed when a cell, a sort or a filter first asks, and
kept with the row. Rows of a host live as long as its `Host` value does.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime
from functools import cached_property

from gputop.catalog.format import numbers
from gputop.catalog.text import short_model
from gputop.domain.host import Host
from gputop.domain.link import EXPLAINED, NOT_RETRIED, SEVERITY, TROUBLE, LinkState
from gputop.domain.problem import INFORMATIONAL
from gputop.domain.reading import Device, Frame, Partition, ProcessReading
from gputop.fleet.occupancy import BUSY_UTILIZATION_PERCENT, FRESH, has_values, occupancy
from gputop.fleet.totals import known
from gputop.query.sort import natural
from gputop.tui.draw import remote
from gputop.tui.look import WORDS, why_slow

Key = tuple[str, ...]
"""Stable over updates: host name, then device key or pid."""

BROKEN, SUSPECT = 100, 50
"""Ranks of devices that are lost and of those that have a problem: above those of a host that merely is away."""

HELD_PERCENT = 5.0
"""Share of a device's memory from which it does not count as free."""


class HostRow:
    """One host."""

    def __init__(self, host: Host, place: int) -> None:
        self.host = host
        self.place = place
        self.key: Key = (host.name,)
        self.is_problem = host.link.state in TROUBLE
        self.is_explained = host.link.state in EXPLAINED and host.link.problem is not None

    @cached_property
    def frame(self) -> Frame | None:
        """The newest frame where its values are worth showing."""
        return self.host.frame if has_values(self.host) else None

    @cached_property
    def alive(self) -> list[bool]:
        """Which devices answer, in their order."""
        frame = self.host.frame
        if frame is None:
            return []
        return [state == "ok" for state in frame.column("state") or ["ok"] * len(frame.devices)]

    @cached_property
    def utilization_percent(self) -> float | None:
        values = known(self.frame.column("utilization_percent"), self.alive) if self.frame else []
        return sum(values) / len(values) if values else None

    @cached_property
    def memory_used_bytes(self) -> int | None:
        return self._sum("memory_used_bytes")

    @cached_property
    def memory_total_bytes(self) -> int | None:
        return self._sum("memory_total_bytes")

    @property
    def memory_percent(self) -> float | None:
        used, total = self.memory_used_bytes, self.memory_total_bytes
        return None if used is None or not total else 100.0 * used / total

    @cached_property
    def power_watts(self) -> float | None:
        return self._sum("power_watts")

    @cached_property
    def temperature_celsius(self) -> float | None:
        values = known(self.frame.column("temperature_celsius"), self.alive) if self.frame else []
        return max(values) if values else None

    @cached_property
    def users(self) -> tuple[str, ...]:
        """Those with processes on the devices, most memory first."""
        if self.frame is None:
            return ()
        held: Counter[str] = Counter()
        for process in self.frame.processes:
            if process.user:
                held[process.user] += (process.memory_used_bytes or 0) + 1
        return tuple(user for user, _ in held.most_common())

    @cached_property
    def gpus(self) -> str:
        """`8 H100 80GB`, `7/8 H100 80GB` when not all answer, `4 L4 +2 A100 40GB` when mixed."""
        frame = self.host.frame
        if frame is None or not frame.devices:
            return ""
        models = Counter(short_model(device.model) for device in frame.devices)
        up = sum(self.alive)
        parts = [f"{count} {model}".rstrip() for model, count in models.most_common()]
        if up < len(frame.devices):
            parts[0] = f"{up}/{len(frame.devices)} {models.most_common()[0][0]}".rstrip()
        return " +".join(parts)

    @cached_property
    def texts(self) -> tuple[str | None, ...]:
        """What the filter looks in."""
        return (*host_texts(self.host), *self.users, *(device.model for device in devices_of(self.host)))

    def _sum(self, metric: str) -> int | None:
        values = known(self.frame.column(metric), self.alive) if self.frame else []
        return sum(values) if values else None


class GpuRow:
    """One device."""

    __slots__ = ("__dict__", "device", "has_partitions", "host", "is_problem", "key", "place", "position", "state")

    def __init__(
        self, host: Host, place: int, position: int, device: Device, state: str, *, suspect: bool, has_partitions: bool
    ) -> None:
        self.host = host
        self.place = place
        self.position = position
        self.device = device
        self.key: Key = (host.name, device.uuid or device.key)
        self.state = state
        self.is_problem = suspect or state in ("lost", "error")
        self.has_partitions = has_partitions

    @property
    def readable(self) -> bool:
        """Whether its values are worth showing."""
        return self.state == "ok" and has_values(self.host)

    def value(self, metric: str) -> float | None:
        """Metric as a number; `None` when it is not known or says nothing about now."""
        found = self.any_value(metric)
        return found if isinstance(found, (int, float)) else None

    def any_value(self, metric: str) -> object:
        frame = self.host.frame
        return frame.value(metric, self.position) if frame is not None and self.readable else None

    @property
    def memory_percent(self) -> float | None:
        used, total = self.value("memory_used_bytes"), self.value("memory_total_bytes")
        return None if used is None or not total else 100.0 * used / total

    @cached_property
    def partitions(self) -> tuple[Partition, ...]:
        frame = self.host.frame
        return frame.partitions_of(self.position) if frame is not None and frame.partitions and self.readable else ()

    @cached_property
    def processes(self) -> tuple[ProcessReading, ...]:
        frame = self.host.frame
        return frame.processes_of(self.position) if frame is not None and has_values(self.host) else ()

    @property
    def is_divided(self) -> bool:
        """Whether it is in a mode in which it has slices, and no utilization of its own."""
        return self.value("utilization_percent") is None and self.any_value("mig_mode") == "enabled"

    @property
    def unused(self) -> str:
        """What is said of a device that no process is seen on; empty: nothing can be. `free` only where nothing runs
        and nothing is held, now."""
        if self.processes or self.partitions or self.host.link.state not in FRESH:
            return ""
        if not self.any_value("processes_known"):
            return ""
        held = (self.memory_percent or 0.0) >= HELD_PERCENT
        busy = (self.value("utilization_percent") or 0.0) >= BUSY_UTILIZATION_PERCENT
        return "no process seen" if held or busy else "free"

    @property
    def slices(self) -> str:
        """`2 of 7 slices`; empty for a device without."""
        count = len(self.partitions)
        if not count:
            return ""
        if not self.processes:
            return f"{count} slices, all free" if self.host.link.state in FRESH else f"{count} slices"
        used = len({(item.gpu_instance_id, item.compute_instance_id) for item in self.processes})
        return f"{used} of {count} slices"

    def is_free(self, partition: Partition) -> bool:
        """Whether nobody uses one of its slices, now."""
        is_used = any(
            process.gpu_instance_id == partition.gpu_instance_id
            and process.compute_instance_id in (None, partition.compute_instance_id)
            for process in self.processes
        )
        return not is_used and self.host.link.state in FRESH and bool(self.any_value("processes_known"))

    @cached_property
    def texts(self) -> tuple[str | None, ...]:
        device = self.device
        reasons = self.any_value("throttle_reasons")
        found = [*host_texts(self.host), device.model, device.uuid, device.pci_bus_id, self.state]
        found += [occupancy(self.host, self.position), self.unused, self.slices, "MIG" if self.is_divided else None]
        found += [why_slow(reasons)[0]] if isinstance(reasons, list) else []
        found += ["free"] if any(self.is_free(partition) for partition in self.partitions) else []
        for process in self.processes:
            found += [process.user, process.command or process.name, process.job]
        return tuple(found)


class ProcessRow:
    """One process; its devices and memory are put together."""

    is_problem = False

    def __init__(self, host: Host, place: int, pid: int) -> None:
        self.host = host
        self.place = place
        self.pid = pid
        self.key: Key = (host.name, str(pid))
        self.readings: list[ProcessReading] = []

    @property
    def first(self) -> ProcessReading:
        return self.readings[0]

    @cached_property
    def memory_used_bytes(self) -> int | None:
        sizes = [reading.memory_used_bytes for reading in self.readings if reading.memory_used_bytes is not None]
        return sum(sizes) if sizes else None

    @cached_property
    def utilization_percent(self) -> float | None:
        shares = [reading.utilization_percent for reading in self.readings if reading.utilization_percent is not None]
        return sum(shares) / len(shares) if shares else None

    @cached_property
    def gpus(self) -> str:
        """`0-3,5`."""
        devices = devices_of(self.host)
        return numbers(sorted({devices[reading.device_index].index for reading in self.readings}))

    @cached_property
    def texts(self) -> tuple[str | None, ...]:
        one = self.first
        return (*host_texts(self.host), str(self.pid), one.user, one.name, one.command, one.job, one.container)


Row = HostRow | GpuRow | ProcessRow


def row_name(row: Row) -> str:
    """As people call it: `gpu-001`, `gpu-001 GPU 1`, `gpu-001 pid 88412`."""
    host = remote(row.host.name)
    match row:
        case GpuRow():
            return f"{host} GPU {row.device.index}"
        case ProcessRow():
            return f"{host} pid {row.pid}"
        case _:
            return host


def host_rows(host: Host, place: int) -> list[Row]:
    return [HostRow(host, place)]


def gpu_rows(host: Host, place: int) -> list[Row]:
    frame = host.frame
    if frame is None:
        return []
    states = frame.column("state") or ["ok"] * len(frame.devices)
    is_away = host.link.state in TROUBLE and host.link.state not in FRESH
    suspects = suspect_devices(host)
    divided = {partition.device_index for partition in frame.partitions} if has_values(host) else set()
    return [
        GpuRow(host, place, position, device, state, suspect=is_away or position in suspects,
               has_partitions=position in divided)
        for position, (device, state) in enumerate(zip(frame.devices, states, strict=True))
    ]  # fmt: skip


def suspect_devices(host: Host) -> set[int]:
    """Positions of devices with a problem that is more than worth knowing."""
    return {
        position
        for position, problems in host.device_problems.items()
        if any(problem.kind not in INFORMATIONAL for problem in problems)
    }


def process_rows(host: Host, place: int) -> list[Row]:
    frame = host.frame if has_values(host) else None
    found: dict[int, ProcessRow] = {}
    for process in frame.processes if frame is not None else ():
        row = found.get(process.pid)
        if row is None:
            row = found[process.pid] = ProcessRow(host, place, process.pid)
        row.readings.append(process)
    return list(found.values())


def devices_of(host: Host) -> tuple[Device, ...]:
    return host.frame.devices if host.frame is not None else ()


def host_texts(host: Host) -> tuple[str | None, ...]:
    spec = host.spec
    problem = host.link.problem
    return (
        spec.name,
        spec.address,
        spec.user,
        host.link.state.value,
        WORDS[host.link.state],
        problem.summary if problem else None,
        *spec.groups,
        *(f"{name}={value}" for name, value in spec.labels.items()),
    )


def trouble_rank(row: Row) -> tuple[int, int]:
    """Descending, the order that puts trouble on top: of hosts the worst link; of devices those that are broken, then
    those whose host is in trouble. Rows that are alike stay as in the inventory."""
    severity = SEVERITY[row.host.link.state]
    if isinstance(row, GpuRow) and row.host.link.state in FRESH:
        severity = BROKEN if row.state in ("lost", "error") else SUSPECT if row.is_problem else 0
    return (severity, -row.place)


def host_sort_key(row: Row) -> tuple[tuple[int, int | str], ...]:
    return natural(row.host.name)


def reason(host: Host, as_of: datetime) -> str:
    """Why a host is in trouble, or what it waits for, and what happens next, in one line; empty for one that is
    well."""
    link = host.link
    problem = link.problem
    if problem is None or link.state not in EXPLAINED:
        return ""
    parts = [problem.summary]
    if link.retry_at is not None:
        seconds = max(0, round((link.retry_at - as_of).total_seconds()))
        parts += [f"next try in {seconds} s" if seconds else "trying now", "F5 tries now"]
    else:
        parts += [problem.hint] if problem.hint else []
        is_told = (problem.hint or "").startswith("F5")
        parts += ["F5 tries again"] if link.state in NOT_RETRIED | {LinkState.STALE} and not is_told else []
    return "; ".join(parts)


def process_user(process: ProcessReading, absent: str = "–") -> str:
    return "?" if _is_nameless(process) else remote(process.user, absent)


def process_command(process: ProcessReading) -> str:
    return "?" if _is_nameless(process) else remote((process.command or process.name or "")[:LONGEST_COMMAND])


LONGEST_COMMAND = 500
"""Characters of a command line that are looked at for one line: the widest column has fewer cells."""


def _is_nameless(process: ProcessReading) -> bool:
    """Nothing is known of it but its pid, as of one in another namespace."""
    return process.name is None and process.command is None and process.user is None


def process_label(command: str) -> str:
    """What a process is, in few cells: the script or module instead of the interpreter in front of it."""
    program, _, rest = command.partition(" ")
    name = program.rpartition("/")[2]
    if rest and _INTERPRETER.fullmatch(name):
        option, _, module = rest.partition(" ")
        if option == "-m" and module:
            return module
        if not rest.startswith("-"):
            return rest.partition(" ")[0].rpartition("/")[2] + rest[len(rest.partition(" ")[0]) :]
    return name + command[len(program) :] if name else command


_INTERPRETER = re.compile(r"python[0-9.]*")
