"""What `nvidia-smi -q` says, as text or as XML: the same tree of names with other spellings.

Both readers flatten the part of one GPU to `{"utilization/gpu_util": "0 %"}` and `{"utilization/gpu": "0 %"}`; the
table below knows all spellings since driver 340.
"""

from functools import lru_cache
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from gputop.remote import cells, nvidia_values
from gputop.remote.metrics import absolute_threshold
from gputop.remote.nvidia_values import Gathering
from gputop.remote.sample import Row, problem

Flat = Mapping[str, str]
Convert = Callable[[Optional[str]], Any]

FIELDS: Tuple[Tuple[str, Convert, Tuple[str, ...]], ...] = (
    ("model", cells.text, ("product_name", "product name")),
    ("uuid", cells.text, ("uuid", "gpu uuid")),
    ("serial", cells.text, ("serial", "serial number")),
    ("minor_number", cells.integer, ("minor_number", "minor number")),
    ("pci_bus_id", cells.text, ("pci/pci_bus_id", "pci/bus id")),
    ("persistence_mode", nvidia_values.switch, ("persistence_mode", "persistence mode")),
    ("mig_mode", nvidia_values.mode, ("mig_mode/current_mig", "mig mode/current")),
    ("compute_mode", nvidia_values.compute_mode, ("compute_mode", "compute mode")),
    ("performance_state", nvidia_values.performance_state, ("performance_state", "performance state")),
    ("fan_percent", nvidia_values.amount, ("fan_speed", "fan speed")),
    ("utilization_percent", cells.percent, ("utilization/gpu_util", "utilization/gpu")),
    ("memory_utilization_percent", cells.percent, ("utilization/memory_util", "utilization/memory")),
    ("encoder_utilization_percent", cells.percent, ("utilization/encoder_util", "utilization/encoder")),
    ("decoder_utilization_percent", cells.percent, ("utilization/decoder_util", "utilization/decoder")),
    (
        "memory_total_bytes",
        nvidia_values.mib,
        ("fb_memory_usage/total", "fb memory usage/total", "memory usage/total"),
    ),
    ("memory_used_bytes", nvidia_values.mib, ("fb_memory_usage/used", "fb memory usage/used", "memory usage/used")),
    ("memory_reserved_bytes", nvidia_values.mib, ("fb_memory_usage/reserved", "fb memory usage/reserved")),
    ("bar1_total_bytes", nvidia_values.mib, ("bar1_memory_usage/total", "bar1 memory usage/total")),
    ("bar1_used_bytes", nvidia_values.mib, ("bar1_memory_usage/used", "bar1 memory usage/used")),
    (
        "temperature_celsius",
        nvidia_values.celsius,
        ("temperature/gpu_temp", "temperature/gpu current temp", "temperature/gpu"),
    ),
    (
        "memory_temperature_celsius",
        nvidia_values.celsius,
        ("temperature/memory_temp", "temperature/memory current temp"),
    ),
    (
        "temperature_slowdown_celsius",
        nvidia_values.celsius,
        ("temperature/gpu_temp_slow_threshold", "temperature/gpu slowdown temp"),
    ),
    (
        "temperature_shutdown_celsius",
        nvidia_values.celsius,
        ("temperature/gpu_temp_max_threshold", "temperature/gpu shutdown temp"),
    ),
    (
        "power_watts",
        nvidia_values.amount,
        (
            "gpu_power_readings/power_draw",
            "gpu power readings/power draw",
            "power_readings/power_draw",
            "power readings/power draw",
        ),
    ),
    (
        "power_average_watts",
        nvidia_values.amount,
        ("gpu_power_readings/average_power_draw", "gpu power readings/average power draw"),
    ),
    (
        "power_instant_watts",
        nvidia_values.amount,
        (
            "gpu_power_readings/instant_power_draw",
            "gpu power readings/instantaneous power draw",
            "gpu power readings/instant power draw",
        ),
    ),
    (
        "power_limit_watts",
        nvidia_values.amount,
        (
            "gpu_power_readings/current_power_limit",
            "gpu power readings/current power limit",
            "gpu_power_readings/gpu_ceiling_power_limit/current_power_limit",
            "gpu power readings/gpu ceiling power limit/current power limit",
            "gpu_power_readings/power_limit",
            "power_readings/power_limit",
            "power readings/power limit",
            "power_readings/enforced_power_limit",
            "power readings/enforced power limit",
        ),
    ),
    (
        "power_default_limit_watts",
        nvidia_values.amount,
        (
            "gpu_power_readings/default_power_limit",
            "gpu power readings/default power limit",
            "gpu_power_readings/gpu_ceiling_power_limit/default_power_limit",
            "gpu power readings/gpu ceiling power limit/default power limit",
            "power_readings/default_power_limit",
            "power readings/default power limit",
        ),
    ),
    ("sm_clock_mhz", nvidia_values.amount, ("clocks/sm_clock", "clocks/sm")),
    ("memory_clock_mhz", nvidia_values.amount, ("clocks/mem_clock", "clocks/memory")),
    ("sm_clock_max_mhz", nvidia_values.amount, ("max_clocks/sm_clock", "max clocks/sm")),
    ("memory_clock_max_mhz", nvidia_values.amount, ("max_clocks/mem_clock", "max clocks/memory")),
    (
        "pcie_generation",
        cells.count,
        ("pci/pci_gpu_link_info/pcie_gen/current_link_gen", "pci/gpu link info/pcie generation/current"),
    ),
    (
        "pcie_generation_max",
        cells.count,
        ("pci/pci_gpu_link_info/pcie_gen/max_link_gen", "pci/gpu link info/pcie generation/max"),
    ),
    (
        "pcie_width",
        cells.count,
        ("pci/pci_gpu_link_info/link_widths/current_link_width", "pci/gpu link info/link width/current"),
    ),
    (
        "pcie_width_max",
        cells.count,
        ("pci/pci_gpu_link_info/link_widths/max_link_width", "pci/gpu link info/link width/max"),
    ),
    ("pcie_tx_bytes_per_second", nvidia_values.kib_per_second, ("pci/tx_util", "pci/tx throughput")),
    ("pcie_rx_bytes_per_second", nvidia_values.kib_per_second, ("pci/rx_util", "pci/rx throughput")),
    ("pcie_replay_count", cells.count, ("pci/replay_counter", "pci/replays since reset")),
    ("ecc_mode", nvidia_values.mode, ("ecc_mode/current_ecc", "ecc mode/current")),
    ("ecc_pending_mode", nvidia_values.mode, ("ecc_mode/pending_ecc", "ecc mode/pending")),
    (
        "remapped_rows_corrected",
        cells.count,
        ("remapped_rows/remapped_row_corr", "remapped rows/correctable error"),
    ),
    (
        "remapped_rows_uncorrected",
        cells.count,
        ("remapped_rows/remapped_row_unc", "remapped rows/uncorrectable error"),
    ),
    ("remapped_rows_pending", nvidia_values.switch, ("remapped_rows/remapped_row_pending", "remapped rows/pending")),
    (
        "remapped_rows_failed",
        nvidia_values.switch,
        ("remapped_rows/remapped_row_failure", "remapped rows/remapping failure occurred"),
    ),
    (
        "retired_pages_single_bit",
        cells.count,
        ("retired_pages/multiple_single_bit_retirement/retired_count", "retired pages/single bit ecc"),
    ),
    (
        "retired_pages_double_bit",
        cells.count,
        ("retired_pages/double_bit_retirement/retired_count", "retired pages/double bit ecc"),
    ),
    (
        "retired_pages_pending",
        nvidia_values.switch,
        (
            "retired_pages/pending_retirement",
            "retired_pages/pending_blacklist",
            "retired pages/pending page blacklist",
            "retired pages/pending",
        ),
    ),
    ("recovery_action", nvidia_values.recovery_action, ("gpu_recovery_action", "gpu recovery action")),
)

