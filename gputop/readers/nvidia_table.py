"""The table that plain `nvidia-smi` prints: layouts of drivers 340 to 610, whole, cut, or only the boxes of a GPU."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gputop.remote import cells, nvidia_remarks, nvidia_values
from gputop.remote.nvidia_values import Gathering
from gputop.remote.sample import MIB, Row, Sample, new_sample, problem

_TITLE = re.compile(r"^\W*NVIDIA-SMI\s+\d", re.MULTILINE)
_FIRST = re.compile(r"\s*(?P<index>\d{1,3})\s+(?P<name>\S.*?)?\s+(?P<model>On|Off|N/A|WDDM|TCC|MCDM|ERR!)\s*$")
_BUS = re.compile(
    r"\s*(?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]|N/A)\s+(?:On|Off|N/A|ERR!)\s*$"
)
"""`N/A`: a GPU within the chip of a Jetson."""
_SECOND = re.compile(
    r"\s*(?P<fan>\S+)\s+(?P<temp>\S+)\s+(?P<perf>\S+)\s+(?P<draw>[^\s/]+(?:/A)?)\s*/\s*(?P<cap>\S+)\s*$"
)
_PAIR = re.compile(r"\s*(?P<used>\d+)\s*Mi?B\s*/\s*(?P<total>\d+)\s*Mi?B\s*$")
_UTIL = re.compile(r"\s*(?P<util>\d+%|\d+ %|N/A|ERR!)\s*(?P<mode>.*?)\s*$")
_INSTANCE = re.compile(r"\s*(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s*$")
_PROCESS = re.compile(
    r"\|?\s*(?P<gpu>\d{1,3})\s+(?:(?P<gi>\d{1,3}|N/A)\s+(?P<ci>\d{1,3}|N/A)\s+)?(?P<pid>\d+)\s+"
    r"(?:(?P<type>[CGM](?:\+[CGM])*)\s+)?(?P<name>.*?)\s*(?:(?<=\s)(?P<memory>\d+\s?Mi?B|N/A|ERR!))?\s*\|?\s*$"
)
_UNLISTED = re.compile(
    r"\|\s*(?P<gpu>\d{1,3})\s+(?:N/A\s+N/A\s+)?(?:N/A\s+)?(?:Not Supported|Insufficient Permissions)\s*\|"
)
_VERSIONS = re.compile(r"(?<!NVML )(?P<name>Driver|KMD|CUDA UMD|CUDA) Version:\s*(?P<version>[\d.]+)")
_FACTS = {"Driver": "driver_version", "KMD": "driver_version", "CUDA": "cuda_version", "CUDA UMD": "cuda_version"}


def looks_like(text: str) -> bool:
    return _TITLE.search(text) is not None


def looks_like_box(text: str) -> bool:
    """The rows of a GPU without the table's head."""
    firsts = [_first(_split(line)) for line in text.splitlines()]
    return any(first is not None and ":" in first[1]["bus"] for first in firsts)


def read(text: str) -> Sample:
    """The last whole table of `text`; with `-l` one follows the other."""
    sample = new_sample("nvidia-smi")
    tables = _tables(text)
    chosen = tables[-1]
    if len(tables) > 1 and not _is_whole(tables[-1]):
        chosen = next((table for table in reversed(tables) if _is_whole(table)), tables[-1])
    for found in _VERSIONS.finditer(chosen):
        sample["facts"].setdefault(_FACTS[found["name"]], found["version"])
    lines = chosen.splitlines()
    if "vGPU-Util" in chosen:
        _read_vgpus(sample, lines)
    else:
        _read_devices(sample, lines)
    _read_instances(sample, lines)
    _read_processes(sample, lines)
    if looks_like(chosen) and not _is_whole(chosen):
        sample["problems"].append(problem("unreadable-file", "the table is cut off", None, "make it again: nvidia-smi"))
    nvidia_remarks.attach(sample, text)
    return sample


