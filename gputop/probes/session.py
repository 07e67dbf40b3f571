"""One conversation with one host: starts the agent there and turns what it says into Frames."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec.structs import replace

from gputop.domain.host import HostSpec
from gputop.domain.link import LinkFailure
from gputop.domain.problem import Problem, ProblemKind
from gputop.domain.reading import Frame
from gputop.ports import Clock, Connection, RemoteProcess
from gputop.probes.decode import Assembler, BadLine, ByeLine, FrameLine, HelloLine
from gputop.probes.dialect import AgentDialect, Dialect
from gputop.probes.ending import Ending, agent_failure, smi_failure
from gputop.probes.reader import Allowance, WireReader
from gputop.probes.smi_route import SmiDialect

INTERVAL_MIN_SECONDS = 0.1
INTERVAL_MAX_SECONDS = 3600.0
SILENT_SECONDS = 30.0
SILENT_INTERVALS = 10
"""Without a good line for the longer of the two the session is given up."""


class Session:
    """Reads one host over one connection until the connection or the program on it ends."""

    def __init__(
        self,
        connection: Connection,
        spec: HostSpec,
        clock: Clock,
        *,
        interval_seconds: float,
        options: dict[str, object] | None = None,
    ) -> None:
        """`options` go to the agent beside those of `spec`; their names are those of `remote.agent.Options`."""
        self._connection = connection
        self._spec = spec
        self._clock = clock
        self._interval = _within_limits(interval_seconds)
        self._options = options or {}
        self._talk: _Talk | None = None

    async def frames(self) -> AsyncGenerator[Frame | LinkFailure, None]:
        """Frames as they come. A `LinkFailure` is the last item: why there are no more. Cancelling the task that waits
        here, or closing the iterator (`contextlib.aclosing`), ends the remote program."""
        token = secrets.token_hex(16)
        ending: Ending | None = None
        async with aclosing(
            self._converse(AgentDialect(token, self._spec, self._interval, self._options), token)
        ) as items:
            async for item in items:
                if not isinstance(item, Ending):
                    yield item
                elif item.try_another_way:
                    ending = item
                else:
                    yield agent_failure(item)
        if ending is None:
            return
        # An agent that could not run is worth a word; a server without Python is not.
        why = () if ending.without_python else (agent_failure(ending).problem,)
        token = secrets.token_hex(16)
        async with aclosing(self._converse(SmiDialect(token, self._interval, why), token)) as items:
            async for item in items:
                yield smi_failure(item) if isinstance(item, Ending) else item

    def set_interval(self, seconds: float) -> None:
        """Time between two frames from now on, 0.1 to 3,600 s."""
        self._interval = _within_limits(seconds)
        if self._talk is not None:
            self._talk.set_interval(self._interval)

    def sample_now(self) -> None:
        """Ask for one frame at once."""
        if self._talk is not None:
            self._talk.say(b"sample\n")

    async def _converse(self, dialect: Dialect, token: str) -> AsyncGenerator[Frame | LinkFailure | Ending, None]:
        process = await self._connection.start(dialect.command)
        if isinstance(process, LinkFailure):
            yield process
            return
        talk = self._talk = _Talk(process, dialect, self._clock, self._interval)
        reader = WireReader(token)
        allowance = Allowance(self._clock.monotonic())
        assembler = Assembler()
        ending = Ending(interval_seconds=self._interval)
        bad: list[str] = []
        try:
            while data := await process.read():
                if not allowance.spend(data, self._clock.monotonic()):
                    ending.flooding = True
                    break
                for body in reader.feed(data):
                    ending.shell = True
                    for line in dialect.take(body, self._clock.monotonic()):
                        match line:
                            case HelloLine():
                                refused = assembler.hello(line)
                                if refused is None:
                                    talk.heard()
                                else:
                                    bad.append(refused.reason)
                            case FrameLine():
                                frame = assembler.frame(line, self._clock.now())
                                if isinstance(frame, BadLine):
                                    bad.append(frame.reason)
                                else:
                                    talk.heard()
                                    yield _with_bad_lines(frame, bad)
                                    bad.clear()
                            case ByeLine():
                                ending.bye = line.reason
                            case BadLine():
                                bad.append(line.reason)
                for answer in dialect.answers():
                    talk.say(answer)
            reader.close()
        finally:
            self._talk = None
            await talk.close()
            ending.status = await process.close()
        ending.lost = process.lost
        ending.silent = talk.silent
        ending.hello = assembler.greeted
        ending.bad_lines = tuple(bad)
        ending.said = reader.noise
        ending.stderr = process.stderr_tail
        yield ending


class _Talk:
    """Writes to a remote program: its opening, heartbeats, control lines. Watches that it is not silent for too long;
    then it closes the program, which ends the reading."""

    def __init__(self, process: RemoteProcess, dialect: Dialect, clock: Clock, interval_seconds: float) -> None:
        self.silent = False
        self._process = process
        self._dialect = dialect
        self._clock = clock
        self._interval = interval_seconds
        self._heard_at = clock.monotonic()
        self._outbox: asyncio.Queue[bytes] = asyncio.Queue()
        self._outbox.put_nowait(dialect.opening)
        self._writing = asyncio.create_task(self._write())
        self._beating = asyncio.create_task(self._beat())

    def say(self, line: bytes) -> None:
        self._outbox.put_nowait(line)

    def heard(self) -> None:
        """A good line came."""
        self._heard_at = self._clock.monotonic()

    def set_interval(self, seconds: float) -> None:
        self._interval = seconds
        self.say(self._dialect.interval(seconds))
        self._beating.cancel()
        self._beating = asyncio.create_task(self._beat())

    async def close(self) -> None:
        self._writing.cancel()
        self._beating.cancel()
        for outcome in await asyncio.gather(self._writing, self._beating, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome

    async def _write(self) -> None:
        try:
            while True:
                await self._process.write(await self._outbox.get())
        except ConnectionError:
            return  # It is gone. Reading comes to its end as well, and there is told why.

    async def _beat(self) -> None:
        while True:
            limit = max(SILENT_SECONDS, SILENT_INTERVALS * self._interval)
            silent_for = self._clock.monotonic() - self._heard_at
            if silent_for >= limit:
                self.silent = True
                await self._process.close()
                return
            await self._clock.sleep(min(self._dialect.beat_seconds(self._interval), limit - silent_for))
            self.say(self._dialect.beat(self._interval, self._clock.monotonic()))


def _within_limits(seconds: float) -> float:
    return min(max(seconds, INTERVAL_MIN_SECONDS), INTERVAL_MAX_SECONDS)


def _with_bad_lines(frame: Frame, bad: list[str]) -> Frame:
    """The frame, with a word about the lines before it that were dropped."""
    if not bad:
        return frame
    count = f"{len(bad)} lines" if len(bad) > 1 else "1 line"
    problem = Problem(kind=ProblemKind.PROTOCOL, summary=f"{count} of the agent could not be read", detail=bad[0])
    return replace(frame, problems=(*frame.problems, problem))
