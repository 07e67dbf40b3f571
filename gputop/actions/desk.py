"""Acts of a program that goes on while they are carried out: the screen. It adds nothing to the gate but memory."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import structs

from gputop.actions.acts import Acts, Expired, NotConfirmed, Proposal
from gputop.actions.audit import AuditFailed
from gputop.actions.executor import Stopped
from gputop.actions.journal import InUse, JournalFailed, Story, folder_of, read_story
from gputop.actions.statefile import open_own
from gputop.domain.action import (
    ActionKind,
    ActionRequest,
    Deny,
    HostActState,
    Outcome,
    OutcomeState,
    Plan,
    Progress,
    StepResult,
    StepState,
)
from gputop.domain.link import LinkFailure
from gputop.domain.problem import Problem
from gputop.domain.record import AuditEvent, AuditRecord
from gputop.fleet.fleet import Fleet

Done = tuple[Outcome, ...] | Deny | NotConfirmed | Expired | Problem

FindsShell = Callable[[str], Awaitable[tuple[str, ...] | LinkFailure]]
"""The name of a host -> the program that gives a person a shell on it."""

KEPT = 50
"""Works that are over and still shown."""


@dataclass(eq=False)
class Work:
    """A plan that this program carries out, or has carried out."""

    plan: Plan
    progress: dict[str, Progress] = field(default_factory=dict)
    """The newest of each host."""
    results: dict[tuple[str, str], StepResult] = field(default_factory=dict)
    """Of each (host, step) that has ended."""
    outcomes: tuple[Outcome, ...] | None = None
    """`None`: it is carried out now, or ended by `trouble`."""
    trouble: str = ""
    """Why it ended before its end."""
    task: asyncio.Task[Done] | None = None

    @property
    def is_over(self) -> bool:
        return self.outcomes is not None or bool(self.trouble)

    def take(self, progress: Progress) -> None:
        self.progress[progress.host] = progress
        if progress.result is not None:
            self.results[progress.host, progress.result.step] = progress.result

    def outcome(self, host: str) -> Outcome | None:
        return next((outcome for outcome in self.outcomes or () if outcome.host == host), None)


class Desk:
    """Where a person proposes acts, and sees what becomes of them."""

    def __init__(
        self,
        acts: Acts,
        *,
        accept: Callable[[Fleet], None],
        close: Callable[[], Awaitable[None]],
        state_folder: Path,
        audit_path: Path,
        inventory: Sequence[str] = (),
        may_unlock: bool,
        simulated: bool = False,
        shell_on: FindsShell | None = None,
    ) -> None:
        """`accept`: is to get every Fleet. `close`: of what the acts use. `inventory`: what the hosts came from.
        `may_unlock`: acts were allowed at the start. `simulated`: nothing real is touched. `shell_on`: of a host."""
        self.acts = acts
        self.accept = accept
        self.state_folder = state_folder
        self.audit_path = audit_path
        self.inventory = tuple(inventory)
        self.may_unlock = may_unlock
        self.simulated = simulated
        self.shell_on = shell_on
        self.works: list[Work] = []
        """Oldest first."""
        self.changed: Callable[[], None] = lambda: None
        """Called whenever a work has got on."""
        self.last: ActionRequest | None = None
        """The last one that was carried out."""
        self._close = close
        acts.enquiries.changed = lambda: self.changed()

    @property
    def running(self) -> list[Work]:
        return [work for work in self.works if not work.is_over]

    @property
    def now(self) -> datetime:
        """By the clock that plans are dated by."""
        return self.acts.now

    async def propose(self, request: ActionRequest) -> Proposal | Problem:
        return await self.acts.propose(request)

    async def begin(self, proposal: Proposal, *, typed: str, reason: str) -> Work | Done | str:
        """Carry out a plan that a person has seen. Returns as soon as it is under way, or with why it is not."""
        work = Work(proposal.plan)
        begun = await self._begin(
            work,
            lambda listen: self.acts.carry_out(
                proposal, typed=typed, reason=reason, inventory=self.inventory, listen=listen
            ),
        )
        if isinstance(begun, Work):
            self.last = structs.replace(proposal.plan.request, reason=reason or proposal.plan.request.reason)
        return begun

    async def go_on(self, story: Story, *, back: bool) -> Work | Done | str:
        """Go on with an unfinished plan, or `back`: undo it."""
        work = Work(story.plan, results=dict(story.ended))
        act = self.acts.roll_back if back else self.acts.resume
        return await self._begin(work, lambda listen: act(story, listen=listen))

    def forget(self, story: Story) -> str:
        """Close an unfinished plan and leave its hosts as they are; why that was not possible, else empty."""
        try:
            self.acts.forget(story)
        except (AuditFailed, JournalFailed, InUse) as failure:
            return str(failure)
        return ""

    def leave(self, work: Work) -> None:
        """Let go of a plan: its hosts stay as they are now, and it is unfinished."""
        if work.task is not None:
            work.task.cancel()

    async def _begin(
        self, work: Work, start: Callable[[Callable[[Progress], None]], Coroutine[None, None, Done]]
    ) -> Work | Done | str:
        begun = asyncio.Event()

        def listen(progress: Progress) -> None:
            if not begun.is_set():
                self._remember(work, progress.plan)
                begun.set()
            work.take(progress)
            self.changed()

        task = work.task = asyncio.create_task(start(listen))
        task.add_done_callback(lambda _: self._end(work))
        waiting = asyncio.create_task(begun.wait())
        try:
            await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if begun.is_set():
            return work
        if task.cancelled():
            return "given up"
        if (failure := task.exception()) is not None:
            return f"{failure}: nothing was done"
        done = task.result()
        if isinstance(done, tuple):  # nothing was left to do
            self._remember(work, work.plan.id)
            return work
        return done

    def _remember(self, work: Work, plan_id: str) -> None:
        """The plan that is carried out may have been made again since it was proposed: the journal holds it."""
        story = read_story(folder_of(self.state_folder) / f"{plan_id}.jsonl") if plan_id != work.plan.id else None
        if story is not None:
            work.plan = story.plan
        over = [one for one in self.works if one.is_over]
        for one in over[: max(0, len(over) - KEPT)]:
            self.works.remove(one)
        self.works.append(work)

    def _end(self, work: Work) -> None:
        task = work.task
        assert task is not None
        if task.cancelled():
            work.trouble = "left unfinished"
        elif (failure := task.exception()) is not None:
            work.trouble = f"stopped in the middle: {failure}" if isinstance(failure, Stopped) else str(failure)
        elif isinstance(done := task.result(), tuple):
            work.outcomes = done
        else:
            work.trouble = "refused"
        self.changed()

    async def close(self) -> None:
        """End all; what is not finished can be resumed from its journal."""
        tasks = [work.task for work in self.works if work.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.acts.enquiries.close()
        await self._close()

    def words(self) -> dict[str, tuple[str, bool]]:
        """What acts have made of hosts: a word for each, and whether an act is at work on it now."""
        found: dict[str, tuple[str, bool]] = {}
        for work in self.works:
            for host in work.plan.hosts:
                outcome = work.outcome(host.host)
                if outcome is not None:
                    found.pop(host.host, None)
                    if outcome.state is OutcomeState.VERIFIED and outcome.host_state in _LASTING:
                        found[host.host] = (outcome.host_state.value, False)
                    elif outcome.state in (OutcomeState.FAILED, OutcomeState.PENDING, OutcomeState.UNVERIFIED):
                        found[host.host] = (outcome.state.value, False)
                elif not work.is_over:
                    found[host.host] = (_DOING[work.plan.request.kind], True)
        return found


_LASTING = frozenset({HostActState.DRAINED, HostActState.STOPPED, HostActState.DRAINING})

_DOING = {kind: kind.value for kind in ActionKind} | {
    ActionKind.CORDON: "cordoning",
    ActionKind.DRAIN: "draining",
    ActionKind.RESUME: "resuming",
    ActionKind.STOP: "stopping",
    ActionKind.START: "starting",
    ActionKind.REBOOT: "rebooting",
    ActionKind.HIBERNATE: "stopping",
    ActionKind.RESET: "resetting",
    ActionKind.POWER_CAP: "capping",
    ActionKind.MESSAGE: "telling",
    ActionKind.SIGNAL: "signaling",
    ActionKind.CANCEL: "canceling",
    ActionKind.REQUEUE: "requeuing",
}
"""At most 11 cells."""

GOOD = frozenset({StepState.VERIFIED, StepState.ALREADY, StepState.UNDONE})
"""Steps that may be shown green."""

TAIL_BYTES = 256 * 1024
"""Of the audit log are looked at for what was done last."""


def history(path: Path, count: int) -> list[AuditRecord]:
    """The last `count` outcomes and refusals of the audit log, newest first; none when there is no log."""
    try:
        with os.fdopen(open_own(path, os.O_RDONLY), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            lines = file.read().splitlines()
    except OSError:
        return []
    decoder = msgspec.json.Decoder(AuditRecord)
    found: list[AuditRecord] = []
    for line in reversed(lines):
        try:
            record = decoder.decode(line)
        except msgspec.DecodeError:
            continue  # cut by a crash, or by where the tail begins
        if record.event in (AuditEvent.OUTCOME, AuditEvent.REFUSED):
            found.append(record)
            if len(found) == count:
                break
    return found
