"""What the composition root promises about a person who can be asked."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path
from typing import Any

from gputop.domain.action import ActionKind, ActionRequest
from gputop.fleet.fleet import Fleet
from gputop.transport.ssh import SshTransport
from gputop.wiring import make_collector, make_desk, make_runner, make_ways
from tests.fakes.builders import a_spec
from tests.fakes.clock import START


class RecordingCollector:
    def __init__(self) -> None:
        self.retried: list[tuple[Collection[str], bool]] = []
        self.asked = asyncio.Event()

    def retry(self, hosts: Collection[str], *, by_person: bool = True) -> None:
        self.retried.append((hosts, by_person))
        self.asked.set()


async def test_a_look_of_an_act_does_not_ask_again_what_a_person_has_declined(tmp_path: Path) -> None:
    collector: Any = RecordingCollector()
    desk = make_desk([a_spec("a")], collector, allowed=True, relock_seconds=600.0, state_folder=tmp_path)
    desk.accept(Fleet(as_of=START))
    request = ActionRequest(kind=ActionKind.DRAIN, hosts=("a",), by="ann")
    proposing = asyncio.create_task(desk.propose(request))
    async with asyncio.timeout(20):
        await collector.asked.wait()
    proposing.cancel()
    await asyncio.gather(proposing, return_exceptions=True)
    await desk.close()
    assert {by_person for _, by_person in collector.retried} == {False}


async def test_shared_ways_are_one_transport_until_the_last_user_has_closed_it() -> None:
    spec = a_spec("a")
    ways = make_ways([spec])
    collector = make_collector([spec], ways=ways)
    runner, transport = make_runner([spec], ways=ways)
    assert isinstance(ways.ssh.transport, SshTransport)
    assert len(ways.ssh.users) == 2
    await runner.close()
    await transport.close()
    assert len(ways.ssh.users) == 1
    assert collector.source == "ssh"
