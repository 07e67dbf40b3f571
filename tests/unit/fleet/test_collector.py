"""The Collector with sources that a test drives, in time that a test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from datetime import timedelta

from gputop.domain.event import FrameReceived, HostsChanged, LinkChanged, SourceEvent
from gputop.domain.link import LinkState
from gputop.fleet.collector import Collector, Update
from tests.fakes.builders import a_frame, a_link, a_spec
from tests.fakes.clock import START, ManualClock


class ScriptedSource:
    name = "ssh"

    def __init__(self) -> None:
        self.queue: asyncio.Queue[SourceEvent | Exception] = asyncio.Queue()
        self.starts = 0
        self.ended = False
        self.asked: list[tuple[Collection[str], bool]] = []
        self.interval = 0.0

    async def events(self) -> AsyncIterator[SourceEvent]:
        self.starts += 1
        try:
            while True:
                item = await self.queue.get()
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self.ended = True

    def retry(self, hosts: Collection[str], *, by_person: bool = True) -> None:
        self.asked.append((hosts, by_person))

    async def let_go(self, hosts: Collection[str]) -> None:
        self.asked.append(hosts)

    def set_interval(self, seconds: float) -> None:
        self.interval = seconds


async def next_update(updates: AsyncIterator[Update], clock: ManualClock) -> Update:
    waiting = asyncio.ensure_future(anext(updates))  # type: ignore[arg-type]
    for _ in range(50):
        await clock.advance(0.1)
        if waiting.done():
            break
    return await waiting


async def test_only_the_newest_frame_of_a_host_in_one_tick_is_folded_and_the_rest_counted() -> None:
    clock, source = ManualClock(), ScriptedSource()
    collector = Collector([source], clock)
    updates = collector.updates()
    for event in (
        HostsChanged(source="ssh", hosts=(a_spec("a"), a_spec("b"))),
        LinkChanged(host="a", link=a_link()),
        FrameReceived(host="a", frame=a_frame(START, sequence=1)),
        FrameReceived(host="a", frame=a_frame(START, sequence=2)),
    ):
        source.queue.put_nowait(event)
    update = await next_update(updates, clock)
    assert update.fleet.hosts["a"].frame is not None
    assert update.fleet.hosts["a"].frame.sequence == 2
    assert collector.inbox.dropped_frames == 1
    assert update.changed == {"a", "b"}
    quiet = await next_update(updates, clock)
    assert quiet.changed == frozenset()
    assert quiet.fleet.as_of > update.fleet.as_of
    await updates.aclose()  # type: ignore[attr-defined]
    assert source.ended


async def test_a_source_that_breaks_is_told_and_started_again_while_its_hosts_stay() -> None:
    clock, source = ManualClock(), ScriptedSource()
    updates = Collector([source], clock).updates()
    source.queue.put_nowait(HostsChanged(source="ssh", hosts=(a_spec("a"),)))
    await next_update(updates, clock)
    source.queue.put_nowait(RuntimeError("boom"))
    update = await next_update(updates, clock)
    assert "boom" in update.fleet.problems[0].summary
    assert list(update.fleet.hosts) == ["a"]
    await clock.advance(6)
    assert source.starts == 2
    await updates.aclose()  # type: ignore[attr-defined]


async def test_silence_makes_a_host_stale_without_any_event() -> None:
    clock, source = ManualClock(), ScriptedSource()
    updates = Collector([source], clock).updates()
    source.queue.put_nowait(HostsChanged(source="ssh", hosts=(a_spec("a"),)))
    source.queue.put_nowait(LinkChanged(host="a", link=a_link()))
    source.queue.put_nowait(FrameReceived(host="a", frame=a_frame(START)))
    update = await next_update(updates, clock)
    assert update.fleet.hosts["a"].link.state is LinkState.OK
    while update.fleet.as_of < START + timedelta(seconds=7):
        update = await next_update(updates, clock)
    assert update.fleet.hosts["a"].link.state is LinkState.STALE
    await updates.aclose()  # type: ignore[attr-defined]


async def test_requests_reach_every_source() -> None:
    source = ScriptedSource()
    collector = Collector([source], ManualClock())
    collector.retry(["a"])
    collector.retry(["b"], by_person=False)
    collector.set_interval(5.0)
    assert source.asked == [(["a"], True), (["b"], False)]
    assert source.interval == 5.0
