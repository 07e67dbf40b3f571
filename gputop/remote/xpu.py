"""Intel data center GPUs: `xpu-smi` and `xpumcli`: discovery, stats, dump, ps, topology; tables, CSV and JSON.

Values that the tool gives a tile are made one of the card: power and memory are summed, the temperature is
that of the hottest tile, use and clocks are the mean.
"""

import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from gputop.remote import cells, failures, lenient_json, quantities, tables
from gputop.remote.sample import Row, Sample, new_sample, problem

ROUTE = "xpu-smi"
VENDOR = "intel"

_DUMP = re.compile(r"^\s*Timestamp\s*,\s*DeviceId\b", re.MULTILINE | re.IGNORECASE)
_TABLE = re.compile(r"^\|\s*Device ID\s*\|", re.MULTILINE)
_PS = re.compile(r"^\s*PID\s+Command\s+DeviceID\b", re.MULTILINE)
_TOPOLOGY = re.compile(r"^\s*GPU\s+(\d{1,4})/\d{1,4}\s*\|", re.MULTILINE)
_JSON = re.compile(r'"(?:device_list|device_level|tile_level|device_util_by_proc_list|pci_bdf_address|XPUM_STATS_\w+)"')
_FAILED = re.compile(r"xpu-smi|xpumcli|xpum\b|level zero", re.IGNORECASE)
_TILE = re.compile(r"Tile (\d{1,4})\s*:\s*")
_READING = re.compile(r"(avg|min|max|current)\s*:\s*([^,]*)")


def _mean(values: List[float]) -> float:
    return sum(values) / len(values)


def _kib(cell: Optional[str]) -> Optional[float]:
    value = quantities.amount(cell)
    return value * 1024 if value is not None else None


def _count(cell: Optional[str]) -> Optional[int]:
    return cells.count(cell)


class _Metric(NamedTuple):
    key: str
    convert: Callable[[Optional[str]], Any]
    combine: Callable[[List[Any]], Any]


_METRICS = (
    # words of a label; metric. The first that fits counts
    (
        re.compile(r"^gpu utilization|average % utilization of all gpu engines"),
        _Metric("utilization_percent", quantities.percent, _mean),
    ),
    (re.compile(r"^gpu power"), _Metric("power_watts", quantities.watts, sum)),
    (re.compile(r"^gpu frequency"), _Metric("sm_clock_mhz", quantities.megahertz, _mean)),
    (re.compile(r"^gpu core temperature"), _Metric("temperature_celsius", quantities.celsius, max)),
    (re.compile(r"^gpu memory temperature"), _Metric("memory_temperature_celsius", quantities.celsius, max)),
    (re.compile(r"^gpu memory used"), _Metric("memory_used_bytes", quantities.memory, sum)),
    (re.compile(r"^gpu memory bandwidth"), _Metric("memory_utilization_percent", quantities.percent, _mean)),
    (re.compile(r"^pcie read"), _Metric("pcie_rx_bytes_per_second", _kib, sum)),
    (re.compile(r"^pcie write"), _Metric("pcie_tx_bytes_per_second", _kib, sum)),
    (re.compile(r"^mem errors correctable|^memory errors correctable"), _Metric("ecc_corrected_volatile", _count, sum)),
    (
        re.compile(r"^mem errors uncorrectable|^memory errors uncorrectable"),
        _Metric("ecc_uncorrected_volatile", _count, sum),
    ),
)
_STATS = {
    "XPUM_STATS_GPU_UTILIZATION": "gpu utilization",
    "XPUM_STATS_POWER": "gpu power",
    "XPUM_STATS_GPU_FREQUENCY": "gpu frequency",
    "XPUM_STATS_GPU_CORE_TEMPERATURE": "gpu core temperature",
    "XPUM_STATS_MEMORY_TEMPERATURE": "gpu memory temperature",
    "XPUM_STATS_MEMORY_USED": "gpu memory used",
    "XPUM_STATS_MEMORY_BANDWIDTH": "gpu memory bandwidth",
    "XPUM_STATS_PCIE_READ_THROUGHPUT": "pcie read",
    "XPUM_STATS_PCIE_WRITE_THROUGHPUT": "pcie write",
}
_IDENTITY: Dict[str, Tuple[str, Callable[[Optional[str]], Any]]] = {
    "device name": ("model", cells.text),
    "uuid": ("uuid", cells.text),
    "pci bdf address": ("pci_bus_id", cells.text),
    "serial number": ("serial", cells.text),
    "memory physical size": ("memory_total_bytes", quantities.memory),
    "memory physical size byte": ("memory_total_bytes", lambda cell: quantities.memory(cell, 1)),
    "pcie generation": ("pcie_generation_max", cells.integer),
    "pcie max link width": ("pcie_width_max", cells.count),
    "core clock rate": ("sm_clock_max_mhz", quantities.megahertz),
}


