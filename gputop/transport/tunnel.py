"""A byte stream to a server's sshd through a jump connection.

asyncssh opens the channel and shakes hands in one go; here these are two steps, so that only a server that answers
takes one of the places for handshakes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import asyncssh

from gputop.transport.reach import GREETING_BYTES


class Tunnel(asyncssh.SSHTCPSession[bytes]):
    """A channel to `host:port` behind a jump host. Given to `asyncssh.connect(tunnel=…)` it becomes the connection's
    stream; until then it keeps what arrives."""

    def __init__(self) -> None:
        self._channel: asyncssh.SSHTCPChannel[bytes] | None = None
        self._kept = bytearray()
        self._ended: tuple[Exception | None] | None = None
        self._said = asyncio.Event()
        self._user: Any = None

    @classmethod
    async def open(
        cls, jump: asyncssh.SSHClientConnection, host: str, port: int, orphans: set[asyncio.Task[None]]
    ) -> Tunnel:
        """Ask `jump` for a channel. Raises `asyncssh.ChannelOpenError` when it refuses.

        A request cannot be taken back: when cancelled, a task in `orphans` waits for the answer and closes the channel.
        """
        tunnel = cls()
        opening = asyncio.create_task(tunnel._open(jump, host, port))
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            tunnel.close()
            orphans.add(opening)
            opening.add_done_callback(orphans.discard)
            opening.add_done_callback(lambda task: task.cancelled() or task.exception())
            raise
        return tunnel

    async def _open(self, jump: asyncssh.SSHClientConnection, host: str, port: int) -> None:
        await jump.create_connection(lambda: self, host, port)

    async def introduced(self) -> bytes:
        """Wait until the server said something, or hung up. A look at the first bytes; none when it hung up."""
        await self._said.wait()
        return bytes(self._kept[:GREETING_BYTES])

    def close(self) -> None:
        """Close the channel; one that is still being opened is closed once it is open."""
        self._ended = self._ended or (None,)
        if self._channel is not None:
            self._channel.abort()

    async def create_connection(self, factory: Callable[[], Any], host: str, port: int) -> tuple[Any, Any]:
        """The open channel, with a session of `factory` on it. Called by asyncssh."""
        if self._channel is None or self._ended:
            raise asyncssh.ConnectionLost("Connection lost")
        user = factory()
        user.connection_made(self._channel)
        user.session_started()
        self._user = user
        if self._kept:
            user.data_received(bytes(self._kept))
            self._kept.clear()
        return self._channel, user

    def connection_made(self, chan: asyncssh.SSHTCPChannel[bytes]) -> None:
        self._channel = chan
        if self._ended:
            chan.abort()

    def data_received(self, data: bytes, datatype: asyncssh.DataType = None) -> None:
        if self._user is None:
            self._kept += data
            self._said.set()
        else:
            self._user.data_received(data, datatype)

    def eof_received(self) -> bool:
        if self._user is None:
            self._ended = (None,)
            self._said.set()
        else:
            self._user.eof_received()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = (exc,)
        self._said.set()
        if self._user is not None:
            self._user.connection_lost(exc)

    def pause_writing(self) -> None:
        if self._user is not None:
            self._user.pause_writing()

    def resume_writing(self) -> None:
        if self._user is not None:
            self._user.resume_writing()
