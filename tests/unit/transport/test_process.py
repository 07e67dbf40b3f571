"""Programs on this machine: what they say, how they end, and that nothing of them stays."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gputop.transport.process import LocalProcess, ProcessConnection, ProcessTransport
from tests.fakes.builders import a_spec
from tests.remote.agents import alive, wait_until


@pytest.fixture
async def connection() -> AsyncIterator[ProcessConnection]:
    transport = ProcessTransport()
    found = await transport.connect(a_spec(local=True))
    yield found
    await found.close()
    await transport.close()


async def start(connection: ProcessConnection, command: str) -> LocalProcess:
    process = await connection.start(command)
    assert isinstance(process, LocalProcess)
    return process


async def output(process: LocalProcess) -> bytes:
    found = b""
    async with asyncio.timeout(20):
        while data := await process.read():
            found += data
    return found


async def test_what_is_written_comes_back_and_the_exit_status_is_told(connection: ProcessConnection) -> None:
    process = await start(connection, 'read line; echo "got $line"; echo trouble >&2; exit 7')
    await process.write(b"this\n")
    assert await output(process) == b"got this\n"
    assert await process.close() == 7
    assert await process.close() == 7
    assert process.stderr_tail == b"trouble\n"
    assert process.lost is None


async def test_a_program_that_was_killed_has_no_exit_status(connection: ProcessConnection) -> None:
    process = await start(connection, "kill -9 $$")
    assert await output(process) == b""
    assert await process.close() is None


async def test_only_the_end_of_the_errors_is_kept(connection: ProcessConnection) -> None:
    process = await start(connection, "seq 1 20000 >&2")
    await output(process)
    await process.close()
    assert len(process.stderr_tail) == 8 * 1024
    assert process.stderr_tail.endswith(b"20000\n")


async def test_writing_to_a_program_that_has_ended_is_a_lost_connection(connection: ProcessConnection) -> None:
    process = await start(connection, "exit 0")
    await output(process)
    with pytest.raises(ConnectionError):
        await asyncio.gather(*(process.write(b"x" * 100_000) for _ in range(20)))


async def test_closing_kills_everything_that_was_started(connection: ProcessConnection, tmp_path: Path) -> None:
    process = await start(connection, "trap '' TERM HUP; sleep 600 & echo $! $$; sleep 600; wait")
    pids = [int(word) for word in (await process.read()).split()]
    assert all(alive(pid) for pid in pids)
    assert await process.close() is None
    assert wait_until(lambda: not any(alive(pid) for pid in pids), 2)


async def test_closing_works_while_somebody_reads(connection: ProcessConnection) -> None:
    process = await start(connection, "cat")
    reading = asyncio.create_task(process.read())
    await asyncio.sleep(0)
    assert await process.close() == 0
    assert await reading == b""


async def test_closing_ends_a_program_that_is_blocked_in_a_write(connection: ProcessConnection) -> None:
    process = await start(connection, "yes; echo never")
    await process.read()
    assert await process.close() is None


async def test_a_close_that_is_cancelled_still_ends_it(connection: ProcessConnection) -> None:
    process = await start(connection, "echo $$; exec sleep 600")
    pid = int(await process.read())
    closing = asyncio.create_task(process.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)
    await connection.close()
    assert not alive(pid)


async def test_its_programs_are_not_in_our_process_group(connection: ProcessConnection) -> None:
    process = await start(connection, "echo $$; cat")
    pid = int(await process.read())
    assert os.getpgid(pid) == pid