def looks_like(text: str) -> bool:
    head = text[:20000]
    if any(pattern.search(head) for pattern in (_DUMP, _TABLE, _PS, _TOPOLOGY, _JSON)):
        return True
    return len(text) < 4000 and _FAILED.search(text) is not None


def read(text: str) -> Sample:
    """Whatever the tool prints; several outputs in one text add up."""
    sample = new_sample(ROUTE)
    rows = _Rows()
    if _JSON.search(text):
        documents, cut = lenient_json.documents(text)
        for document in documents:
            _read_json(sample, rows, document)
        if cut and documents:
            sample["problems"].append(problem("unreadable-file", "the JSON is cut off or damaged", cut))
    if _TABLE.search(text):
        _read_tables(sample, rows, text)
    if _DUMP.search(text):
        _read_dump(rows, text)
    if _PS.search(text):
        _read_processes(rows, text)
    for number in _TOPOLOGY.findall(text):
        rows.of(int(number))
    sample["devices"] = [rows.rows[index] for index in sorted(rows.rows)]
    return failures.explain_silence(sample, "xpu-smi", text)


class _Rows:
    """Rows by number, made when first named."""

    def __init__(self) -> None:
        self.rows: Dict[int, Row] = {}

    def of(self, index: int) -> Row:
        return self.rows.setdefault(index, {"index": index, "vendor": VENDOR, "problems": []})


def _metric(label: str) -> Optional[_Metric]:
    return next((metric for pattern, metric in _METRICS if pattern.search(label)), None)


def _put(row: Row, label: str, parts: List[Optional[str]]) -> None:
    """The value of a label from those of the tiles; one tile without value makes the whole unknown."""
    metric = _metric(label)
    if metric is None:
        return
    values = [metric.convert(part) for part in parts]
    if values and all(value is not None for value in values):
        row[metric.key] = metric.combine(values)


def _read_tables(sample: Sample, rows: _Rows, text: str) -> None:
    """Two columns: discovery has lines `Key: value` beside a number, stats a label beside values."""
    row: Optional[Row] = None
    label = ""
    waiting: List[str] = []

    def finish() -> None:
        if row is not None and label:
            _put(row, label, _tiles(" ".join(waiting)))

    for line in tables.lines_of(text):
        if not line.strip().startswith("|") or tables.is_rule(line):
            continue
        left, right = ([cell.strip() for cell in tables.cells_of(line)] + ["", ""])[:2]
        number = cells.integer(left)
        if tables.name(left) == "device id":
            finish()
            label, waiting = "", []
            row = rows.of(int(right)) if cells.integer(right) is not None else None
            continue
        if number is not None:
            row = rows.of(number)
        if number is not None or (not left and ": " in right and not waiting):
            _identify(sample, row, right)
        elif left and not left.startswith("("):
            finish()
            label, waiting = tables.name(left), [right]
        else:
            waiting.append(right)
    finish()


def _identify(sample: Sample, row: Optional[Row], cell: str) -> None:
    key, _, value = cell.partition(":")
    name = tables.name(key)
    if row is not None and name in _IDENTITY:
        field, convert = _IDENTITY[name]
        row[field] = convert(value.strip())
    elif name in ("driver version", "kernel version") and cells.text(value):
        sample["facts"][name.replace(" ", "_")] = value.strip()


def _tiles(cell: str) -> List[Optional[str]]:
    """Cells of the tiles in `Tile 0: avg: 44, min: 44, max: 44, current: 44 Tile 1: …`; a cell without tiles is one."""
    starts = list(_TILE.finditer(cell))
    if not starts:
        return [_reading(cell)]
    ends = [start.start() for start in starts[1:]] + [len(cell)]
    total = re.search(r",\s*total\s*:\s*([^,]*)", cell)
    if total:
        return [total.group(1).strip()]
    return [_reading(cell[start.end() : end]) for start, end in zip(starts, ends)]