_MARGIN = ("temperature/gpu_temp_tlimit", "temperature/gpu t.limit temp")
_DISTANCES = (
    (
        "temperature_slowdown_celsius",
        ("temperature/gpu_temp_slow_tlimit_threshold", "temperature/gpu slowdown t.limit temp"),
    ),
    (
        "temperature_shutdown_celsius",
        ("temperature/gpu_temp_max_tlimit_threshold", "temperature/gpu shutdown t.limit temp"),
    ),
)
"""Thresholds since Ada: degrees below the limit that the margin leads to."""
_RESET_STATUS = (("gpu_reset_status/reset_required", "gpu reset status/reset required"), "gpu-reset")
_DRAIN_STATUS = (
    ("gpu_reset_status/drain_and_reset_recommended", "gpu reset status/drain and reset recommended"),
    "drain-and-reset",
)


TOPS = frozenset(
    [name.partition("/")[0] for _, _, names in FIELDS for name in names]
    + [name.partition("/")[0] for names, _ in (_RESET_STATUS, _DRAIN_STATUS) for name in names]
    + ["ecc_errors", "clocks_event_reasons", "clocks_throttle_reasons"]
)
"""Sections of which something is read: the first parts of the paths."""


def row_of(flat: Flat, bus_id: Optional[str], index: int) -> Row:
    """The row of one GPU. `bus_id`: as its heading names it."""
    row: Row = {"index": index, "vendor": "nvidia"}
    if bus_id:
        row["pci_bus_id"] = bus_id
    gathering = Gathering(row)
    for key, convert, names in FIELDS:
        for name in names:
            gathering.put(key, flat.get(name), convert)
    nvidia_values.settle_power(row)
    _put_thresholds(row, flat)
    _put_reasons(row, flat)
    _put_ecc(row, flat)
    _put_reset_status(row, flat)
    return gathering.finish()


