"""Intel Gaudi: `hl-smi` as a table and as CSV (`-Q … -f csv`)."""

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from gputop.remote import cells, failures, quantities, smi_table
from gputop.remote.sample import Row, Sample, new_sample

ROUTE = "hl-smi"
VENDOR = "habana"

_FIELDS: Dict[str, Tuple[str, Callable[[Optional[str]], Any]]] = {
    "index": ("index", cells.integer),
    "module_id": ("minor_number", cells.integer),
    "uuid": ("uuid", cells.text),
    "bus_id": ("pci_bus_id", smi_table.bus_id),
    "name": ("model", cells.text),
    "serial": ("serial", cells.text),
    "temperature.aip": ("temperature_celsius", quantities.celsius),
    "temperature.memory": ("memory_temperature_celsius", quantities.celsius),
    "utilization.aip": ("utilization_percent", quantities.percent),
    "utilization.memory": ("memory_utilization_percent", quantities.percent),
    "memory.used": ("memory_used_bytes", quantities.memory),
    "memory.total": ("memory_total_bytes", quantities.memory),
    "power.draw": ("power_watts", quantities.watts),
    "power.limit": ("power_limit_watts", quantities.watts),
    "clocks.current.soc": ("sm_clock_mhz", quantities.megahertz),
    "clocks.max.soc": ("sm_clock_max_mhz", quantities.megahertz),
    "ecc.errors.corrected.volatile.total": ("ecc_corrected_volatile", cells.count),
    "ecc.errors.uncorrected.volatile.total": ("ecc_uncorrected_volatile", cells.count),
    "ecc.errors.corrected.aggregate.total": ("ecc_corrected_aggregate", cells.count),
    "ecc.errors.uncorrected.aggregate.total": ("ecc_uncorrected_aggregate", cells.count),
    "pcie.link.gen.current": ("pcie_generation", cells.integer),
    "pcie.link.gen.max": ("pcie_generation_max", cells.integer),
    "pcie.link.width.current": ("pcie_width", cells.count),
    "pcie.link.width.max": ("pcie_width_max", cells.count),
}
"""Names of `-Q`: our key and what makes a value of the cell."""

_TELLING = ("utilization.aip", "temperature.aip")


def looks_like(text: str) -> bool:
    head = text[:4000]
    return "HL-SMI" in head or any(name in head.split("\n", 1)[0] for name in _TELLING)


def read(text: str) -> Sample:
    if any(name in text.lstrip().split("\n", 1)[0] for name in _TELLING):
        return read_csv(text)
    sample = smi_table.read(text, ROUTE, VENDOR)
    versions = [version for version in smi_table.titles_with(text, "Driver Version:") if version]
    if versions:
        sample["facts"]["driver_version"] = versions[0]
    return failures.explain_silence(sample, "hl-smi", text)


def read_csv(text: str, columns: Optional[Sequence[str]] = None) -> Sample:
    """`columns`: the fields that were asked for, where the answer has no header. A stream gives its last values."""
    sample = new_sample(ROUTE)
    names: List[str] = [_field(name) for name in columns] if columns is not None else []
    devices: Dict[Any, Row] = {}
    for line in text.split("\n"):
        row_cells = [cell.strip() for cell in line.split(",")]
        if not line.strip():
            continue
        if not names or [_field(cell) for cell in row_cells] == names:
            names = [_field(cell) for cell in row_cells]
            continue
        if len(row_cells) != len(names):
            continue
        values = dict(zip(names, row_cells))
        row: Row = {"vendor": VENDOR, "problems": []}
        for name, cell in values.items():
            if name in _FIELDS:
                field, convert = _FIELDS[name]
                row[field] = convert(cell)
        identity = row.get("uuid") or row.get("pci_bus_id")
        if row.get("index") is None:  # then the order of the rows is the tool's order
            before = devices.get(identity)
            row["index"] = before["index"] if before else len(devices)
        devices[identity or row["index"]] = row
        if cells.text(values.get("driver_version")):
            sample["facts"]["driver_version"] = values["driver_version"]
    sample["devices"] = list(devices.values())
    return failures.explain_silence(sample, "hl-smi", text)


def _field(name: str) -> str:
    """`utilization.aip [%]` is `utilization.aip`."""
    return name.split("[")[0].strip().lower()
