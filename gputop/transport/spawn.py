"""Starts a program on this machine, so that cancelling loses nothing."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Mapping


async def spawn(
    *argv: str,
    stdin: int,
    stdout: int,
    stderr: int,
    env: Mapping[str, str] | None = None,
    own_session: bool = True,
) -> Process:
    """`asyncio.create_subprocess_exec` in a session of its own. Raises `OSError` when it cannot be started.

    Cancelled in the middle, asyncio's own kills the program but none of those that it started, and waits for ever for a
    pipe that it has not connected yet. This one finishes the start, and then ends all of them. `own_session=False`: it
    stays in ours, and may use our terminal.
    """
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *argv, stdin=stdin, stdout=stdout, stderr=stderr, env=env, start_new_session=own_session
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait([starting])
        if starting.exception() is None:
            process = starting.result()
            signal_group(process, signal.SIGKILL) if own_session else process.kill()
            await process.wait()
        raise


def signal_group(process: Process, number: signal.Signals) -> None:
    """Send a signal to a program made by `spawn` and to all that it started; nothing when all of it has ended."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return
