"""Time that a test moves by hand."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class ManualClock:
    """A `Clock` whose sleepers wake, in order, when a test calls `advance`."""

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._elapsed = 0.0
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        self._sleepers.append((self._elapsed + seconds, woken))
        await woken.wait()

    async def advance(self, seconds: float) -> None:
        """Let time pass, waking each sleeper at its own moment and letting it run."""
        end = self._elapsed + seconds
        while True:
            await _settle()
            due = sorted((sleeper for sleeper in self._sleepers if sleeper[0] <= end), key=lambda sleeper: sleeper[0])
            if not due:
                break
            self._elapsed = max(self._elapsed, due[0][0])
            self._sleepers.remove(due[0])
            due[0][1].set()
        self._elapsed = end
        await _settle()


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)
