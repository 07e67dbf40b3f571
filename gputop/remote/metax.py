"""MetaX: the table of `mx-smi`, and its list (`mx-smi -L`)."""

import re

from gputop.remote import failures, smi_table
from gputop.remote.sample import Row, Sample, problem

ROUTE = "mx-smi"
VENDOR = "metax"

_LISTED = re.compile(
    r"^GPU#(?P<index>\d{1,4})\s+(?P<model>\S.*?)\s+(?P<bus>[0-9a-fA-F:]{10,13}\.[0-9a-fA-F])(?:\s+(?P<state>.*))?$",
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
    for match in _LISTED.finditer(text):
        state = match.group("state") or ""
        uuid = _UUID.search(state)
        row: Row = {
            "index": int(match.group("index")),
            "vendor": VENDOR,
            "model": match.group("model"),
            "pci_bus_id": match.group("bus"),
            "uuid": uuid.group(1) if uuid else None,
            "problems": [],
        }
        if state.lower().startswith("not available"):
            row["state"] = "error"
            row["problems"].append(problem("device-error", "the tool cannot reach the device", state[:200]))
        found[row["index"]] = row
    return list(found.values())
