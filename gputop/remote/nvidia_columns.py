"""The columns of `nvidia-smi --query-gpu` and `--query-compute-apps`, by all names they have had."""

import re
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from gputop.remote import cells, nvidia_values
from gputop.remote.nvidia_values import Gathering
from gputop.remote.sample import Row

Convert = Callable[[Optional[str]], Any]

COLUMNS: Tuple[Tuple[str, Convert, Tuple[str, ...]], ...] = (
    # key of a row; how a cell is read; names, the better one first
    ("index", cells.integer, ("index",)),
    ("uuid", cells.text, ("uuid", "gpu_uuid")),
    ("pci_bus_id", cells.text, ("pci.bus_id", "gpu_bus_id")),
    ("model", cells.text, ("name", "gpu_name")),
    ("serial", cells.text, ("serial", "gpu_serial")),
    ("utilization_percent", cells.percent, ("utilization.gpu",)),
    ("memory_utilization_percent", cells.percent, ("utilization.memory",)),
    ("encoder_utilization_percent", cells.percent, ("utilization.encoder",)),
    ("decoder_utilization_percent", cells.percent, ("utilization.decoder",)),
    ("memory_used_bytes", nvidia_values.mib, ("memory.used",)),
    ("memory_total_bytes", nvidia_values.mib, ("memory.total",)),
    ("memory_reserved_bytes", nvidia_values.mib, ("memory.reserved",)),
    ("temperature_celsius", nvidia_values.celsius, ("temperature.gpu",)),
    ("memory_temperature_celsius", nvidia_values.celsius, ("temperature.memory",)),
    ("fan_percent", nvidia_values.amount, ("fan.speed",)),
    ("power_watts", nvidia_values.amount, ("power.draw",)),
    ("power_average_watts", nvidia_values.amount, ("power.draw.average",)),
    ("power_instant_watts", nvidia_values.amount, ("power.draw.instant",)),
    ("power_limit_watts", nvidia_values.amount, ("power.limit", "enforced.power.limit")),
    ("power_default_limit_watts", nvidia_values.amount, ("power.default_limit",)),
    ("sm_clock_mhz", nvidia_values.amount, ("clocks.current.sm", "clocks.sm")),
    ("memory_clock_mhz", nvidia_values.amount, ("clocks.current.memory", "clocks.mem", "clocks.memory")),
    ("sm_clock_max_mhz", nvidia_values.amount, ("clocks.max.sm",)),
    ("memory_clock_max_mhz", nvidia_values.amount, ("clocks.max.memory", "clocks.max.mem")),
    ("performance_state", nvidia_values.performance_state, ("pstate",)),
    ("compute_mode", nvidia_values.compute_mode, ("compute_mode",)),
    ("persistence_mode", nvidia_values.switch, ("persistence_mode",)),
    (
        "throttle_reasons",
        nvidia_values.reasons_of_mask,
        ("clocks_event_reasons.active", "clocks_throttle_reasons.active"),
    ),
    ("pcie_generation", cells.count, ("pcie.link.gen.gpucurrent", "pcie.link.gen.current")),
    ("pcie_generation_max", cells.count, ("pcie.link.gen.max",)),
    ("pcie_width", cells.count, ("pcie.link.width.current",)),
    ("pcie_width_max", cells.count, ("pcie.link.width.max",)),
    ("ecc_mode", nvidia_values.mode, ("ecc.mode.current",)),
    ("ecc_pending_mode", nvidia_values.mode, ("ecc.mode.pending",)),
    ("remapped_rows_corrected", cells.count, ("remapped_rows.correctable",)),
    ("remapped_rows_uncorrected", cells.count, ("remapped_rows.uncorrectable",)),
    ("remapped_rows_pending", nvidia_values.switch, ("remapped_rows.pending",)),
    ("remapped_rows_failed", nvidia_values.switch, ("remapped_rows.failure",)),
    (
        "retired_pages_single_bit",
        cells.count,
        ("retired_pages.single_bit_ecc.count", "retired_pages.sbe"),
    ),
    ("retired_pages_double_bit", cells.count, ("retired_pages.double_bit.count", "retired_pages.dbe")),
    ("retired_pages_pending", nvidia_values.switch, ("retired_pages.pending",)),
    ("recovery_action", nvidia_values.recovery_action, ("gpu_recovery_action",)),
    ("mig_mode", nvidia_values.mode, ("mig.mode.current",)),
)

