"""AWS Neuron: `neuron-ls` (JSON and table) and the JSON stream of `neuron-monitor`."""

import re
from typing import Any, Dict, List, Optional

from gputop.remote import cells, failures, lenient_json, quantities, tables
from gputop.remote.sample import Row, Sample, new_sample, problem

ROUTE = "neuron"
VENDOR = "aws"

_LISTED = re.compile(r'"neuron_device"\s*:|"neuron_devices?"\s*:\s*\[')
_MONITORED = re.compile(r'"(?:neuron_runtime_data|neuron_hardware_info|neuron_hw_counters|neuron_k8s_info)"')
_TABLE = re.compile(r"^\|\s*NEURON\s*\|", re.MULTILINE)
_FAILED = re.compile(r"neuron-(?:ls|monitor|top)|neuron driver|no neuron", re.IGNORECASE)


def looks_like(text: str) -> bool:
    head = text[:20000]
    if _LISTED.search(head) or _MONITORED.search(head) or _TABLE.search(head):
        return True
    return len(text) < 4000 and _FAILED.search(text) is not None


def read(text: str) -> Sample:
    sample = new_sample(ROUTE)
    documents, cut = lenient_json.documents(text)
    monitored = [document for document in documents if isinstance(document, dict) and _is_report(document)]
    if monitored:
        complete = monitored[:-1] if cut and len(monitored) > 1 else monitored
        _read_report(sample, complete[-1])
    else:
        sample["devices"] = _listed(documents) or _table(text)
    if cut and documents:
        sample["problems"].append(problem("unreadable-file", "the JSON is cut off or damaged", cut))
    return failures.explain_silence(sample, "neuron-ls", text)


def _is_report(document: Dict[str, Any]) -> bool:
    return any(key in document for key in ("neuron_runtime_data", "neuron_hardware_info", "system_data"))


def _number(value: Any) -> Optional[int]:
    return cells.integer(quantities.said(value))


def _listed(documents: List[Any]) -> List[Row]:
    """`neuron-ls -j`: a list of devices, in newer versions inside an object."""
    entries: List[Any] = []
    for document in documents:
        lists = (
            [document] if isinstance(document, list) else list(document.values()) if isinstance(document, dict) else []
        )
        for value in lists:
            entries += value if isinstance(value, list) else []
    rows = []
    for entry in entries:
        index = _number(entry.get("neuron_device")) if isinstance(entry, dict) else None
        if index is None:
            continue
        row = _row(index)
        row["pci_bus_id"] = cells.text(quantities.said(entry.get("bdf")))
        row["memory_total_bytes"] = quantities.memory(quantities.said(entry.get("memory_size")), 1)
        cores = entry.get("neuroncore_ids")
        numbers = [_number(core) for core in cores] if isinstance(cores, list) else []
        row["partitions"] = [_core(number) for number in numbers if number is not None]
        processes = entry.get("neuron_processes")
        if isinstance(processes, list):
            row["processes_known"] = True
            found = [_process(process) for process in processes if isinstance(process, dict)]
            row["processes"] = [process for process in found if process is not None]
        rows.append(row)
    return rows


def _row(index: int) -> Row:
    return {"index": index, "vendor": VENDOR, "problems": []}


def _core(number: int) -> Dict[str, Any]:
    return {"kind": "neuroncore", "index": number}


