"""Commands that a signal ends in the middle as Ctrl-C does: they let go in order and say how to go on."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""SIGINT is asyncio's own."""


def run_until_signal(work: Coroutine[None, None, int]) -> int:
    """What `work` returns; cancelled by a signal, 128 and its number, as shells tell it."""
    caught: list[int] = []

    async def run() -> int:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def end(number: int) -> None:
            caught.append(number)
            task.cancel()

        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                loop.add_signal_handler(number, end, number)
        return await work

    try:
        return asyncio.run(run())
    except asyncio.CancelledError:
        if not caught:
            raise
        return 128 + caught[0]
