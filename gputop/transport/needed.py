"""How a login says that a person must be asked before it can go on.

asyncssh's callbacks cannot wait for that, or should not: a server counts the logins that hang, and ends them after a
while. So the login is ended, the person is asked without it, and then it is made again.
"""

from __future__ import annotations

from dataclasses import dataclass

import asyncssh


@dataclass(frozen=True, slots=True)
class NewHostKey:
    """The server holds a key that no known_hosts has."""

    algorithm: str
    blob: bytes


@dataclass(frozen=True, slots=True)
class LockedKey:
    """The server takes a key whose file has a passphrase, or it is the last one that we could try."""

    path: str


@dataclass(frozen=True, slots=True)
class AnotherAsks:
    """The server has questions for a person who is at another login."""


Need = NewHostKey | LockedKey | AnotherAsks


class PersonNeeded(asyncssh.DisconnectError):
    """Ends a login from inside a callback of asyncssh."""

    def __init__(self, need: Need) -> None:
        super().__init__(asyncssh.DISC_AUTH_CANCELLED_BY_USER, "somebody is asked first")
        self.need = need
