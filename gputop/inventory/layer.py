"""What one place of an inventory file says about hosts, in the words of `HostSpec`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct

from gputop.configfile import ConfigProblem, Document, Keys
from gputop.domain.backend import NoScheduler, Slurm, SshPower
from gputop.domain.host import INTERVAL_SECONDS
from gputop.inventory.expand import is_address, unfit
from gputop.inventory.policy import read_policy
from gputop.inventory.schema import HostKeys, InventoryFile

SHORT = {"none": NoScheduler(), "slurm": Slurm(), "ssh": SshPower()}
"""Kinds of `scheduler` and `power` that may be named by their word alone."""


class Layer(Struct):
    """What one place of a file says about hosts, in the words of `HostSpec`."""

    values: dict[str, Any]
    labels: dict[str, str]
    document: Document[InventoryFile]
    keys: Keys


def read_layer(
    said: HostKeys, document: Document[InventoryFile], keys: Keys, folder: Path
) -> tuple[Layer, list[ConfigProblem]]:
    """What `said` means for a `HostSpec`; relative paths start at `folder`."""
    problems: list[ConfigProblem] = []
    values: dict[str, Any] = {}
    for key in HostKeys.__struct_fields__:
        value = getattr(said, key)
        if value is UNSET or key == "labels":
            continue
        if key == "policy":
            policy, bad_ones = read_policy(value, document, (*keys, key))
            values |= policy
            problems += bad_ones
            continue
        bad = _unfit_value(key, value)
        if bad is not None:
            problems.append(document.problem((*keys, key), f'"{key}" {bad}'))
        elif key == "interval":
            values["interval_seconds"] = value.total_seconds()
        elif key in ("identity", "known_hosts", "ssh_config"):
            values[key] = tuple(
                os.path.abspath(os.path.join(folder, os.path.expanduser(text))) for text in _several(value)
            )
        elif key in ("scheduler", "power"):
            values[key] = SHORT.get(value, value) if isinstance(value, str) else value
            password = getattr(value, "password", None)
            if password is not None and not password.startswith(("env:", "file:")):
                summary = "a password is named as env:NAME or file:/path, never written down here"
                problems.append(document.problem((*keys, key, "password"), summary))
        elif key == "jump":
            values[key] = tuple(hop.strip() for text in _several(value) for hop in text.split(","))
        elif key == "address":
            bare = value.removeprefix("[").removesuffix("]")
            values[key] = bare if is_address(bare) else value
        else:
            values[key] = value
    labels = {} if said.labels is UNSET else dict(said.labels)
    return Layer(values, labels, document, keys), problems


def _unfit_value(key: str, value: Any) -> str | None:
    """Why a value must not be used although its type is right."""
    if key == "interval":
        shortest, longest = INTERVAL_SECONDS
        fits = shortest <= value.total_seconds() <= longest
        return None if fits else "must be between 100ms and 1h"
    if not isinstance(value, str | list) or key in ("scheduler", "power"):
        return None
    for text in _several(value):
        reason = unfit(text)
        if reason is None and key == "jump":
            reason = next(filter(None, (unfit(hop.strip()) for hop in text.split(","))), None)
        if reason is None and key in ("address", "user", "jump") and any(c.isspace() for c in text.replace(", ", ",")):
            reason = "holds a blank"
        if reason is not None:
            return reason
    return None


def _several(value: str | list[str] | None) -> list[str]:
    if value is None:
        return []
    return [value] if isinstance(value, str) else value
