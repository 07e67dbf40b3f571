"""One sample as readers make it: rows, one dict a device, before it becomes columns of the wire protocol.

A reader is a pure function from the text of a tool to a sample:

    {"route": "nvidia-smi",             how it was read (docs/reference/json.md)
     "facts": {...},                    keys of domain.reading.HostFacts
     "host": {...},                     keys of domain.reading.HostReading
     "devices": [ROW, ...],
     "problems": [PROBLEM, ...],        of the host
     "events": [EVENT, ...]}            of the kernel log

ROW holds keys of `Device` (index, uuid, pci_bus_id, vendor, model, serial, minor_number) and of `DeviceReading`
(utilization_percent, memory_used_bytes, …), and
     "partitions": [keys of Partition without device_index]
     "processes": [keys of ProcessReading without device_index; started_at in seconds since the epoch]
     "problems": [PROBLEM, ...]
A key that the tool gave no number for is left out or `None`: never 0. "state" defaults to "ok". "processes_known" is
true only where the tool lists processes and could read them.
PROBLEM: {"kind", "summary", "detail", "hint"}; EVENT: {"at" (seconds since the epoch, or None), "kind", "code",
"pci_bus_id", "pid", "process", "message", "severity"}.
"""

from typing import Any, Dict, List, Optional

Row = Dict[str, Any]
Sample = Dict[str, Any]

MIB = 1024 * 1024
MB = 1000 * 1000

DEVICE_KEYS = ("index", "uuid", "pci_bus_id", "vendor", "model", "serial", "minor_number")
NESTED_KEYS = ("partitions", "processes", "problems")


def new_sample(route: str) -> Sample:
    """A sample with nothing in it."""
    return {"route": route, "facts": {}, "host": {}, "devices": [], "problems": [], "events": []}


def problem(kind: str, summary: str, detail: Optional[str] = None, hint: Optional[str] = None) -> Dict[str, Any]:
    """One problem, in the words of domain.problem.ProblemKind."""
    return {"kind": kind, "summary": summary, "detail": detail, "hint": hint}


def hello_of(sample: Sample, interval: float) -> Dict[str, Any]:
    """The `hello` message of the wire protocol for a sample."""
    rows = sample["devices"]
    devices = {key: [row.get(key) for row in rows] for key in DEVICE_KEYS if _used(rows, key)}
    devices.setdefault("index", [])
    return {
        "k": "hello",
        "v": 1,
        "route": sample["route"],
        "interval": interval,
        "facts": sample["facts"],
        "devices": devices,
        "problems": [],
    }


def frame_of(sample: Sample, number: int, at: float, interval: float) -> Dict[str, Any]:
    """The `frame` message of the wire protocol for a sample taken `at` (seconds since the epoch)."""
    rows = sample["devices"]
    names = sorted({key for row in rows for key in row} - set(DEVICE_KEYS) - set(NESTED_KEYS))
    columns = {name: [_value(row, name) for row in rows] for name in names}
    columns.setdefault("state", ["ok"] * len(rows))
    columns.setdefault("processes_known", [False] * len(rows))
    return {
        "k": "frame",
        "n": number,
        "t": at,
        "interval": interval,
        "host": sample["host"],
        "columns": columns,
        "partitions": _table(rows, "partitions"),
        "processes": _table(rows, "processes"),
        "problems": sample["problems"],
        "events": sample["events"],
        "device_problems": {str(i): row["problems"] for i, row in enumerate(rows) if row.get("problems")},
    }


def _value(row: Row, name: str) -> Any:
    if name == "state":
        return row.get(name) or "ok"
    if name == "processes_known":
        return bool(row.get(name))
    return row.get(name)


def _used(rows: List[Row], key: str) -> bool:
    return any(row.get(key) is not None for row in rows)


def _table(rows: List[Row], nested: str) -> Dict[str, List[Any]]:
    """Nested rows of all devices as columns, with the position of their device."""
    flat = [dict(item, device_index=position) for position, row in enumerate(rows) for item in row.get(nested) or ()]
    required = {"device_index", "pid"} if nested == "processes" else {"device_index"}
    names = sorted(required | {key for item in flat for key in item})
    return {name: [item.get(name) for item in flat] for name in names}