FACTS = (
    ("driver_version", ("kmd_version", "driver_version")),
    ("hostname", ("hostname",)),
)

_BY_NAME = {name: (key, convert) for key, convert, names in COLUMNS for name in names}
_KNOWN = frozenset(
    list(_BY_NAME)
    + [name for _, names in FACTS for name in names]
    + "timestamp count memory.free vbios_version pid process_name used_gpu_memory used_memory compute_cap".split()
)
_ECC = re.compile(r"ecc\.errors\.(corrected|uncorrected)\.(volatile|aggregate)\.(\w+)$")
_UNIT = re.compile(r"\s*\[[^\]]*\]$")


def name_of(heading: str) -> str:
    """`memory.used` of the heading `memory.used [MiB]`."""
    return _UNIT.sub("", heading.strip().strip('"')).lower()


def is_known(name: str) -> bool:
    """Whether `name` is a column of a query."""
    return name in _KNOWN or name.startswith(("ecc.errors.", "clocks_event_reasons", "clocks_throttle_reasons"))


def known_share(names: Sequence[str]) -> float:
    """How many of `names` are columns of a query: 0 to 1."""
    return sum(is_known(name) for name in names) / float(len(names)) if names else 0.0


def row_of(names: Sequence[str], values: Sequence[str]) -> Row:
    """One GPU; `names` are those of `name_of`."""
    row: Row = {"vendor": "nvidia"}
    gathering = Gathering(row)
    ecc: Dict[Tuple[str, str], Dict[str, int]] = {}
    reasons: List[str] = []
    reasons_known = False
    cells_by_name = dict(zip(names, values))
    for key, convert, choices in COLUMNS:
        for name in choices:
            gathering.put(key, cells_by_name.get(name), convert)
    for name, cell in cells_by_name.items():
        found = _ECC.match(name)
        if found:
            value = cells.count(cell)
            if value is not None:
                ecc.setdefault((found.group(1), found.group(2)), {})[found.group(3)] = value
        elif name.startswith(("clocks_event_reasons.", "clocks_throttle_reasons.")):
            word, on = nvidia_values.reason(name), nvidia_values.switch(cell)
            if word is not None and on is not None:
                reasons_known = True
                reasons += [word] * (on and word not in reasons)
    for (kind, period), parts in ecc.items():
        row["ecc_%s_%s" % (kind, period)] = parts.get("total", sum(_distinct(parts)))
    if reasons_known and row.get("throttle_reasons") is None:
        row["throttle_reasons"] = reasons
    nvidia_values.settle_power(row)
    return gathering.finish()


def _distinct(parts: Dict[str, int]) -> List[int]:
    """Counts that do not contain each other: SRAM and DRAM since Ampere, else the single memories."""
    sums = [parts[name] for name in ("sram", "dram") if name in parts]
    return sums or list(parts.values())


def facts_of(names: Sequence[str], values: Sequence[str]) -> Dict[str, str]:
    """What a row says of the server."""
    by_name = dict(zip(names, values))
    facts: Dict[str, str] = {}
    for key, choices in FACTS:
        for name in choices:
            word = cells.text(by_name.get(name))
            if word is not None and nvidia_values.cell_error(word) is None:
                facts.setdefault(key, word.split(" [")[0])
    return facts


def process_of(names: Sequence[str], values: Sequence[str]) -> Optional[Dict[str, Any]]:
    """One process; `None` where the process list of the GPU could not be read."""
    by_name = dict(zip(names, values))
    pid = cells.integer(by_name.get("pid"))
    if not pid:
        return None
    return {
        "pid": pid,
        "name": cells.text(by_name.get("process_name", by_name.get("name"))),
        "memory_used_bytes": nvidia_values.mib(by_name.get("used_gpu_memory", by_name.get("used_memory"))),
    }
