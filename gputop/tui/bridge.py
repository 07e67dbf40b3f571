"""From the Collector's updates to one message that newer ones replace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Protocol

from textual.message import Message
from textual.message_pump import MessagePump

from gputop.fleet.collector import Update
from gputop.fleet.series import SeriesStore


class Feed(Protocol):
    """What the screen needs of a Collector."""

    @property
    def series(self) -> SeriesStore: ...

    def updates(self) -> AsyncIterator[Update]: ...

    def retry(self, hosts: Collection[str]) -> None: ...

    def set_interval(self, seconds: float) -> None: ...


class FleetUpdated(Message):
    """There is a newer Fleet. A screen that is busy gets only the newest."""

    def __init__(self, update: Update) -> None:
        super().__init__()
        self.update = update

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, FleetUpdated)


async def follow(feed: Feed, target: MessagePump) -> None:
    """Pass updates on to `target` for ever; cancelling it ends the feed."""
    updates = feed.updates()
    try:
        async for update in updates:
            target.post_message(FleetUpdated(update))
    finally:
        close = getattr(updates, "aclose", None)
        if close is not None:
            await close()
