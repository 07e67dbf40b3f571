"""The inventory file, field for field."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType, field

from gputop.domain.host import HostKeyPolicy

Texts = str | list[str]
"""One or several."""

Port = Annotated[int, Meta(ge=1, le=65535)]


class HostKeys(Struct, kw_only=True, forbid_unknown_fields=True):
    """Keys that may stand at a host, in a group and in `defaults`. `UNSET`: not said here."""

    address: str | UnsetType = UNSET
    port: Port | UnsetType = UNSET
    user: str | UnsetType = UNSET
    identity: Texts | UnsetType = UNSET
    jump: Texts | UnsetType | None = UNSET
    """`null` or an empty list: none, whatever a group or `defaults` says."""
    known_hosts: Texts | UnsetType = UNSET
    ssh_config: Texts | UnsetType | None = UNSET
    """`null`: none."""
    python: str | UnsetType = UNSET
    nvml_library: str | UnsetType = UNSET
    interval: timedelta | UnsetType = UNSET
    host_keys: HostKeyPolicy | UnsetType = UNSET
    labels: dict[str, str] | UnsetType = UNSET
    protected: bool | UnsetType = UNSET
    expect_devices: Annotated[int, Meta(ge=0, le=1024)] | UnsetType = UNSET


class HostEntry(HostKeys, kw_only=True, forbid_unknown_fields=True):
    """A host, or several that share their keys."""

    name: str
    """A name or a range of names."""


class GroupEntry(HostKeys, kw_only=True, forbid_unknown_fields=True):
    """A named part of the fleet."""

    hosts: list[str] = field(default_factory=list)
    """Names and ranges of names that stand under `hosts:` of an inventory file."""


class InventoryFile(Struct, kw_only=True, forbid_unknown_fields=True):
    """A whole inventory file. A key without a value counts as absent."""

    defaults: HostKeys | None = None
    hosts: list[str | HostEntry] | None = None
    groups: dict[str, GroupEntry] | None = None
