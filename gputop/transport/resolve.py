"""Names to addresses, without ever holding up the event loop or the exit."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from gputop.ports import Clock
from gputop.transport.once import Once

CONCURRENT = 64
REMEMBER_SECONDS = 60.0

Value = TypeVar("Value")


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
                    found = await _in_thread(ask)
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


async def _in_thread(work: Callable[[], Value]) -> Value:
    """`work()` in a thread that nobody waits for at exit: getaddrinfo cannot be interrupted, and a dead name server
    would hold up quitting for half a minute. asyncio's own pool is joined at exit, so it is no use here."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[Value] = loop.create_future()

    def deliver(value: Value | None, error: BaseException | None) -> None:
        if result.done():
            return
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(value)  # type: ignore[arg-type]

    def run() -> None:
        value, error = None, None
        try:
            value = work()
        except BaseException as raised:  # noqa: BLE001 - handed to whoever waits
            error = raised
        try:
            loop.call_soon_threadsafe(deliver, value, error)
        except RuntimeError:
            return  # the loop has ended: nobody waits any more

    threading.Thread(target=run, name="gputop-name-lookup", daemon=True).start()
    return await result
