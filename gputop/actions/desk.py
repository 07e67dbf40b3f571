"""Acts of a program that goes on while they are carried out: the screen. It adds nothing to the gate but memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from msgspec import structs

from gputop.actions.acts import Acts, Expired, NotConfirmed, Proposal
from gputop.actions.admission import Admission, admissions
from gputop.actions.audit import AuditFailed
from gputop.actions.books import Books, Page
from gputop.actions.executor import Stopped
from gputop.actions.journal import InUse, JournalFailed, Story, folder_of, read_story
from gputop.actions.marks import Mark, marks
from gputop.domain.action import (
    ActionKind,
    ActionRequest,
    Deny,
    Outcome,
    Plan,
    Progress,
    StepResult,
    StepState,
)
from gputop.domain.host import Host
from gputop.domain.job import NodeState
from gputop.domain.link import LinkFailure
from gputop.domain.problem import Problem
from gputop.fleet.fleet import Fleet

log = logging.getLogger(__name__)

Done = tuple[Outcome, ...] | Deny | NotConfirmed | Expired | Problem

FindsShell = Callable[[str], Awaitable[tuple[str, ...] | LinkFailure]]
"""The name of a host -> the program that gives a person a shell on it."""

KEPT = 50
"""Works that are over and still shown."""

BOOKS_SECONDS = 5.0
"""How often the books are read."""
GLANCE_SECONDS = 30.0
"""How often schedulers are asked whether they give hosts work."""


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
    def ended(self) -> set[str]:
        """Hosts that nothing more is done to."""
        return {host for host, progress in self.progress.items() if progress.step is None}

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
        self._accept = accept
        self._books = Books(state_folder, audit_path)
        self.page = Page()
        """The books as they were read last."""
        self.nodes: dict[str, NodeState] = {}
        """What schedulers said last, by host."""
        self.fleet: Fleet | None = None
        self._marks: dict[str, Mark] | None = None
        self._wants_glance = False
        self._woken = asyncio.Event()
        self.state_folder = state_folder
        self.audit_path = audit_path
        self.inventory = tuple(inventory)
        self.may_unlock = may_unlock
        self.simulated = simulated
        self.shell_on = shell_on
        self.works: list[Work] = []
        """Oldest first."""
        self._looks: set[asyncio.Task[Mapping[str, Host]]] = set()
        """At hosts that something was done to."""
        self._is_closed = False
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
        return self.acts.clock.now()

    async def propose(self, request: ActionRequest) -> Proposal | Problem:
        return await self.acts.propose(request)

    async def begin(self, proposal: Proposal, *, typed: str, reason: str) -> Work | Done | str:
        """Carry out a plan that a person has seen. Returns as soon as it is under way, or with why it is not. Cancelled
        before, it is not begun."""
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

    def story(self, plan_id: str) -> Story | None:
        """What the journal of a plan tells, whoever carried it out; `None`: it is gone."""
        return self._books.story(plan_id)

    @staticmethod
    def can_undo(story: Story) -> bool:
        """Whether a plan that is over can still be taken back: what was so before is known, and is all of it."""
        called = {key for key, result in story.ended.items() if result.state in UNDOABLE}
        undoes = any((host.host, step.id) in called and step.undo is not None
                     for host in story.plan.hosts for step in host.steps)  # fmt: skip
        return story.closed == "finished" and story.plan.request.kind is ActionKind.POWER_CAP and undoes

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
            self._marks = None
            if progress.step is None:
                self._forget_node(progress.host)
                self.read_books()
            self.changed()

        task = work.task = asyncio.create_task(start(listen))
        task.add_done_callback(lambda _: self._end(work))
        waiting = asyncio.create_task(begun.wait())
        try:
            await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if not begun.is_set():  # whoever confirmed it has thought better of it
                task.cancel()
            raise
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
        self.works = [one for one in self.works if one.plan.id != work.plan.id]  # it is gone on with, or undone
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
        for host in work.plan.hosts:
            self._forget_node(host.host)
        self._look_after(work)
        self.read_books()
        self.changed()

    def _look_after(self, work: Work) -> None:
        """So that what an act has changed is seen now, and not when it is read anyway."""
        if self._is_closed:
            return
        look = asyncio.create_task(self.acts.observer.look([host.host for host in work.plan.hosts]))
        self._looks.add(look)
        look.add_done_callback(self._looks.discard)

    def _forget_node(self, host: str) -> None:
        """What its scheduler said before an act says nothing about now."""
        self.nodes.pop(host, None)
        self._wants_glance = True
        self._woken.set()

    async def close(self) -> None:
        """End all; what is not finished can be resumed from its journal."""
        self._is_closed = True
        tasks = [work.task for work in self.works if work.task is not None]
        for task in (*tasks, *self._looks):
            task.cancel()
        await asyncio.gather(*tasks, *self._looks, return_exceptions=True)
        await self.acts.enquiries.close()
        await self._close()

    # --- what is so now -------------------------------------------------------------------------------------

    def accept(self, fleet: Fleet) -> None:
        """Must get every Fleet."""
        self.fleet = fleet
        self._marks = None
        self._accept(fleet)

    async def watch(self) -> None:
        """Read the books and ask the schedulers again and again, until cancelled."""
        clock = self.acts.clock
        asked: float | None = None
        while True:
            self.read_books()
            is_due = asked is None or self._wants_glance or clock.monotonic() - asked >= GLANCE_SECONDS
            if is_due and self.fleet is not None and self.fleet.hosts:
                asked, self._wants_glance = clock.monotonic(), False
                await self._glance(list(self.fleet))
            self.changed()
            self._woken.clear()
            waits = [asyncio.ensure_future(each) for each in (clock.sleep(BOOKS_SECONDS), self._woken.wait())]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in waits:
                    one.cancel()

    def read_books(self) -> None:
        self.page = self._books.read()
        self._marks = None

    async def _glance(self, hosts: Sequence[Host]) -> None:
        try:
            nodes = await self.acts.glance(hosts)
        except Exception:  # a bug in a back end is no knowledge
            log.exception("schedulers could not be asked")
            nodes = {}
        self.nodes = dict(nodes)
        self._marks = None

    def admissions(self) -> dict[str, Admission]:
        """Hosts of which something says that they take no new work, or did when it was noted."""
        return admissions(self.fleet, self.nodes, self.page.leases, self.now)

    def leases_over(self) -> list[Admission]:
        """Hosts that were drained for a time which has passed, and still take no work."""
        now = self.now
        return [mark.admission for mark in self.marks().values()
                if mark.admission is not None and mark.admission.is_over(now)]  # fmt: skip

    def marks(self) -> Mapping[str, Mark]:
        """What acts have made of hosts, whoever carried them out: as far as it is so now."""
        if self._marks is None:
            at_work = [(story.plan.request.kind, host.host) for story in self.page.under_way
                       for host in story.plan.hosts if host.host not in story.outcomes]  # fmt: skip
            at_work += [(work.plan.request.kind, host.host) for work in self.running
                        for host in work.plan.hosts if host.host not in work.ended]  # fmt: skip
            self._marks = marks(self.fleet, self.admissions(), self.page.history, at_work, self.now)
        return self._marks


UNDOABLE = frozenset({StepState.VERIFIED, StepState.UNVERIFIED, StepState.PENDING})
"""Steps that have, or may have, changed something."""

GOOD = frozenset({StepState.VERIFIED, StepState.ALREADY, StepState.UNDONE})
"""Steps that may be shown green."""
