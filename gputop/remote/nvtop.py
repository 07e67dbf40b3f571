"""The snapshot of `nvtop -s`: GPUs of any vendor as JSON, values as text."""

from typing import Any, Dict, List, Optional

from gputop.remote import cells, failures, lenient_json, quantities
from gputop.remote.sample import Row, Sample, new_sample

ROUTE = "nvtop"

_VENDORS = (
    # a word of the name; vendor
    ("nvidia", "nvidia"),
    ("radeon", "amd"),
    ("amd", "amd"),
    ("intel", "intel"),
    ("ascend", "huawei"),
    ("tpu", "google"),
    ("metax", "metax"),
)


def looks_like(text: str) -> bool:
    return '"device_name"' in text[:4000] and '"gpu_util"' in text[:4000]


def read(text: str) -> Sample:
    """The last snapshot in the text."""
    sample = new_sample(ROUTE)
    documents, _ = lenient_json.documents(text)
    entries = documents[-1] if documents and isinstance(documents[-1], list) else documents
    named = [entry for entry in entries if isinstance(entry, dict) and "device_name" in entry]
    sample["devices"] = [_row(index, entry) for index, entry in enumerate(named)]
    return failures.explain_silence(sample, "nvtop", text)


def _row(index: int, entry: Dict[str, Any]) -> Row:
    values = {key: quantities.said(value) for key, value in entry.items()}
    name = cells.text(values.get("device_name"))
    fan = values.get("fan_speed")
    row: Row = {
        "index": index,
        "vendor": next((vendor for word, vendor in _VENDORS if word in (name or "").lower()), "unknown"),
        "model": name,
        "sm_clock_mhz": quantities.megahertz(values.get("gpu_clock")),
        "memory_clock_mhz": quantities.megahertz(values.get("mem_clock")),
        "temperature_celsius": quantities.celsius(values.get("temp")),
        "fan_percent": cells.percent(fan) if fan and fan.endswith("%") else None,
        "power_watts": quantities.watts(values.get("power_draw")),
        "utilization_percent": cells.percent(values.get("gpu_util")),
        "encoder_utilization_percent": cells.percent(values.get("encode")),
        "decoder_utilization_percent": cells.percent(values.get("decode")),
        "memory_used_bytes": quantities.memory(values.get("mem_used"), 1),
        "memory_total_bytes": quantities.memory(values.get("mem_total"), 1),
        "problems": [],
    }
    listed = entry.get("processes")
    if isinstance(listed, list):
        row["processes_known"] = True
        row["processes"] = _processes(listed)
    return row


def _processes(listed: List[Any]) -> List[Dict[str, Any]]:
    found = []
    for entry in listed:
        values: Dict[str, Optional[str]] = {}
        if isinstance(entry, dict):
            values = {key: quantities.said(value) for key, value in entry.items()}
        pid = quantities.pid(values.get("pid"))
        if pid is None:
            continue
        kind = (values.get("kind") or "").lower()
        found.append(
            {
                "pid": pid,
                "command": cells.text(values.get("cmdline")),
                "user": cells.text(values.get("user")),
                "kind": kind if kind in ("compute", "graphics") else None,
                "utilization_percent": cells.percent(values.get("gpu_usage")),
                "memory_used_bytes": quantities.memory(values.get("gpu_mem_bytes_alloc"), 1),
            }
        )
    return found
