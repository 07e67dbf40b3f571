"""What is called to change the world, as data, and how one call ended."""

from __future__ import annotations

import shlex
from datetime import datetime

from msgspec import Struct

from gputop.domain.problem import Problem


class RunHere(Struct, frozen=True, kw_only=True, tag="here"):
    """A program on this machine: an argv, never a shell line."""

    argv: tuple[str, ...]
    stdin: str = ""
    secrets: dict[str, str] = {}
    """Environment variables of the program -> where its value is read when it runs: `env:NAME` or `file:/path`. The
    value itself is in no struct, no log and no argv."""
    tied: bool = False
    """It ends when gputop does, even by SIGKILL: what goes on working by itself would not be what the journal tells."""


class RunOn(Struct, frozen=True, kw_only=True, tag="on"):
    """A program on a host, over its SSH connection."""

    host: str
    """A name of the inventory."""
    argv: tuple[str, ...]
    stdin: str = ""
    sudo: bool = False
    """Behind `sudo -n` unless the account is root."""
    channel_may_drop: bool = False
    """A connection that breaks means "pending", not "failed": the command ends its own host."""
    tied: bool = False
    """It ends when the connection does, see `RunHere.tied`."""


class Api(Struct, frozen=True, kw_only=True, tag="api"):
    """A call of a service's API."""

    service: str
    """Such as `ec2` or `redfish https://10.0.9.7`."""
    operation: str
    parameters: dict[str, str | int | float | bool | list[str]] = {}


class Watch(Struct, frozen=True, kw_only=True, tag="watch"):
    """Nothing is called: the step waits until its check is done."""

    what: str
    """In words: "every GPU has no compute process and less than 64 MiB in use, 3 times"."""


Call = RunHere | RunOn | Api | Watch


def command_of(call: Call) -> str:
    """A call as one line for people, audit and dry runs."""
    match call:
        case RunHere():
            return shlex.join(call.argv) + _with_input(call.stdin)
        case RunOn():
            return f"{call.host}: {'sudo -n ' if call.sudo else ''}{shlex.join(call.argv)}{_with_input(call.stdin)}"
        case Api():
            parameters = ", ".join(f"{name}={value!r}" for name, value in call.parameters.items())
            return f"{call.service} {call.operation}({parameters})"
        case Watch():
            return call.what


def _with_input(stdin: str) -> str:
    """Standard input, in the way that bash writes it."""
    if not stdin:
        return ""
    inner = "".join(c if c.isprintable() and c not in "'\\" else c.encode("unicode_escape").decode() for c in stdin)
    return " <<< $'" + inner.replace("'", "\\'") + "'"


class CommandResult(Struct, frozen=True, kw_only=True):
    """How one program ended, on a host or here."""

    exit_status: int | None = None
    """`None`: it did not end by itself, or nobody could tell: a failure, whatever it printed."""
    stdout: bytes = b""
    stderr: bytes = b""
    lost: Problem | None = None
    """Why it could not be run, or the connection broke under it, or its deadline passed."""
    truncated: bool = False
    """It printed more than is kept: its output says nothing for certain."""
    host_key: str | None = None
    """Fingerprint of the server that it ran on; `None`: none answered, or it ran here."""

    @property
    def ok(self) -> bool:
        return self.exit_status == 0 and self.lost is None and not self.truncated

    @property
    def text(self) -> str:
        return self.stdout.decode("utf-8", "replace")

    @property
    def error_text(self) -> str:
        return self.stderr.decode("utf-8", "replace")


class RawOutput(Struct, frozen=True, kw_only=True):
    """What a tool of a host printed, as it printed it. Untrusted."""

    command: str
    text: str = ""
    error_text: str = ""
    exit_status: int | None = None
    """`None`: it did not end by itself, or nobody could tell."""
    problem: Problem | None = None
    """Why it failed; it may have printed something even so."""
    asked_at: datetime | None = None


class Performed(Struct, frozen=True, kw_only=True):
    """What came of one call. It says that the call was made, not that the goal is reached: that is `Check`'s word."""

    ok: bool
    pending: bool = False
    """The channel dropped as expected: only the check can tell."""
    exit_status: int | None = None
    output: str = ""
    """What it printed, capped, controls escaped. Untrusted."""
    problem: Problem | None = None
    """Why, when not `ok` and not `pending`."""
