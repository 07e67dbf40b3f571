"""Tables in nvidia-smi's layout by other vendors' tools: one reader, the labels tell what a cell means."""

from typing import Any, Dict, List, Optional

from gputop.remote import cells, failures, quantities, tables
from gputop.remote.nvidia_values import compute_mode, performance_state, process_kind
from gputop.remote.sample import Row, Sample, new_sample, problem

INDEX = ("gpu", "aip", "card", "npu", "dcu", "id", "device")
MODEL = ("name", "gpu name", "product name")
BUS = ("bus id", "bdf", "pcie", "bus")
UTILIZATION = ("gpu util", "aip util", "util", "mlu util", "gpu utilization")
MEMORY = ("memory usage", "mem usage", "mem")
POWER = ("pwr usage cap", "power usage cap", "power", "power usage")
UNCORRECTED = ("volatile uncorr ecc", "volatile uncor events")


def read(text: str, route: str, vendor: str) -> Sample:
    """Devices and processes of all tables in `text`; facts and problems are left to the caller."""
    sample = new_sample(route)
    _, found = tables.stacked(text)
    devices: Dict[int, Row] = {}
    for table in found:
        if table.processes:
            _add_processes(devices, table)
        else:
            for record in table.records:
                row = _device(tables.values_of(table, record), vendor)
                if row is not None:
                    devices[row["index"]] = row
    sample["devices"] = [devices[index] for index in sorted(devices)]
    return failures.explain_cut(sample, text)


def pick(values: Dict[str, str], names: Any) -> Optional[str]:
    """The first of several labels that has a cell."""
    return next((values[key] for key in names if key in values), None)


def _device(values: Dict[str, str], vendor: str) -> Optional[Row]:
    index = cells.integer(pick(values, INDEX))
    if index is None:
        return None
    row: Row = {"index": index, "vendor": vendor, "problems": []}
    row["model"] = cells.text(pick(values, MODEL))
    row["pci_bus_id"] = bus_id(pick(values, BUS))
    row["utilization_percent"] = quantities.percent(pick(values, UTILIZATION))
    used, total = quantities.pair(pick(values, MEMORY))
    row["memory_used_bytes"], row["memory_total_bytes"] = quantities.memory(used), quantities.memory(total)
    power = pick(values, POWER)
    draw, limit = quantities.pair(power) if "/" in (power or "").replace("N/A", "") else (power, None)
    row["power_watts"], row["power_limit_watts"] = quantities.watts(draw), quantities.watts(limit)
    row["temperature_celsius"] = quantities.celsius(values.get("temp"))
    row["fan_percent"] = quantities.percent(values.get("fan"))
    row["performance_state"] = performance_state(values.get("perf"))
    row["compute_mode"] = compute_mode(pick(values, ("compute m", "compute mode")))
    row["sm_clock_mhz"] = quantities.megahertz(values.get("clock sm"))
    row["memory_clock_mhz"] = quantities.megahertz(values.get("clock mem"))
    row["ecc_uncorrected_volatile"] = cells.count(pick(values, UNCORRECTED))
    if values.get("gpu state", "").lower().startswith("not "):
        row["state"] = "error"
        row["problems"].append(problem("device-error", "the tool cannot reach the device", values["gpu state"][:200]))
    return row


def bus_id(cell: Optional[str]) -> Optional[str]:
    """A PCI address; `None` for all else."""
    word = (cell or "").strip()
    parts = word.split(":")
    hexadecimal = all(letter in "0123456789abcdefABCDEF.:" for letter in word)
    return word if len(parts) in (2, 3) and all(parts) and hexadecimal else None


def _add_processes(devices: Dict[int, Row], table: tables.Table) -> None:
    """Processes of a table to their devices, which then all have a known list."""
    for row in devices.values():
        row["processes_known"] = True
        row.setdefault("processes", [])
    for record in table.records:
        values = tables.values_of(table, record)
        add_process(devices, cells.integer(pick(values, INDEX)), process_of(values))


def add_process(devices: Dict[int, Row], index: Optional[int], process: Optional[Dict[str, Any]]) -> None:
    """`process` to the device of that number, when there are both."""
    if index is not None and index in devices and process is not None:
        devices[index].setdefault("processes", []).append(process)


def process_of(values: Dict[str, str]) -> Optional[Dict[str, Any]]:
    """A process from the cells of a row by label."""
    pid = quantities.pid(pick(values, ("pid", "process id")))
    if pid is None:
        return None
    amount = next((values[key] for key in values if "usage" in key or "memory" in key or key == "mem"), None)
    return {
        "pid": pid,
        "name": cells.text(pick(values, ("process name", "name", "command line", "command"))),
        "kind": process_kind(values.get("type")),
        "memory_used_bytes": quantities.memory(amount),
    }


def titles_with(text: str, word: str) -> List[str]:
    """What follows `word` in the title lines, up to two blanks: a version."""
    found = []
    for title in tables.stacked(text)[0]:
        at = title.lower().find(word.lower())
        if at >= 0:
            found.append(title[at + len(word) :].strip(" :\t").split("  ")[0].strip())
    return [value for value in found if value]
