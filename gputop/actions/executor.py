"""Carries out plans: the only module of gputop that changes the world.

Each step: check, write down that it begins, call once, check until its goal is reached or its deadline has come, write
down how it ended. Whatever cannot be written down is not done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from msgspec import structs

from gputop.actions.audit import AuditFailed, AuditLog
from gputop.actions.hostlock import held
from gputop.actions.journal import Journal, JournalFailed, Story, journal_of
from gputop.actions.outcome import (
    audit_outcome,
    audit_step,
    intent,
    is_settled,
    outcome_of,
    state_during,
    step_result,
)
from gputop.actions.run import Listener, Place, Recheck, Run
from gputop.domain.action import (
    Check,
    CheckState,
    Goal,
    HostActState,
    HostIdentity,
    HostPlan,
    Outcome,
    OutcomeState,
    Plan,
    Progress,
    Step,
    StepResult,
    StepState,
)
from gputop.domain.call import Performed, Watch
from gputop.domain.problem import Problem, ProblemKind
from gputop.domain.record import HostEnded, PlanClosed, PlanOpened, StepBegan, StepEnded
from gputop.ports import Actor, Clock, HostLocks

log = logging.getLogger(__name__)

LAST_LOOK_SECONDS = 5.0
"""How long the last look of a wait may take, past its deadline."""

SAID_CHARACTERS = 200
"""Of the last line of a program whose exit is the proof: they are its summary."""

ActorOf = Callable[[str, str], Actor]
"""Host and `Step.actor` -> who performs and checks it."""
Identify = Callable[[str], Awaitable[HostIdentity | None]]
"""Who a host is right now; `None`: it does not answer."""

BOOTS = frozenset({Goal.REBOOTED, Goal.REBOOT_ISSUED, Goal.STOPPED, Goal.HIBERNATED, Goal.RUNNING})
"""Goals that another boot of the same machine goes with."""

BOOTING = frozenset({Goal.REBOOTED, Goal.FIRST_FRAME})
"""Goals that take minutes; who does not wait leaves them pending."""

UNANSWERED = frozenset({ProblemKind.TIMED_OUT, ProblemKind.CONNECTION_LOST, ProblemKind.CONNECTION_REFUSED})
"""How a call ends that may have been made all the same: who was asked fell silent."""

STOPPING = frozenset({StepState.FAILED, StepState.UNVERIFIED, StepState.PENDING})
"""After these the host's further steps are not taken."""


class Stopped(Exception):
    """Nothing more may be done: what happened cannot be written down."""


class _Refused(Exception):
    """What an interrupted plan had begun may not go on; the message says why. Nothing was called."""


