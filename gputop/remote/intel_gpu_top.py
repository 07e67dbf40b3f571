"""Intel graphics: the JSON stream of `intel_gpu_top -J`. It shows one GPU, by its engines."""

from typing import Any, Dict, List, Optional

from gputop.remote import cells, failures, lenient_json, quantities
from gputop.remote.sample import Row, Sample, new_sample

ROUTE = "intel_gpu_top"
VENDOR = "intel"


def looks_like(text: str) -> bool:
    return '"engines"' in text[:6000] and '"busy"' in text[:6000]


def read(text: str) -> Sample:
    """The last complete sample; the stream is a list that is never closed."""
    sample = new_sample(ROUTE)
    documents, _ = lenient_json.documents(text)
    flat = [entry for document in documents for entry in (document if isinstance(document, list) else [document])]
    reports = [entry for entry in flat if isinstance(entry, dict) and isinstance(entry.get("engines"), dict)]
    if reports:
        sample["devices"] = [_row(reports[-1])]
    return failures.explain_silence(sample, "intel_gpu_top", text)


def _cell(report: Any, *path: str) -> Optional[str]:
    for key in path:
        report = report.get(key) if isinstance(report, dict) else None
    return quantities.said(report)


def _row(report: Dict[str, Any]) -> Row:
    """The GPU is as busy as its busiest engine."""
    busy = [quantities.percent(_cell(report, "engines", name, "busy")) for name in report["engines"]]
    known = [percent for percent in busy if percent is not None]
    return {
        "index": 0,
        "vendor": VENDOR,
        "utilization_percent": max(known) if known else None,
        "power_watts": quantities.watts(_cell(report, "power", "GPU")),
        "sm_clock_mhz": quantities.megahertz(_cell(report, "frequency", "actual")),
        "processes_known": isinstance(report.get("clients"), dict),
        "processes": _processes(report.get("clients")),
        "problems": [],
    }


def _processes(clients: Any) -> List[Dict[str, Any]]:
    found: Dict[int, Dict[str, Any]] = {}
    for client in clients.values() if isinstance(clients, dict) else []:
        pid = quantities.pid(_cell(client, "pid"))
        if pid is not None:
            found.setdefault(pid, {"pid": pid, "name": cells.text(_cell(client, "name"))})
    return list(found.values())
