"""Work that one does and many wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Once(Generic[Key, Value]):
    """At most one piece of work per key at a time; its value is kept.

    The work is a task of its own, so that a waiter that is cancelled takes nothing away from the others. `close` ends
    what still runs."""

    def __init__(self) -> None:
        self._tasks: dict[Key, asyncio.Task[Value]] = {}

    async def get(
        self, key: Key, work: Callable[[], Coroutine[Any, Any, Value]], *, usable: Callable[[Value], bool]
    ) -> Value:
        """The value for `key`: the kept one while `usable` says so, the one being worked on, or a new one."""
        task = self._tasks.get(key)
        if task is None or (task.done() and (task.cancelled() or task.exception() or not usable(task.result()))):
            task = self._tasks[key] = asyncio.create_task(work())
        return await asyncio.shield(task)

    def values(self) -> list[Value]:
        """What has been made so far."""
        done = [task for task in self._tasks.values() if task.done() and not task.cancelled()]
        return [task.result() for task in done if task.exception() is None]

    def forget(self) -> None:
        """Forget all values; work in progress goes on."""
        self._tasks = {key: task for key, task in self._tasks.items() if not task.done()}

    async def close(self) -> None:
        """End the work in progress and wait for its end; values stay readable."""
        running = [task for task in self._tasks.values() if not task.done()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