class Executor:
    """One per process. Plans come here after the guards and the confirmation, see `gputop.actions.acts`."""

    def __init__(
        self,
        actor_of: ActorOf,
        identify: Identify,
        audit: AuditLog,
        state_folder: Path,
        clock: Clock,
        *,
        locks: HostLocks | None = None,
        shared_locks: Path | None = None,
    ) -> None:
        """`locks`: on the hosts themselves; `None`: there are none. `shared_locks`: a folder of all users of this
        machine, which need not be there."""
        self._locks = locks
        self._shared_locks = shared_locks
        self._actor_of = actor_of
        self._identify = identify
        self._audit = audit
        self._state_folder = state_folder
        self._clock = clock

    async def execute(
        self,
        plan: Plan,
        *,
        inventory: Sequence[str] = (),
        listen: Listener = lambda _: None,
        recheck: Recheck | None = None,
    ) -> tuple[Outcome, ...]:
        """Carry out a plan of right now from its beginning; hosts that wait for others are looked at again, by
        `recheck`, when their turn comes. Raises `AuditFailed` or `JournalFailed` before anything was done, and
        `InUse` when another process is at work on one of its hosts. Cancelled, it can be resumed."""
        async with self._held(plan):
            for host in plan.hosts:
                self._audit.write(intent(plan, host, self._clock.now()))
            journal = journal_of(self._state_folder, plan.id)
            try:
                journal.write(PlanOpened(time=self._clock.now(), plan=plan, inventory=tuple(inventory)))
            except JournalFailed as failure:
                for host in plan.hosts:
                    outcome = outcome_of(plan.request.kind, host, [], f"nothing was done: {failure}", None)
                    self._audit.write(audit_outcome(plan, host, outcome, self._clock.now()))
                raise
            story = Story(plan=plan, began=set(), ended={}, outcomes={})
            return await self._carry_out(self._run_of(story, journal, plan.request.wait, listen, recheck))

    async def resume(
        self,
        story: Story,
        *,
        listen: Listener = lambda _: None,
        recheck: Recheck | None = None,
    ) -> tuple[Outcome, ...]:
        """Go on with an unfinished plan. What was called for certain is not called again; every host is looked at again
        by `recheck` before anything is called. Where that refuses a host that was begun, the plan stays unfinished."""
        plan = story.plan
        async with self._held(plan):
            for host in plan.hosts:
                self._audit.write(intent(plan, host, self._clock.now(), summary="resumed"))
            run = self._run_of(story, journal_of(self._state_folder, plan.id), True, listen, recheck)
            run.resumed = True
            run.unjudged = {host for host, _ in story.began} if recheck is not None else set()
            return await self._carry_out(run)

    async def roll_back(self, story: Story, *, listen: Listener = lambda _: None) -> tuple[Outcome, ...]:
        """Undo what an unfinished plan did, last step first. What was so before stays."""
        plan = story.plan
        async with self._held(plan):
            for host in plan.hosts:
                self._audit.write(intent(plan, host, self._clock.now(), summary="rolled back"))
            run = self._run_of(story, journal_of(self._state_folder, plan.id), True, listen)
            outcomes = [await self._undo_host(run, host) for host in plan.hosts]
            if all(outcome.state in (OutcomeState.VERIFIED, OutcomeState.SKIPPED) for outcome in outcomes):
                run.journal.write(PlanClosed(time=self._clock.now(), how="rolled-back"))
            return tuple(outcomes)

    def _held(self, plan: Plan) -> AbstractAsyncContextManager[None]:
        return held(self._state_folder, plan, self._locks, self._shared_locks)

    def _run_of(
        self, story: Story, journal: Journal, wait: bool, listen: Listener, recheck: Recheck | None = None
    ) -> Run:
        return Run(
            story=story,
            journal=journal,
            wait=wait,
            listen=listen,
            places=asyncio.Semaphore(max(1, story.plan.at_once)),
            canary_passed=asyncio.Event(),
            recheck=recheck,
        )

    async def _carry_out(self, run: Run) -> tuple[Outcome, ...]:
        canary, *others = run.plan.hosts
        tasks = [asyncio.create_task(self._canary(run, canary))]
        tasks += [asyncio.create_task(self._after_canary(run, host)) for host in others]
        try:
            outcomes = await asyncio.gather(*tasks)
        except (AuditFailed, JournalFailed) as failure:
            raise Stopped(str(failure)) from failure
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if not run.left_open:
            run.journal.write(PlanClosed(time=self._clock.now(), how="finished"))
        return tuple(outcomes)

    async def _canary(self, run: Run, host: HostPlan) -> Outcome:
        try:
            outcome = await self._host(run, host, late=run.resumed)
            if outcome.state is OutcomeState.PENDING and run.wait and not run.canary_passed.is_set():
                run.halted = "the first host is not done"  # what its call asks for: evictions that a budget refuses
            elif outcome.state not in (OutcomeState.VERIFIED, OutcomeState.PENDING):
                run.halted = "another host failed"
            return outcome
        finally:
            run.canary_passed.set()

    async def _after_canary(self, run: Run, host: HostPlan) -> Outcome:
        await run.canary_passed.wait()
        place = Place(run.places)
        await place.take()
        try:
            touched = any(name == host.host for name, _ in run.story.began)  # before an interruption: then it is ended
            if run.halted and not touched and host.host not in run.story.outcomes:
                return self._end_host(run, host, [], f"not begun: {run.halted}")
            outcome = await self._host(run, host, place, late=True)
            if outcome.state not in (OutcomeState.VERIFIED, OutcomeState.PENDING):
                run.halted = "another host failed"
            return outcome
        finally:
            place.leave()

    async def _host(self, run: Run, host: HostPlan, place: Place | None = None, *, late: bool) -> Outcome:
        """All steps of one host, in order. `late`: its plan is not of right now."""
        known = run.story.outcomes.get(host.host)
        if known is not None and known.state is not OutcomeState.PENDING:
            return known
        touched = any(name == host.host for name, _ in run.story.began)
        if late and not touched and run.recheck is not None:
            changed = await run.recheck(run.plan, host)
            if changed is not None:
                return self._end_host(run, host, [], f"not begun: {changed}", host_state=HostActState.UNKNOWN)
        stranger = await self._stranger(run, host, touched)
        if stranger is not None:
            return self._end_host(run, host, [], stranger, OutcomeState.FAILED)
        results: list[StepResult] = []
        stopped = False
        for step in host.steps:
            result = run.story.ended.get((host.host, step.id))
            if stopped and not (step.always and touched):
                result = StepResult(step=step.id, state=StepState.SKIPPED)
            elif result is None or not is_settled(result):
                if step.waits and isinstance(step.call, Watch):  # others need not wait for that too
                    run.canary_passed.set()
                    if place is not None:
                        place.leave()
                try:
                    result = await self._step(run, host, step)
                except _Refused as refusal:
                    result = StepResult(step=step.id, state=StepState.FAILED, blocked=True, summary=str(refusal))
                    if not any(later.always for later in host.steps):  # else all is brought back to what it was
                        run.left_open.add(host.host)
                touched = True
            results.append(result)
            stopped |= result.state in STOPPING and not step.optional
        return self._end_host(run, host, results)

    async def _stranger(self, run: Run, host: HostPlan, touched: bool) -> str | None:
        """Why this is not the host that the plan was made for; `None` when it is."""
        planned = host.identity
        if planned.machine_id is None and planned.boot_id is None:
            return None  # the guards let such a plan pass only where the host need not answer
        found = await self._identify(host.host)
        if found is None:
            return None if touched else "it does not answer: who it is could not be checked right before acting"
        if planned.machine_id is not None and found.machine_id != planned.machine_id:
            return "another machine answers under this name now"
        if planned.host_key is not None and found.host_key not in (None, planned.host_key):
            return "its host key has changed"
        same_boot = planned.boot_id in (None, found.boot_id)
        boots = any(step.goal in BOOTS for step in host.steps)
        if not same_boot and (not touched or (planned.machine_id is None and not boots)):
            return "it has rebooted since the plan was made, or is another machine"
        return None

    async def _step(self, run: Run, host: HostPlan, step: Step) -> StepResult:
        began = self._clock.monotonic()
        result = await self._take(run, host, step)
        result = structs.replace(result, duration_seconds=round(self._clock.monotonic() - began, 3))
        now = self._clock.now()
        run.journal.write(StepEnded(time=now, host=host.host, result=result))
        self._audit.write(audit_step(run.plan, host, step, result, now))
        self._tell(run, host, step, result.summary, result.left, result)
        return result

    async def _take(self, run: Run, host: HostPlan, step: Step) -> StepResult:
        """Before, do, verify."""
        actor = self._actor_of(host.host, step.actor)
        key = (host.host, step.id)
        called = key in run.story.ended and key in run.story.began
        interrupted = key in run.story.began and not called
        deadline = self._clock.monotonic() + step.deadline_seconds
        self._tell(run, host, step, "", ())
        calls, under_way = not isinstance(step.call, Watch), False
        if step.check_first or interrupted or called or not calls:
            check = await self._check(actor, host.host, step, deadline)
            if check.state is CheckState.DONE and interrupted and not step.check_first:
                return step_result(step, StepState.UNVERIFIED, check, "interrupted: whether it was called is not known")
            if check.state is CheckState.DONE:
                done = StepState.VERIFIED if interrupted or called or not calls else StepState.ALREADY
                return step_result(step, done, check)
            if check.state is CheckState.BLOCKED:
                return step_result(step, StepState.FAILED, check)
            under_way = interrupted and check.under_way
        performed: Performed | None = None
        if calls and not called and not under_way and (not interrupted or step.repeatable):
            await self._judge_again(run, host, step)
            if not interrupted:
                run.journal.write(StepBegan(time=self._clock.now(), host=host.host, step=step.id))
                run.story.began.add((host.host, step.id))
            performed = await self._perform_watched(run, host, step, actor)
            if step.proven_by_exit and performed.ok:
                said = performed.output.strip().rpartition("\n")[2][:SAID_CHARACTERS]
                return step_result(
                    step, StepState.VERIFIED, Check(state=CheckState.DONE, summary=said), None, performed
                )
            if not performed.ok and not performed.pending:
                return await self._after_failure(actor, host.host, step, performed)
        elif interrupted and step.proven_by_exit:
            return step_result(step, StepState.UNVERIFIED, None, "interrupted: whether it was called is not known")
        doubt = interrupted and calls and performed is None
        return await self._verify(run, host, step, actor, deadline, performed, doubt=doubt)

    async def _judge_again(self, run: Run, host: HostPlan, step: Step) -> None:
        """Before the first call that an interrupted plan makes on a host: the world may be another one by now. What was
        switched off or stopped for the plan comes back in any case. Raises `_Refused`."""
        if run.recheck is None or host.host not in run.unjudged or step.always or step.goal is Goal.RUNNING:
            return
        left = host.steps[host.steps.index(step) :]
        changed = await run.recheck(run.plan, structs.replace(host, steps=left))
        if changed is not None:
            again = " again" if (host.host, step.id) in run.story.began else ""
            raise _Refused(f"not called{again}: {changed}")
        run.unjudged.discard(host.host)

    async def _perform_watched(self, run: Run, host: HostPlan, step: Step, actor: Actor) -> Performed:
        """A call that itself waits, such as a drain by kubectl, is looked at while it does."""
        calling = asyncio.create_task(self._perform(actor, host.host, step))
        try:
            while step.waits:
                pause = asyncio.ensure_future(self._clock.sleep(step.poll_seconds))
                await asyncio.wait({calling, pause}, return_when=asyncio.FIRST_COMPLETED)
                pause.cancel()
                if calling.done():
                    break
                check = await self._check(actor, host.host, step)
                self._tell(run, host, step, check.summary, check.left)
            return await calling
        finally:
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)

    async def _after_failure(self, actor: Actor, host: str, step: Step, performed: Performed) -> StepResult:
        """A call that failed although the goal is reached has not failed; one without an answer, may have been made."""
        problem = performed.problem
        why = problem.summary if problem is not None else "failed"
        if step.check_first and not step.proven_by_exit:
            check = await self._check(actor, host, step)
            if check.state is CheckState.DONE:
                return step_result(step, StepState.VERIFIED, check, performed=performed)
            if check.state is CheckState.UNKNOWN and problem is not None and problem.kind in UNANSWERED:
                said = f"{why}: whether it was done is not known"
                return step_result(step, StepState.UNVERIFIED, None, said, performed)
        return step_result(step, StepState.FAILED, None, why, performed=performed)

    async def _verify(
        self,
        run: Run,
        host: HostPlan,
        step: Step,
        actor: Actor,
        deadline: float,
        performed: Performed | None,
        *,
        doubt: bool,
    ) -> StepResult:
        """Look until the goal is reached, nobody need wait any longer, or the deadline has come. `doubt`: whether it
        was called at all is not known."""
        reached = StepState.UNVERIFIED if doubt and not step.check_first else StepState.VERIFIED
        while True:
            check = await self._check(actor, host.host, step, deadline)
            if check.state is CheckState.DONE:
                return step_result(step, reached, check, None, performed)
            if check.state is CheckState.BLOCKED:
                return step_result(step, StepState.FAILED, check, None, performed)
            self._tell(run, host, step, check.summary, check.left)
            left = deadline - self._clock.monotonic()
            nobody_waits = (step.waits or step.goal in BOOTING) and not run.wait
            if nobody_waits or left <= 0 or (check.state is CheckState.UNKNOWN and step.unknown_ends):
                break
            await self._clock.sleep(min(step.poll_seconds, left))
        if doubt:
            why = f"interrupted: whether it was called is not known; {check.summary}".rstrip("; ")
            return step_result(step, StepState.UNVERIFIED, check, why, performed)
        if step.waits or nobody_waits:
            return step_result(step, StepState.PENDING, check, None, performed)
        if check.state is CheckState.UNKNOWN:
            problem = performed.problem if performed is not None else None
            said = f"{problem.summary}; {check.summary}" if problem is not None else None
            return step_result(step, StepState.UNVERIFIED, check, said, performed)
        why = f"not reached within {step.deadline_seconds:g} s: {check.summary}"
        return step_result(step, StepState.FAILED, check, why, performed)

    async def _check(self, actor: Actor, host: str, step: Step, deadline: float | None = None) -> Check:
        """`deadline`: of a wait, which is not to end much later."""
        seconds = step.check_seconds
        if step.waits and deadline is not None:
            seconds = min(seconds, max(deadline - self._clock.monotonic(), LAST_LOOK_SECONDS))
        try:
            async with asyncio.timeout(seconds):
                return await actor.check(host, step)
        except TimeoutError:
            return Check(state=CheckState.UNKNOWN, summary=f"no answer within {round(seconds, 2):g} s")
        except Exception as error:  # a bug in a back end is no proof of anything
            log.exception("%s: check of %s", host, step.id)
            return Check(state=CheckState.UNKNOWN, summary=f"internal error: {type(error).__name__}: {error}")

    async def _perform(self, actor: Actor, host: str, step: Step) -> Performed:
        try:
            async with asyncio.timeout(step.deadline_seconds):
                return await actor.perform(host, step)
        except TimeoutError:
            problem = Problem(kind=ProblemKind.TIMED_OUT, summary=f"no end within {step.deadline_seconds:g} s")
            return Performed(ok=False, pending=True, problem=problem)  # it may have worked: the check can tell
        except Exception as error:  # what it did before is not known: the check can tell
            log.exception("%s: %s", host, step.id)
            problem = Problem(kind=ProblemKind.INTERNAL, summary=f"internal error: {type(error).__name__}: {error}")
            return Performed(ok=False, problem=problem)

    async def _undo_host(self, run: Run, host: HostPlan) -> Outcome:
        stranger = await self._stranger(run, host, touched=True)
        if stranger is not None:
            return self._end_host(run, host, [], stranger, OutcomeState.FAILED)
        results: list[StepResult] = []
        for step in reversed(host.steps):
            ended = run.story.ended.get((host.host, step.id))
            if (host.host, step.id) not in run.story.began or (ended and ended.state is StepState.ALREADY):
                continue
            if step.undo is None:
                why = step.why_no_undo or "cannot be undone"
                results.append(StepResult(step=step.id, state=StepState.SKIPPED, summary=why))
                continue
            result = await self._step(run, host, step.undo)
            if result.state in (StepState.VERIFIED, StepState.ALREADY):
                result = structs.replace(result, state=StepState.UNDONE)
            results.append(result)
            if result.state in STOPPING:
                break
        return self._end_host(run, host, results)

    def _end_host(
        self,
        run: Run,
        host: HostPlan,
        results: Sequence[StepResult],
        summary: str = "",
        state: OutcomeState | None = None,
        host_state: HostActState | None = None,
    ) -> Outcome:
        outcome = outcome_of(run.plan.request.kind, host, results, summary, state)
        if host_state is not None:
            outcome = structs.replace(outcome, host_state=host_state)
        now = self._clock.now()
        if host.host not in run.left_open:
            run.journal.write(HostEnded(time=now, outcome=outcome))
        self._audit.write(audit_outcome(run.plan, host, outcome, now))
        run.listen(
            Progress(plan=run.plan.id, host=host.host, step=None, state=outcome.host_state, summary=outcome.summary)
        )
        return outcome

    def _tell(
        self,
        run: Run,
        host: HostPlan,
        step: Step,
        summary: str,
        left: tuple[str, ...],
        result: StepResult | None = None,
    ) -> None:
        run.listen(
            Progress(
                plan=run.plan.id,
                host=host.host,
                step=step.id,
                title=step.title,
                state=state_during(run.plan.request.kind, host, step),
                summary=summary,
                left=left,
                result=result,
            )
        )
