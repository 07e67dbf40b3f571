"""The settings file, field for field."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from gputop.domain.host import HostKeyPolicy

AsciiMode = Literal["auto"] | bool
"""`auto`: plain characters where the terminal is not known to show UTF-8."""


class Handshakes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many connections may be under way at a time."""

    per_hop: Annotated[int, Meta(ge=1, le=1000)] = 8
    """To one server that is connected to directly: a host or the first jump host."""
    total: Annotated[int, Meta(ge=1, le=1000)] = 32


class ActionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether hosts may be changed."""

    enabled: bool = False
    """Start with acts allowed, as `--allow-actions` does."""
    relock: timedelta = timedelta(minutes=10)
    """Idle time after which the screen is read-only again."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a user prefers, on every fleet. Options of the command line win."""

    theme: str = "gputop-dark"
    interval: timedelta | None = None
    """Time between two readings, for hosts whose inventory names none; `None`: 2 s."""
    host_keys: HostKeyPolicy = HostKeyPolicy.STRICT
    """For hosts whose inventory names none."""
    ascii: AsciiMode = "auto"
    mouse: bool = False
    handshakes: Handshakes = Handshakes()
    actions: ActionSettings = ActionSettings()
    keymap: dict[str, str] = field(default_factory=dict)
    """Keys by command id, such as `host.retry: f5,r`, instead of the command's own."""
