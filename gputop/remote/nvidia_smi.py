"""What nvidia-smi prints, understood. Pure: nothing here runs it."""

import re
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from gputop.remote import problem
from gputop.remote.metrics import MEBIBYTE, Sample, same_bus_id, throttle_reasons
from gputop.remote.problem import Problem

PROGRAMS = (
    "nvidia-smi",
    "/usr/bin/nvidia-smi",
    "/usr/local/bin/nvidia-smi",
    "/usr/local/nvidia/bin/nvidia-smi",
    "/usr/lib/wsl/lib/nvidia-smi",
    "/opt/bin/nvidia-smi",
    "/run/nvidia/driver/usr/bin/nvidia-smi",
)
"""Where it is looked for: the PATH of a login by SSH is not the one of a terminal."""

APPS_QUERY = ("--query-compute-apps=gpu_uuid,pid,process_name,used_memory", "--format=csv,noheader,nounits")
CSV = "--format=csv,noheader,nounits"

# values

_NO_VALUE = frozenset(("", "-", "n/a", "err!", "not supported", "unknown error", "not found", "not available"))
_BUS_ID = re.compile(r"device handle for GPU\s*\d*:?\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


def value(cell: str) -> Optional[str]:
    """The text of a cell; `None` for everything by which nvidia-smi says that there is no value."""
    cell = cell.strip()
    if cell.startswith("[") and cell.endswith("]"):  # [N/A], [Not Supported], [GPU requires reset], ...
        return None
    return None if cell.lower() in _NO_VALUE else cell


def number(cell: str) -> Optional[float]:
    """The number of a cell, its unit left off."""
    found = _NUMBER.match(value(cell) or "")
    return float(found.group()) if found else None


def whole(cell: str) -> Optional[int]:
    found = number(cell)
    return None if found is None else int(found)


def mebibytes(cell: str) -> Optional[int]:
    found = number(cell)
    return None if found is None else int(found * MEBIBYTE)


def mode(cell: str) -> Optional[str]:
    found = (value(cell) or "").lower()
    return found if found in ("enabled", "disabled") else None


def switch(cell: str) -> Optional[bool]:
    return {"enabled": True, "disabled": False}.get((value(cell) or "").lower())


def compute_mode(cell: str) -> Optional[str]:
    found = (value(cell) or "").lower().replace("_", "-")
    found = {"exclusive-thread": "exclusive-process"}.get(found, found)
    return found if found in ("default", "exclusive-process", "prohibited") else None


def performance_state(cell: str) -> Optional[str]:
    found = value(cell) or ""
    return found if re.match(r"P\d{1,2}$", found) else None


def reasons(cell: str) -> Optional[List[str]]:
    found = value(cell) or ""
    return throttle_reasons(int(found, 16)) if re.match(r"0x[0-9a-fA-F]+$", found) else None


# queries

Convert = Callable[[str], Any]
Wanted = Tuple[Tuple[str, Convert, Tuple[str, ...]], ...]
"""Key of ours, how its cell is read, and the names it goes by in nvidia-smi, best first."""

_IDENTITY: Wanted = (
    ("index", whole, ("index",)),
    ("uuid", value, ("uuid", "gpu_uuid")),
    ("pci_bus_id", value, ("pci.bus_id", "gpu_bus_id")),
)

FAST: Wanted = (
    *_IDENTITY,
    ("model", value, ("name", "gpu_name")),
    ("count", whole, ("count",)),
    ("driver_version", value, ("driver_version",)),
    ("utilization_percent", number, ("utilization.gpu",)),
    ("memory_utilization_percent", number, ("utilization.memory",)),
    ("encoder_utilization_percent", number, ("utilization.encoder",)),
    ("decoder_utilization_percent", number, ("utilization.decoder",)),
    ("memory_used_bytes", mebibytes, ("memory.used",)),
    ("memory_total_bytes", mebibytes, ("memory.total",)),
    ("memory_reserved_bytes", mebibytes, ("memory.reserved",)),
    ("temperature_celsius", number, ("temperature.gpu",)),
    ("memory_temperature_celsius", number, ("temperature.memory",)),
    ("fan_percent", number, ("fan.speed",)),
    ("power_watts", number, ("power.draw",)),
    ("power_average_watts", number, ("power.draw.average",)),
    ("power_instant_watts", number, ("power.draw.instant",)),
    ("power_limit_watts", number, ("power.limit", "enforced.power.limit")),
    ("sm_clock_mhz", number, ("clocks.current.sm", "clocks.sm")),
    ("memory_clock_mhz", number, ("clocks.current.memory", "clocks.mem")),
    ("performance_state", performance_state, ("pstate",)),
    ("throttle_reasons", reasons, ("clocks_event_reasons.active", "clocks_throttle_reasons.active")),
    ("pcie_generation", whole, ("pcie.link.gen.gpucurrent", "pcie.link.gen.current")),
    ("pcie_width", whole, ("pcie.link.width.current",)),
)

SLOW: Wanted = (
    *_IDENTITY,
    ("serial", value, ("serial", "gpu_serial")),
    ("power_default_limit_watts", number, ("power.default_limit",)),
    ("sm_clock_max_mhz", number, ("clocks.max.sm",)),
    ("memory_clock_max_mhz", number, ("clocks.max.memory", "clocks.max.mem")),
    ("compute_mode", compute_mode, ("compute_mode",)),
    ("persistence_mode", switch, ("persistence_mode",)),
    ("pcie_generation_max", whole, ("pcie.link.gen.max",)),
    ("pcie_width_max", whole, ("pcie.link.width.max",)),
    ("mig_mode", mode, ("mig.mode.current",)),
    ("ecc_mode", mode, ("ecc.mode.current",)),
    ("ecc_pending_mode", mode, ("ecc.mode.pending",)),
    ("ecc_corrected_volatile", whole, ("ecc.errors.corrected.volatile.total",)),
    ("ecc_uncorrected_volatile", whole, ("ecc.errors.uncorrected.volatile.total",)),
    ("ecc_corrected_aggregate", whole, ("ecc.errors.corrected.aggregate.total",)),
    ("ecc_uncorrected_aggregate", whole, ("ecc.errors.uncorrected.aggregate.total",)),
)

_NOT_METRICS = frozenset(("index", "uuid", "pci_bus_id", "model", "count", "driver_version", "serial"))

_EVERYWHERE = frozenset(
    (
        "index uuid pci.bus_id name count driver_version utilization.gpu utilization.memory memory.used memory.total "
        "temperature.gpu fan.speed power.draw power.limit pstate"
    ).split()
)
"""Names that every nvidia-smi knows, for one whose help cannot be read."""


def offered(help_text: str) -> Set[str]:
    """The names in the output of `--help-query-gpu`; aliases stand on one line, each in quotes."""
    lines = [line for line in help_text.splitlines() if line.lstrip().startswith('"')]
    return {name for line in lines for name in re.findall(r'"([\w.]+)"', line)} or set(_EVERYWHERE)


class Query:
    """A `--query-gpu` that this nvidia-smi will not refuse: one name it does not know fails the whole query."""

    def __init__(self, wanted: Wanted, names: Set[str]) -> None:
        self._columns = [
            (key, convert, next(name for name in choices if name in names))
            for key, convert, choices in wanted
            if any(name in names for name in choices)
        ]

    @property
    def argument(self) -> str:
        return "--query-gpu=" + ",".join(name for _, _, name in self._columns)

    def row(self, line: str) -> Optional[Dict[str, Any]]:
        """Values of one line; `None` when it is no row of this query."""
        cells = line.split(",")
        if len(cells) != len(self._columns):
            return None
        row = {key: convert(cell) for (key, convert, _), cell in zip(self._columns, cells)}
        return row if row.get("index") is not None else None


def apps(output: str) -> List[Tuple[Optional[str], Optional[int], Optional[str], Optional[int]]]:
    """Rows of `APPS_QUERY`: GPU, pid, name, bytes. A pid of `None`: the list of that GPU is not known. Names may hold
    commas."""
    rows = []
    for line in output.splitlines():
        head, _, rest = line.partition(",")
        pid, _, rest = rest.partition(",")
        name, comma, used = rest.rpartition(",")
        if comma and head.strip().startswith(("GPU-", "MIG-")):
            rows.append((value(head), whole(pid), value(name), mebibytes(used)))
    return rows


def listing(output: str) -> List[Tuple[str, List[Tuple[str, int, str]]]]:
    """`nvidia-smi -L`: UUID of each GPU, and profile, index and UUID of its MIG instances."""
    found: List[Tuple[str, List[Tuple[str, int, str]]]] = []
    for line in output.splitlines():
        gpu = re.match(r"GPU \d+: .*\(UUID: (\S+)\)", line)
        mig = re.match(r"\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: (\S+)\)", line)
        if gpu:
            found.append((gpu.group(1), []))
        elif mig and found:
            found[-1][1].append((mig.group(1), int(mig.group(2)), mig.group(3)))
    return found


def failure(status: Optional[int], output: str) -> Problem:
    """Why nvidia-smi ended, by what it printed and, where that is not known, by its exit status."""
    words = output.lower()
    if status is None:
        return problem.tool_failed("nvidia-smi did not end and was killed", output)
    if "version mismatch" in words or status == 18:
        return problem.driver_mismatch(output)
    if "communicate with the nvidia driver" in words or status == 9:
        return problem.driver_not_loaded(output)
    if "no devices were found" in words or status == 6:
        return problem.no_devices(output)
    if "insufficient permissions" in words or status == 4:
        return problem.permission(output)
    if "gpu is lost" in words or status == 15:
        return problem.device_lost(output, None)
    if status in (126, 127):
        return problem.tool_missing([*list(PROGRAMS), output])
    first = output.strip().partition("\n")[0]
    return problem.tool_failed("nvidia-smi failed (exit status %s)%s" % (status, ": " + first if first else ""), output)


class Picture:
    """All that nvidia-smi has said so far, as one sample of all devices."""

    def __init__(self) -> None:
        self.facts: Dict[str, Any] = {}
        self.revision = 0
        """Grows whenever devices or facts change."""
        self.devices: List[Dict[str, Any]] = []
        self.names: Set[str] = set()
        self.fast = Query(FAST, set(_EVERYWHERE))
        self.slow = Query(SLOW, set(_EVERYWHERE))
        self._rows: Dict[str, Tuple[Dict[str, Any], float]] = {}
        self._slow_rows: Dict[str, Dict[str, Any]] = {}
        self._lost: Dict[str, Tuple[str, float]] = {}
        self._words: List[str] = []
        self._failure: Optional[Problem] = None
        self._apps: Optional[List[Tuple[Optional[str], Optional[int], Optional[str], Optional[int]]]] = None
        self._instances: Dict[str, List[Tuple[str, int, str]]] = {}

    @property
    def complete(self) -> bool:
        """Every GPU has spoken, or the program has ended: there is nothing to wait for."""
        count = max([row.get("count") or 1 for row, _ in self._rows.values()] or [1])
        return self._failure is not None or len(self._rows) + len(self._lost) >= count

    @property
    def has_instances(self) -> bool:
        return any(row.get("mig_mode") == "enabled" for row in self._slow_rows.values())

    def take_help(self, output: str) -> None:
        names = offered(output)
        self.fast, self.slow = Query(FAST, names), Query(SLOW, names)

    def take_line(self, line: str, now: float) -> None:
        """One line of the stream, at `now` (monotonic). Blank ones mean nothing; what is no row costs only itself."""
        if not line.strip():
            return
        row = self.fast.row(line)
        if row is None:
            self._words = [*self._words[-20:], line.rstrip()]
            bus_id = _BUS_ID.search(line)
            if bus_id:
                self._take_lost(bus_id.group(1), line.strip(), now)
            return
        self._failure = None
        self._words = []
        self._rows[_key(row)] = (row, now)
        self._learn(row)

    def take_slow(self, output: str) -> None:
        for line in output.splitlines():
            row = self.slow.row(line)
            if row is not None:
                self._slow_rows[_key(row)] = row
                self._learn(row)

    def take_apps(self, status: Optional[int], output: str) -> None:
        self._apps = apps(output) if status == 0 else None

    def take_listing(self, output: str) -> None:
        self._instances = dict(listing(output))

    def end(self, status: Optional[int]) -> None:
        """The stream has ended."""
        self._failure = failure(status, "\n".join(self._words))
        self._words = []

    def sample(self, now: float, patience: float, look_up: Callable[[int], Optional[Dict[str, Any]]]) -> Sample:
        """The newest values; rows older than `patience` seconds are no values any more."""
        sample = Sample()
        if self._failure is not None:
            sample.problems.append(self._failure)
        unknown = {uuid for uuid, pid, _, _ in self._apps or () if pid is None}
        for position, device in enumerate(self.devices):
            row, at = self._rows.get(_key(device), ({}, now))
            lost = [words for bus_id, (words, when) in self._lost.items() if same_bus_id(bus_id, device["pci_bus_id"])]
            values: Dict[str, Any] = {"state": "ok", "processes_known": False}
            if lost:
                values["state"] = "lost" if "lost" in lost[0].lower() else "error"
                make = problem.device_lost if values["state"] == "lost" else problem.device_error
                sample.device_problems[position] = [make(lost[0], None)]
            elif now - at > patience:
                values["state"] = "error"
                if self._failure is None:
                    sample.device_problems[position] = [problem.probe_hung("nvidia-smi", now - at, None)]
            else:
                merged = dict(self._slow_rows.get(_key(device), {}), **row)
                values.update((key, cell) for key, cell in merged.items() if key not in _NOT_METRICS)
                values["processes_known"] = self._apps is not None and device["uuid"] not in unknown
            sample.values.append(values)
        sample.partitions = self._partitions()
        sample.processes = self._processes(look_up)
        return sample

    def _learn(self, row: Dict[str, Any]) -> None:
        """Who a row is about."""
        self._lost = {bus: lost for bus, lost in self._lost.items() if not same_bus_id(bus, row.get("pci_bus_id"))}
        if row.get("driver_version") and self.facts.get("driver_version") != row["driver_version"]:
            self.facts["driver_version"] = row["driver_version"]
            self.revision += 1
        known = [device for device in self.devices if _key(device) == _key(row)]
        device = known[0] if known else {"vendor": "nvidia", "pci_bus_id": None, "uuid": None}
        told = {key: row[key] for key in ("index", "uuid", "pci_bus_id", "model", "serial") if row.get(key) is not None}
        if any(device.get(key) != told[key] for key in told):
            device.update(told)
            self.revision += 1
        if not known:
            # One that was lost and unknown until now has only its bus id.
            self.devices = [
                other
                for other in self.devices
                if other["uuid"] or not same_bus_id(other["pci_bus_id"], device["pci_bus_id"])
            ] + [device]
            self.devices.sort(key=lambda one: one["index"])

    def _take_lost(self, bus_id: str, words: str, now: float) -> None:
        self._lost[bus_id] = (words, now)
        if not any(same_bus_id(bus_id, device["pci_bus_id"]) for device in self.devices):
            taken = {device["index"] for device in self.devices}
            index = min(set(range(len(taken) + 1)) - taken)
            self.devices.append({"index": index, "uuid": None, "pci_bus_id": bus_id, "vendor": "nvidia"})
            self.devices.sort(key=lambda one: one["index"])
            self.revision += 1

    def _position(self, uuid: Optional[str]) -> Optional[int]:
        for position, device in enumerate(self.devices):
            instances = self._instances.get(device["uuid"] or "", [])
            if uuid is not None and (device["uuid"] == uuid or any(one[2] == uuid for one in instances)):
                return position
        return None

    def _partitions(self) -> List[Dict[str, Any]]:
        return [
            {"device_index": position, "kind": "mig", "index": index, "uuid": uuid, "profile": profile}
            for position, device in enumerate(self.devices)
            for profile, index, uuid in self._instances.get(device["uuid"] or "", [])
        ]

    def _processes(self, look_up: Callable[[int], Optional[Dict[str, Any]]]) -> List[Dict[str, Any]]:
        rows = []
        for uuid, pid, name, used in self._apps or ():
            position = self._position(uuid)
            if pid is not None and position is not None:
                row = {"device_index": position, "pid": pid, "kind": "compute", "memory_used_bytes": used}
                who = look_up(pid) or {"name": (name or "").rpartition("/")[2] or None}
                rows.append(dict(row, **who))
        return rows


def _key(row: Dict[str, Any]) -> str:
    return row.get("uuid") or row.get("pci_bus_id") or "#%s" % row.get("index")
