"""Runs single programs, here and on hosts, and says how they ended."""

from __future__ import annotations

import asyncio
import os
import secrets
import shlex
from asyncio.subprocess import PIPE
from collections.abc import Mapping, Sequence
from contextlib import suppress

from msgspec import structs

from gputop.domain.action import Step
from gputop.domain.call import Api, CommandResult, Performed, RunHere, RunOn, Watch
from gputop.domain.host import HostSpec
from gputop.domain.link import LinkFailure
from gputop.domain.problem import Problem, ProblemKind
from gputop.ports import Connection, RemoteProcess, Runner, Transport
from gputop.transport import sudo
from gputop.transport.once import Once
from gputop.transport.process import LocalProcess
from gputop.transport.secret import read_secret
from gputop.transport.spawn import spawn

OUTPUT_BYTES = 4 * 1024 * 1024
"""More than this is not kept, and such a result is no answer."""
OUTPUT_SHOWN = 2000
"""Characters of output that go into results and the audit."""
END_SECONDS = 3.0
"""How long the shell's own deadline gets before ours ends the channel."""

_TIED = (
    'exec 3<&0; "$@" </dev/null & child=$!; { read -r _ <&3; kill "$child"; } >/dev/null 2>&1 & watcher=$!; '
    'wait "$child"; status=$?; kill "$watcher" 2>/dev/null; exit "$status"'
)
"""Runs a program until its end or that of standard input, which is the end of whoever holds the other end of it."""

_ON_HOST = (
    'printf "%s\\n" "$1"; user=$2; seconds=$3; bytes=$4; shift 4; '
    'if [ "$user" = root ] && [ "$(id -u)" != 0 ]; then set -- sudo -n -- "$@"; fi; '
    'if command -v timeout >/dev/null 2>&1; then set -- timeout -k 2 "$seconds" "$@"; fi; '
    'if [ "$bytes" -gt 0 ]; then head -c "$bytes" | "$@"; elif [ "$bytes" = 0 ]; then exec "$@" </dev/null; '
    'else exec "$@"; fi'
)
"""What /bin/sh on the host makes of a call: a mark after which the output counts (login files may print), root's rights
where asked for and not there, and an end even if nobody is left to ask for it."""


class ProgramRunner:
    """Implements `ports.Runner`. Connections to hosts are kept and shared; a lost one is opened again for the next
    call, never for the same one."""

    def __init__(self, transports: Mapping[str, Transport], specs: Sequence[HostSpec]) -> None:
        """`transports`: by host name."""
        self._transports = transports
        self._specs = {spec.name: spec for spec in specs}
        self._connections: Once[str, Connection | LinkFailure] = Once()
        self._open: dict[str, Connection] = {}
        self._retired: list[Connection] = []

    async def run(self, call: RunHere | RunOn, *, deadline_seconds: float) -> CommandResult:
        try:
            async with asyncio.timeout(deadline_seconds):
                return await (self._here(call) if isinstance(call, RunHere) else self._on(call, deadline_seconds))
        except TimeoutError:
            if isinstance(call, RunOn):
                self._retire(call.host)
            return _lost(ProblemKind.TIMED_OUT, f"no end within {deadline_seconds:g} s")

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        await self._connections.close()
        for connection in (*self._open.values(), *self._retired):
            await connection.close()
        self._open.clear()
        self._retired.clear()

    async def forget(self, host: str) -> None:
        """Close the connection to `host`: it has rebooted."""
        connection = self._open.pop(host, None)
        if connection is not None:
            await connection.close()

    def _retire(self, host: str) -> None:
        """The next call opens another connection: this one may be dead without anybody having said so. Others may still
        be at work on it, so it is closed at the end only."""
        connection = self._open.pop(host, None)
        if connection is not None:
            self._retired.append(connection)

    async def _here(self, call: RunHere) -> CommandResult:
        environment = {**os.environ, "LC_ALL": "C"}
        argv = ("/bin/sh", "-c", _TIED, "sh", *call.argv) if call.tied else call.argv
        for name, place in call.secrets.items():
            secret = read_secret(place)
            if isinstance(secret, Problem):
                return CommandResult(lost=secret)
            environment[name] = secret
        try:
            child = await spawn(*argv, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment)
        except OSError as error:
            kind = ProblemKind.TOOL_MISSING if isinstance(error, FileNotFoundError) else ProblemKind.TOOL_FAILED
            return _lost(kind, f"{call.argv[0]}: {error.strerror}")
        process = LocalProcess(child)
        if call.stdin:
            with suppress(ConnectionError):
                await process.write(call.stdin.encode())
        if child.stdin and not call.tied:
            child.stdin.close()
        return await _read_to_end(process)

    async def _on(self, call: RunOn, deadline_seconds: float) -> CommandResult:
        connection = await self._connect(call.host)
        if isinstance(connection, LinkFailure):
            return CommandResult(lost=connection.problem)
        mark = secrets.token_hex(8)
        seconds = max(1, int(deadline_seconds - END_SECONDS))
        data = call.stdin.encode()
        argv = ("/bin/sh", "-c", _TIED, "sh", *call.argv) if call.tied else call.argv
        words = [mark, "root" if call.sudo else "self", str(seconds), "-1" if call.tied else str(len(data)), *argv]
        command = shlex.join(["exec", "env", "LC_ALL=C", "/bin/sh", "-c", _ON_HOST, "gputop", *words])
        process = await connection.start(command)
        if isinstance(process, LinkFailure):
            await self.forget(call.host)
            return CommandResult(lost=process.problem)
        if data:
            with suppress(ConnectionError):
                await process.write(data)
        result = await _read_to_end(process, mark.encode())
        if result.lost is not None:
            await self.forget(call.host)
        return structs.replace(result, host_key=connection.host_key)

    async def _connect(self, host: str) -> Connection | LinkFailure:
        connection = await self._connections.get(
            host, lambda: self._connect_anew(host), usable=lambda it: it is self._open.get(host)
        )
        return connection

    async def _connect_anew(self, host: str) -> Connection | LinkFailure:
        connection = await self._transports[host].connect(self._specs[host])
        if not isinstance(connection, LinkFailure):
            self._open[host] = connection
        return connection


