"""Short outputs of nvidia-smi: `-L`, `nvlink`, `topo`, `mig -lgi` and `-lci`, `--version`."""

import re
from typing import Any, Dict, List, Optional

from gputop.remote import cells, nvidia_remarks, nvidia_values
from gputop.remote.nvidia_values import HINTS
from gputop.remote.sample import Row, Sample, new_sample, problem

_GPU = re.compile(r"^\s*GPU (?P<index>\d{1,3}): (?P<name>.*?)\s*\(UUID: (?P<uuid>[^)\s]+)\)\s*$", re.MULTILINE)
_MIG = re.compile(r"\s*MIG (?P<profile>\S+)\s+Device\s+(?P<index>\d{1,3}): \(UUID: (?P<uuid>[^)\s]+)\)")
_OLD_MIG_UUID = re.compile(r"MIG-GPU-.*/(\d{1,3})/(\d{1,3})$")
_LINK = re.compile(r"\s*Link (?P<link>\d{1,3})(?:,\s*|:\s*)(?P<said>.*\S)")
_SPEED = re.compile(r"[\d.]+ GB/s$")
_ERRORS = re.compile(r".*\bErrors?:\s*(?P<count>\d+)$")
_LINKS_INACTIVE = re.compile(r"all links are inactive", re.IGNORECASE)
_NVML = re.compile(r"\s*NVML: (?P<words>.*)")
_MATRIX_HEAD = re.compile(r"^\s+GPU\d+(?:\s|$).*$", re.MULTILINE)
_MATRIX_ROW = re.compile(r"^GPU(?P<index>\d{1,3})\s+(?P<cells>.*\bX\b.*)$", re.MULTILINE)
_GPU_INSTANCES = re.compile(r"GPU instances:")
_GPU_INSTANCE = re.compile(r"\|\s*(?P<gpu>\d{1,3})\s+MIG (?P<profile>\S+)\s+\d+\s+(?P<gi>\d{1,3})\s+\d+:\d+\s*\|")
_COMPUTE_INSTANCES = re.compile(r"Compute instances:")
_COMPUTE_INSTANCE = re.compile(
    r"\|\s*(?P<gpu>\d{1,3})\s+(?P<gi>\d{1,3})\s+MIG (?P<profile>\S+)\s+\d+\*?\s+(?P<ci>\d{1,3})\s+\d+:\d+\s*\|"
)
_VERSION = re.compile(r"^(?P<name>NVIDIA-SMI|NVML|DRIVER|KMD|CUDA UMD|CUDA) version\s*:\s*(?P<value>.*)$", re.I | re.M)


def looks_like_list(text: str) -> bool:
    return _GPU.search(text) is not None


def read_list(text: str) -> Sample:
    """`-L` and everything that nvlink prints below such headings."""
    sample = new_sample("nvidia-smi")
    device: Optional[Row] = None
    links: Dict[str, bool] = {}
    words: List[str] = []
    for line in text.splitlines():
        heading, instance, link = _GPU.match(line), _MIG.match(line), _LINK.match(line)
        if heading is not None:
            device = _device(heading)
            links = {}
            sample["devices"].append(device)
        elif device is not None and instance is not None:
            device["partitions"].append(_instance(instance))
        elif device is not None and link is not None:
            _take_link(device, links, link["link"], link["said"])
        elif device is not None and _LINKS_INACTIVE.search(line):
            device["nvlink_links_active"] = 0
        elif device is not None and _NVML.match(line) is not None:
            _take_error(device, line.partition("NVML: ")[2])
        else:
            words.append(line)
    nvidia_remarks.attach(sample, "\n".join(words))
    return sample


def _device(heading: Any) -> Row:
    row: Row = {"index": int(heading["index"]), "vendor": "nvidia", "partitions": []}
    gathering = nvidia_values.Gathering(row)
    gathering.put("model", heading["name"], cells.text)
    gathering.put("uuid", heading["uuid"], cells.text)
    return gathering.finish()


