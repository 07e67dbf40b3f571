"""Tables of `amd-smi`: the default one of ROCm 7, and `monitor`."""

import re
from typing import Any, Dict, List, Optional

from gputop.remote import cells, failures, quantities, tables
from gputop.remote.amd_partitions import fold
from gputop.remote.sample import Row, Sample

_DEFAULT = re.compile(r"^\|\s*(?:AMD-SMI\s|BDF\s+GPU-Name)", re.MULTILINE)
_MONITOR = re.compile(
    r"^\s*(?:TIMESTAMP\s+)?GPU\s+(?:XCP\s+)?(?:POWER|PWR_CAP|GPU_T\w*|MEM_T\w*|GFX\w*%?|MEM%|MEM_\w+|ENC\w*%?|DEC\w*%?"
    r"|VRAM_\w+|GTT_\w+|SINGLE_ECC|PCIE_\w+|THROT\w*|VCLOCK)\b.*$|^\s*GPU\s+NAME\s+PID\b.*$",
    re.MULTILINE,
)
_DRIVER = re.compile(r"amdgpu version:\s*(\S+)")
_BUS_ID = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]")
_PROCESS_HEAD = re.compile(r"^\s*GPU\s.*\bPID\b")

_MONITORED = (
    ("power_watts", quantities.watts, ("power", "power usage")),
    ("power_limit_watts", quantities.watts, ("pwr cap", "power cap", "max power")),
    ("temperature_celsius", quantities.celsius, ("gpu temp", "gpu t")),
    ("memory_temperature_celsius", quantities.celsius, ("mem temp", "mem t")),
    ("utilization_percent", quantities.percent, ("gfx util", "gfx%")),
    ("sm_clock_mhz", quantities.megahertz, ("gfx clock", "gfx clk")),
    ("memory_utilization_percent", quantities.percent, ("mem util", "mem%")),
    ("memory_clock_mhz", quantities.megahertz, ("mem clock", "mem clk")),
    ("encoder_utilization_percent", quantities.percent, ("enc util", "enc%")),
    ("decoder_utilization_percent", quantities.percent, ("dec util", "dec%")),
    ("ecc_corrected_volatile", cells.count, ("single ecc",)),
    ("ecc_uncorrected_volatile", cells.count, ("double ecc",)),
    ("pcie_replay_count", cells.count, ("pcie replay",)),
    ("memory_used_bytes", quantities.memory, ("vram used",)),
    ("memory_total_bytes", quantities.memory, ("vram total",)),
)


def looks_like(text: str) -> bool:
    return _DEFAULT.search(text) is not None or _MONITOR.search(text) is not None


def read_into(sample: Sample, text: str) -> None:
    """Add the devices, their processes and the version of the driver."""
    found = _DRIVER.search(text)
    if found and not cells.no_value(found.group(1)):
        sample["facts"]["driver_version"] = found.group(1)
    rows = _default_rows(text) if _DEFAULT.search(text) else _monitor_rows(text)
    sample["devices"] = fold(rows)
    failures.explain_cut(sample, text)


def _default_rows(text: str) -> List[Row]:
    rows: List[Row] = []
    for table in tables.stacked(text)[1]:
        if not table.processes:
            rows += [row for row in (_default_row(table, record) for record in table.records) if row is not None]
            continue
        for row in rows:
            row["processes_known"] = True
        for record in table.records:
            add_process(rows, tables.values_of(table, record))
    return rows


def _default_row(table: tables.Table, record: List[List[str]]) -> Optional[Row]:
    values = tables.values_of(table, record)
    index = cells.integer(values.get("gpu"))
    if index is None:
        return None
    identity = record[0][0].strip()
    bus = _BUS_ID.match(identity)
    name = identity[bus.end() :] if bus else values.get("gpu name")
    draw, limit = quantities.pair(values.get("power usage"))
    used, total = quantities.pair(values.get("mem usage"))
    mode = (cells.text(values.get("partition mode")) or "").split("/")
    return {
        "index": index,
        "vendor": "amd",
        "pci_bus_id": bus.group() if bus else None,
        "model": cells.text(name),
        "utilization_percent": quantities.percent(values.get("gfx uti")),
        "memory_utilization_percent": quantities.percent(values.get("mem uti")),
        "temperature_celsius": quantities.celsius(values.get("temp")),
        "ecc_uncorrected_volatile": cells.count(values.get("uec")),
        "fan_percent": quantities.percent(values.get("fan")),
        "power_watts": quantities.watts(draw),
        "power_limit_watts": quantities.watts(limit),
        "memory_used_bytes": quantities.memory(used),
        "memory_total_bytes": quantities.memory(total),
        "problems": [],
        "xcp": {"compute": mode[0] or None, "memory": mode[1] if len(mode) > 1 else None},
    }


def _monitor_rows(text: str) -> List[Row]:
    """Lines below a header, by the labels of the header; a watch gives the last values of each GPU."""
    rows: Dict[int, Row] = {}
    heads: List[tables.Field] = []
    processes = False
    for line in tables.lines_of(text):
        if _PROCESS_HEAD.match(line):
            heads, processes = tables.columns(line), True
            for row in rows.values():
                row["processes_known"] = True
        elif _MONITOR.match(line):
            heads, processes = tables.columns(line), False
        elif heads and line.strip()[:1].isdigit():
            values = tables.place(heads, line)
            index = cells.integer(values.get("gpu"))
            if processes:
                add_process(list(rows.values()), values)
            elif index is not None:
                rows[index] = _monitored(index, values)
        elif line.strip() and not line.strip()[:1].isdigit():
            heads = []
    return list(rows.values())


def _monitored(index: int, values: Dict[str, str]) -> Row:
    row: Row = {"index": index, "vendor": "amd", "problems": []}
    for key, convert, labels in _MONITORED:
        row[key] = convert(next((values[label] for label in labels if label in values), None))
    used, total = quantities.pair(values.get("vram usage"))
    if used is not None:
        row["memory_used_bytes"], row["memory_total_bytes"] = quantities.memory(used), quantities.memory(total)
    row["xcp"] = {"id": cells.integer(values.get("xcp"))}
    return row


def add_process(rows: List[Row], values: Dict[str, str]) -> None:
    """A process of a table to the device that its row names."""
    index, pid = cells.integer(values.get("gpu")), quantities.pid(values.get("pid"))
    row = next((row for row in rows if row["index"] == index), None)
    if row is None or pid is None:
        return
    used = next((values[label] for label in ("vram mem", "vram", "mem usage") if label in values), None)
    process: Dict[str, Any] = {"pid": pid, "name": cells.text(values.get("process name") or values.get("name"))}
    process["memory_used_bytes"] = quantities.memory(used)
    row.setdefault("processes", []).append(process)
