"""Every seam of gputop as a Protocol. Implementations are picked in `gputop.wiring` alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from datetime import datetime
from typing import Protocol

from gputop.domain.event import SourceEvent
from gputop.domain.host import Endpoint, HostSpec
from gputop.domain.link import LinkFailure


class Clock(Protocol):
    def now(self) -> datetime:
        """The wall clock, timezone-aware UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class Source(Protocol):
    """Yields what it learns about hosts until cancelled. Never raises for a host's trouble."""

    @property
    def name(self) -> str:
        """`ssh`, `local`, `demo`, …: the `source` of the JSON output."""
        ...

    def events(self) -> AsyncIterator[SourceEvent]: ...

    def retry(self, hosts: Collection[str]) -> None:
        """Ask these hosts again now: a waiting or refused connection is tried at once."""
        ...

    def set_interval(self, seconds: float) -> None:
        """Time between two frames, from now on, for all hosts."""
        ...


class RemoteProcess(Protocol):
    """One program running on a host. Bytes in, bytes out."""

    async def write(self, data: bytes) -> None:
        """Send to its standard input. Raises `ConnectionError` when it is gone."""
        ...

    async def read(self) -> bytes:
        """The next piece of standard output, at most 64 KiB; `b""` at its end. Never raises for a lost connection:
        that is an end."""
        ...

    async def close(self) -> int | None:
        """End it (EOF, then kill), free the channel; its exit status, `None` when there was none. Idempotent."""
        ...

    @property
    def stderr_tail(self) -> bytes:
        """The last 8 KiB of standard error."""
        ...

    @property
    def lost(self) -> LinkFailure | None:
        """Why the connection under it broke; `None` while it lives or when the program ended by itself."""
        ...


class Connection(Protocol):
    """An authenticated connection to one host."""

    async def start(self, command: str) -> RemoteProcess | LinkFailure:
        """Run `command` by the account's shell, without a terminal."""
        ...

    async def close(self) -> None:
        """Close it and every channel on it. Idempotent."""
        ...


class Transport(Protocol):
    async def locate(self, spec: HostSpec) -> Endpoint | LinkFailure:
        """How a host would be reached; nothing is connected to."""
        ...

    async def connect(self, spec: HostSpec) -> Connection | LinkFailure:
        """Reach a host; an error is a value. Cancelling it leaves nothing open."""
        ...

    def forget(self) -> None:
        """Forget waiting times and failures: a person wants it tried now."""
        ...

    async def close(self) -> None:
        """Close shared connections (jump hosts)."""
        ...
