"""A host as the one that powers it sees it: a cloud, a BMC, a site's own program."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from gputop.domain.action import Block, Loss


class PowerState(StrEnum):
    RUNNING = "running"
    STARTING = "starting"
    STOPPING = "stopping"
    STOPPED = "stopped"
    """Off, and can be started again."""
    HIBERNATED = "hibernated"
    GONE = "gone"
    """Terminated: it will not come back."""
    UNKNOWN = "unknown"
    """The provider did not say; never taken for stopped."""


class Instance(Struct, frozen=True, kw_only=True):
    """What a power provider says of one host."""

    host: str
    provider: str
    """`ec2`, `redfish`, `ipmi`, `command` or `ssh`."""
    id: str = ""
    """`i-0abc…`, the address of a BMC, …"""
    power: PowerState = PowerState.UNKNOWN
    raw: str = ""
    """The state in the provider's own words."""
    kind: str | None = None
    """Instance type or server model."""
    stop_blocks: tuple[Block, ...] = ()
    """Protection and what makes a stop senseless: stop protection, a one-time spot request, instance-store root, an
    auto-scaling group that would replace it."""
    reboot_blocks: tuple[Block, ...] = ()
    start_blocks: tuple[Block, ...] = ()
    stop_losses: tuple[Loss, ...] = ()
    """What a stop loses: instance-store data, a public address, capacity."""
    stops_billing: bool | None = None
    """`None`: not known; said so."""
    billing: str = ""
    """One line for the dialog: "volumes stay billed"; "powering off over SSH does not stop the bill on Azure"."""
    can_hibernate: bool = False
    notes: tuple[str, ...] = ()
    values: dict[str, str] = {}
    """What the provider needs to write its steps down; for no one else."""
    console_hint: str | None = None
    """Where to look when it does not come back: "BMC 10.0.9.7"."""
    block: Block | None = None
    """Why nothing can be planned: not found, credentials, the provider does not answer."""
    observed_at: datetime | None = None
