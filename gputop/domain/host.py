"""What the inventory says about a server, and a server as gputop knows it now."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from gputop.domain.backend import PowerSpec, SchedulerSpec
from gputop.domain.link import Link, LinkChange
from gputop.domain.policy import POLICY, Policy
from gputop.domain.problem import Problem
from gputop.domain.reading import DeviceEvent, Frame

INTERVAL_SECONDS = (0.1, 3600.0)
"""The shortest and the longest time between two frames that may be asked for."""


class HostKeyPolicy(StrEnum):
    STRICT = "strict"
    """Only keys that known_hosts holds."""
    ACCEPT_NEW = "accept-new"
    """A host never seen before is written to gputop's own known_hosts; a changed key is refused."""
    ASK = "ask"
    """A host never seen before waits until a person at the screen has compared its key; a changed key is refused.
    Where nobody can be asked: as `strict`."""


class HostSpec(Struct, frozen=True, kw_only=True):
    """What the inventory (or the command line) says about one server. `None`: not said, the user's ssh decides."""

    name: str
    """Unique in the fleet; shown everywhere."""
    address: str | None = None
    """What to connect to; `None`: `name`, resolved by ssh_config and then the resolver."""
    port: int | None = None
    user: str | None = None
    identity: tuple[str, ...] = ()
    """Private key files, `~` expanded."""
    jump: tuple[str, ...] | None = None
    """The chain of jump hosts, first hop first: names of hosts, of ssh_config, or `user@host:port`. `()`: none."""
    known_hosts: tuple[str, ...] | None = None
    ssh_config: tuple[str, ...] | None = None
    """ssh_config files. `None`: the user's own set-up; `()`: none at all."""
    python: str | None = None
    """Path of the server's python3; `None`: found by itself."""
    nvml_library: str | None = None
    """Path of libnvidia-ml.so.1 on the server; `None`: the loader's."""
    interval_seconds: float = 2.0
    """Seconds between two frames, 0.1 or more."""
    host_keys: HostKeyPolicy = HostKeyPolicy.STRICT
    groups: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    protected: bool = False
    """Acts on this host are refused."""
    expect_devices: int | None = None
    """How many devices the host must show; fewer is a problem."""
    scheduler: SchedulerSpec | None = None
    """What gives it work; `None`: not said, which drains like a host without one."""
    power: PowerSpec | None = None
    """What switches it on and off; `None`: not said; reboots go over SSH, a stop is refused."""
    policy: Policy = POLICY
    local: bool = False
    """This machine itself: the agent runs as a subprocess, without SSH."""


class Endpoint(Struct, frozen=True, kw_only=True):
    """How a host is reached, after ssh_config had its say."""

    address: str
    port: int = 22
    user: str | None = None
    jump: tuple[str, ...] = ()
    """`user@address:port` of each hop, first hop first."""


class Way(Struct, frozen=True, kw_only=True):
    """What a host is reached through, by what the inventory and ssh_config say."""

    place: str
    """Where the host is: its address; on this machine's own address the port as well."""
    through: frozenset[str] = frozenset()
    """Names and places of everything that lies before it, in lower case; words of its proxy programs too."""


class Host(Struct, frozen=True, kw_only=True):
    """A server as gputop knows it now."""

    spec: HostSpec
    source: str = ""
    """The source that told of it."""
    link: Link
    """The judgement shown to people: what the source reports, and whether frames come and are whole."""
    reported: Link
    """What the source reports of its connection; `ok` there only means that a session runs."""
    endpoint: Endpoint | None = None
    """`None` until resolved."""
    frame: Frame | None = None
    """The newest frame, kept when the link is lost (its age tells); `None` when there never was one."""
    problems: tuple[Problem, ...] = ()
    """Of the newest frame, with the time each was first seen, and what the inventory expects and the host lacks."""
    device_problems: dict[int, tuple[Problem, ...]] = {}
    """Likewise, by position in `frame.devices`."""
    events: tuple[DeviceEvent, ...] = ()
    """Of all frames, oldest first, at most 1,000."""
    link_history: tuple[LinkChange, ...] = ()
    """Newest last, at most 32."""
    clock_skew_seconds: float | None = None
    """Server clock minus ours at the newest frame, transfer time included."""

    @property
    def name(self) -> str:
        return self.spec.name

    def age_seconds(self, as_of: datetime) -> float | None:
        """Age of the newest frame at `as_of`, 0 or more; `None` without a frame."""
        if self.frame is None:
            return None
        return max(0.0, (as_of - self.frame.received_at).total_seconds())
