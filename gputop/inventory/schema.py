"""The inventory file, field for field."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from gputop.domain.backend import PowerSpec, SchedulerSpec
from gputop.domain.host import HostKeyPolicy

Texts = str | list[str]
"""One or several."""

Port = Annotated[int, Meta(ge=1, le=65535)]


Count = Annotated[int, Meta(ge=0, le=10_000)]
Argv = list[str]
"""A program and its arguments, never a shell line."""


class PolicyKeys(Struct, kw_only=True, forbid_unknown_fields=True):
    """What stands under `policy`; each key is laid over by itself. `UNSET`: not said here."""

    max_hosts: Annotated[int, Meta(ge=1, le=10_000)] | UnsetType = UNSET
    max_percent: Annotated[float, Meta(ge=0, le=100)] | UnsetType = UNSET
    min_active: Count | UnsetType = UNSET
    at_once: Annotated[int, Meta(ge=1, le=100)] | UnsetType = UNSET
    max_data_age: timedelta | UnsetType = UNSET
    drain_deadline: timedelta | UnsetType = UNSET
    reboot_deadline: timedelta | UnsetType = UNSET
    idle_memory_mib: Count | UnsetType = UNSET
    idle_samples: Annotated[int, Meta(ge=1, le=100)] | UnsetType = UNSET
    idle_interval: timedelta | UnsetType = UNSET
    ignore_processes: list[str] | UnsetType = UNSET
    ignore_users: list[str] | UnsetType = UNSET
    compute_mode: bool | UnsetType = UNSET
    stop_units: list[str] | UnsetType = UNSET
    nologin: bool | UnsetType = UNSET
    wall: bool | UnsetType = UNSET
    dcgm_diag: bool | UnsetType = UNSET
    pre_drain: Argv | UnsetType = UNSET
    is_drained: Argv | UnsetType = UNSET
    post_resume: Argv | UnsetType = UNSET
    hook_timeout: timedelta | UnsetType = UNSET


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
    scheduler: Literal["none", "slurm"] | SchedulerSpec | UnsetType | None = UNSET
    """A word where the kind needs no settings. `null`: none was named."""
    power: Literal["ssh"] | PowerSpec | UnsetType | None = UNSET
    policy: PolicyKeys | UnsetType = UNSET


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
