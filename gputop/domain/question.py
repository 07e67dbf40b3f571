"""What a person is asked while gputop connects. Words of a server in it are untrusted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

Names = Callable[[], Sequence[str]]
"""The hosts that wait for the answer now; more may come while it is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostKeyQuestion:
    """Whether a key that no known_hosts has is that of the server."""

    host: str
    """As the inventory has it."""
    server: str
    """As known_hosts will name it: the address, with the port unless it is 22, or its HostKeyAlias."""
    target: str
    """`address:port`."""
    jump: str | None
    """The jump host that it is seen through."""
    algorithm: str
    fingerprint: str
    """`SHA256:…` of the key, which the server has proved to hold."""
    hosts: Names


@dataclass(frozen=True, slots=True, kw_only=True)
class PassphraseQuestion:
    """The passphrase of a private key that a server takes."""

    path: str
    wrong: int
    """Passphrases given before that do not open it."""
    said: str
    """Why the last of them does not; empty before the first."""
    tries: int
    """How many may be given in all."""
    hosts: Names
    is_over: Callable[[], bool]
    """Whether the key is open now, or given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One thing that a server wants to know."""

    words: str
    is_shown: bool
    """Whether what is typed may be seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginQuestion:
    """What a server asks of whoever logs in; its time for that is short."""

    host: str
    """As the inventory has it."""
    target: str
    """`user@address:port`."""
    jump: str | None
    """The jump host that it is reached through."""
    text: str
    """The server's own words, lines kept."""
    prompts: tuple[Prompt, ...]
    is_kbdint: bool
    """The words of the prompts are the server's; else it takes a password and says nothing about it."""
    was_refused: bool
    """The server did not take the last answer."""
    hosts: Names
    others: Callable[[], int]
    """Logins that wait until this one is over."""
    is_over: Callable[[], bool]
    """Whether the login has succeeded or failed since."""


class Declined(Enum):
    """The person does not answer."""

    THIS = "this"
    ALL = "all"
    """Nor any other login that would ask, until told otherwise."""