async def perform(runner: Runner, step: Step, *, deadline_seconds: float | None = None) -> Performed:
    """The call of a step that is a program. Its exit status 0 means that it was called, nothing more."""
    call = step.call
    assert not isinstance(call, Api | Watch), "this actor performs programs only"
    result = await runner.run(call, deadline_seconds=deadline_seconds or step.deadline_seconds)
    if isinstance(call, RunHere):
        return performed(result)
    done = performed(result, may_drop=call.channel_may_drop)
    if done.problem is None:
        return done
    return structs.replace(done, problem=await sudo.explain(runner, call, done.problem))


def performed(result: CommandResult, *, may_drop: bool = False) -> Performed:
    """How a program ended, in the words of an act. `may_drop`: a broken channel is what was asked for."""
    output = shown(result.text + result.error_text)
    if result.ok:
        return Performed(ok=True, exit_status=0, output=output)
    if may_drop and result.exit_status is None:
        return Performed(ok=False, pending=True, output=output)
    return Performed(ok=False, exit_status=result.exit_status, output=output, problem=trouble(result))


def trouble(result: CommandResult) -> Problem | None:
    """Why a program failed; `None` when it did not."""
    if result.ok:
        return None
    if result.lost is not None:
        return result.lost
    if result.truncated:
        return Problem(kind=ProblemKind.TOOL_FAILED, summary="printed more than 4 MiB")
    said = shown(_complaint(result.error_text) or result.text.strip())
    if (refused := sudo.refusal(result.error_text, said)) is not None:
        return refused
    if result.exit_status is None:
        return Problem(kind=ProblemKind.TOOL_FAILED, summary="ended without an exit status", detail=said or None)
    if result.exit_status == 124:
        return Problem(kind=ProblemKind.TIMED_OUT, summary="was ended at its deadline", detail=said or None)
    last = said.splitlines()[-1] if said else ""
    summary = f"exit status {result.exit_status}" + (f": {last}" if last else "")
    return Problem(kind=ProblemKind.TOOL_FAILED, summary=summary[:200], detail=said or None)


def _complaint(error_text: str) -> str:
    """Standard error without the word of a sudo that cannot resolve its own host: it goes on all the same."""
    lines = error_text.strip().splitlines()
    return "\n".join(line for line in lines if not line.startswith("sudo: unable to resolve host"))


def shown(output: str) -> str:
    """What a program printed, for records: controls escaped, lines kept, at most 2,000 characters."""
    text = "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in output.strip())
    return text[:OUTPUT_SHOWN]


async def _read_to_end(process: RemoteProcess, mark: bytes | None = None) -> CommandResult:
    kept = bytearray()
    truncated = False
    status: int | None = None
    try:
        while data := await process.read():
            truncated |= len(kept) + len(data) > OUTPUT_BYTES
            kept += data[: OUTPUT_BYTES - len(kept)]
    finally:
        status = await process.close()
    output = bytes(kept)
    if mark is not None:
        _, marked, output = output.partition(mark + b"\n")
        if not marked:
            status = None
    lost = process.lost.problem if process.lost is not None else None
    return CommandResult(exit_status=status, stdout=output, stderr=process.stderr_tail, lost=lost, truncated=truncated)


def _lost(kind: ProblemKind, summary: str) -> CommandResult:
    return CommandResult(lost=Problem(kind=kind, summary=summary))
