"""MetaX: the table of `mx-smi`, its list (`mx-smi -L`), and what `mx-smi --show-…` says below each line of it."""

import re

from gputop.remote import cells, failures, quantities, smi_table, tables
from gputop.remote.sample import Row, Sample, problem

ROUTE = "mx-smi"
VENDOR = "metax"

_LISTED = re.compile(
    r"^GPU#(?P<index>\d{1,4})[ \t]+(?P<model>\S.*?)[ \t]+(?P<bus>[0-9a-fA-F:]{10,13}\.[0-9a-fA-F])"
    r"(?:[ \t]+(?P<state>.*))?$",
    re.MULTILINE,
)
_UUID = re.compile(r"UUID:\s*([^\s)]+)")


def looks_like(text: str) -> bool:
    return "mx-smi" in text[:400] or "MX-SMI" in text[:4000] or "MetaX System Management" in text[:4000]


def read(text: str) -> Sample:
    sample = smi_table.read(text, ROUTE, VENDOR)
    for key, word in (("driver_version", "Kernel Mode Driver Version:"),):
        versions = smi_table.titles_with(text, word)
        if versions and versions[0].lower() != "unknown":
            sample["facts"][key] = versions[0]
    if not sample["devices"]:
        sample["devices"] = _listed(text)
    return failures.explain_silence(sample, "mx-smi", text)


def _listed(text: str) -> "list[Row]":
    found = {}
    matches = list(_LISTED.finditer(text))
    for match, after in zip(matches, [*(match.start() for match in matches[1:]), len(text)]):
        state = match.group("state") or ""
        uuid = _UUID.search(state)
        row: Row = {
            "index": int(match.group("index")),
            "vendor": VENDOR,
            "model": match.group("model"),
            "pci_bus_id": match.group("bus"),
            "uuid": uuid.group(1) if uuid else None,
            "problems": [],
            **_shown(text[match.end() : after]),
        }
        if state.lower().startswith("not available"):
            row["state"] = "error"
            row["problems"].append(problem("device-error", "the tool cannot reach the device", state[:200]))
        found[row["index"]] = row
    return list(found.values())


def _shown(part: str) -> Row:
    """Headings with values below them."""
    row: Row = {}
    heading = ""
    for line in part.split("\n"):
        key, colon, cell = (word.strip() for word in line.partition(" :"))
        label = tables.name(key)
        if not colon:
            heading = label or heading
        elif "temperature" in heading and label.startswith("hotspot"):
            row.setdefault("temperature_celsius", quantities.celsius(cell))
        elif label == "vis vram used":
            row.setdefault("memory_used_bytes", quantities.memory(cell))
        elif label == "vis vram total":
            row.setdefault("memory_total_bytes", quantities.memory(cell))
        elif label == "gpu" and cells.number(cell) is not None and cell.endswith("%"):
            row.setdefault("utilization_percent", quantities.percent(cell))
        elif "power" in heading and label == "total":
            row.setdefault("power_watts", quantities.watts(cell.split("  ")[-1]))
    return row
