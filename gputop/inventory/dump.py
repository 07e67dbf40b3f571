"""Resolved hosts in the shape of an inventory file, which gives the same hosts when it is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gputop.domain.host import HostSpec

_PLAIN = ("address", "port", "user", "python", "nvml_library", "expect_devices")
_LISTS = ("identity", "jump", "known_hosts", "ssh_config")


def as_file(specs: Sequence[HostSpec], groups: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """`specs` and `groups` as the contents of one file. What nobody said is left out."""
    return {
        "hosts": [_entry(spec) for spec in specs],
        "groups": {name: {"hosts": list(hosts)} for name, hosts in groups.items()},
    }


def duration_text(seconds: float) -> str:
    """`seconds` as the inventory writes times: `2s`, `500ms`."""
    return f"{seconds:.0f}s" if seconds == int(seconds) else f"{seconds * 1000:g}ms"


def _entry(spec: HostSpec) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": spec.name}
    entry |= {key: value for key in _PLAIN if (value := getattr(spec, key)) is not None}
    entry |= {key: list(value) for key in _LISTS if (value := getattr(spec, key)) is not None}
    if not spec.identity:
        entry.pop("identity")
    entry |= {"interval": duration_text(spec.interval_seconds), "host_keys": spec.host_keys.value}
    if spec.labels:
        entry["labels"] = dict(spec.labels)
    if spec.protected:
        entry["protected"] = True
    return entry
