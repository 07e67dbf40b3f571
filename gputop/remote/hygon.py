"""Hygon DCU: `hy-smi`, which prints what `rocm-smi` prints; its JSON is often none."""

import re

from gputop.remote import rocm_smi
from gputop.remote.sample import Sample

ROUTE = "hy-smi"
VENDOR = "hygon"

_HEAD = re.compile(r"^\s*(?:DCU|HCU)\s+Temp", re.MULTILINE)
_KEYS = re.compile(
    r'"(?:DCU|HCU) use \(%\)"|"[^"\n]*\b(?:DCU|HCU|Hygon)\b[^"\n]*"\s*:|:\s*"[^"\n]*(?:Hygon|DCU|K100|Z100)',
    re.IGNORECASE,
)


def looks_like(text: str) -> bool:
    head = text[:20000]
    return (
        _HEAD.search(head) is not None or (_KEYS.search(head) is not None and '"card' in head) or "hy-smi" in text[:400]
    )


def read(text: str) -> Sample:
    return rocm_smi.read(text, ROUTE, VENDOR)
