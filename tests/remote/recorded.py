"""Sessions with the agent on a recorded machine."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from gputop.domain.clock import SystemClock
from gputop.domain.link import LinkFailure
from gputop.ports import Connection, RemoteProcess
from gputop.probes.bundle import parse_command
from gputop.probes.session import Session
from gputop.transport.process import ProcessTransport
from tests.fakes import recorded_machine
from tests.fakes.builders import a_spec
from tests.remote.agents import FIXTURES, Talk

MACHINES = FIXTURES / "machines"


class Recorded:
    """A copy of a recorded machine that a test may change."""

    def __init__(self, name: str, folder: Path) -> None:
        shutil.copytree(MACHINES / name, folder / name)
        self.folder = folder / name
        self.commands = self.folder / "commands"

    def command(self, name: str, text: str | None = None, *, status: int | None = None, hangs: bool = False) -> None:
        """What a program prints from now on; see `recorded_machine` for names."""
        self.commands.mkdir(exist_ok=True)
        for ending in ("status", "hang", "stream"):
            (self.commands / f"{name}.{ending}").unlink(missing_ok=True)
        if status is not None:
            (self.commands / f"{name}.status").write_text(f"{status}\n")
        if hangs:
            (self.commands / f"{name}.hang").write_text("")
        if text is not None:
            new = self.commands / f"{name}.new"
            new.write_text(text)
            new.replace(self.commands / f"{name}.txt")

    def asked(self) -> list[str]:
        """Every command line that was run, in order."""
        log = self.commands / "asked.log"
        return log.read_text().splitlines() if log.exists() else []

    def log(self, *records: str) -> None:
        """Records for /dev/kmsg."""
        file = self.folder / "files" / "dev" / "kmsg"
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as kmsg:
            kmsg.write("".join(record + "\n" for record in records))


class _RecordedConnection:
    """Starts the agent on the recorded machine, whatever command would find a Python."""

    host_key: str | None = None

    def __init__(self, connection: Connection, folder: Path) -> None:
        self._connection = connection
        self._folder = folder

    async def start(self, command: str) -> RemoteProcess | LinkFailure:
        parsed = parse_command(command)
        assert parsed is not None, command
        size, token = parsed
        words = [sys.executable, str(Path(recorded_machine.__file__)), str(self._folder), str(size), token]
        return await self._connection.start("exec " + shlex.join(words))

    async def close(self) -> None:
        await self._connection.close()


@asynccontextmanager
async def talking_to(
    machine: Recorded, *, interval: float = 0.2, options: dict[str, object] | None = None
) -> AsyncIterator[Talk]:
    """A session with the agent there."""
    host = a_spec(local=True)
    connection = await ProcessTransport().connect(host)
    assert not isinstance(connection, LinkFailure)
    recorded = _RecordedConnection(connection, machine.folder)
    session = Session(recorded, host, SystemClock(), interval_seconds=interval, options=options)
    try:
        async with aclosing(session.frames()) as items:
            yield Talk(session, items)
    finally:
        await recorded.close()
