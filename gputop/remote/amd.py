"""AMD: `amd-smi` as JSON (flat and wrapped), as text, as CSV and as tables; ROCm 6 and 7.

JSON, text and CSV carry the same keys in the same order, so all become the same nested dictionaries first.
"""

import re
from typing import Any, Callable, Dict, List, Optional, Tuple

from gputop.remote import amd_tables, cells, failures, keyed, lenient_json, quantities, tables
from gputop.remote.amd_partitions import fold
from gputop.remote.sample import Row, Sample, new_sample, problem

ROUTE = "amd-smi"
VENDOR = "amd"

_JSON_HINT = re.compile(
    r'"(?:gpu_data|process_list|process_info|asic|bdf|mem_usage|usage|power_usage|hotspot_temperature|vram|board'
    r'|partition|temperature|clock|pcie|ecc|ecc_blocks|fan|energy|limit|driver|xcp|vram_used|gfx)"'
)
_GPU_KEY = re.compile(r'"gpu"\s*:\s*\d')
_TEXT = re.compile(r"^GPU:\s*\d+\s*$", re.MULTILINE)
_CSV = re.compile(r"^(?:timestamp,)?gpu,[a-z_0-9,]+\s*$", re.MULTILINE)
_FAILED = re.compile(r"amd-?smi|amdsmi_|can ?not find a device: GPU|check amdgpu version", re.IGNORECASE)

_FIELDS: Tuple[Tuple[str, Callable[[Optional[str]], Any], Tuple[str, ...]], ...] = (
    # key; converter; paths in the order in which they are tried: of static, list, metric, then of monitor and CSV
    ("pci_bus_id", cells.text, ("bus/bdf", "bdf", "gpu_bdf")),
    ("uuid", cells.text, ("uuid", "gpu_uuid")),
    ("model", cells.text, ("asic/market_name", "board/product_name", "market_name", "product_name")),
    (
        "serial",
        cells.text,
        ("board/product_serial", "board/serial_number", "asic/asic_serial", "product_serial", "asic_serial"),
    ),
    (
        "utilization_percent",
        quantities.percent,
        ("usage/gfx_activity", "usage/gfx_usage", "gfx_activity", "gfx", "gfx_util"),
    ),
    (
        "memory_utilization_percent",
        quantities.percent,
        ("usage/umc_activity", "usage/mem_usage", "umc_activity", "mem", "mem_util"),
    ),
    ("encoder_utilization_percent", quantities.percent, ("encoder", "enc_util")),
    ("decoder_utilization_percent", quantities.percent, ("decoder", "dec_util")),
    ("memory_used_bytes", quantities.memory, ("mem_usage/used_vram", "vram_used", "used_vram")),
    (
        "memory_total_bytes",
        quantities.memory,
        ("mem_usage/total_vram", "vram/size", "vram/vram_size", "vram_total", "total_vram"),
    ),
    (
        "temperature_celsius",
        quantities.celsius,
        ("temperature/hotspot", "temperature/edge", "hotspot_temperature", "hotspot", "edge"),
    ),
    ("memory_temperature_celsius", quantities.celsius, ("temperature/mem", "temperature/vram", "memory_temperature")),
    (
        "temperature_slowdown_celsius",
        quantities.celsius,
        ("limit/slowdown_hotspot_temperature", "limit/slowdown_edge_temperature"),
    ),
    (
        "temperature_shutdown_celsius",
        quantities.celsius,
        ("limit/shutdown_hotspot_temperature", "limit/shutdown_edge_temperature"),
    ),
    ("fan_percent", quantities.percent, ("fan/usage",)),
    (
        "power_watts",
        quantities.watts,
        (
            "power/socket_power",
            "power/current_socket_power",
            "power/average_socket_power",
            "power_usage",
            "socket_power",
        ),
    ),
    ("power_average_watts", quantities.watts, ("power/average_socket_power",)),
    ("power_instant_watts", quantities.watts, ("power/current_socket_power",)),
    (
        "power_limit_watts",
        quantities.watts,
        (
            "limit/socket_power",
            "limit/ppt0/socket_power_limit",
            "power/power_limit",
            "limit/current_power",
            "max_power",
            "pwr_cap",
        ),
    ),
    ("power_default_limit_watts", quantities.watts, ("limit/default_power", "limit/default_power_limit")),
    ("energy_joules", quantities.amount, ("energy/total_energy_consumption",)),
    (
        "sm_clock_mhz",
        quantities.megahertz,
        ("clock/gfx_0/clk", "clock/gfx/clk", "clock/gfx/cur_clk", "clock/gfx_clk", "gfx_clk", "gfx_clock"),
    ),
    (
        "memory_clock_mhz",
        quantities.megahertz,
        ("clock/mem_0/clk", "clock/mem/clk", "clock/mem/cur_clk", "clock/mem_clk", "mem_clk", "mem_clock"),
    ),
    ("sm_clock_max_mhz", quantities.megahertz, ("clock/gfx_0/max_clk", "clock/gfx/max_clk")),
    ("memory_clock_max_mhz", quantities.megahertz, ("clock/mem_0/max_clk", "clock/mem/max_clk")),
    ("pcie_generation", quantities.generation, ("pcie/speed", "pcie/current_speed", "pcie/pcie_speed")),
    ("pcie_generation_max", quantities.generation, ("bus/pcie_interface_version", "bus/max_pcie_speed")),
    ("pcie_width", cells.count, ("pcie/width", "pcie/current_lanes", "pcie/pcie_width")),
    ("pcie_width_max", cells.count, ("bus/max_pcie_width", "bus/max_pcie_lanes")),
    ("pcie_replay_count", cells.count, ("pcie/replay_count", "pcie_replay")),
    ("ecc_corrected_volatile", cells.count, ("ecc/total_correctable_count", "ecc/total_correctable", "single_bit_ecc")),
    (
        "ecc_uncorrected_volatile",
        cells.count,
        ("ecc/total_uncorrectable_count", "ecc/total_uncorrectable", "double_bit_ecc"),
    ),
)


