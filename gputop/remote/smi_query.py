"""Text in the layout of `nvidia-smi -q` by other vendors' tools."""

import re
from typing import Any, Dict, List

from gputop.remote import cells, keyed, quantities, smi_table
from gputop.remote.nvidia_values import compute_mode, mode, performance_state
from gputop.remote.sample import Row, Sample, new_sample

_SECTION = re.compile(
    r"(?:GPU|AIP|Card|MLU)\s*(?:#?(?P<index>\d{1,4})\b(?!:))?\s*(?P<bus>[0-9a-fA-F:]{7,16}\.[0-9a-fA-F])?", re.I
)

_VALUES = (
    # key; converter; paths in the order in which they are tried
    ("model", cells.text, ("product name",)),
    ("serial", cells.text, ("serial number",)),
    ("uuid", cells.text, ("gpu uuid", "uuid")),
    ("minor_number", cells.integer, ("minor number",)),
    ("memory_used_bytes", quantities.memory, ("fb memory usage/used", "memory usage/used", "memory/used")),
    ("memory_total_bytes", quantities.memory, ("fb memory usage/total", "memory usage/total", "memory/total")),
    ("utilization_percent", quantities.percent, ("utilization/gpu",)),
    ("memory_utilization_percent", quantities.percent, ("utilization/memory",)),
    ("encoder_utilization_percent", quantities.percent, ("utilization/encoder",)),
    ("decoder_utilization_percent", quantities.percent, ("utilization/decoder",)),
    ("temperature_celsius", quantities.celsius, ("temperature/gpu current temp", "temperature/gpu temp")),
    ("memory_temperature_celsius", quantities.celsius, ("temperature/memory current temp",)),
    ("temperature_slowdown_celsius", quantities.celsius, ("temperature/gpu slowdown temp",)),
    ("temperature_shutdown_celsius", quantities.celsius, ("temperature/gpu shutdown temp",)),
    ("fan_percent", quantities.percent, ("fan speed",)),
    ("power_watts", quantities.watts, ("power readings/power draw", "power/power draw")),
    ("power_limit_watts", quantities.watts, ("power readings/power limit",)),
    ("power_default_limit_watts", quantities.watts, ("power readings/default power limit",)),
    ("sm_clock_mhz", quantities.megahertz, ("clocks/sm", "clocks/graphics")),
    ("memory_clock_mhz", quantities.megahertz, ("clocks/memory",)),
    ("sm_clock_max_mhz", quantities.megahertz, ("max clocks/sm", "max clocks/graphics")),
    ("memory_clock_max_mhz", quantities.megahertz, ("max clocks/memory",)),
    ("performance_state", performance_state, ("performance state",)),
    ("compute_mode", compute_mode, ("compute mode",)),
    ("ecc_mode", mode, ("ecc mode/current",)),
    ("ecc_pending_mode", mode, ("ecc mode/pending",)),
    ("pcie_generation", cells.integer, ("pci/gpu link info/pcie generation/current",)),
    ("pcie_generation_max", cells.integer, ("pci/gpu link info/pcie generation/max",)),
    ("pcie_width", cells.count, ("pci/gpu link info/link width/current",)),
    ("pcie_width_max", cells.count, ("pci/gpu link info/link width/max",)),
    ("retired_pages_single_bit", cells.count, ("retired pages/single bit ecc",)),
    ("retired_pages_double_bit", cells.count, ("retired pages/double bit ecc",)),
)


def read(text: str, route: str, vendor: str) -> Sample:
    sample = new_sample(route)
    for node in keyed.parse(text):
        key = node.key.lower()
        if key in ("driver version", "cuda version"):
            sample["facts"][key.replace(" ", "_")] = cells.text(node.value)
        elif node.children and node.value is None:
            section = _SECTION.match(node.key)
            if section and section.end() == len(node.key) and (section.group("index") or section.group("bus")):
                sample["devices"].append(_device(node, section, len(sample["devices"]), vendor))
    return sample


def _device(node: keyed.Node, section: Any, position: int, vendor: str) -> Row:
    index = section.group("index")
    row: Row = {"index": int(index) if index else position, "vendor": vendor, "problems": []}
    for key, convert, paths in _VALUES:
        row[key] = convert(node.first(*paths))
    row["pci_bus_id"] = smi_table.bus_id(section.group("bus") or node.first("pci/bus id"))
    said = node.first("processes")
    listed = node.child("processes")
    if listed is not None and (listed.children or (said or "").lower() in ("none", "no running processes found")):
        row["processes_known"] = True
        row["processes"] = _processes(listed)
    return row


def _processes(listed: keyed.Node) -> List[Dict[str, Any]]:
    """Each process begins with its id; its other keys follow beside or below it."""
    found: List[Dict[str, Any]] = []
    waiting = list(reversed(listed.children))
    while waiting:
        node = waiting.pop()
        waiting.extend(reversed(node.children))
        key, value = node.key.lower(), node.value
        if key == "process id":
            pid = quantities.pid(value)
            if pid is not None:
                found.append({"pid": pid})
        elif found and key == "name":
            found[-1]["name"] = cells.text(value)
        elif found and "memory" in key:
            found[-1]["memory_used_bytes"] = quantities.memory(value)
    return found
