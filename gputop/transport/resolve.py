"""Names to addresses, without ever holding up the event loop or the exit."""

from __future__ import annotations

import asyncio
import socket

from msgspec import Struct

from gputop.ports import Clock
from gputop.transport.once import Once
from gputop.transport.thread import in_thread

CONCURRENT = 64
REMEMBER_SECONDS = 60.0


class Address(Struct, frozen=True):
    """One address to connect a TCP socket to."""

    family: int
    sockaddr: tuple[str, int] | tuple[str, int, int, int]


class _Answer(Struct, frozen=True, kw_only=True):
    addresses: tuple[Address, ...] = ()
    error: OSError | None = None
    at: float


class Resolver:
    """Looks names up: many at a time, answers kept for a minute, the same question asked once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running = asyncio.Semaphore(CONCURRENT)
        self._answers: Once[tuple[str, int, int], _Answer] = Once()

    async def addresses(self, host: str, port: int, family: int = socket.AF_UNSPEC) -> tuple[Address, ...]:
        """The addresses of `host`, families alternating. Raises `OSError` (`socket.gaierror`) when there is none."""
        answer = await self._answers.get(
            (host, port, family),
            lambda: self._look_up(host, port, family),
            usable=lambda answer: answer.error is None and self._clock.monotonic() - answer.at < REMEMBER_SECONDS,
        )
        if answer.error is not None:
            raise answer.error
        return answer.addresses

    async def close(self) -> None:
        """End the questions still open."""
        await self._answers.close()

    async def _look_up(self, host: str, port: int, family: int) -> _Answer:
        def ask(flags: int = 0) -> tuple[Address, ...]:
            found = socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM, flags=flags)
            return _alternating([Address(info[0], info[4]) for info in found])  # type: ignore[arg-type]

        try:
            try:
                found = ask(socket.AI_NUMERICHOST)
            except socket.gaierror:
                async with self._running:
                    found = await in_thread(ask, "gputop-name-lookup")
        except (OSError, UnicodeError) as error:
            failure = error if isinstance(error, OSError) else socket.gaierror(socket.EAI_NONAME, str(error))
            return _Answer(error=failure, at=self._clock.monotonic())
        return _Answer(addresses=found, at=self._clock.monotonic())


def _alternating(addresses: list[Address]) -> tuple[Address, ...]:
    """In the resolver's order, but the two families in turn, so that a broken one costs one attempt."""
    first = [address for address in addresses if address.family == addresses[0].family]
    second = [address for address in addresses if address.family != addresses[0].family]
    turns: list[Address] = []
    for position in range(max(len(first), len(second))):
        turns += first[position : position + 1] + second[position : position + 1]
    return tuple(turns)
