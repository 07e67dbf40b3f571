"""One transport for several users, each of whom closes it when it is done."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from gputop.domain.host import Endpoint, HostSpec, Way
from gputop.domain.link import LinkFailure
from gputop.ports import Connection, Told, Transport


class Shared:
    """Hands out a transport, made when the first one takes it; the last user's close closes it."""

    def __init__(self, make: Callable[[], Transport]) -> None:
        self.users: set[Share] = set()
        self._make = make

    @cached_property
    def transport(self) -> Transport:
        return self._make()

    def take(self) -> Share:
        return Share(self)


class Share:
    """The transport of one user. Implements `ports.Transport`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._transport = shared.transport
        shared.users.add(self)

    async def locate(self, spec: HostSpec) -> Endpoint | LinkFailure:
        return await self._transport.locate(spec)

    async def trace(self, spec: HostSpec) -> Way | LinkFailure:
        return await self._transport.trace(spec)

    async def shell(self, spec: HostSpec) -> tuple[str, ...] | LinkFailure:
        return await self._transport.shell(spec)

    async def connect(self, spec: HostSpec, told: Told | None = None) -> Connection | LinkFailure:
        self._shared.users.add(self)
        return await self._transport.connect(spec, told)

    def forget(self, *, by_person: bool = True) -> None:
        self._transport.forget(by_person=by_person)

    async def close(self) -> None:
        """Idempotent; what is used again afterwards counts again."""
        if self in self._shared.users:
            self._shared.users.remove(self)
            if not self._shared.users:
                await self._transport.close()
