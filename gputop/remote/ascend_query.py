"""Huawei Ascend: the lists of `npu-smi info -l` and `-m`, and what `npu-smi info -t …` says of cards."""

import re
from typing import Any, Callable, Dict, List, Optional, Tuple

from gputop.remote import cells, quantities, smi_table, tables
from gputop.remote.sample import Row, problem

VENDOR = "huawei"

_CARD = re.compile(r"^\s*NPU ID\s*:\s*\d", re.MULTILINE)
_MAP = re.compile(r"^\s*NPU ID\s{2,}Chip ID\s{2,}Chip (?:Logic|Phy)", re.MULTILINE)
_LINE = re.compile(r"^\s*(?P<key>[^:]*\S)\s*:\s*(?P<value>.*?)\s*$")
_PROCESS = re.compile(
    r"Process id\s*:\s*(?P<pid>\d+)\s+Process name\s*:\s*(?P<name>.*?)\s+Process memory\(MB\)\s*:\s*(\d+)"
)
_CONTROLLER = "mcu"
"""The chip that manages a card is no accelerator."""

_VALUES: Tuple[Tuple[str, Callable[[Optional[str]], Any], Tuple[str, ...]], ...] = (
    ("model", cells.text, ("chip name", "product name")),
    ("serial", cells.text, ("serial number",)),
    ("pci_bus_id", smi_table.bus_id, ("pcie bus info",)),
    ("utilization_percent", quantities.percent, ("aicore usage rate %",)),
    ("memory_utilization_percent", quantities.percent, ("hbm bandwidth usage rate %",)),
    ("memory_temperature_celsius", quantities.celsius, ("hbm temperature c",)),
    ("temperature_celsius", quantities.celsius, ("temperature c", "npu temperature c")),
    ("power_watts", quantities.watts, ("npu real time power w", "power dissipation w")),
    ("sm_clock_mhz", quantities.megahertz, ("aicore curfreq mhz",)),
    ("sm_clock_max_mhz", quantities.megahertz, ("aicore freq mhz",)),
)


def looks_like(text: str) -> bool:
    return _CARD.search(text) is not None or _MAP.search(text) is not None


def rows(text: str) -> List[Row]:
    """A row a chip; those of one card that has several are numbered through."""
    chips = _mapped(text) if _MAP.search(text) else _told(text)
    found: Dict[int, Row] = {}
    for npu, chip, count, values in chips:
        index = npu if count <= 1 else npu * count + chip
        row = found.setdefault(index, {"index": index, "vendor": VENDOR, "problems": []})
        for key, value in _row(npu, values).items():
            if key in ("problems", "processes"):
                row.setdefault(key, []).extend(value)
            elif row.get(key) is None:
                row[key] = value
    return [found[index] for index in sorted(found)]


class _Chip:
    """The lines about one chip: they begin with its number, or end with it."""

    def __init__(self, npu: int, count: int) -> None:
        self.npu, self.count = npu, count
        self.number: Optional[int] = None
        self.values: Dict[str, Any] = {}


def _told(text: str) -> List[Tuple[int, int, int, Dict[str, Any]]]:
    chips: List[_Chip] = []
    chip: Optional[_Chip] = None
    for line in text.split("\n"):
        process = _PROCESS.search(line)
        found = _LINE.match(line)
        if process is not None and chip is not None:
            chip.values.setdefault("processes", []).append(process.groups())
            continue
        key, value = (tables.name(found.group("key")), found.group("value")) if found else ("", "")
        number = cells.integer(value)
        if key == "npu id":
            chip = _Chip(number, 1) if number is not None else None
            chips += [chip] if chip is not None else []
        elif chip is None:
            continue
        elif key == "chip count":
            chip.count = number or 1
        elif key == "chip id":
            if chip.number is not None or chip.values.get("chip name") == _CONTROLLER:
                chip = _Chip(chip.npu, chip.count)
                chips.append(chip)
            chip.number = number
        elif key == "chip name" and value.lower() == _CONTROLLER:
            chip = _Chip(chip.npu, chip.count)
            chip.values["chip name"] = _CONTROLLER
        elif key:
            if chip.number is not None and key in chip.values and key != "processes":
                chip = _Chip(chip.npu, chip.count)
                chips.append(chip)
            chip.values.setdefault(key, value)
    return [(one.npu, one.number or 0, one.count, one.values) for one in chips]


def _mapped(text: str) -> List[Tuple[int, int, int, Dict[str, Any]]]:
    """`-m`: a line a chip, the controllers among them."""
    heads: List[tables.Field] = []
    chips: Dict[Tuple[int, int], Dict[str, Any]] = {}
    for line in text.split("\n"):
        if _MAP.match(line):
            heads = tables.columns(line)
        elif heads and line.strip()[:1].isdigit():
            values: Dict[str, Any] = tables.place(heads, line)
            npu, chip = cells.integer(values.get("npu id")), cells.integer(values.get("chip id"))
            if npu is not None and chip is not None and values.get("chip name", _CONTROLLER).lower() != _CONTROLLER:
                chips[npu, chip] = values
    numbers = [npu for npu, _ in chips]
    return [(npu, chip, numbers.count(npu), values) for (npu, chip), values in chips.items()]


def _row(npu: int, values: Dict[str, Any]) -> Row:
    row: Row = {}
    for key, convert, names in _VALUES:
        row[key] = convert(smi_table.pick(values, names))
    sizes = (quantities.memory(values.get(key)) for key in ("hbm capacity mb", "ddr capacity mb"))
    row["memory_total_bytes"] = next((size for size in sizes if size), None)
    listed = values.get("processes")
    if listed:
        row["processes_known"] = True
        row["processes"] = [
            {"pid": quantities.pid(pid), "name": cells.text(name), "memory_used_bytes": quantities.memory(used)}
            for pid, name, used in listed
            if quantities.pid(pid) is not None
        ]
    health = smi_table.pick(values, ("health status", "health"))
    if cells.text(health) and health != "OK":
        row["problems"] = [health_problem(npu, str(health))]
    return row


def health_problem(npu: int, health: str) -> Dict[str, Any]:
    return problem(
        "device-error", "health: " + health, None, "npu-smi info -t health -i %d tells the error codes" % npu
    )
