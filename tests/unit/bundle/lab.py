"""Hosts whose programs answer as a test says, behind a real gate."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import TypeVar

from msgspec import structs

from gputop.domain.call import CommandResult, RunHere, RunOn
from gputop.domain.host import Host
from gputop.domain.link import LinkState
from gputop.domain.problem import Problem, ProblemKind
from tests.fakes.builders import a_link
from tests.tui.stage import Stage

Value = TypeVar("Value")

LATE = CommandResult(lost=Problem(kind=ProblemKind.TIMED_OUT, summary="no end within 45 s"))
LOST = CommandResult(lost=Problem(kind=ProblemKind.CONNECTION_LOST, summary="connection lost"))


def said(text: str | bytes, status: int = 0, error: str = "") -> CommandResult:
    return CommandResult(
        exit_status=status, stdout=text.encode() if isinstance(text, str) else text, stderr=error.encode()
    )


class Lab:
    """The stage of the screen's tests, with programs that are told what to say."""

    def __init__(self, folder: Path, *, allowed: bool = True) -> None:
        self.stage = Stage(folder, allowed=allowed)
        self.acts = self.stage.desk.acts
        self.clock = self.stage.clock
        self.hosts = self.stage.machines.hosts
        self.answers: dict[str, CommandResult] = {}
        """By the beginning of the command as a person would type it; the longest counts. All else prints its name."""
        self.asked: list[str] = []
        self._plain = self.stage.machines.run
        self.stage.machines.run = self._run  # type: ignore[method-assign]

    async def _run(self, call: RunHere | RunOn, *, deadline_seconds: float) -> CommandResult:
        if call.argv[:2] != ("sh", "-c") or len(call.argv) < 5:  # a look of the gate's
            return await self._plain(call, deadline_seconds=deadline_seconds)
        command = " ".join(call.argv[4:])
        self.asked.append(command)
        await asyncio.sleep(0)
        fitting = [known for known in self.answers if command.startswith(known)]
        return self.answers[max(fitting, key=len)] if fitting else said(f"{command}\n")

    def change(self, name: str, **fields: object) -> Host:
        self.hosts[name] = structs.replace(self.hosts[name], **fields)
        return self.hosts[name]

    def silence(self, name: str, state: LinkState = LinkState.UNREACHABLE) -> None:
        """It answers no more."""
        problem = Problem(kind=ProblemKind.NO_ROUTE, summary="no route to host (10.3.0.17:22)")
        link = a_link(state, problem=problem)
        self.change(name, link=link, reported=link, frame=None)

    async def wait(self, work: Awaitable[Value]) -> Value:
        """What comes of `work`, with time going on meanwhile."""
        task = asyncio.ensure_future(work)
        while not task.done():
            await self.clock.advance(1.0)
        return task.result()