def _tables(text: str) -> list[str]:
    starts = [found.start() for found in _TITLE.finditer(text)]
    if not starts:
        return [text]
    return [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]


def _is_whole(table: str) -> bool:
    """Every box that was opened is closed."""
    lines = [line.strip() for line in table.splitlines()]
    framed = [line for line in lines if line.startswith(("|", "+"))]
    return bool(framed) and framed[-1].startswith("+") and framed[-1].endswith("+")


def _split(line: str) -> list[str]:
    """The cells of a line that begins and ends with a border; `[]` for any other."""
    line = line.strip()
    return line[1:-1].split("|") if len(line) > 2 and line[0] == line[-1] == "|" else []


def _first(row: Sequence[str]) -> tuple[re.Match[str], re.Match[str]] | None:
    """The match of the first two cells of a GPU's first line."""
    if len(row) != 3:
        return None
    name, bus = _FIRST.match(row[0]), _BUS.match(row[1])
    return (name, bus) if name is not None and bus is not None else None


def _read_devices(sample: Sample, lines: Sequence[str]) -> None:
    gathering: Gathering | None = None
    line_number = 0
    for line in lines:
        row = _split(line)
        first = _first(row)
        if first is not None:
            _finish(sample, gathering)
            gathering = Gathering(_identity(*first))
            _put_ecc(gathering, row[2])
            gathering.put("persistence_mode", first[0]["model"], nvidia_values.switch)
            line_number = 1
        elif gathering is not None and len(row) == 3 and "===" not in line:
            line_number += 1
            if line_number == 2:
                _put_values(gathering, row)
            elif line_number == 3:
                gathering.put("mig_mode", row[2].strip().rstrip("*"), nvidia_values.mode)
        elif line_number:
            line_number = 99  # the box is closed
    _finish(sample, gathering)


def _finish(sample: Sample, gathering: Gathering | None) -> None:
    if gathering is not None:
        sample["devices"].append(gathering.finish())


def _identity(name: re.Match[str], bus: re.Match[str]) -> Row:
    row: Row = {"index": int(name["index"]), "vendor": "nvidia", "pci_bus_id": cells.text(bus["bus"])}
    model = cells.text(name["name"])
    if model is not None and nvidia_values.cell_error(model) is None:
        row["model"] = model
    return row


def _put_ecc(gathering: Gathering, cell: str) -> None:
    """Volatile uncorrected errors; `On` under MIG, where the instances count for themselves; `Off`."""
    gathering.put("ecc_uncorrected_volatile", cell, cells.count)
    is_counted = gathering.row.get("ecc_uncorrected_volatile") is not None
    gathering.put("ecc_mode", "on" if is_counted else cell, nvidia_values.mode)


def _put_values(gathering: Gathering, row: Sequence[str]) -> None:
    left = _SECOND.match(row[0])
    if left is not None:
        gathering.put("fan_percent", left["fan"], nvidia_values.amount)
        gathering.put("temperature_celsius", left["temp"], nvidia_values.celsius)
        gathering.put("performance_state", left["perf"], nvidia_values.performance_state)
        gathering.put("power_watts", left["draw"], nvidia_values.amount)
        gathering.put("power_limit_watts", left["cap"], nvidia_values.amount)
    else:
        for word in row[0].split():
            gathering.put("state", word, lambda _: None)
    memory = _PAIR.match(row[1])
    if memory is not None:
        gathering.put("memory_used_bytes", memory["used"], nvidia_values.mib)
        gathering.put("memory_total_bytes", memory["total"], nvidia_values.mib)
    else:
        gathering.put("memory_used_bytes", row[1], nvidia_values.mib)
    right = _UTIL.match(row[2])
    if right is not None:
        gathering.put("utilization_percent", right["util"], cells.percent)
        gathering.put("compute_mode", right["mode"], nvidia_values.compute_mode)


def _device(sample: Sample, index: str) -> Row | None:
    return next((row for row in sample["devices"] if row["index"] == int(index)), None)


