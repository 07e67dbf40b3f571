"""Programs of this machine can be started and cancelled at any moment."""

from __future__ import annotations

import asyncio
import signal
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from gputop.transport.spawn import signal_group, spawn


def running(marker: str) -> list[str]:
    """Processes whose command line holds `marker`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:  # it has just ended
            continue
        if marker.encode() in words:
            found.append(path.parent.name)
    return found


@pytest.mark.parametrize("steps", range(12))
async def test_a_start_that_is_cancelled_ends_and_leaves_nothing(steps: int, tmp_path: Path) -> None:
    command = f"/bin/sh -c 'sleep 1000; : {tmp_path}'; : {tmp_path}"
    task = asyncio.create_task(spawn("/bin/sh", "-c", command, stdin=PIPE, stdout=PIPE, stderr=PIPE))
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task], timeout=30)
    assert task.done()
    if not task.cancelled():  # the start was over before
        signal_group(task.result(), signal.SIGKILL)
        await task.result().wait()
    assert running(str(tmp_path)) == []


async def test_a_program_that_cannot_be_started_is_an_os_error() -> None:
    with pytest.raises(FileNotFoundError):
        await spawn("/nonexistent/program", stdin=PIPE, stdout=PIPE, stderr=PIPE)


async def test_a_signal_to_a_group_that_has_ended_does_nothing() -> None:
    process = await spawn("/bin/true", stdin=PIPE, stdout=PIPE, stderr=PIPE)
    await process.wait()
    signal_group(process, signal.SIGKILL)