def _put_thresholds(row: Row, flat: Flat) -> None:
    if row.get("memory_temperature_celsius") is not None:  # the margin may be the memory's: see absolute_threshold
        return
    margin = _first_number(flat, _MARGIN)
    for key, names in _DISTANCES:
        if row.get(key) is None:
            value = absolute_threshold(row.get("temperature_celsius"), margin, _first_number(flat, names))
            if value is not None:
                row[key] = value


def _first_number(flat: Flat, names: Tuple[str, ...]) -> Optional[float]:
    values = [nvidia_values.celsius(flat.get(name)) for name in names]
    return next((value for value in values if value is not None), None)


def _put_reasons(row: Row, flat: Flat) -> None:
    active: Dict[str, bool] = {}
    for name, cell in flat.items():
        word = _reason(name)
        on = nvidia_values.switch(cell) if word is not None else None
        if word is not None and on is not None:
            active[word] = active.get(word, False) or on
    if active:
        row["throttle_reasons"] = [word for word, on in active.items() if on]


@lru_cache(maxsize=4096)
def _reason(name: str) -> Optional[str]:
    top = name.partition("/")[0].replace("_", " ")
    if top not in ("clocks event reasons", "clocks throttle reasons"):
        return None
    return nvidia_values.reason(name.rpartition("/")[2])


def _put_ecc(row: Row, flat: Flat) -> None:
    """Volatile and aggregate counts. Since Ampere there is no total: SRAM and DRAM are added up."""
    parts: Dict[str, List[int]] = {}
    totals: Dict[str, int] = {}
    for name, cell in flat.items():
        key = _ecc_key(name)
        value = None if key is None else cells.count(cell)
        if key is None or value is None:
            continue
        if name.endswith("/total"):
            totals[key] = value
        else:
            parts.setdefault(key, []).append(value)
    row.update({key: sum(values) for key, values in parts.items()}, **totals)


@lru_cache(maxsize=4096)
def _ecc_key(name: str) -> Optional[str]:
    """`ecc_corrected_volatile` and so on for a path below the ECC errors."""
    top, _, rest = name.replace("_", " ").partition("/")
    period = rest.partition("/")[0]
    if top != "ecc errors" or period not in ("volatile", "aggregate"):
        return None
    if "uncorrectable" in rest or "double bit" in rest:
        return f"ecc_uncorrected_{period}"
    return f"ecc_corrected_{period}" if "correctable" in rest or "single bit" in rest else None


def _put_reset_status(row: Row, flat: Flat) -> None:
    """Drivers before 570 say with two words what later became the recovery action."""
    for names, action in (_RESET_STATUS, _DRAIN_STATUS):
        if row.get("recovery_action") is None and any(nvidia_values.switch(flat.get(name)) for name in names):
            row["recovery_action"] = action
            row.setdefault("problems", []).append(
                problem(
                    "requires-reset",
                    "the driver asks for a reset of this GPU",
                    None,
                    nvidia_values.HINTS["requires-reset"],
                )
            )