_PHYSICAL = re.compile(r"\s*(?P<index>\d{1,3})\s+(?P<name>\S.*?)\s*$")
_VIRTUAL = re.compile(r"\s{3,}(?P<id>\d{4,})\s+(?P<name>\S.*?)\s*$")
_UTIL_ALONE = re.compile(r"\s*(?P<util>\d+\s?%|N/A|ERR!)\s*$")


def _read_vgpus(sample: Sample, lines: Sequence[str]) -> None:
    """`nvidia-smi vgpu`: physical GPUs, and below each its virtual ones."""
    for line in lines:
        row = _split(line)
        if len(row) != 3 or (util := _UTIL_ALONE.match(row[2])) is None:
            continue
        virtual, physical = _VIRTUAL.match(row[0]), _PHYSICAL.match(row[0])
        if virtual is not None and sample["devices"]:
            partitions = sample["devices"][-1]["partitions"]
            partitions.append(
                {
                    "kind": "vgpu",
                    "index": len(partitions),
                    "profile": cells.text(virtual["name"]),
                    "utilization_percent": cells.percent(util["util"]),
                }
            )
        elif virtual is None and physical is not None:
            gathering = Gathering({"index": int(physical["index"]), "vendor": "nvidia", "partitions": []})
            gathering.put("model", physical["name"], cells.text)
            gathering.put("pci_bus_id", row[1], cells.text)
            gathering.put("utilization_percent", util["util"], cells.percent)
            sample["devices"].append(gathering.finish())


def _read_instances(sample: Sample, lines: Sequence[str]) -> None:
    """Compute instances of one GPU instance share its memory; the table shows it at the first of them."""
    for line in lines:
        row = _split(line)
        found = _INSTANCE.match(row[0]) if len(row) == 4 else None
        if found is None:
            continue
        gpu, gpu_instance, compute_instance, index = found.groups()
        device = _device(sample, gpu)
        if device is None:
            continue
        instance: Row = {
            "kind": "mig",
            "index": int(index),
            "gpu_instance_id": int(gpu_instance),
            "compute_instance_id": int(compute_instance),
        }
        memory = _PAIR.match(row[1])
        if memory is not None:
            instance["memory_used_bytes"] = int(memory["used"]) * MIB
            instance["memory_total_bytes"] = int(memory["total"]) * MIB
        device.setdefault("partitions", []).append(instance)


def _read_processes(sample: Sample, lines: Sequence[str]) -> None:
    start = next((at for at, line in enumerate(lines) if "Processes:" in line or "Compute processes:" in line), None)
    if start is None:
        return
    listed = [line for line in lines[start + 1 :] if line.lstrip().startswith("|")]
    body = [line for line in listed if _PROCESS.match(line.strip()) or _UNLISTED.search(line) or "No running" in line]
    if not body:
        return
    unknown = {int(found["gpu"]) for line in body if (found := _UNLISTED.search(line))}
    for device in sample["devices"]:
        device["processes_known"] = device["index"] not in unknown and device.get("state", "ok") == "ok"
        device.setdefault("processes", [])
    for line in body:
        found = _PROCESS.match(line.strip())
        device_of = _device(sample, found["gpu"]) if found else None
        if found is None or device_of is None:
            continue
        pid = cells.integer(found["pid"])
        if pid:
            device_of["processes"].append(
                {
                    "pid": pid,
                    "name": cells.text(found["name"]),
                    "kind": nvidia_values.process_kind(found["type"]),
                    "memory_used_bytes": _old_mib(found["memory"]),
                    "gpu_instance_id": cells.integer(found["gi"]),
                    "compute_instance_id": cells.integer(found["ci"]),
                }
            )


def _old_mib(cell: str | None) -> int | None:
    """Old drivers write `MB` and mean MiB."""
    return nvidia_values.mib(cell.replace("MB", "MiB")) if cell else None
