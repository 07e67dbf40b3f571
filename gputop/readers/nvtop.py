"""`nvtop -s`: a snapshot of the GPUs of all vendors as JSON."""

from __future__ import annotations

import json
from typing import Any

from gputop.remote import cells, nvidia_values
from gputop.remote.sample import Row, Sample, new_sample, problem

_VENDORS = (("nvidia", "nvidia"), ("amd", "amd"), ("radeon", "amd"), ("intel", "intel"))
_KINDS = {"compute": "compute", "graphic": "graphics", "graphics": "graphics"}


def looks_like(text: str) -> bool:
    return '"device_name"' in text and '"gpu_util"' in text


def read(text: str) -> Sample:
    sample = new_sample("nvtop")
    items, is_cut = _items(text)
    sample["devices"] = [_row(item, index) for index, item in enumerate(items)]
    if is_cut:
        sample["problems"].append(
            problem("unreadable-file", "the JSON is cut off or damaged", None, "make it again: nvtop -s")
        )
    return sample


def _items(text: str) -> tuple[list[dict[str, Any]], bool]:
    """The objects at the top, as far as they are whole."""
    decoder = json.JSONDecoder()
    found: list[dict[str, Any]] = []
    at = text.find("{")
    while at >= 0:
        try:
            item, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return found, True
        if isinstance(item, dict) and "device_name" in item:
            found.append(item)
        at = text.find("{", at)
    return found, not text.rstrip().endswith("]")


def _row(item: dict[str, Any], index: int) -> Row:
    said = {key: value for key, value in item.items() if isinstance(value, str)}
    name = said.get("device_name", "")
    fan = said.get("fan_speed", "")
    row: Row = {
        "index": index,
        "vendor": next((vendor for word, vendor in _VENDORS if word in name.lower()), "unknown"),
        "model": cells.text(name),
        "utilization_percent": cells.percent(said.get("gpu_util")),
        "encoder_utilization_percent": cells.percent(said.get("encode")),
        "decoder_utilization_percent": cells.percent(said.get("decode")),
        "memory_used_bytes": cells.count(said.get("mem_used")),
        "memory_total_bytes": cells.count(said.get("mem_total")),
        "temperature_celsius": nvidia_values.celsius(said.get("temp")),
        "fan_percent": nvidia_values.amount(fan) if "%" in fan else None,
        "power_watts": nvidia_values.amount(said.get("power_draw")),
        "sm_clock_mhz": nvidia_values.amount(said.get("gpu_clock")),
        "memory_clock_mhz": nvidia_values.amount(said.get("mem_clock")),
    }
    processes = item.get("processes")
    if isinstance(processes, list):
        found = [_process(process) for process in processes if isinstance(process, dict)]
        row["processes"] = [process for process in found if process is not None]
        row["processes_known"] = True
    return row


def _process(item: dict[str, Any]) -> dict[str, Any] | None:
    said = {key: str(value) for key, value in item.items() if isinstance(value, (str, int))}
    pid = cells.integer(said.get("pid"))
    if not pid:
        return None
    return {
        "pid": pid,
        "command": cells.text(said.get("cmdline")),
        "user": cells.text(said.get("user")),
        "kind": _KINDS.get(said.get("kind", "").lower()),
        "utilization_percent": cells.percent(said.get("gpu_usage")),
        "memory_used_bytes": cells.size(said.get("gpu_mem_bytes_alloc"), 1),
    }
