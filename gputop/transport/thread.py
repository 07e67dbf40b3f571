"""The one door to threads: for calls that block and that nothing can interrupt."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


async def in_thread(work: Callable[[], Value], name: str) -> Value:
    """`work()` in a thread that nobody waits for at exit: getaddrinfo cannot be interrupted, and a dead name server
    would hold up quitting for half a minute. asyncio's own pool is joined at exit, so it is no use here."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[Value] = loop.create_future()

    def deliver(value: Value | None, error: BaseException | None) -> None:
        if result.done():
            return
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(value)  # type: ignore[arg-type]

    def run() -> None:
        value, error = None, None
        try:
            value = work()
        except BaseException as raised:  # noqa: BLE001 - handed to whoever waits
            error = raised
        try:
            loop.call_soon_threadsafe(deliver, value, error)
        except RuntimeError:
            return  # the loop has ended: nobody waits any more

    threading.Thread(target=run, name=name, daemon=True).start()
    return await result
