"""Cambricon MLU: the table of `cnmon`."""

from gputop.remote import failures, smi_table
from gputop.remote.sample import Sample

ROUTE = "cnmon"
VENDOR = "cambricon"


def looks_like(text: str) -> bool:
    return "CNMON v" in text[:4000] or "| CNMON" in text[:4000]


def read(text: str) -> Sample:
    sample = smi_table.read(text, ROUTE, VENDOR)
    versions = smi_table.titles_with(text, "Driver v") or smi_table.titles_with(text, "CNMON v")
    if versions:
        sample["facts"]["driver_version"] = versions[0]
    return failures.explain_silence(sample, "cnmon", text)
