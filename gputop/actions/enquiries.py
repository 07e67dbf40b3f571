"""Questions about one host that cost a call elsewhere, asked while a person looks at it: at most one of a kind under
way, and an answer that is new enough is not asked for again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from gputop.actions.inspect import ask_tool
from gputop.actions.plan import BackEnds
from gputop.actions.raw_tools import RawTool
from gputop.domain.call import RawOutput
from gputop.domain.host import Host
from gputop.domain.instance import Instance
from gputop.domain.job import NodeState
from gputop.ports import Clock, Runner

KEEP_SECONDS = 30.0
"""An answer younger than this is not asked for again, unless a person asks."""
ANSWER_SECONDS = 30.0
"""Nobody is waited for longer; back ends have shorter deadlines of their own."""

Subject = Literal["scheduler", "instance"]
Answer = NodeState | Instance


@dataclass(eq=False)
class Enquiry:
    """One question about one host, and the newest answer."""

    answer: Answer | None = None
    answered_for: datetime | None = None
    """When the answer was asked for."""
    asked_at: datetime | None = None
    """When it was asked last; `None`: never."""
    trouble: str = ""
    """Why there is no answer to the last one."""
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def is_asking(self) -> bool:
        return self.task is not None


class Enquiries:
    """What was asked, and what was said."""

    def __init__(self, back_ends: Mapping[str, BackEnds], runner: Runner, clock: Clock) -> None:
        self._back_ends = back_ends
        self._runner = runner
        self._clock = clock
        self._asked: dict[tuple[str, Subject], Enquiry] = {}
        self.changed: Callable[[], None] = lambda: None
        """Called whenever an answer has come."""

    def known(self, host: str, subject: Subject) -> Enquiry:
        """What is known now; nothing is asked."""
        return self._asked.get((host, subject)) or Enquiry()

    def ask(self, host: Host, *, anew: bool = False) -> None:
        """Ask scheduler and power provider about `host`, where that was not done just now; `anew`: in any case."""
        ends = self._back_ends.get(host.name)
        if ends is None:
            return
        self._ask(host, "scheduler", lambda: ends.scheduler.observe([host]), anew=anew)
        power = ends.power
        if power is not None:
            self._ask(host, "instance", lambda: power.observe([host]), anew=anew)

    async def raw(self, host: str, tool: RawTool) -> RawOutput:
        """What a tool of the host prints."""
        return await ask_tool(host, tool, self._runner, self._clock)

    def leave(self, host: str) -> None:
        """Nobody waits for answers about `host` any more."""
        for (name, _), enquiry in self._asked.items():
            if name == host and enquiry.task is not None:
                enquiry.task.cancel()

    async def close(self) -> None:
        """End all that is under way."""
        tasks = [enquiry.task for enquiry in self._asked.values() if enquiry.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ask(
        self, host: Host, subject: Subject, observe: Callable[[], Awaitable[Mapping[str, Answer]]], *, anew: bool
    ) -> None:
        enquiry = self._asked.setdefault((host.name, subject), Enquiry())
        now = self._clock.now()
        is_new = enquiry.asked_at is not None and (now - enquiry.asked_at).total_seconds() < KEEP_SECONDS
        if enquiry.task is not None or (is_new and not anew):
            return
        before, enquiry.asked_at = enquiry.asked_at, now
        task = enquiry.task = asyncio.create_task(self._answer(host.name, enquiry, observe))
        task.add_done_callback(lambda task: self._end(enquiry, task, before))

    async def _answer(
        self, host: str, enquiry: Enquiry, observe: Callable[[], Awaitable[Mapping[str, Answer]]]
    ) -> None:
        asked_at = enquiry.asked_at
        async with asyncio.timeout(ANSWER_SECONDS):
            found = await observe()
        enquiry.answer, enquiry.answered_for, enquiry.trouble = found.get(host), asked_at, ""

    def _end(self, enquiry: Enquiry, task: asyncio.Task[None], before: datetime | None) -> None:
        enquiry.task = None
        if task.cancelled():
            enquiry.asked_at = before  # it was left without an answer: the next look asks again
        elif isinstance(failure := task.exception(), TimeoutError):
            enquiry.trouble = f"no answer within {ANSWER_SECONDS:g} s"
        elif failure is not None:
            enquiry.trouble = f"{type(failure).__name__}: {failure}"
        self.changed()
