"""The state of our connection to one host."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from gputop.domain.problem import Problem


class LinkState(StrEnum):
    """The ten states of docs/reference/json.md; scripts rely on the values."""

    PENDING = "pending"
    CONNECTING = "connecting"
    OK = "ok"
    DEGRADED = "degraded"
    STALE = "stale"
    UNREACHABLE = "unreachable"
    THROTTLED = "throttled"
    AUTH_FAILED = "auth-failed"
    HOST_KEY_REJECTED = "host-key-rejected"
    UNSUPPORTED = "unsupported"


SEVERITY: dict[LinkState, int] = {
    LinkState.OK: 0,
    LinkState.PENDING: 1,
    LinkState.CONNECTING: 2,
    LinkState.THROTTLED: 3,
    LinkState.STALE: 4,
    LinkState.DEGRADED: 5,
    LinkState.UNSUPPORTED: 6,
    LinkState.AUTH_FAILED: 7,
    LinkState.HOST_KEY_REJECTED: 8,
    LinkState.UNREACHABLE: 9,
}
"""Trouble order: higher sorts first."""

TROUBLE: frozenset[LinkState] = frozenset(
    {
        LinkState.DEGRADED,
        LinkState.STALE,
        LinkState.UNREACHABLE,
        LinkState.THROTTLED,
        LinkState.AUTH_FAILED,
        LinkState.HOST_KEY_REJECTED,
        LinkState.UNSUPPORTED,
    }
)
"""States a person should look at."""

EXPLAINED: frozenset[LinkState] = TROUBLE | {LinkState.CONNECTING}
"""States whose problem is shown: a login on its way may wait for a person."""

NOT_RETRIED: frozenset[LinkState] = frozenset(
    {LinkState.AUTH_FAILED, LinkState.HOST_KEY_REJECTED, LinkState.UNSUPPORTED}
)
"""States that wait for a person (`F5`): retrying by itself would lock accounts or hide an attack."""


class Link(Struct, frozen=True, kw_only=True):
    """State of the connection to one host."""

    state: LinkState
    since: datetime
    """When the state was entered, UTC."""
    problem: Problem | None = None
    """Why, for every state in `TROUBLE`; for `connecting`: what it waits for a person to do."""
    attempts: int = 0
    """Connection attempts in a row that failed."""
    retry_at: datetime | None = None
    """When the next attempt starts by itself, UTC; `None`: not by itself, or not waiting."""


class LinkFailure(Struct, frozen=True, kw_only=True):
    """Why a connection or a session could not be had or ended: the error value of the transport seam."""

    state: LinkState
    problem: Problem


class LinkChange(Struct, frozen=True, kw_only=True):
    """One line of a host's link history."""

    state: LinkState
    at: datetime
    summary: str | None = None