def partition_of(flat: Flat, position: int) -> Dict[str, Any]:
    """One MIG device. Compute instances of one GPU instance share its memory, so each says the same figure."""
    row: Row = {"kind": "mig"}
    gathering = Gathering(row)
    for key, convert, names in _PARTITION_FIELDS:
        for name in names:
            gathering.put(key, flat.get(name), convert)
    row.setdefault("index", position)
    return row


_PARTITION_FIELDS: Tuple[Tuple[str, Convert, Tuple[str, ...]], ...] = (
    ("index", cells.integer, ("index",)),
    ("uuid", cells.text, ("uuid", "mig uuid")),
    ("profile", cells.text, ("name", "profile")),
    ("gpu_instance_id", cells.integer, ("gpu_instance_id", "gpu instance id")),
    ("compute_instance_id", cells.integer, ("compute_instance_id", "compute instance id")),
    (
        "memory_total_bytes",
        nvidia_values.mib,
        ("fb_memory_usage/total", "fb memory usage/total", "shared fb memory usage/total"),
    ),
    (
        "memory_used_bytes",
        nvidia_values.mib,
        ("fb_memory_usage/used", "fb memory usage/used", "shared fb memory usage/used"),
    ),
    ("utilization_percent", cells.percent, ("utilization/gpu_util", "utilization/gpu")),
)


def vgpu_of(flat: Flat, position: int) -> Optional[Dict[str, Any]]:
    """One virtual GPU of `nvidia-smi vgpu -q`; `None` where there is none."""
    if cells.integer(flat.get("vgpu_id") or flat.get("vgpu id")) is None:
        return None
    row: Row = {"kind": "vgpu", "index": position}
    gathering = Gathering(row)
    for key, convert, names in _VGPU_FIELDS:
        for name in names:
            gathering.put(key, flat.get(name), convert)
    return row


_VGPU_FIELDS: Tuple[Tuple[str, Convert, Tuple[str, ...]], ...] = (
    ("uuid", cells.text, ("vgpu_uuid", "vgpu uuid")),
    ("profile", cells.text, ("vgpu_name", "vgpu name", "vgpu_type_name", "vgpu type name")),
    ("memory_total_bytes", nvidia_values.mib, ("fb_memory_usage/total", "fb memory usage/total")),
    ("memory_used_bytes", nvidia_values.mib, ("fb_memory_usage/used", "fb memory usage/used")),
    ("utilization_percent", cells.percent, ("vgpu_utilization/gpu_util", "utilization/gpu")),
)


def process_of(flat: Flat) -> Optional[Dict[str, Any]]:
    """One process; `None` without a process id."""
    pid = cells.integer(flat.get("pid") or flat.get("process id"))
    if not pid:
        return None
    return {
        "pid": pid,
        "name": cells.text(flat.get("process_name") or flat.get("name")),
        "kind": nvidia_values.process_kind(flat.get("type")),
        "memory_used_bytes": nvidia_values.mib(flat.get("used_memory") or flat.get("used gpu memory")),
        "gpu_instance_id": cells.integer(flat.get("gpu_instance_id") or flat.get("gpu instance id")),
        "compute_instance_id": cells.integer(flat.get("compute_instance_id") or flat.get("compute instance id")),
    }


FACTS: Tuple[Tuple[str, Tuple[str, ...]], ...] = (
    ("driver_version", ("kmd_version", "kmd version", "driver_version", "driver version")),
    ("cuda_version", ("cuda_umd_version", "cuda umd version", "cuda_version", "cuda version")),
)


def facts_of(flat: Flat) -> Dict[str, str]:
    """Driver and CUDA version. From 610 the old names carry a sentence after the value, or in place of it."""
    facts: Dict[str, str] = {}
    for key, names in FACTS:
        for name in names:
            word = (flat.get(name) or "").split(" ")[0]
            if word[:1].isdigit():
                facts.setdefault(key, word)
    return facts


def count_problem(listed: int, attached: Optional[str]) -> Optional[Dict[str, Any]]:
    """The tool counts more GPUs than it shows."""
    expected = cells.integer(attached)
    if expected is None or expected <= listed:
        return None
    return problem(
        "devices-missing",
        f"{listed} of {expected} attached GPUs are shown",
        None,
        "the output is cut, or a GPU was lost while it was made",
    )
