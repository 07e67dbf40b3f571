"""Errors as values."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct


class ProblemKind(StrEnum):
    """What went wrong, as a closed set; each member has a section in docs/troubleshooting.md."""

    # reading devices
    DRIVER_MISMATCH = "driver-mismatch"
    DRIVER_NOT_LOADED = "driver-not-loaded"
    TOOL_MISSING = "tool-missing"
    TOOL_FAILED = "tool-failed"
    PERMISSION = "permission"
    DEVICE_LOST = "device-lost"
    REQUIRES_RESET = "requires-reset"
    DEVICE_ERROR = "device-error"
    INFOROM_CORRUPTED = "inforom-corrupted"
    DEVICES_MISSING = "devices-missing"
    NO_DEVICES = "no-devices"
    PROBE_HUNG = "probe-hung"
    PROCESSES_UNRELIABLE = "processes-unreliable"
    KERNEL_LOG = "kernel-log"
    """It cannot be read, or not all of it is told."""
    UNREADABLE_FILE = "unreadable-file"
    # the agent
    AGENT_FAILED = "agent-failed"
    AGENT_SILENT = "agent-silent"
    PROTOCOL = "protocol"
    # the connection
    NAME_UNKNOWN = "name-unknown"
    CONNECTION_REFUSED = "connection-refused"
    NO_ROUTE = "no-route"
    TOO_MANY_FILES = "too-many-files"
    """Our own limit is reached; no fault of the host."""
    TIMED_OUT = "timed-out"
    CONNECTION_LOST = "connection-lost"
    CONNECTION_DROPPED = "connection-dropped"
    """Closed by the server before it introduced itself: too many connections, or a ban."""
    JUMP_FAILED = "jump-failed"
    FORWARDING_REFUSED = "forwarding-refused"
    PROXY_FAILED = "proxy-failed"
    KEY_EXCHANGE_FAILED = "key-exchange-failed"
    SSH_CONFIG = "ssh-config"
    # authentication
    AUTH_REFUSED = "auth-refused"
    KEY_ENCRYPTED = "key-encrypted"
    KEY_UNREADABLE = "key-unreadable"
    PASSWORD_REQUIRED = "password-required"
    ANSWER_AWAITED = "answer-awaited"
    """No failure: the login waits for the person at the screen."""
    # host keys
    HOST_KEY_UNKNOWN = "host-key-unknown"
    HOST_KEY_CHANGED = "host-key-changed"
    HOST_KEY_OTHER_TYPE = "host-key-other-type"
    HOST_KEY_REVOKED = "host-key-revoked"
    # the session
    NO_SHELL = "no-shell"
    # us
    INTERNAL = "internal"


class Problem(Struct, frozen=True, kw_only=True):
    """One thing that is wrong, in words for a person. Text from a server in it is untrusted."""

    kind: ProblemKind
    summary: str
    """One line for the table; no trailing stop."""
    detail: str | None = None
    """What the other side said, capped at 2,000 characters; may hold several lines."""
    hint: str | None = None
    """What to do next, one line; `None` when there is nothing to do but wait."""
    since: datetime | None = None
    """When it was first seen, UTC; `None` when not known."""


INFORMATIONAL: frozenset[ProblemKind] = frozenset(
    {ProblemKind.PROCESSES_UNRELIABLE, ProblemKind.SSH_CONFIG, ProblemKind.INFOROM_CORRUPTED, ProblemKind.KERNEL_LOG}
)
"""Kinds that are worth saying but do not make a host degraded."""