def _process(values: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    pid = quantities.pid(quantities.said(values.get("pid")))
    if pid is None:
        return None
    return {"pid": pid, "command": cells.text(quantities.said(values.get("command"))), "kind": "compute"}


def _table(text: str) -> List[Row]:
    """`neuron-ls`: a line a device; further processes of it stand below, without a number."""
    rows: List[Row] = []
    for table in tables.grid(text):
        for cells_of_row in table.rows:
            values = tables.by_label(table, cells_of_row)
            number = cells.integer(values.get("neuron device"))
            if number is not None:
                row = _row(number)
                row["pci_bus_id"] = cells.text(values.get("pci bdf"))
                row["memory_total_bytes"] = quantities.memory(values.get("neuron memory"))
                row["processes_known"] = "pid" in values
                row["processes"] = []
                rows.append(row)
            elif values.get("neuron device") or not rows:
                continue
            process = _process(values)
            if process is not None:
                rows[-1]["processes"].append(process)
    return rows


def _read_report(sample: Sample, report: Dict[str, Any]) -> None:
    """One document of `neuron-monitor`. A core that no runtime uses has no use of its own, not one of 0."""
    hardware = _section(report, "neuron_hardware_info")
    system = _section(report, "system_data")
    per_device = _number(hardware.get("neuroncore_per_device_count"))
    folding = _number(hardware.get("logical_neuroncore_config")) or 1
    per_device = per_device // folding if per_device and folding > 1 and per_device % folding == 0 else per_device
    rows: Dict[int, Row] = {}
    for index in range(min(_number(hardware.get("neuron_device_count")) or 0, 1024)):
        rows[index] = _row(index)
        rows[index]["model"] = cells.text(quantities.said(hardware.get("neuron_device_type")))
        rows[index]["memory_total_bytes"] = quantities.memory(
            quantities.said(hardware.get("neuron_device_memory_size")), 1
        )
    memory = _section(system, "memory_info")
    for key, name in (("memory_used_bytes", "memory_used_bytes"), ("memory_total_bytes", "memory_total_bytes")):
        sample["host"][key] = quantities.memory(quantities.said(memory.get(name)), 1)
    _add_counters(rows, _section(system, "neuron_hw_counters"))
    runtimes = report.get("neuron_runtime_data")
    if isinstance(runtimes, list):
        for row in rows.values():
            row["processes_known"], row["processes"] = per_device is not None, []
        for runtime in runtimes:
            if isinstance(runtime, dict):
                _add_runtime(rows, runtime, per_device)
    for row in rows.values():
        known = [
            core["utilization_percent"] for core in row.get("partitions", []) if core["utilization_percent"] is not None
        ]
        if known and per_device:
            row["utilization_percent"] = sum(known) / max(per_device, len(known))
    error = cells.text(quantities.said(hardware.get("error")))
    if error:
        sample["problems"].append(failures.explain("neuron-monitor", error))
    sample["devices"] = [rows[index] for index in sorted(rows)]


def _section(value: Dict[str, Any], key: str) -> Dict[str, Any]:
    inner = value.get(key)
    return inner if isinstance(inner, dict) else {}


def _add_counters(rows: Dict[int, Row], counters: Dict[str, Any]) -> None:
    devices = counters.get("neuron_devices") or counters.get("hardware_counters")
    for entry in devices if isinstance(devices, list) else []:
        index = (
            _number(entry.get("neuron_device_index", entry.get("device_index"))) if isinstance(entry, dict) else None
        )
        if index is None or index > 1024:
            continue
        row = rows.setdefault(index, _row(index))
        for kind in ("corrected", "uncorrected"):
            parts = [cells.count(quantities.said(entry.get(name + kind))) for name in ("mem_ecc_", "sram_ecc_")]
            if any(part is not None for part in parts):
                row["ecc_%s_volatile" % kind] = sum(part for part in parts if part is not None)


def _add_runtime(rows: Dict[int, Row], runtime: Dict[str, Any], per_device: Optional[int]) -> None:
    """Cores that a process uses, and the memory that it holds on each."""
    report = _section(runtime, "report")
    used = _section(_section(report, "memory_used"), "neuron_runtime_used_bytes")
    by_core = _section(_section(used, "usage_breakdown"), "neuroncore_memory_usage")
    busy = _section(_section(report, "neuroncore_counters"), "neuroncores_in_use")
    pid = quantities.pid(quantities.said(runtime.get("pid")))
    held: Dict[int, Optional[int]] = {}
    for name in sorted(set(busy) | set(by_core), key=lambda core: (len(core), core)):
        core = cells.integer(name)
        if core is None or not per_device:
            continue
        index = core // per_device
        row = rows.get(index)
        if row is None:
            continue
        values = busy.get(name)
        percent = (
            quantities.percent(quantities.said(values.get("neuroncore_utilization")))
            if isinstance(values, dict)
            else None
        )
        parts = [quantities.memory(quantities.said(part), 1) for part in _section(by_core, name).values()]
        known = [part for part in parts if part is not None]
        size = sum(known) if known else None
        partition = {"utilization_percent": percent, "memory_used_bytes": size}
        row.setdefault("partitions", []).append(dict(_core(core), **partition))
        held[index] = (held.get(index) or 0) + size if size is not None else held.get(index)
    if not by_core and len(held) == 1:
        whole = used.get("neuron_device", used.get("device"))
        held = dict.fromkeys(held, quantities.memory(quantities.said(whole), 1))
    for index, size in held.items():
        row = rows[index]
        if size is not None:
            row["memory_used_bytes"] = (row.get("memory_used_bytes") or 0) + size
        if pid is not None:
            row["processes"].append({"pid": pid, "kind": "compute", "memory_used_bytes": size})