def looks_like(text: str) -> bool:
    head = text[:20000]
    if _GPU_KEY.search(head) and _JSON_HINT.search(head):
        return True
    if amd_tables.looks_like(head) or _TEXT.search(head) or _CSV.search(head):
        return True
    return len(text) < 4000 and _FAILED.search(text) is not None


def read(text: str) -> Sample:
    """Whatever `amd-smi` prints; several outputs in one text add up."""
    sample = new_sample(ROUTE)
    documents, cut = lenient_json.documents(text)
    items = [item for document in documents for item in items_of(document)]
    if items:
        if cut:
            sample["problems"].append(problem("unreadable-file", "the JSON is cut off or damaged", cut))
    elif _CSV.search(text):
        items = _csv_items(text)
    else:
        items = _text_items(text)
    if items:
        sample["devices"] = fold(_rows(items, sample))
    elif amd_tables.looks_like(text):
        amd_tables.read_into(sample, text)
    return failures.explain_silence(sample, "amd-smi", text)


def items_of(document: Any) -> List[Dict[str, Any]]:
    """The entries of a document that are about one GPU each: a list, or a list in `gpu_data`."""
    if isinstance(document, dict):
        wrapped = document.get("gpu_data")
        document = wrapped if isinstance(wrapped, list) else [document]
    if not isinstance(document, list):
        return []
    return [item for item in document if isinstance(item, dict) and _index(item) is not None]


def _index(item: Dict[str, Any]) -> Optional[int]:
    return cells.integer(quantities.said(item.get("gpu")))


def value(item: Any, path: str) -> Optional[str]:
    """The cell at a path of keys; `None` where a section is `N/A`."""
    for key in path.split("/"):
        item = item.get(key) if isinstance(item, dict) else None
    return quantities.said(item)


def _rows(items: List[Dict[str, Any]], sample: Sample) -> List[Row]:
    """One row an entry number; entries of `static`, `metric` and `process` about the same GPU are one."""
    rows: Dict[int, Row] = {}
    for item in items:
        index = _index(item)
        if index is None:
            continue
        row = rows.setdefault(index, {"index": index, "vendor": VENDOR, "problems": []})
        for key, convert, paths in _FIELDS:
            for path in paths:
                found = convert(value(item, path))
                if found is not None:
                    row[key] = found
                    break
        _add_partition(row, item)
        _add_processes(row, item)
        version = cells.text(value(item, "driver/version") or value(item, "driver/driver_version"))
        if version:
            sample["facts"]["driver_version"] = version
    return list(rows.values())


