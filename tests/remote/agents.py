"""Real agents for tests: started through the same seams as in gputop, watched by their process ids."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from gputop.domain.clock import SystemClock
from gputop.domain.link import LinkFailure
from gputop.domain.reading import Frame
from gputop.probes.session import Session
from gputop.transport.process import ProcessTransport
from tests.fakes.builders import a_spec
from tests.needs import need

FIXTURES = Path(__file__).parents[1] / "fixtures"
PATIENCE_SECONDS = 20.0


@cache
def nvml_library(folder: Path, *defines: str) -> Path:
    """The fake libnvidia-ml.so.1, compiled into `folder`."""
    library = folder / f"libnvidia-ml{''.join(defines)}.so.1"
    flags = [f"-D{define}" for define in defines]
    source = FIXTURES / "nvml" / "fake_nvml.c"
    command = [need("gcc"), "-O1", "-shared", "-fPIC", "-w", *flags, "-o", str(library), str(source), "-lpthread"]
    subprocess.run(command, check=True, timeout=60)
    return library


class NvmlFixture:
    """What the fake library answers; changes count from the next call on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = (FIXTURES / "nvml" / "h100x8.conf").read_text().splitlines()
        self._extra: dict[str, str] = {}
        self._write()

    def set(self, **values: object) -> None:
        """Keys with `__` in place of the dot; `None` takes a key away."""
        for name, value in values.items():
            key = name.replace("__", ".")
            if value is None:
                self._extra.pop(key, None)
            else:
                self._extra[key] = str(value)
        self._write()

    def leave_out(self, *keys: str) -> None:
        """Take values away that all devices have; each is then not supported."""
        self._lines = [line for line in self._lines if line.partition(" ")[0] not in {f"gpu.{key}" for key in keys}]
        self._write()

    def _write(self) -> None:
        lines = [*self._lines, *(f"{key} = {value}" for key, value in self._extra.items())]
        new = self.path.with_suffix(".new")
        new.write_text("\n".join(lines) + "\n")
        new.replace(self.path)


@contextmanager
def a_gpu_process(folder: Path) -> Iterator[int]:
    """The pid of a live process for lists of processes. It has a device open, as in a container it must: there gputop
    believes nobody else's pid."""
    device = folder / "dev" / "nvidia0"
    device.parent.mkdir(exist_ok=True)
    with device.open("w") as file, subprocess.Popen(["sleep", "600"], pass_fds=[file.fileno()]) as process:
        yield process.pid
        process.kill()


class Talk:
    """A session and what it has said."""

    def __init__(self, session: Session, items: AsyncGenerator[Frame | LinkFailure, None]) -> None:
        self.session = session
        self._items = items

    async def next(self) -> Frame:
        async with asyncio.timeout(PATIENCE_SECONDS):
            item = await anext(self._items)
        assert isinstance(item, Frame), item
        return item

    async def until(self, wanted: Callable[[Frame], Any]) -> Frame:
        """The first frame that is as `wanted`."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                frame = await self.next()
                if wanted(frame):
                    return frame

    async def end(self) -> LinkFailure:
        """The failure that the session ends with; frames before it are passed over."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for item in self._items:
                if isinstance(item, LinkFailure):
                    return item
        raise AssertionError("the session ended without a word")


@asynccontextmanager
async def talking(interval: float = 0.2, options: dict[str, object] | None = None, **spec: Any) -> AsyncIterator[Talk]:
    """A session with an agent on this machine, whose own kernel log is left alone."""
    host = a_spec(local=True, **spec)
    connection = await ProcessTransport().connect(host)
    chosen = {"kernel_log": False, **(options or {})}
    session = Session(connection, host, SystemClock(), interval_seconds=interval, options=chosen)
    try:
        async with aclosing(session.frames()) as items:
            yield Talk(session, items)
    finally:
        await connection.close()


def descendants(pid: int, *, but: Collection[int] = ()) -> set[int]:
    """Process ids of all children, theirs too; not those in `but`, nor what these start: servers of other tests that
    run beside."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path("/proc", entry, "stat").read_text()
            except OSError:
                continue
            parents[int(entry)] = int(stat.rpartition(")")[2].split()[1])
    found: set[int] = set()
    grown = {pid}
    while grown:
        grown = {child for child, parent in parents.items() if parent in grown} - found - set(but)
        found |= grown
    return found


def alive(pid: int) -> bool:
    """Running, and not a zombie that nobody has collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(wanted: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> bool:
    """Whether `wanted` came true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if wanted():
            return True
        time.sleep(0.02)
    return bool(wanted())


def kill(pids: set[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
