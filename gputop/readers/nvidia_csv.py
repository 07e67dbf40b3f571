"""`nvidia-smi --query-gpu=… --format=csv` and `--query-compute-apps=…`, with and without header and units.

Without a header the columns are taken from the command line when `--tool` gives it; else only what can be told from
the shape of a cell is read (uuid, bus id, name, performance state): a bare number may be anything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gputop.remote import cells, nvidia_columns, nvidia_remarks, nvidia_values
from gputop.remote.nvidia_columns import Query
from gputop.remote.sample import Row, Sample, new_sample, problem

_UUID = re.compile(r"(GPU|MIG)-[0-9A-Za-z][0-9A-Za-z/-]{7,}$")
_BUS_ID = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]$")
_PSTATE = re.compile(r"P(?:\d|1[0-5])$")
_MODEL = re.compile(
    r"(?:NVIDIA )?(?:GeForce|Quadro|Tesla|TITAN|GRID|RTX|GTX|NVS|Orin|Thor|Xavier|Graphics Device|"
    r"(?:GB|GH|[ABHLTVPKM])\d{1,3}\w*)\b[\w .()/+-]{0,60}$"
)
_SURE_MODEL = re.compile(r"(?:NVIDIA|GeForce|Quadro|Tesla|TITAN|GRID) ")
"""A column of its own may be a word of any text, so it must begin like this."""
_WORDS = ("[N/A]", "[Not Supported]", "[Unknown Error]", "[GPU is lost]", "[GPU requires reset]", "[Not Found]")
_OTHER_QUERIES = ("retired_pages.address", "gpu_utilization", "max_memory_usage")
"""Columns of `--query-retired-pages` and `--query-accounted-apps`: rows that are neither GPUs nor live processes."""


def looks_like(text: str) -> bool:
    lines = _lines(text)
    return _header(lines) is not None or _shape(lines) is not None


def read(text: str) -> Sample:
    lines = _lines(text)
    at = _header(lines)
    if at is not None:
        names = [nvidia_columns.name_of(cell) for cell in _cells(lines[at])]
        return _read(names, lines[at + 1 :], lines[:at])
    shape = _shape(lines)
    return _read(shape or [], lines, [])


def read_command(text: str, command: str) -> Sample:
    """`text` as the answer to `command`, which names the columns: `nvidia-smi --query-gpu=index,name --format=csv`."""
    columns = columns_of(command)
    lines = _lines(text)
    at = _header(lines)
    return read(text) if at is not None or not columns else _read(columns, lines, [])


def columns_of(command: str) -> list[str]:
    """The columns that `--query-gpu=` or `--query-compute-apps=` in `command` names."""
    found = re.search(r"--query-(?:gpu|compute-apps)[= ]([\w.,]+)", command)
    return [nvidia_columns.name_of(name) for name in found[1].split(",") if name] if found else []


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _cells(line: str, columns: int = 0) -> list[str]:
    """The cells of a row; `columns`: how many there should be."""
    found = [cell.strip() for cell in line.split(",")]
    if columns and len(found) > columns:  # what is too much belongs to the name of the process
        return found
    return [cell.strip('"') for cell in found]


def _header(lines: Sequence[str]) -> int | None:
    """The line that names columns, near the top."""
    for at, line in enumerate(lines[:20]):
        names = [nvidia_columns.name_of(cell) for cell in line.split(",")]
        if nvidia_columns.known_share(names) >= (0.5 if len(names) > 1 else 1.0) and (
            len(names) > 1 or "." in names[0]
        ):
            return at
    return None


def _shape(lines: Sequence[str]) -> list[str] | None:
    """Names of columns that the cells themselves tell, "" for the others; `None` when this is no such CSV."""
    rows = [_cells(line) for line in lines]
    rows = [row for row in rows if any(_is_telling(cell) for cell in row)]
    if not rows or len(rows) < len(lines) / 2 or len({len(row) for row in rows}) != 1:
        return None
    columns = list(zip(*rows, strict=True))
    names = [_told(column) for column in columns]
    if len(names) == 1 and names[0] in ("name", "pstate") and not all(_SURE_MODEL.match(row[0]) for row in rows):
        return None
    if _are_processes(names, columns):
        return ["gpu_uuid", "pid", "process_name", "used_gpu_memory"]
    if (
        names
        and not names[0]
        and len(names) > 1
        and _counts_up(columns[0])
        and {"uuid", "name", "pci.bus_id"} & set(names)
    ):
        names[0] = "index"
    return names if any(names) else None


def _is_telling(cell: str) -> bool:
    return bool(_UUID.match(cell) or _BUS_ID.match(cell) or _MODEL.match(cell)) or cell in _WORDS


def _told(column: Sequence[str]) -> str:
    for name, pattern in (("uuid", _UUID), ("pci.bus_id", _BUS_ID), ("pstate", _PSTATE), ("name", _MODEL)):
        if all(pattern.match(cell) or cell in _WORDS for cell in column) and any(
            pattern.match(cell) for cell in column
        ):
            return name
    return ""


def _are_processes(names: Sequence[str], columns: Sequence[Sequence[str]]) -> bool:
    """`gpu_uuid, pid, process_name, used_memory`: the query that everybody makes."""
    return (
        len(names) == 4
        and names[0] == "uuid"
        and all(cells.integer(cell) is not None or cell in _WORDS for cell in columns[1])
        and all(nvidia_values.mib(cell) is not None or cell in _WORDS for cell in columns[3])
        and any(not nvidia_values.amount(cell) for cell in columns[2])
    )


def _counts_up(column: Sequence[str]) -> bool:
    """0, 1, 2 and, in a stream, again from 0."""
    numbers = [cells.integer(cell) for cell in column]
    return all(
        number == 0 or (number is not None and number == (before or 0) + (before is not None))
        for before, number in zip([None, *numbers], numbers, strict=False)
    )


def _read(names: list[str], lines: Sequence[str], before: Sequence[str]) -> Sample:
    sample = new_sample("nvidia-smi")
    words = list(before)
    query = Query(names)
    if any(name in names for name in _OTHER_QUERIES):
        return _without_rows(sample, names)
    devices = _Devices(sample)
    for line in lines:
        values = _fitted(names, _cells(line, len(names)))
        if len(values) < len(names) and line is lines[-1] and _begins_row(query, values):
            values = values[:-1]  # the last cell may be cut off as well
            sample["problems"].append(
                problem("unreadable-file", "the last row is cut off", line[:200], "make it again")
            )
        elif len(values) != len(names):
            words.append(line)
            continue
        elif nvidia_columns.name_of(values[0]) == names[0] != "":
            continue  # a header again
        if "pid" in names:
            _take_process(sample, names, values)
        else:
            devices.take(query.row(values), values)
        for key, value in query.facts(values).items():
            sample["facts"].setdefault(key, value)
    nvidia_remarks.attach(sample, "\n".join(words))
    return sample


def _without_rows(sample: Sample, names: list[str]) -> Sample:
    sample["problems"].append(
        problem("unreadable-file", "a query that says nothing of devices and processes", ", ".join(names)[:500], None)
    )
    return sample


def _begins_row(query: Query, values: Sequence[str]) -> bool:
    """Whether a short line is the beginning of a row, and no words."""
    row = query.row(values[:-1])
    return any(row.get(key) is not None for key in ("index", "uuid", "pci_bus_id"))


def _fitted(names: Sequence[str], values: list[str]) -> list[str]:
    """As many values as names: commas in the name of a process are no separators."""
    surplus = len(values) - len(names)
    if surplus <= 0 or "process_name" not in names:
        return values
    at = names.index("process_name")
    return [*values[:at], ", ".join(values[at : at + surplus + 1]), *values[at + surplus + 1 :]]


class _Devices:
    """The rows of a query. In a stream, a GPU that comes again replaces its last row."""

    def __init__(self, sample: Sample) -> None:
        self._rows: list[Row] = sample["devices"]
        self._places: dict[tuple[str, object], int] = {}

    def take(self, row: Row, values: Sequence[str]) -> None:
        if not any(values):
            return
        keys = [(key, row[key]) for key in ("pci_bus_id", "index", "uuid") if row.get(key) is not None]
        place = self._places.get(keys[0]) if keys else None
        if place is None:
            row.setdefault("index", len(self._rows))
            self._rows.append(row)
            place = len(self._rows) - 1
        else:
            known = self._rows[place]
            self._rows[place] = {**{key: known[key] for key in nvidia_values.IDENTITY if key in known}, **row}
        self._places.update(dict.fromkeys(keys, place))


def _take_process(sample: Sample, names: Sequence[str], values: Sequence[str]) -> None:
    by_name = dict(zip(names, values, strict=False))
    told = {
        key: cells.text(by_name.get(name))
        for key, name in (
            ("uuid", "gpu_uuid"),
            ("pci_bus_id", "gpu_bus_id"),
            ("serial", "gpu_serial"),
            ("model", "gpu_name"),
        )
    }
    if not any(told.values()):
        nameless = problem("unreadable-file", "the processes name no GPU", None, "ask for gpu_uuid as well")
        if nameless not in sample["problems"]:
            sample["problems"].append(nameless)
        return
    device = next((row for row in sample["devices"] if all(row.get(key) == value for key, value in told.items())), None)
    if device is None:
        device = {"index": len(sample["devices"]), "vendor": "nvidia", **told, "processes": [], "processes_known": True}
        sample["devices"].append(device)
    process = nvidia_columns.process_of(names, values)
    if process is None:
        device["processes_known"] = False
        return
    device["processes"] = [known for known in device["processes"] if known["pid"] != process["pid"]] + [process]
