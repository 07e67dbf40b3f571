"""What is asked of nvidia-smi, and what it prints when it cannot answer. Pure: nothing here runs it."""

import re
from typing import Dict, List, Optional, Set, Tuple

from gputop.remote import cells, nvidia_columns, nvidia_values, problem
from gputop.remote.problem import Problem
from gputop.remote.sample import Row

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

_IDENTITY = ("index", "uuid", "pci_bus_id", "model")

FAST = (
    *_IDENTITY,
    *("utilization_percent", "memory_utilization_percent"),
    *("encoder_utilization_percent", "decoder_utilization_percent"),
    *("memory_used_bytes", "memory_total_bytes", "memory_reserved_bytes"),
    *("temperature_celsius", "memory_temperature_celsius", "fan_percent"),
    *("power_watts", "power_average_watts", "power_instant_watts", "power_limit_watts"),
    *("sm_clock_mhz", "memory_clock_mhz", "performance_state", "throttle_reasons", "pcie_generation", "pcie_width"),
)
"""Keys that are read in every interval."""

MEDIUM = (
    *_IDENTITY,
    *("serial", "power_default_limit_watts", "sm_clock_max_mhz", "memory_clock_max_mhz"),
    *("compute_mode", "persistence_mode", "mig_mode", "ecc_mode", "ecc_pending_mode", "recovery_action"),
    *("pcie_generation_max", "pcie_width_max"),
    *("remapped_rows_corrected", "remapped_rows_uncorrected", "remapped_rows_pending", "remapped_rows_failed"),
    *("retired_pages_single_bit", "retired_pages_double_bit", "retired_pages_pending"),
)
"""Keys that change seldom."""

FAST_NAMES = ("count", "driver_version")
MEDIUM_NAMES = tuple(
    "ecc.errors.%s.%s.%s" % (kind, period, place)
    for kind in ("corrected", "uncorrected")
    for period in ("volatile", "aggregate")
    for place in ("total", "dram", "sram")
)
"""Names that are asked for beside those of the keys."""

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

    def __init__(self, keys: Tuple[str, ...], more: Tuple[str, ...], names: Set[str]) -> None:
        """`names`: what it offers."""
        wanted = [choices for key, _, choices in nvidia_columns.COLUMNS if key in keys] + [(name,) for name in more]
        chosen = [next((name for name in choices if name in names), None) for choices in wanted]
        self._columns = nvidia_columns.Query([name for name in chosen if name is not None])

    @property
    def argument(self) -> str:
        return "--query-gpu=" + ",".join(self._columns.names)

    def row(self, line: str) -> Optional[Row]:
        """What one line says of a GPU; `None` when it is no row of this query."""
        values = line.split(",")
        if len(values) != len(self._columns.names):
            return None
        row = self._columns.row(values)
        return row if row.get("index") is not None else None

    def facts(self, line: str) -> Dict[str, str]:
        """What a row says of the server."""
        return self._columns.facts(line.split(","))

    def count(self, line: str) -> int:
        """How many GPUs there are, by a row; 1 where it does not say."""
        named = dict(zip(self._columns.names, line.split(",")))
        return cells.integer(named.get("count")) or 1


App = Tuple[str, Optional[int], Optional[str], Optional[int]]
"""UUID of the GPU or instance, pid, name, bytes."""


def apps(output: str) -> List[App]:
    """Rows of `APPS_QUERY`: GPU, pid, name, bytes. A pid of `None`: the list of that GPU is not known. Names may hold
    commas."""
    rows = []
    for line in output.splitlines():
        head, _, rest = line.partition(",")
        pid, _, rest = rest.partition(",")
        name, comma, used = rest.rpartition(",")
        if comma and head.strip().startswith(("GPU-", "MIG-")):
            rows.append((head.strip(), cells.integer(pid), cells.text(name), nvidia_values.mib(used)))
    return rows


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
