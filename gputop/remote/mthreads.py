"""Moore Threads: the table of `mthreads-gmi`, and its text (`-q`)."""

import re
from typing import Any, Dict, List, Optional

from gputop.remote import cells, failures, quantities, smi_query, smi_table, tables
from gputop.remote.nvidia_values import mode
from gputop.remote.sample import Row, Sample, new_sample

ROUTE = "mthreads-gmi"
VENDOR = "mthreads"

_DRIVER = re.compile(r"Driver Version\s*:\s*(\S+)")
_RECORD = re.compile(r"\s{0,3}\d{1,4}\s")


def looks_like(text: str) -> bool:
    head = text[:4000].lower()
    return (
        "mthreads-gmi:" in head or "mthreads-gmi log" in head or ("mthreads-gmi" in head and "driver version" in head)
    )


def read(text: str) -> Sample:
    if "|PCIe" in text or "|%GPU" in text:
        sample = _table(text)
    else:
        sample = smi_query.read(text, ROUTE, VENDOR)
    found = _DRIVER.search(text)
    if found:
        sample["facts"]["driver_version"] = found.group(1)
    return failures.explain_silence(sample, "mthreads-gmi", text)


def _table(text: str) -> Sample:
    """Blocks parted by rules: labels, then one record a device; its first line begins with the number."""
    sample = new_sample(ROUTE)
    header: List[List[str]] = []
    devices: Dict[int, Row] = {}
    at = 0
    values: Optional[Dict[str, str]] = None
    process_heads: Optional[List[Any]] = None
    for line in tables.lines_of(text):
        if tables.is_rule(line) or not line.strip():
            continue
        parts = line.split("|")
        if line.strip().lower().startswith("processes"):
            header, values = [], None
            for row in devices.values():
                row["processes_known"], row["processes"] = True, []
        elif line.startswith("ID "):
            if len(parts) > 1:
                header = [parts]
            else:
                process_heads = tables.columns(line)
        elif header and len(parts) == len(header[0]) and values is None and not _RECORD.match(line):
            header.append(parts)
        elif header and len(parts) == len(header[0]):
            if _RECORD.match(line):
                at, values = 0, {}
            if values is not None and at < len(header):
                for labels, cell in zip(header[at], parts):
                    for key, value in tables.labelled(labels, cell).items():
                        values.setdefault(key, value)
                at += 1
                device = _device(values)
                if device is not None:
                    devices[device["index"]] = device
        elif process_heads is not None and _RECORD.match(line):
            found = tables.place(process_heads, line)
            smi_table.add_process(devices, cells.integer(found.get("id")), smi_table.process_of(found))
    sample["devices"] = list(devices.values())
    return sample


def _device(values: Dict[str, str]) -> Optional[Row]:
    index = cells.integer(values.get("id"))
    if index is None:
        return None
    used, total = quantities.pair(values.get("mem"))
    width, width_max = quantities.pair(values.get("pcie lane width"))
    return {
        "index": index,
        "vendor": VENDOR,
        "model": cells.text(values.get("name")),
        "pci_bus_id": smi_table.bus_id(values.get("pcie")),
        "utilization_percent": quantities.percent(values.get("%gpu")),
        "memory_used_bytes": quantities.memory(used),
        "memory_total_bytes": quantities.memory(total),
        "temperature_celsius": quantities.celsius(values.get("temp")),
        "pcie_width": cells.count(width),
        "pcie_width_max": cells.count(width_max),
        "ecc_mode": mode(values.get("ecc mode")),
        "problems": [],
    }
