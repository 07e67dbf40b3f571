"""A byte stream to a server's sshd: a TCP socket by the fastest address, or a ProxyCommand."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from asyncio.subprocess import PIPE
from collections.abc import Sequence

from gputop.transport.resolve import Address
from gputop.transport.spawn import signal_group, spawn

HEAD_START_SECONDS = 0.25
"""How long an address has to itself before the next one is tried beside it (RFC 8305)."""
GREETING_BYTES = 256
STDERR_KEPT = 2048
PROXY_GRACE_SECONDS = 0.5


async def connect_socket(addresses: Sequence[Address], bind_address: str | None = None) -> socket.socket:
    """A socket connected to the first of `addresses` that answers. Raises the first one's `OSError` when none does.

    Cancelling it closes every socket."""
    loop = asyncio.get_running_loop()
    errors: list[OSError] = []

    async def attempt(address: Address) -> socket.socket | None:
        try:
            sock = socket.socket(address.family, socket.SOCK_STREAM)
        except OSError as error:
            errors.append(error)
            return None
        try:
            sock.setblocking(False)
            if bind_address:
                sock.bind((bind_address, 0))
            await loop.sock_connect(sock, address.sockaddr)
        except OSError as error:
            sock.close()
            errors.append(error)
            return None
        except BaseException:
            sock.close()
            raise
        return sock

    waiting = list(addresses)
    running: set[asyncio.Task[socket.socket | None]] = set()
    winner: socket.socket | None = None
    try:
        while winner is None and (waiting or running):
            if waiting:
                running.add(asyncio.create_task(attempt(waiting.pop(0))))
            done, running = await asyncio.wait(
                running, timeout=HEAD_START_SECONDS if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                connected = task.result()
                if winner is None:
                    winner = connected
                elif connected is not None:
                    connected.close()
    finally:
        for task in running:
            task.cancel()
        for late in await asyncio.gather(*running, return_exceptions=True):
            if isinstance(late, socket.socket):
                late.close()
    if winner is None:
        raise errors[0] if errors else OSError("no address to connect to")
    return winner


async def introduced(sock: socket.socket) -> bytes:
    """Wait until the server said something, or hung up: sshd speaks first. A look at the first bytes, which stay in
    the stream; none when it hung up."""
    loop = asyncio.get_running_loop()
    readable = loop.create_future()
    loop.add_reader(sock, readable.cancel)
    try:
        await asyncio.wait([readable])
    finally:
        loop.remove_reader(sock)
    try:
        return sock.recv(GREETING_BYTES, socket.MSG_PEEK)
    except OSError:  # whoever reads it next meets it too
        return b""


class Proxy:
    """A running ProxyCommand; `sock` is the stream through it."""

    def __init__(self, process: asyncio.subprocess.Process, sock: socket.socket) -> None:
        self.sock = sock
        self.said = b""
        """The end of what it printed on standard error."""
        self._process = process
        self._listener = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, command: str) -> Proxy:
        """Run `command` by the user's shell, as ssh does. Raises `OSError` when that cannot be started."""
        ours, theirs = socket.socketpair()
        try:
            ours.setblocking(False)
            shell = os.environ.get("SHELL") or "/bin/sh"
            stream = theirs.fileno()
            process = await spawn(shell, "-c", f"exec {command}", stdin=stream, stdout=stream, stderr=PIPE)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return cls(process, ours)

    async def close(self) -> None:
        """End it and everything it started. Idempotent."""
        self.sock.close()
        try:
            if self._process.returncode is None:
                signal_group(self._process, signal.SIGHUP)
                try:
                    async with asyncio.timeout(PROXY_GRACE_SECONDS):
                        await self._process.wait()
                except TimeoutError:
                    signal_group(self._process, signal.SIGKILL)
                    await self._process.wait()
            await asyncio.wait([self._listener], timeout=PROXY_GRACE_SECONDS)
        finally:
            if self._process.returncode is None:
                signal_group(self._process, signal.SIGKILL)
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)

    async def _listen(self) -> None:
        assert self._process.stderr is not None
        while piece := await self._process.stderr.read(STDERR_KEPT):
            self.said = (self.said + piece)[-STDERR_KEPT:]
