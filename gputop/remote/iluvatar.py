"""Iluvatar CoreX: `ixsmi` as a table and as text (`-q`)."""

from gputop.remote import failures, smi_query, smi_table
from gputop.remote.sample import Sample

ROUTE = "ixsmi"
VENDOR = "iluvatar"


def looks_like(text: str) -> bool:
    head = text[:4000]
    return "IXSMI LOG" in head or "IX-ML:" in head or ("Iluvatar" in head and "Driver Version" in head)


def read(text: str) -> Sample:
    if "IXSMI LOG" in text[:4000]:
        sample = smi_query.read(text, ROUTE, VENDOR)
    else:
        sample = smi_table.read(text, ROUTE, VENDOR)
        for key, word in (("driver_version", "Driver Version:"), ("cuda_version", "CUDA Version:")):
            versions = smi_table.titles_with(text, word)
            if versions:
                sample["facts"][key] = versions[0]
    return failures.explain_silence(sample, "ixsmi", text)