def _instance(found: Any) -> Row:
    row: Row = {"kind": "mig", "index": int(found["index"]), "uuid": found["uuid"], "profile": found["profile"]}
    old = _OLD_MIG_UUID.match(found["uuid"])
    if old is not None:
        row["gpu_instance_id"], row["compute_instance_id"] = int(old[1]), int(old[2])
    return row


def _take_link(device: Row, links: Dict[str, bool], link: str, said: str) -> None:
    """`Link 0: 25 GB/s`, `Link 0: <inactive>`, `Link 0: Replay Errors: 0`."""
    errors = _ERRORS.match(said)
    if errors is not None:
        count = cells.count(errors["count"])
        if count is not None:
            device["nvlink_error_count"] = device.get("nvlink_error_count", 0) + count
        return
    is_active = _SPEED.match(said) is not None
    if not is_active and "inactive" not in said.lower():
        return
    links[link] = is_active
    device["nvlink_links_total"] = len(links)
    device["nvlink_links_active"] = sum(links.values())


def _take_error(device: Row, words: str) -> None:
    error = next((part for part in reversed(words.split(": ")) if nvidia_values.cell_error(part) is not None), None)
    told = nvidia_values.cell_error(error) if error is not None else None
    if told is None:
        return
    kind, state, summary = told
    if state is not None:
        device["state"] = state
    found = problem(kind, summary, "nvidia-smi says: " + words[:2000], HINTS.get(kind))
    if all(known["kind"] != kind for known in device["problems"]):
        device["problems"].append(found)


def looks_like_topology(text: str) -> bool:
    return _MATRIX_HEAD.search(text) is not None and _MATRIX_ROW.search(text) is not None


def read_topology(text: str) -> Sample:
    """`topo -m`: which GPUs there are. Links between pairs are no value of one device."""
    sample = new_sample("nvidia-smi")
    indexes = dict.fromkeys(int(found["index"]) for found in _MATRIX_ROW.finditer(text))
    sample["devices"] = [{"index": index, "vendor": "nvidia"} for index in indexes]
    nvidia_remarks.attach(sample, text)
    return sample


def looks_like_instances(text: str) -> bool:
    return _GPU_INSTANCES.search(text) is not None or _COMPUTE_INSTANCES.search(text) is not None


def read_instances(text: str) -> Sample:
    """`mig -lgi` and `mig -lci`."""
    sample = new_sample("nvidia-smi")
    for line in text.splitlines():
        found = _GPU_INSTANCE.match(line.strip()) or _COMPUTE_INSTANCE.match(line.strip())
        if found is None:
            continue
        index = int(found["gpu"])
        device = next((row for row in sample["devices"] if row["index"] == index), None)
        if device is None:
            device = {"index": index, "vendor": "nvidia", "mig_mode": "enabled", "partitions": []}
            sample["devices"].append(device)
        instance: Row = {
            "kind": "mig",
            "index": len(device["partitions"]),
            "profile": found["profile"],
            "gpu_instance_id": int(found["gi"]),
        }
        if "ci" in found.groupdict():
            instance["compute_instance_id"] = int(found["ci"])
        device["partitions"].append(instance)
    nvidia_remarks.attach(sample, text)
    return sample


def looks_like_version(text: str) -> bool:
    return len({found["name"].lower() for found in _VERSION.finditer(text)}) >= 2


def read_version(text: str) -> Sample:
    """From 610 the driver's version stands at `KMD version`; the old names hold a sentence."""
    sample = new_sample("nvidia-smi")
    for found in _VERSION.finditer(text):
        key = {"driver": "driver_version", "kmd": "driver_version", "cuda": "cuda_version", "cuda umd": "cuda_version"}
        name = key.get(found["name"].lower())
        value = found["value"].strip().split(" ")[0]
        if name is not None and value[:1].isdigit():
            sample["facts"].setdefault(name, value)
    return sample
