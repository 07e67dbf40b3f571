"""A look at hosts takes only what came after it was asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import timedelta

from gputop.domain.host import Host
from gputop.fleet.fleet import Fleet
from gputop.fleet.observer import FleetObserver
from tests.fakes.builders import a_frame, a_link, a_spec
from tests.fakes.clock import START, ManualClock


class Watched:
    def retry(self, hosts: Collection[str], *, by_person: bool = True) -> None:
        pass

    async def let_go(self, hosts: Collection[str]) -> None:
        pass


def fleet(seconds: float) -> Fleet:
    """Whose only host has a frame that came so long after `START`."""
    at = START + timedelta(seconds=seconds)
    host = Host(spec=a_spec(), link=a_link(), reported=a_link(), frame=a_frame(at))
    return Fleet(as_of=at, hosts={host.name: host})


async def test_a_frame_of_before_is_not_taken_for_a_new_one_where_the_clock_was_set_back() -> None:
    clock = ManualClock()
    observer = FleetObserver(Watched(), clock)
    observer.accept(fleet(3600))  # then the clock is set back by an hour
    looking = asyncio.create_task(observer.look(["gpu-01"]))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not looking.done()
    observer.accept(fleet(5))
    seen = await looking
    assert seen["gpu-01"].frame is not None
    assert seen["gpu-01"].frame.received_at == START + timedelta(seconds=5)
