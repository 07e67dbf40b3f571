"""A program on a server: one SSH channel, bytes in and out."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import asyncssh

from gputop.domain.link import LinkFailure

READ_BYTES = 64 * 1024
HELD_BYTES = 1024 * 1024
"""More unread output than this makes the server wait."""
STDERR_TAIL_BYTES = 8 * 1024
GRACE_SECONDS = 1.0
"""How long a program may take to end itself after its standard input was closed."""
CLOSE_SECONDS = 0.5


class SshProgram(asyncssh.SSHClientSession[bytes]):
    """Implements `ports.RemoteProcess`."""

    def __init__(self, lost: Callable[[], LinkFailure | None], closed: Callable[[], None] = lambda: None) -> None:
        """`lost`: why the connection broke. `closed` is called once its channel has gone."""
        self._connection_lost = lost
        self._when_closed = closed
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None
        self._pieces: deque[bytes] = deque()
        self._held = 0
        self._paused = False
        self._ended = False
        self._arrived = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._closed = asyncio.Event()
        self._stderr = b""
        self._status: int | None = None

    async def write(self, data: bytes) -> None:
        if self._channel is None or self._channel.is_closing():
            raise BrokenPipeError("the program has ended")
        self._channel.write(data)
        await self._writable.wait()
        if self._closed.is_set():
            raise BrokenPipeError("the program has ended")

    async def read(self) -> bytes:
        while not self._pieces and not self._ended:
            self._arrived.clear()
            await self._arrived.wait()
        if not self._pieces:
            return b""
        piece = self._pieces.popleft()
        if len(piece) > READ_BYTES:
            self._pieces.appendleft(piece[READ_BYTES:])
            piece = piece[:READ_BYTES]
        self._held -= len(piece)
        if self._paused and self._held < HELD_BYTES and self._channel is not None:
            self._paused = False
            self._channel.resume_reading()
        return piece

    async def close(self) -> int | None:
        channel = self._channel
        if channel is None or self._closed.is_set():
            return self._status
        try:
            if not channel.is_closing():
                channel.write_eof()
            self._pieces.clear()  # one that is blocked in a write does not see the end of its input
            self._held = 0
            if self._paused:
                self._paused = False
                channel.resume_reading()
            async with asyncio.timeout(GRACE_SECONDS):
                await self._closed.wait()
        except TimeoutError:
            channel.kill()
        except OSError:
            pass  # the channel went meanwhile
        finally:
            channel.close()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await channel.wait_closed()
        except TimeoutError:
            channel.abort()
        self._end()  # behind a cut network nobody confirms it: whoever reads must not wait for that
        return self._status

    @property
    def has_ended(self) -> bool:
        """Its channel has gone."""
        return self._closed.is_set()

    @property
    def stderr_tail(self) -> bytes:
        return self._stderr

    @property
    def lost(self) -> LinkFailure | None:
        return None if self._status is not None else self._connection_lost()

    # What asyncssh calls.

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        self._channel = chan

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        if datatype == asyncssh.EXTENDED_DATA_STDERR:
            self._stderr = (self._stderr + data)[-STDERR_TAIL_BYTES:]
            return
        if self._ended:
            return
        self._pieces.append(data)
        self._held += len(data)
        self._arrived.set()
        if self._held >= HELD_BYTES and not self._paused and self._channel is not None:
            self._paused = True
            self._channel.pause_reading()

    def eof_received(self) -> bool:
        self._end()
        return True  # our direction stays open: the program may still read

    def exit_status_received(self, status: int) -> None:
        self._status = status

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        self._closed.set()
        self._writable.set()
        self._when_closed()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _end(self) -> None:
        self._ended = True
        self._arrived.set()
