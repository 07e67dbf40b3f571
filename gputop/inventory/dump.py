"""Resolved hosts in the shape of an inventory file, which gives the same hosts when it is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from gputop.domain.host import HostSpec
from gputop.inventory.policy import duration_text, policy_entry

_PLAIN = ("address", "port", "user", "python", "nvml_library", "expect_devices")
_LISTS = ("identity", "jump", "known_hosts", "ssh_config")


def as_file(specs: Sequence[HostSpec], groups: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """`specs` and `groups` as the contents of one file. What nobody said is left out."""
    return {
        "hosts": [_entry(spec) for spec in specs],
        "groups": {name: {"hosts": list(hosts)} for name, hosts in groups.items()},
    }


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
    entry |= {key: _settings(value) for key in ("scheduler", "power") if (value := getattr(spec, key)) is not None}
    if policy := policy_entry(spec.policy):
        entry["policy"] = policy
    return entry


def _settings(value: Struct) -> dict[str, Any]:
    """A scheduler or power provider; what is as by default is left out."""
    said: dict[str, Any] = msgspec.to_builtins(value)
    plain = {field.encode_name: field.default for field in structs.fields(value)}
    return {key: each for key, each in said.items() if key not in plain or _plain(plain[key]) != each}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
