"""One plan that is being carried out: what its hosts share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct

from gputop.actions.journal import Journal, Story
from gputop.domain.action import HostPlan, Plan, Progress

Recheck = Callable[[Plan, HostPlan], Awaitable[str | None]]
"""Why a host whose turn comes late, or that was left half done, is not called any more; `None`: what its plan rests on
still holds. Of the steps it gets those that are left."""
Listener = Callable[[Progress], None]


class Run(Struct, kw_only=True):
    """One plan being carried out."""

    story: Story
    journal: Journal
    wait: bool
    listen: Listener
    places: asyncio.Semaphore
    canary_passed: asyncio.Event
    recheck: Recheck | None = None
    resumed: bool = False
    halted: str = ""
    """Why no further host is begun."""
    unjudged: set[str] = set()
    """Hosts that were begun before an interruption, and not judged again since."""
    left_open: set[str] = set()
    """Hosts that a guard keeps from going on: the plan stays unfinished."""

    @property
    def plan(self) -> Plan:
        return self.story.plan


class Place:
    """A place among the hosts that are worked on; given up when only waiting is left."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places = places
        self._taken = False

    async def take(self) -> None:
        await self._places.acquire()
        self._taken = True

    def leave(self) -> None:
        if self._taken:
            self._taken = False
            self._places.release()
