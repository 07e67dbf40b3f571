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


class Query:
    """A query by the names of its columns, as `name_of` gives them."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self._fields: List[Tuple[str, Convert, int]] = []
        self._ecc: List[Tuple[str, str, int]] = []
        self._reasons: List[Tuple[str, int]] = []
        places = {name: at for at, name in enumerate(self.names)}
        for key, convert, choices in COLUMNS:
            self._fields += [(key, convert, places[name]) for name in choices if name in places]
        self._facts = [(key, places[name]) for key, choices in FACTS for name in choices if name in places]
        for name, at in places.items():
            found = _ECC.match(name)
            if found:
                self._ecc.append(("ecc_%s_%s" % found.group(1, 2), found.group(3), at))
            elif name.startswith(("clocks_event_reasons.", "clocks_throttle_reasons.")):
                word = nvidia_values.reason(name)
                self._reasons += [(word, at)] if word else []

    def row(self, values: Sequence[str]) -> Row:
        """One GPU; `values` may be fewer than columns."""
        row: Row = {"vendor": "nvidia"}
        gathering = Gathering(row)
        last = len(values)
        for key, convert, at in self._fields:
            if at < last:
                gathering.put(key, values[at], convert)
        ecc: Dict[str, Dict[str, int]] = {}
        for key, part, at in self._ecc:
            value = cells.count(values[at]) if at < last else None
            if value is not None:
                ecc.setdefault(key, {})[part] = value
        for key, parts in ecc.items():
            row[key] = parts.get("total", sum(_distinct(parts)))
        if row.get("throttle_reasons") is None:
            states = [(word, nvidia_values.switch(values[at])) for word, at in self._reasons if at < last]
            if any(on is not None for _, on in states):
                row["throttle_reasons"] = [word for word, on in states if on]
        nvidia_values.settle_power(row)
        return gathering.finish()

    def facts(self, values: Sequence[str]) -> Dict[str, str]:
        """What a row says of the server."""
        facts: Dict[str, str] = {}
        for key, at in self._facts:
            word = cells.text(values[at]) if at < len(values) else None
            if word is not None and nvidia_values.cell_error(word) is None:
                facts.setdefault(key, word.split(" [")[0])
        return facts


def _distinct(parts: Dict[str, int]) -> List[int]:
    """Counts that do not contain each other: SRAM and DRAM since Ampere, else the single memories."""
    sums = [parts[name] for name in ("sram", "dram") if name in parts]
    return sums or list(parts.values())


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
