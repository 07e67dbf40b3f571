"""Google TPU: the tables of `tpu-info`."""

import re
from typing import Any, Dict, List, Optional

from gputop.remote import cells, failures, quantities, tables
from gputop.remote.sample import Row, Sample, new_sample

ROUTE = "tpu-info"
VENDOR = "google"

_NUMBER = re.compile(r"(?:^|^/.*\D)(\d{1,4})$")
_TITLE = re.compile(
    r"\bTPU (?:Chips|Process Info|Runtime Utilization|Duty Cycle|HBM Usage)|^\W*Libtpu version", re.MULTILINE
)
_KIND = re.compile(r"^Accelerator type:\s*(\S+)", re.MULTILINE)
_FAILED = re.compile(r"tpu-info|libtpu", re.IGNORECASE)


def looks_like(text: str) -> bool:
    head = text[:20000]
    return _TITLE.search(head) is not None or (len(text) < 4000 and _FAILED.search(text) is not None)


def read(text: str) -> Sample:
    sample = new_sample(ROUTE)
    kind = _KIND.search(text)
    chips: List[Row] = []
    for table in tables.grid(text):
        labels = [tables.name(label) for label in table.labels]
        rows = [tables.by_label(table, row) for row in table.rows]
        if "chip" in labels and "pid" in labels:
            chips = _add_chips(chips, rows)
        elif labels and labels[0] in ("chip", "device", "chip id", "device id"):
            _add_use(chips, rows)
    for row in chips:
        row.pop("path")
        if kind and row.get("model") is None:
            row["model"] = "TPU " + kind.group(1)
    sample["devices"] = chips
    return failures.explain_silence(sample, "tpu-info", text)


def _add_chips(chips: List[Row], rows: List[Dict[str, str]]) -> List[Row]:
    """Rows of a table of chips and of one of processes: a line a chip, or one a process of a chip."""
    by_path: Dict[str, Row] = {row["path"]: row for row in chips}
    for values in rows:
        path = values.get("chip", "")
        number = _NUMBER.search(path)
        if number is None:
            continue
        row = by_path.get(path)
        if row is None:
            row = {"index": int(number.group(1)), "vendor": VENDOR, "problems": [], "processes": [], "path": path}
            by_path[path] = row
        model = cells.text(values.get("type"))
        row["model"] = model if model else row.get("model")
        owners = values.get("pid", "")
        row["processes_known"] = row.get("processes_known", False) or owners.lower() == "none" or bool(_pids(owners))
        known = {process["pid"]: process for process in row["processes"]}
        for pid in _pids(owners):
            process = known.setdefault(pid, {"pid": pid})
            process["name"] = cells.text(values.get("process name")) or process.get("name")
        row["processes"] = list(known.values())
    return list(by_path.values())


def _pids(cell: str) -> List[int]:
    return [pid for pid in (quantities.pid(part) for part in re.split(r"[,\s]+", cell)) if pid is not None]


def _add_use(chips: List[Row], rows: List[Dict[str, str]]) -> None:
    """Memory and duty cycle: a row a chip or a row a core; by number, or in order where the numbers differ."""
    numbered = [(cells.integer(next(iter(values.values()), None)), values) for values in rows]
    numbered = [(number, values) for number, values in numbered if number is not None]
    if not chips:
        for number, _ in numbered:
            chips.append({"index": number, "vendor": VENDOR, "problems": [], "path": ""})
    per_chip = max(1, len(numbered) // len(chips)) if chips else 1
    if len(numbered) != per_chip * len(chips):
        return
    for position, row in enumerate(chips):
        parts = [values for _, values in numbered[position * per_chip : (position + 1) * per_chip]]
        pairs = [quantities.pair(_labelled(values, "hbm")) for values in parts]
        _sum(row, "memory_used_bytes", [quantities.memory(used) for used, _ in pairs])
        _sum(row, "memory_total_bytes", [quantities.memory(total) for _, total in pairs])
        duty = [quantities.percent(_labelled(values, "duty")) for values in parts]
        known = [percent for percent in duty if percent is not None]
        if known:
            row["utilization_percent"] = sum(known) / len(known)


def _labelled(values: Dict[str, str], word: str) -> Optional[str]:
    return next((cell for label, cell in values.items() if word in label), None)


def _sum(row: Row, key: str, values: List[Any]) -> None:
    if values and all(value is not None for value in values):
        row[key] = sum(values)
