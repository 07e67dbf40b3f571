"""Programs on this machine, behind the same seam as SSH."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from asyncio.subprocess import PIPE

from gputop.domain.host import Endpoint, HostSpec, Way
from gputop.domain.link import LinkFailure, LinkState
from gputop.domain.problem import Problem, ProblemKind
from gputop.ports import Told
from gputop.transport.spawn import signal_group, spawn

READ_BYTES = 64 * 1024
STDERR_TAIL_BYTES = 8 * 1024
GRACE_SECONDS = 2.0
"""How long a program may take to end itself after its standard input was closed."""


class ProcessTransport:
    """Reaches this machine itself: commands are run by /bin/sh, each in its own session."""

    async def locate(self, spec: HostSpec) -> Endpoint:
        return Endpoint(address="localhost")

    async def trace(self, spec: HostSpec) -> Way:
        return Way(place="localhost")

    async def shell(self, spec: HostSpec) -> tuple[str, ...]:
        return (shutil.which(os.environ.get("SHELL") or "/bin/sh") or "/bin/sh",)

    async def connect(self, spec: HostSpec, told: Told | None = None) -> ProcessConnection:
        return ProcessConnection()

    def forget(self, *, by_person: bool = True) -> None:
        """Nothing is remembered."""

    async def close(self) -> None:
        """Nothing is shared between connections."""


class ProcessConnection:
    host_key: str | None = None
    """A program on this machine has no server."""

    def __init__(self) -> None:
        self._running: set[LocalProcess] = set()

    async def start(self, command: str) -> LocalProcess | LinkFailure:
        try:
            child = await spawn("/bin/sh", "-c", command, stdin=PIPE, stdout=PIPE, stderr=PIPE)
        except OSError as error:
            problem = Problem(kind=ProblemKind.NO_SHELL, summary="/bin/sh cannot be started", detail=str(error))
            return LinkFailure(state=LinkState.UNSUPPORTED, problem=problem)
        process = LocalProcess(child)
        self._running.add(process)
        return process

    async def close(self) -> None:
        running, self._running = self._running, set()
        await asyncio.gather(*(process.close() for process in running))


class LocalProcess:
    """One program and everything it started."""

    lost: LinkFailure | None = None

    def __init__(self, child: asyncio.subprocess.Process) -> None:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        self._child = child
        self._stdin = child.stdin
        self._stdout = child.stdout
        self._reading = asyncio.Lock()
        self._stderr = b""
        self._stderr_reader = asyncio.create_task(self._keep_stderr(child.stderr))
        self._closing: asyncio.Task[int | None] | None = None

    async def write(self, data: bytes) -> None:
        self._stdin.write(data)
        await self._stdin.drain()

    async def read(self) -> bytes:
        async with self._reading:  # whoever closes it reads as well
            return await self._stdout.read(READ_BYTES)

    async def close(self) -> int | None:
        # A task of its own: whoever waits for the end may be cancelled, the end comes all the same.
        if self._closing is None:
            self._closing = asyncio.create_task(self._end())
        return await asyncio.shield(self._closing)

    @property
    def stderr_tail(self) -> bytes:
        return self._stderr

    async def _end(self) -> int | None:
        self._stdin.close()
        drained = asyncio.create_task(self._discard_output())
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                await self._child.wait()
        except TimeoutError:
            pass
        finally:
            signal_group(self._child, signal.SIGKILL)
        status = await self._child.wait()
        await asyncio.gather(drained, self._stderr_reader)
        return status if status >= 0 else None

    async def _discard_output(self) -> None:
        """A program blocked in a write cannot see that its input has ended."""
        while await self.read():
            pass

    async def _keep_stderr(self, stream: asyncio.StreamReader) -> None:
        while data := await stream.read(READ_BYTES):
            self._stderr = (self._stderr + data)[-STDERR_TAIL_BYTES:]