def _reading(cell: str) -> Optional[str]:
    """The current value, else the average, else the cell."""
    found = {match.group(1): match.group(2).strip() for match in _READING.finditer(cell)}
    if not found:
        return cell.strip(" ,")
    return found.get("current") or found.get("avg")


def _read_dump(rows: _Rows, text: str) -> None:
    """The last line of each device, or of each of its tiles."""
    names: List[str] = []
    last: Dict[int, Dict[str, Dict[str, str]]] = {}
    for line in text.split("\n"):
        if _DUMP.match(line):
            names = [tables.name(name) for name in line.split(",")]
            continue
        parts = tables.comma_separated(line)
        if not names or len(parts) != len(names):
            continue
        values = dict(zip(names, parts))
        index = cells.integer(values.get("deviceid"))
        if index is not None:
            last.setdefault(index, {})[values.get("tileid", "")] = values
    for index, tiles in last.items():
        row = rows.of(index)
        for name in names:
            _put(row, name, [values[name] for values in tiles.values() if name in values])


def _read_processes(rows: _Rows, text: str) -> None:
    """Columns by position; memory in kB."""
    heads: List[tables.Field] = []
    for line in text.split("\n"):
        if _PS.match(line):
            heads = tables.columns(line)
        elif heads and line.strip()[:1].isdigit():
            values = tables.place(heads, line)
            index = cells.integer(values.get("deviceid"))
            if index is not None:
                _add_process(rows.of(index), values.get("pid"), values.get("command"), values.get("mem"))


def _add_process(row: Row, pid: Optional[str], name: Optional[str], kilobytes: Optional[str]) -> None:
    number = quantities.pid(pid)
    if number is None:
        return
    row["processes_known"] = True
    process = {"pid": number, "name": cells.text(name), "memory_used_bytes": quantities.memory(kilobytes, 1024)}
    row.setdefault("processes", []).append(process)


def _read_json(sample: Sample, rows: _Rows, document: Any) -> None:
    if not isinstance(document, dict):
        return
    for entry in _entries(document, "device_list") or [document]:
        index = cells.integer(quantities.said(entry.get("device_id")))
        if index is not None and ("device_name" in entry or "pci_bdf_address" in entry):
            row = rows.of(index)
            for key, value in entry.items():
                _identify(sample, row, str(key) + ": " + (quantities.said(value) or ""))
    for entry in _entries(document, "datas") or [document]:
        index = cells.integer(quantities.said(entry.get("device_id")))
        if index is not None and ("device_level" in entry or "tile_level" in entry):
            _read_stats(rows.of(index), entry)
    for entry in _entries(document, "device_util_by_proc_list"):
        index = cells.integer(quantities.said(entry.get("device_id")))
        if index is not None:
            row = rows.of(index)
            cell = {key: quantities.said(entry.get(key)) for key in ("process_id", "process_name", "mem_size")}
            _add_process(row, cell["process_id"], cell["process_name"], cell["mem_size"])


def _entries(document: Dict[str, Any], key: str) -> List[Dict[str, Any]]:
    listed = document.get(key)
    return [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []


def _read_stats(row: Row, entry: Dict[str, Any]) -> None:
    """Values of the device; where there are none, those of its tiles."""
    tiles: Dict[str, List[Optional[str]]] = {}
    for tile in _entries(entry, "tile_level"):
        for name, cell in _metrics_of(_entries(tile, "data_list")):
            tiles.setdefault(name, []).append(cell)
    for name, parts in tiles.items():
        _put(row, _STATS[name], parts)
    for name, cell in _metrics_of(_entries(entry, "device_level")):
        _put(row, _STATS[name], [cell])


def _metrics_of(data: List[Dict[str, Any]]) -> List[Tuple[str, Optional[str]]]:
    found = []
    for metric in data:
        name = metric.get("metrics_type")
        if name not in _STATS:
            continue
        cell = quantities.said(metric.get("value", metric.get("avg")))
        value = cells.number(cell)
        if name == "XPUM_STATS_MEMORY_USED" and value is not None and value >= 1 << 20:
            cell = "%d B" % value  # the REST interface counts bytes, the command line MiB; no card has a TiB
        found.append((name, cell))
    return found
