"""Sessions over a connection that a test plays: how they go on and how they end."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from gputop.domain.host import Endpoint
from gputop.domain.link import LinkFailure, LinkState
from gputop.domain.problem import Problem, ProblemKind
from gputop.domain.reading import Frame
from gputop.probes.reader import BURST_BYTES
from gputop.probes.session import Session
from tests.fakes.builders import a_spec
from tests.fakes.clock import ManualClock

HELLO = {"k": "hello", "v": 1, "route": "nvml", "interval": 2.0, "facts": {}, "devices": {"index": [0]}}


class PlayedProcess:
    """A remote program whose output a test writes."""

    def __init__(self, command: str) -> None:
        self.command = command
        self.written = b""
        self.output: asyncio.Queue[bytes] = asyncio.Queue()
        self.status: int | None = 0
        self.lost: LinkFailure | None = None
        self.stderr_tail = b""
        self.closed = False
        found = re.search(r"gputop(-smi)? \d+ ([0-9a-f]{32})", command)
        assert found
        self.token = found.group(2)

    async def write(self, data: bytes) -> None:
        if self.closed:
            raise ConnectionResetError
        self.written += data

    async def read(self) -> bytes:
        return await self.output.get()

    async def close(self) -> int | None:
        self.closed = True
        self.output.put_nowait(b"")
        return self.status

    def say(self, *messages: dict[str, Any]) -> None:
        for message in messages:
            self.output.put_nowait(f"{self.token} {json.dumps(message)}\n".encode())

    def end(self, status: int | None = 0, *, said: bytes = b"", stderr: bytes = b"", shell: bool = True) -> None:
        if shell:
            self.output.put_nowait(self.token.encode() + b"\n")
        if said:
            self.output.put_nowait(said)
        self.status, self.stderr_tail = status, stderr
        self.output.put_nowait(b"")


class PlayedConnection:
    endpoint = Endpoint(address="192.0.2.1")
    host_key: str | None = None

    def __init__(self) -> None:
        self.started: asyncio.Queue[PlayedProcess] = asyncio.Queue()
        self.refusal: LinkFailure | None = None

    async def start(self, command: str) -> PlayedProcess | LinkFailure:
        if self.refusal is not None:
            return self.refusal
        process = PlayedProcess(command)
        self.started.put_nowait(process)
        return process

    async def close(self) -> None:
        pass


class Scene:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.connection = PlayedConnection()
        self.session = Session(self.connection, a_spec(), self.clock, interval_seconds=2.0)
        self.items: list[Frame | LinkFailure] = []
        self.task = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        async with aclosing(self.session.frames()) as items:
            async for item in items:
                self.items.append(item)

    async def process(self) -> PlayedProcess:
        async with asyncio.timeout(5):
            return await self.connection.started.get()

    async def item(self, number: int = 0) -> Frame | LinkFailure:
        async with asyncio.timeout(5):
            while len(self.items) <= number:
                await asyncio.sleep(0)
        return self.items[number]

    async def failure(self, number: int = 0) -> LinkFailure:
        item = await self.item(number)
        assert isinstance(item, LinkFailure), item
        async with asyncio.timeout(5):
            await self.task
        return item

    async def frame(self, number: int = 0) -> Frame:
        item = await self.item(number)
        assert isinstance(item, Frame), item
        return item


@asynccontextmanager
async def playing() -> AsyncIterator[Scene]:
    scene = Scene()
    yield scene
    scene.task.cancel()
    await asyncio.gather(scene.task, return_exceptions=True)


def frame(number: int = 1, **changed: Any) -> dict[str, Any]:
    return {"k": "frame", "n": number, "t": 1764550000, "interval": 2.0, "host": {}, "columns": {}, **changed}


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_the_payload_and_the_options_are_written_and_frames_come_back() -> None:
    async with playing() as scene:
        process = await scene.process()
        process.say(HELLO, frame(columns={"utilization_percent": [7]}))
        found = await scene.frame()
        assert found.value("utilization_percent", 0) == 7
        assert found.received_at == scene.clock.now()
        size = int(process.command.split()[-2])
        options = json.loads(process.written[size:].removeprefix(b"options "))
        assert options["interval"] == 2.0


async def test_noise_is_no_reading_and_a_bad_line_is_told_with_the_next_frame() -> None:
    async with playing() as scene:
        process = await scene.process()
        process.output.put_nowait(b"Welcome, have a nice day\nLast backup: 2026-01-02, 03:04, ok\n")
        process.say(HELLO, frame(1), frame(2, columns={"fan_percent": [1, 2, 3]}), frame(3), frame(4))
        assert not (await scene.frame(0)).problems
        third = await scene.frame(1)
        assert third.sequence == 3
        assert [problem.kind for problem in third.problems] == [ProblemKind.PROTOCOL]
        assert not (await scene.frame(2)).problems


async def test_heartbeats_and_control_lines_are_written() -> None:
    async with playing() as scene:
        process = await scene.process()
        process.say(HELLO, frame())
        await scene.frame()
        start = len(process.written)
        await scene.clock.advance(20)
        await settle()
        assert process.written[start:] == b"\n\n"
        scene.session.set_interval(5)
        scene.session.sample_now()
        scene.session.set_interval(0)
        await settle()
        assert process.written[start:] == b"\n\ninterval 5.000\nsample\ninterval 0.100\n"


async def test_silence_ends_it_as_stale_and_closes_the_program() -> None:
    async with playing() as scene:
        process = await scene.process()
        process.say(HELLO, frame())
        await scene.frame()
        await scene.clock.advance(29)
        await settle()
        assert not process.closed
        process.say(frame(2))
        await scene.frame(1)
        await scene.clock.advance(29)
        await settle()
        assert not process.closed
        await scene.clock.advance(2)
        failure = await scene.failure(2)
        assert process.closed
        assert (failure.state, failure.problem.kind) == (LinkState.STALE, ProblemKind.AGENT_SILENT)


async def test_lines_that_make_no_sense_are_no_sign_of_life() -> None:
    async with playing() as scene:
        process = await scene.process()
        for _ in range(4):
            process.say({"k": "frame"})
            await settle()
            await scene.clock.advance(10)
        failure = await scene.failure()
        assert failure.problem.kind is ProblemKind.AGENT_SILENT
        assert failure.problem.detail


async def test_a_long_interval_is_waited_for() -> None:
    async with playing() as scene:
        process = await scene.process()
        process.say(HELLO, frame())
        await scene.frame()
        scene.session.set_interval(60)
        await scene.clock.advance(599)
        await settle()
        assert not process.closed
        await scene.clock.advance(2)
        assert (await scene.failure(1)).problem.kind is ProblemKind.AGENT_SILENT


@pytest.mark.parametrize(
    ("status", "said"),
    [(1, b"This account is currently not available.\n"), (0, b"Only sftp is allowed here.\n"), (None, b"")],
)
async def test_an_account_without_a_shell_is_unsupported_in_the_words_of_the_server(
    status: int | None, said: bytes
) -> None:
    async with playing() as scene:
        (await scene.process()).end(status, said=said, shell=False)
        failure = await scene.failure()
        assert (failure.state, failure.problem.kind) == (LinkState.UNSUPPORTED, ProblemKind.NO_SHELL)
        assert failure.problem.detail == (said.decode().strip() or None)
        assert said.decode().strip() in failure.problem.summary


async def test_a_shell_that_never_starts_anything_is_told_apart_from_an_agent_that_never_spoke() -> None:
    summaries = []
    for said in (b"", b"token\n"):
        async with playing() as scene:
            process = await scene.process()
            process.output.put_nowait(said.replace(b"token", process.token.encode()) or b"Password: ")
            await settle()
            await scene.clock.advance(31)
            summaries.append((await scene.failure()).problem.summary)
    assert summaries == ["connected, but the login shell starts nothing", "connected, but the agent never spoke"]


@pytest.mark.parametrize("shell", [True, False])
async def test_a_server_that_prints_without_end_is_cut_off(shell: bool) -> None:
    async with playing() as scene:
        process = await scene.process()
        if shell:
            process.say(HELLO)
        for _ in range(BURST_BYTES // 60_000 + 1):
            process.output.put_nowait(b"y" * 60_000)
        failure = await scene.failure()
        assert (failure.state, failure.problem.kind) == (LinkState.STALE, ProblemKind.PROTOCOL)
        assert process.closed


async def test_a_lost_connection_is_told_as_the_transport_tells_it() -> None:
    lost = LinkFailure(
        state=LinkState.UNREACHABLE, problem=Problem(kind=ProblemKind.CONNECTION_LOST, summary="connection lost")
    )
    async with playing() as scene:
        process = await scene.process()
        process.say(HELLO, frame())
        await scene.frame()
        process.lost = lost
        process.end(None)
        assert await scene.failure(1) == lost


async def test_a_channel_that_is_refused_is_told_as_the_transport_tells_it() -> None:
    refusal = LinkFailure(state=LinkState.UNSUPPORTED, problem=Problem(kind=ProblemKind.NO_SHELL, summary="refused"))
    connection = PlayedConnection()
    connection.refusal = refusal
    session = Session(connection, a_spec(), ManualClock(), interval_seconds=2.0)
    assert [item async for item in session.frames()] == [refusal]


async def test_an_agent_that_crashes_later_is_stale_with_its_last_words() -> None:
    async with playing() as scene:
        process = await scene.process()
        process.say(HELLO, frame())
        await scene.frame()
        process.end(1, stderr=b"Traceback\nZeroDivisionError\n")
        failure = await scene.failure(1)
        assert (failure.state, failure.problem.kind) == (LinkState.STALE, ProblemKind.AGENT_FAILED)
        assert failure.problem.detail
        assert "ZeroDivisionError" in failure.problem.detail


async def test_without_python_nvidia_smi_is_read_and_nothing_is_amiss() -> None:
    async with playing() as scene:
        (await scene.process()).end(96)
        process = await scene.process()
        assert "gputop-smi" in process.command
        process.output.put_nowait(f"{process.token}\n{process.token} missing \n".encode())
        process.output.put_nowait(f"{process.token} time 1764550000\n{process.token} done \n".encode())
        found = await scene.frame()
        assert found.route == "none"
        assert [problem.kind for problem in found.problems] == [ProblemKind.TOOL_MISSING]


async def test_an_agent_that_never_ran_is_told_beside_the_readings_of_nvidia_smi() -> None:
    async with playing() as scene:
        (await scene.process()).end(1, stderr=b"ImportError: no ctypes\n")
        process = await scene.process()
        lines = (
            "",
            "help exit 0",
            "stream1 pid 17",
            "stream1 0, GPU-a, 00000000:01:00.0, H100, 97, 1, 100, 81559, 40, [N/A], 70.1, 700, P0, 1, 550.1",
            "time 1764550000",
            "done",
        )
        names = "index uuid pci.bus_id name count driver_version utilization.gpu utilization.memory memory.used "
        names += "memory.total temperature.gpu fan.speed power.draw power.limit pstate"
        help_lines = [f'help "{name}"' for name in names.split()]
        text = "".join(f"{process.token} {line}\n" for line in (lines[0], *help_lines, *lines[1:]))
        process.output.put_nowait(text.replace("stream1", "stream1").encode())
        found = await scene.frame()
        assert found.route == "nvidia-smi"
        assert found.value("utilization_percent", 0) == 97
        (problem,) = found.problems
        assert problem.kind is ProblemKind.AGENT_FAILED
        assert problem.detail
        assert "no ctypes" in problem.detail


async def test_another_protocol_is_told_and_not_tried_by_another_way() -> None:
    async with playing() as scene:
        process = await scene.process()
        process.say({**HELLO, "v": 99})
        process.end(0)
        failure = await scene.failure()
        assert failure.problem.kind is ProblemKind.PROTOCOL


async def test_closing_it_closes_the_program() -> None:
    async with playing() as scene:
        process = await scene.process()
        process.say(HELLO, frame())
        await scene.frame()
    assert process.closed
    assert scene.task.done()
