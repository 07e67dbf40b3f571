"""`nvidia-smi -q`, whole or some sections of it (`-d`), of every driver."""

from __future__ import annotations

import re
from typing import NamedTuple

from gputop.remote import cells, nvidia_query, nvidia_remarks
from gputop.remote.sample import Row, Sample, new_sample, problem

_LOG = "NVSMI LOG"
_GPU = re.compile(r"^\s*GPU ([0-9A-Fa-f]{1,8}:[0-9A-Fa-f:]{2,}\.[0-9A-Fa-f])\s*$", re.MULTILINE)
_LINE = re.compile(r"(?P<indent>[ \t]*)(?P<key>\S.*?)(?:\s+:(?:[ \t](?P<value>.*))?)?$")
_TOP = ("timestamp", "driver version", "cuda version", "kmd version", "cuda umd version", "attached gpus")


def looks_like(text: str) -> bool:
    return _LOG in text or ("Attached GPUs" in text and _GPU.search(text) is not None)


def read(text: str) -> Sample:
    """The last log of `text`; with `-l` one follows the other."""
    sample = new_sample("nvidia-smi")
    log = _last_log(text)
    headings = list(_GPU.finditer(log))
    top = _pairs(log[: headings[0].start()] if headings else log)
    sample["facts"].update(nvidia_query.facts_of(top))
    for index, heading in enumerate(headings):
        end = headings[index + 1].start() if index + 1 < len(headings) else len(log)
        part = log[heading.end() : end]
        sample["devices"].append(_row(_Part.of(part), heading[1], index))
    missing = nvidia_query.count_problem(len(headings), top.get("attached gpus"))
    if missing is not None:
        sample["problems"].append(missing)
    elif headings and _is_cut(sample["devices"][-1], _Part.of(log[headings[-1].end() :])):
        sample["problems"].append(
            problem("unreadable-file", "the text is cut off in the last GPU", None, "make it again: nvidia-smi -q")
        )
    nvidia_remarks.attach(sample, text)
    return sample


def _last_log(text: str) -> str:
    at = text.rfind(_LOG)
    log = text[at + len(_LOG) :].lstrip("=") if at >= 0 else text
    if not log or log.endswith("\n"):
        return log
    *lines, last = log.split("\n")
    # Without an end of line the last value may be cut off: a number is believed only with its unit.
    value = last.rpartition(" :")[2].strip()
    return "\n".join(lines if value[-1:].isdigit() and "version" not in last.lower() else [*lines, last])


def _pairs(text: str) -> dict[str, str]:
    """Keys and values at the left edge."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        match = _LINE.match(line)
        if match is not None and match["value"] is not None:
            found.setdefault(match["key"].lower(), match["value"].strip())
    return found


class _Part(NamedTuple):
    """What belongs to one GPU."""

    flat: dict[str, str]
    partitions: list[dict[str, str]]
    vgpus: list[dict[str, str]]
    processes: list[dict[str, str]]
    lists_processes: bool
    """There is a section of processes, and it says of itself that it could be read."""

    @classmethod
    def of(cls, text: str) -> _Part:
        flat: dict[str, str] = {}
        partitions: list[dict[str, str]] = []
        vgpus: list[dict[str, str]] = []
        processes: list[dict[str, str]] = []
        listed = False
        stack: list[tuple[int, str]] = []
        for line in text.split("\n"):
            match = _LINE.match(line)
            if match is None:
                continue
            indent, key, value = len(match["indent"].expandtabs()), match["key"].lower(), match["value"]
            while stack and (stack[-1][0] >= indent or len(stack) > 12):
                stack.pop()
            path = [name for _, name in stack] + [key]
            stack.append((indent, key))
            if path[0] == "mig device":
                if len(path) == 1:
                    partitions.append({})
                elif value is not None and partitions:
                    partitions[-1].setdefault("/".join(path[1:]), value.strip())
            elif path[0] == "vgpu id":
                if len(path) == 1:
                    vgpus.append({})
                if value is not None:
                    vgpus[-1].setdefault("/".join(path[1:] or path), value.strip())
            elif path[0] in ("processes", "compute processes"):
                if len(path) == 1:
                    listed = value is None or cells.bare(value) in ("", "none")
                elif value is not None:
                    if not processes or _begins_process(key, processes[-1]):
                        processes.append({})
                    processes[-1].setdefault(key, value.strip())
            elif value is not None:
                flat.setdefault("/".join(path), value.strip())
        return cls(flat, partitions, vgpus, processes, listed)


def _begins_process(key: str, last: dict[str, str]) -> bool:
    return key in last or (key in ("gpu instance id", "process id") and "process id" in last)


def _row(part: _Part, bus_id: str, index: int) -> Row:
    row = nvidia_query.row_of(part.flat, bus_id, index)
    row["partitions"] = [nvidia_query.partition_of(flat, position) for position, flat in enumerate(part.partitions)]
    row["partitions"] += [
        vgpu for position, flat in enumerate(part.vgpus) if (vgpu := nvidia_query.vgpu_of(flat, position)) is not None
    ]
    found = [nvidia_query.process_of(flat) for flat in part.processes]
    row["processes"] = [process for process in found if process is not None]
    row["processes_known"] = part.lists_processes
    return row


def _is_cut(row: Row, part: _Part) -> bool:
    """A full query begins with the product's name and ends with the processes."""
    full = "product name" in part.flat and "utilization/gpu" in part.flat and row.get("state", "ok") == "ok"
    last = part.processes[-1] if part.processes else {"process id": "", "used gpu memory": ""}
    whole = part.lists_processes and ("used gpu memory" in last or "process id" not in last)
    return full and not whole
