"""`policy` of an inventory file and `Policy`, in both directions."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from msgspec import UNSET, structs

from gputop.configfile import ConfigProblem, Document, Keys, as_duration
from gputop.domain.policy import POLICY, Policy
from gputop.inventory.schema import InventoryFile, PolicyKeys

PREFIX = "policy."

SECONDS = {
    "max_data_age": ("max_data_age_seconds", 3600.0),
    "drain_deadline": ("drain_deadline_seconds", 30 * 86400.0),
    "reboot_deadline": ("reboot_deadline_seconds", 86400.0),
    "idle_interval": ("idle_sample_seconds", 3600.0),
    "hook_timeout": ("hook_timeout_seconds", 3600.0),
}
"""Times of the file: the field of `Policy`, and the longest."""

MIB = 1024**2

_UNIT = re.compile(r"[A-Za-z0-9_:\\][A-Za-z0-9_:.@\\-]*")


def read_policy(
    said: PolicyKeys, document: Document[InventoryFile], keys: Keys
) -> tuple[dict[str, Any], list[ConfigProblem]]:
    """What `said` means for fields of `Policy`, each under `PREFIX` and the file's own key, so that layers are laid
    over each other key by key."""
    values: dict[str, Any] = {}
    problems: list[ConfigProblem] = []
    for key in PolicyKeys.__struct_fields__:
        value = getattr(said, key)
        if value is UNSET:
            continue
        if key in SECONDS:
            _, longest = SECONDS[key]
            if not 0 < value.total_seconds() <= longest:
                summary = f'"{key}" must be above 0 and at most {as_duration(longest)}'
                problems.append(document.problem((*keys, key), summary))
                continue
        if key in ("pre_drain", "is_drained", "post_resume") and value == [""]:
            problems.append(document.problem((*keys, key), f'"{key}" names no program'))
            continue
        if key == "stop_units":
            for position, unit in enumerate(value):
                if not _UNIT.fullmatch(unit):  # systemctl takes patterns, and a dash for an option
                    summary = f'"{unit}" is not the name of one systemd unit'
                    problems.append(document.problem((*keys, key, position), summary))
        values[PREFIX + key] = value
    return values, problems


def take_policy(values: dict[str, Any]) -> Policy:
    """The `Policy` of `values`, whose policy keys are taken out."""
    said = {key.removeprefix(PREFIX): values.pop(key) for key in list(values) if key.startswith(PREFIX)}
    fields: dict[str, Any] = {}
    for key, value in said.items():
        if key in SECONDS:
            fields[SECONDS[key][0]] = value.total_seconds()
        elif key == "idle_memory_mib":
            fields["idle_memory_bytes"] = value * MIB
        else:
            fields[key] = tuple(value) if isinstance(value, list) else value
    return structs.replace(POLICY, **fields)


def policy_entry(policy: Policy) -> dict[str, Any]:
    """What differs from the default, as the file says it."""
    names = {field: key for key, (field, _) in SECONDS.items()}
    entry: dict[str, Any] = {}
    for field in Policy.__struct_fields__:
        value = getattr(policy, field)
        if value == getattr(POLICY, field):
            continue
        if field in names:
            entry[names[field]] = duration_text(value)
        elif field == "idle_memory_bytes":
            entry["idle_memory_mib"] = value // MIB
        else:
            entry[field] = list(value) if isinstance(value, tuple) else value
    return entry


def duration_text(seconds: float) -> str:
    """`seconds` as the inventory writes times: `2s`, `500ms`."""
    whole = timedelta(seconds=seconds).total_seconds()
    return f"{whole:.0f}s" if whole == int(whole) else f"{whole * 1000:g}ms"
