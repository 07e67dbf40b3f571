"""Huawei Ascend: the table of `npu-smi info`, versions 20 to 26, with one or several chips a card."""

import re
from typing import Any, Dict, List, Optional, Tuple

from gputop.remote import cells, failures, quantities, smi_table, tables
from gputop.remote.sample import Row, Sample, new_sample, problem

ROUTE = "npu-smi"
VENDOR = "huawei"

_VERSION = re.compile(r"\bVersion\s*:\s*(\S+)")
_NO_PROCESSES = re.compile(r"no running process\w* found in npu (\d{1,6})", re.IGNORECASE)
_FAILED = re.compile(r"npu-smi|\bdcmi\b|DrvMng\w*", re.IGNORECASE)


def looks_like(text: str) -> bool:
    head = text[:4000]
    if "npu-smi" in head and "Version" in head:
        return True
    if re.search(r"\|\s*NPU\s+(?:Name|Chip)\b", head):
        return True
    return len(text) < 4000 and _FAILED.search(text) is not None


def read(text: str) -> Sample:
    sample = new_sample(ROUTE)
    chips: List[Tuple[int, int, Row]] = []
    known = set()
    listed: Dict[Tuple[int, Optional[int]], List[Dict[str, Any]]] = {}
    titles, found = tables.stacked(text)
    version = next((match.group(1) for match in map(_VERSION.search, titles) if match), None)
    if version:
        sample["facts"]["driver_version"] = version
    for table in found:
        if not table.processes:
            chips += [chip for chip in (_chip(table, record) for record in table.records) if chip is not None]
            continue
        for note in table.notes:
            quiet = _NO_PROCESSES.search(note)
            if quiet:
                known.add(int(quiet.group(1)))
        for record in table.records:
            values = tables.values_of(table, record)
            npu, chip = cells.integer(values.get("npu")), cells.integer(values.get("chip"))
            process = _process(values)
            if npu is not None and process is not None:
                known.add(npu)
                listed.setdefault((npu, chip), []).append(process)
    several = len({npu for npu, _, _ in chips}) < len(chips)
    for npu, chip, row in chips:
        number = row.pop("number")
        row["index"] = number if several and number is not None else npu
        row["processes_known"] = npu in known
        row["processes"] = listed.get((npu, chip), []) + listed.get((npu, None), [])
        sample["devices"].append(row)
    return failures.explain_silence(failures.explain_cut(sample, text), "npu-smi", text)


def _chip(table: tables.Table, record: List[List[str]]) -> Optional[Tuple[int, int, Row]]:
    """Numbers of the card and of the chip on it, and the chip's row.

    The number of the chip among all chips (`Phy-ID`, in older versions `Device`) counts where cards have several.
    """
    values = tables.values_of(table, record)
    npu, chip = cells.integer(values.get("npu")), cells.integer(values.get("chip"))
    if npu is None:
        return None
    used, total = _memory(values)
    row: Row = {
        "number": cells.integer(values.get("phy id") or values.get("device")),
        "vendor": VENDOR,
        "model": cells.text(values.get("name")),
        "pci_bus_id": smi_table.bus_id(values.get("bus id")),
        "utilization_percent": quantities.percent(smi_table.pick(values, ("aicore %", "aicore"))),
        "temperature_celsius": quantities.celsius(smi_table.pick(values, ("temp c", "temp"))),
        "power_watts": quantities.watts(smi_table.pick(values, ("power w", "power"))),
        "memory_used_bytes": used,
        "memory_total_bytes": total,
        "problems": [],
    }
    health = values.get("health", "").strip()
    if health and health.upper() not in ("OK", "NA", "N/A", "-"):
        row["problems"].append(
            problem(
                "device-error", "health: " + health, None, "npu-smi info -t health -i %d tells the error codes" % npu
            )
        )
    return npu, chip if chip is not None else 0, row


def _memory(values: Dict[str, str]) -> Tuple[Optional[int], Optional[int]]:
    """HBM where there is some, else DDR; a total of 0 says that the chip has no such memory."""
    for label in ("hbm usage mb", "hbm usage", "memory usage mb", "memory usage"):
        used, total = quantities.pair(values.get(label))
        size = quantities.memory(total)
        if size:
            return quantities.memory(used), size
    return None, None


def _process(values: Dict[str, str]) -> Optional[Dict[str, Any]]:
    pid = quantities.pid(smi_table.pick(values, ("process id", "pid")))
    if pid is None:
        return None
    used = smi_table.pick(values, ("process memory mb", "process memory"))
    return {"pid": pid, "name": cells.text(values.get("process name")), "memory_used_bytes": quantities.memory(used)}
