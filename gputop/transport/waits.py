"""Who waits for a person, told to every host whose way leads through there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from msgspec.structs import replace

from gputop.domain.problem import Problem, ProblemKind
from gputop.ports import Told

Item = TypeVar("Item")
Key = tuple[str, ...]
"""The `user@address:port` of each hop to a server, first hop first, its own last."""


@dataclass(eq=False, slots=True)
class _Listener:
    key: Key
    host: str
    told: Told | None


@dataclass(eq=False, slots=True)
class _Waiting:
    key: Key
    name: str
    problem: Problem


def awaited(what: str) -> Problem:
    """`what` a person is to do, as the host's row says it."""
    return Problem(kind=ProblemKind.ANSWER_AWAITED, summary=f"waits for your answer: {what}")


class Waits:
    """The logins that wait for a person, and the hosts that wait for a login."""

    def __init__(self) -> None:
        self._listeners: defaultdict[Key, list[_Listener]] = defaultdict(list)
        """By each login on their way: a fleet may wait for one jump host."""
        self._waiting: defaultdict[Key, list[_Waiting]] = defaultdict(list)

    @asynccontextmanager
    async def listening(self, key: Key, host: str, told: Told | None) -> AsyncIterator[None]:
        """While `host` is reached by `key`, `told` hears what that waits for."""
        listener = _Listener(key, host, told)
        for part in _parts(key):
            self._listeners[part].append(listener)
        try:
            for part in _parts(key):
                for waiting in tuple(self._waiting.get(part, ())):
                    await _tell(listener, waiting, is_over=False)
            yield
        finally:
            for part in _parts(key):
                _remove(self._listeners, part, listener)

    @asynccontextmanager
    async def waiting(self, key: Key, name: str, problem: Problem) -> AsyncIterator[None]:
        """While the login to `key`, a server that people call `name`, waits."""
        waiting = _Waiting(key, name, problem)
        self._waiting[key].append(waiting)
        try:
            await self._tell_all(waiting, is_over=False)
            yield
        finally:
            _remove(self._waiting, key, waiting)
            await self._tell_all(waiting, is_over=True)

    def hosts(self, key: Key) -> tuple[str, ...]:
        """The hosts that wait for the login to `key`, or for one behind it, each once."""
        return tuple(dict.fromkeys(listener.host for listener in self._listeners.get(key, ())))

    async def _tell_all(self, waiting: _Waiting, *, is_over: bool) -> None:
        for listener in tuple(self._listeners.get(waiting.key, ())):
            await _tell(listener, waiting, is_over=is_over)


async def _tell(listener: _Listener, waiting: _Waiting, *, is_over: bool) -> None:
    if listener.told is None:
        return
    problem = waiting.problem
    if listener.key != waiting.key:
        problem = replace(problem, summary=f"jump host {waiting.name} {problem.summary}")
    await listener.told(None if is_over else problem)


def _parts(key: Key) -> list[Key]:
    """`key` and all that stand before it on the way."""
    return [key[:length] for length in range(1, len(key) + 1)]


def _remove(kept: dict[Key, list[Item]], key: Key, item: Item) -> None:
    kept[key].remove(item)
    if not kept[key]:
        del kept[key]