def _add_partition(row: Row, item: Dict[str, Any]) -> None:
    """What `amd_partitions.fold` needs, under a key that it takes away."""
    at = row.setdefault("xcp", {})
    number = value(item, "partition/partition_id")
    number = number if number is not None else value(item, "partition_id")
    number = number if number is not None else value(item, "xcp")
    at["id"] = cells.integer(number) if cells.integer(number) is not None else at.get("id")
    compute = cells.text(value(item, "partition/compute_partition") or value(item, "partition/accelerator_partition"))
    memory = cells.text(value(item, "partition/memory_partition"))
    at["compute"], at["memory"] = compute or at.get("compute"), memory or at.get("memory")
    usage = item.get("usage")
    busy = usage.get("gfx_busy_inst") if isinstance(usage, dict) else None
    if isinstance(busy, dict):
        at["busy"] = [_mean(engines) for name, engines in busy.items() if str(name).lower().startswith("xcp")]


def _mean(engines: Any) -> Optional[float]:
    """Mean use of the engines of one partition: a list of values, or its text."""
    if isinstance(engines, str):
        engines = engines.strip("[] ").split(",")
    if not isinstance(engines, list):
        return None
    known = [
        percent
        for percent in (quantities.percent(quantities.said(engine)) for engine in engines)
        if percent is not None
    ]
    return sum(known) / len(known) if known else None


def _add_processes(row: Row, item: Dict[str, Any]) -> None:
    listed = item.get("process_list")
    if listed is None:
        listed = item.get("process_info")
    if listed is None:
        return
    for entry in listed if isinstance(listed, list) else [listed]:
        info = entry.get("process_info", entry) if isinstance(entry, dict) else entry
        if isinstance(info, str):
            row["processes_known"] = row.get("processes_known", False) or info.lower().startswith("no running")
            continue
        process = _process(info) if isinstance(info, dict) else None
        if process is not None:
            row["processes_known"] = True
            row.setdefault("processes", []).append(process)
    if isinstance(listed, list) and not listed:
        row["processes_known"] = True


def _process(info: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    pid = quantities.pid(value(info, "pid"))
    if pid is None:
        return None
    used = quantities.memory(value(info, "memory_usage/vram_mem") or value(info, "vram_mem"), 1)
    if used is None:
        used = quantities.memory(value(info, "mem_usage") or value(info, "mem"), 1)
    return {
        "pid": pid,
        "name": cells.text(value(info, "name")),
        "memory_used_bytes": used,
        "container": cells.text(value(info, "container_name")),
    }


def _text_items(text: str) -> List[Dict[str, Any]]:
    """Sections that begin with `GPU: 0`; those of CPUs and NICs are none."""
    found = []
    for node in keyed.parse(text):
        if node.key == "GPU" and cells.integer(node.value) is not None:
            item = _dictionary(node)
            item["gpu"] = node.value
            found.append(item)
    return found


def _dictionary(node: keyed.Node) -> Dict[str, Any]:
    """Children by key, in the words of the JSON; a key that comes again makes a list."""
    found: Dict[str, Any] = {}
    for child in node.children:
        key = child.key.lower().replace(" ", "_")
        inner: Any = _dictionary(child) if child.children else child.value
        if key not in found:
            found[key] = inner
        elif key == "process_info":
            found[key] = (found[key] if isinstance(found[key], list) else [found[key]]) + [inner]
    return found


def _csv_items(text: str) -> List[Dict[str, Any]]:
    """Rows below each header line; a stream gives the last values."""
    found = []
    names: List[str] = []
    for line in text.split("\n"):
        if _CSV.match(line):
            names = [name.strip() for name in line.split(",")]
        elif names and line.strip():
            row = tables.comma_separated(line)
            if len(row) == len(names):
                found.append(dict(zip(names, row)))
    return [item for item in found if _index(item) is not None]
