"""The executor: order, limits, failures, and what it does when it cannot write down what it does."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from gputop.actions.audit import AuditFailed, AuditLog, Who, read_records
from gputop.actions.executor import Executor, Stopped
from gputop.actions.forgetting import forget, left_behind
from gputop.actions.journal import (
    InUse,
    JournalFailed,
    Story,
    in_progress,
    is_closed,
    journal_of,
    locked,
    read_story,
    unfinished,
)
from gputop.domain.action import (
    Check,
    CheckState,
    Goal,
    HostActState,
    HostIdentity,
    HostPlan,
    OutcomeState,
    Plan,
    Progress,
    Step,
    StepResult,
    StepState,
)
from gputop.domain.call import Performed, RunOn, Watch
from gputop.domain.problem import Problem, ProblemKind
from gputop.domain.record import AuditEvent, AuditRecord, PlanOpened, StepBegan, StepEnded
from tests.fakes.acts import BOOT, FastClock, a_request
from tests.fakes.clock import START

DONE, NOT_DONE = Check(state=CheckState.DONE), Check(state=CheckState.NOT_DONE, summary="3 left")
UNKNOWN, BLOCKED = Check(state=CheckState.UNKNOWN, summary="silence"), Check(state=CheckState.BLOCKED, summary="a PDB")


def a_step(name: str = "one", **fields: Any) -> Step:
    own: dict[str, Any] = {
        "id": name,
        "actor": "host",
        "title": name,
        "call": RunOn(host="a", argv=("do", name)),
        "goal": Goal.MARKED,
        "deadline_seconds": 10,
        "poll_seconds": 1,
    }
    return Step(**(own | fields))


def a_watch(name: str = "wait", **fields: Any) -> Step:
    return a_step(name, **{"call": Watch(what="wait"), "waits": True, **fields})


def a_plan_of(*steps: Step, hosts: tuple[str, ...] = ("a",), at_once: int = 5) -> Plan:
    return Plan(
        id="plan-1",
        request=a_request(hosts=hosts),
        created_at=START,
        expires_at=START,
        at_once=at_once,
        hosts=tuple(
            HostPlan(host=name, steps=steps, identity=HostIdentity(boot_id=BOOT, machine_id=name)) for name in hosts
        ),
    )


class Lab:
    """An actor and all that surrounds an executor."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls: list[tuple[str, str]] = []
        self.reached: set[tuple[str, str]] = set()
        self.answer: Callable[[str, Step], Check] = lambda host, step: (
            DONE if (host, step.id) in self.reached or isinstance(step.call, Watch) else NOT_DONE
        )
        self.perform_hook: Callable[[str, Step], Performed | None] = lambda host, step: None
        self.at_work = 0
        self.most_at_work = 0
        self.identity: Callable[[str], HostIdentity | None] = lambda host: HostIdentity(boot_id=BOOT, machine_id=host)
        self.audit = AuditLog(folder / "audit.jsonl", Who(user="ann", tty="/dev/pts/1"), to_syslog=False)

    @property
    def executor(self) -> Executor:
        async def identify(host: str) -> HostIdentity | None:
            return self.identity(host)

        return Executor(lambda host, actor: self, identify, self.audit, self.folder, FastClock())

    async def check(self, host: str, step: Step) -> Check:
        return self.answer(host, step)

    async def perform(self, host: str, step: Step) -> Performed:
        self.calls.append((host, step.id))
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        for _ in range(5):
            await asyncio.sleep(0)
        self.at_work -= 1
        said = self.perform_hook(host, step)
        if said is None or said.ok:
            self.reached.add((host, step.id))
        return said or Performed(ok=True, exit_status=0)

    def records(self) -> list[AuditRecord]:
        return list(read_records(self.folder / "audit.jsonl"))


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


FAILED_CALL = Performed(ok=False, exit_status=1, problem=Problem(kind=ProblemKind.TOOL_FAILED, summary="no space"))


async def test_a_step_whose_goal_is_reached_already_is_not_called(lab: Lab) -> None:
    lab.reached.add(("a", "one"))
    [outcome] = await lab.executor.execute(a_plan_of(a_step()))
    assert lab.calls == []
    assert outcome.steps[0].state is StepState.ALREADY
    assert outcome.state is OutcomeState.VERIFIED


async def test_steps_are_called_once_in_order_and_verified(lab: Lab) -> None:
    [outcome] = await lab.executor.execute(a_plan_of(a_step("one"), a_step("two"), a_watch()))
    assert lab.calls == [("a", "one"), ("a", "two")]
    assert outcome.state is OutcomeState.VERIFIED
    assert outcome.host_state is HostActState.DRAINED
    story = read_story(lab.folder / "plans" / "plan-1.jsonl")
    assert story is not None
    assert story.closed == "finished"


async def test_a_failed_step_stops_the_host_and_the_rest_is_skipped(lab: Lab) -> None:
    lab.perform_hook = lambda host, step: FAILED_CALL if step.id == "two" else None
    [outcome] = await lab.executor.execute(a_plan_of(a_step("one"), a_step("two"), a_step("three")))
    assert lab.calls == [("a", "one"), ("a", "two")]
    assert [step.state for step in outcome.steps] == [StepState.VERIFIED, StepState.FAILED, StepState.SKIPPED]
    assert outcome.state is OutcomeState.FAILED
    assert outcome.host_state is HostActState.FAILED
    assert outcome.summary == "two: no space"


async def test_what_was_stopped_for_a_step_is_started_again_although_the_step_failed(lab: Lab) -> None:
    lab.perform_hook = lambda host, step: FAILED_CALL if step.id == "reset" else None
    [outcome] = await lab.executor.execute(a_plan_of(a_step("stop"), a_step("reset"), a_step("start", always=True)))
    assert [call for _, call in lab.calls] == ["stop", "reset", "start"]
    assert outcome.state is OutcomeState.FAILED


async def test_an_optional_step_may_fail(lab: Lab) -> None:
    lab.perform_hook = lambda host, step: FAILED_CALL if step.id == "tell" else None
    [outcome] = await lab.executor.execute(a_plan_of(a_step("tell", optional=True), a_step("two")))
    assert outcome.state is OutcomeState.VERIFIED


async def test_a_call_that_cannot_be_confirmed_is_unverified_and_never_verified(lab: Lab) -> None:
    lab.answer = lambda host, step: UNKNOWN
    [outcome] = await lab.executor.execute(a_plan_of(a_step()))
    assert outcome.state is OutcomeState.UNVERIFIED
    assert outcome.host_state is HostActState.UNKNOWN
    assert "silence" in outcome.summary


async def test_a_goal_that_is_not_reached_within_the_deadline_has_failed(lab: Lab) -> None:
    lab.answer = lambda host, step: NOT_DONE
    [outcome] = await lab.executor.execute(a_plan_of(a_step()))
    assert outcome.state is OutcomeState.FAILED
    assert "not reached within 10 s: 3 left" in outcome.summary


async def test_a_wait_that_reaches_its_deadline_is_pending(lab: Lab) -> None:
    lab.answer = lambda host, step: NOT_DONE
    [outcome] = await lab.executor.execute(a_plan_of(a_watch()))
    assert outcome.state is OutcomeState.PENDING
    assert outcome.host_state is HostActState.DRAINING


async def test_nobody_waits_for_what_is_blocked(lab: Lab) -> None:
    looks = []
    lab.answer = lambda host, step: looks.append(1) or BLOCKED  # type: ignore[func-returns-value]
    [outcome] = await lab.executor.execute(a_plan_of(a_watch()))
    assert outcome.state is OutcomeState.FAILED
    assert outcome.host_state is HostActState.BLOCKED
    assert outcome.summary == "wait: a PDB"
    assert len(looks) == 1


async def test_a_channel_that_drops_is_pending_until_the_check_tells(lab: Lab) -> None:
    answers = iter([NOT_DONE, UNKNOWN, UNKNOWN, DONE])
    lab.answer = lambda host, step: next(answers)
    lab.perform_hook = lambda host, step: Performed(ok=False, pending=True)
    [outcome] = await lab.executor.execute(a_plan_of(a_step()))
    assert outcome.state is OutcomeState.VERIFIED


async def test_a_bug_in_a_back_end_proves_nothing(lab: Lab) -> None:
    def broken(host: str, step: Step) -> Check:
        raise RuntimeError("oops")

    lab.answer = broken
    [outcome] = await lab.executor.execute(a_plan_of(a_step()))
    assert outcome.state is OutcomeState.UNVERIFIED


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (HostIdentity(boot_id=BOOT, machine_id="another"), "another machine"),
        (HostIdentity(boot_id=BOOT[::-1], machine_id="a"), "rebooted since"),
        (None, "does not answer"),
    ],
)
async def test_nothing_is_done_to_a_host_that_is_not_the_one_of_the_plan(
    lab: Lab, found: HostIdentity | None, words: str
) -> None:
    lab.identity = lambda host: found
    [outcome] = await lab.executor.execute(a_plan_of(a_step()))
    assert lab.calls == []
    assert outcome.state is OutcomeState.FAILED
    assert words in outcome.summary


async def test_nothing_is_done_when_another_host_key_answers(lab: Lab) -> None:
    planned = HostIdentity(boot_id=BOOT, machine_id="a", host_key="SHA256:planned")
    lab.identity = lambda host: structs.replace(planned, host_key="SHA256:another")
    plan = a_plan_of(a_step())
    plan = structs.replace(plan, hosts=(structs.replace(plan.hosts[0], identity=planned),))
    [outcome] = await lab.executor.execute(plan)
    assert lab.calls == []
    assert (outcome.state, outcome.summary) == (OutcomeState.FAILED, "its host key has changed")


async def test_the_canary_is_verified_before_any_other_host_is_touched(lab: Lab) -> None:
    hosts = tuple("abcdefgh")
    outcomes = await lab.executor.execute(a_plan_of(a_step("one"), a_step("two"), hosts=hosts))
    assert lab.calls[:2] == [("a", "one"), ("a", "two")]
    assert all(outcome.state is OutcomeState.VERIFIED for outcome in outcomes)
    assert lab.most_at_work == 5


async def test_when_the_canary_fails_no_other_host_is_touched(lab: Lab) -> None:
    lab.perform_hook = lambda host, step: FAILED_CALL
    outcomes = await lab.executor.execute(a_plan_of(a_step(), hosts=("a", "b", "c")))
    assert lab.calls == [("a", "one")]
    assert [outcome.state for outcome in outcomes] == [OutcomeState.FAILED, OutcomeState.SKIPPED, OutcomeState.SKIPPED]


async def test_after_the_first_failure_no_further_host_is_begun(lab: Lab) -> None:
    lab.perform_hook = lambda host, step: FAILED_CALL if host == "b" else None
    outcomes = await lab.executor.execute(a_plan_of(a_step(), hosts=tuple("abcd"), at_once=1))
    assert [host for host, _ in lab.calls] == ["a", "b"]
    assert [outcome.state for outcome in outcomes[2:]] == [OutcomeState.SKIPPED] * 2


async def test_hosts_that_only_wait_do_not_keep_others_from_being_begun(lab: Lab) -> None:
    lab.answer = lambda host, step: (
        NOT_DONE if isinstance(step.call, Watch) or (host, step.id) not in lab.reached else DONE
    )
    outcomes = await lab.executor.execute(a_plan_of(a_step(), a_watch(), hosts=tuple("abcd"), at_once=1))
    assert [host for host, _ in lab.calls] == list("abcd")
    assert all(outcome.state is OutcomeState.PENDING for outcome in outcomes)


async def test_a_call_that_waits_by_itself_keeps_the_others_from_being_begun(lab: Lab) -> None:
    lab.answer = lambda host, step: NOT_DONE if host == "a" or (host, step.id) not in lab.reached else DONE
    plan = a_plan_of(a_step(waits=True, title="evict"), hosts=tuple("abc"))
    first, *others = await lab.executor.execute(plan)
    assert lab.calls == [("a", "one")]
    assert first.state is OutcomeState.PENDING
    assert {other.summary for other in others} == {"not begun: the first host is not done"}

    lab.calls.clear()
    lab.answer = lambda host, step: NOT_DONE
    plan = structs.replace(plan, id="plan-2", request=structs.replace(plan.request, wait=False), at_once=1)
    await lab.executor.execute(plan)
    assert [host for host, _ in lab.calls] == list("abc"), "where nobody waits, all are asked"


async def test_if_the_audit_line_cannot_be_written_nothing_is_done(lab: Lab) -> None:
    (lab.folder / "audit.jsonl").mkdir()
    with pytest.raises(AuditFailed, match="cannot be written"):
        await lab.executor.execute(a_plan_of(a_step()))
    assert lab.calls == []
    assert unfinished(lab.folder) == []


async def test_if_the_journal_cannot_be_written_nothing_is_done(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, line: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gputop.actions.journal.append_line", full)
    with pytest.raises(JournalFailed):
        await lab.executor.execute(a_plan_of(a_step()))
    assert lab.calls == []
    [told, ended] = read_records(lab.audit.path)
    assert (told.event, ended.event, ended.result) == (AuditEvent.INTENT, AuditEvent.OUTCOME, "skipped")
    assert "nothing was done" in ended.summary
    assert "No space left on device" in ended.summary


async def test_if_the_audit_fails_in_the_middle_no_further_step_is_taken(lab: Lab) -> None:
    def fill_up(host: str, step: Step) -> None:
        (lab.folder / "audit.jsonl").unlink()
        (lab.folder / "audit.jsonl").mkdir()

    lab.perform_hook = fill_up
    with pytest.raises(Stopped):
        await lab.executor.execute(a_plan_of(a_step("one"), a_step("two")))
    assert lab.calls == [("a", "one")]
    assert [story.plan.id for story in unfinished(lab.folder)] == ["plan-1"]


async def test_two_plans_do_not_work_on_one_host_at_a_time(lab: Lab) -> None:
    other = structs.replace(a_plan_of(a_step()), id="other-plan")
    with locked(lab.folder, other), pytest.raises(InUse, match="a: another plan"):
        await lab.executor.execute(a_plan_of(a_step()))
    assert lab.calls == []


async def test_a_plan_at_work_is_in_progress_and_not_unfinished(lab: Lab) -> None:
    seen: list[tuple[int, int]] = []
    lab.perform_hook = lambda host, step: seen.append((len(in_progress(lab.folder)), len(unfinished(lab.folder))))  # type: ignore[func-returns-value]
    await lab.executor.execute(a_plan_of(a_step()))
    assert seen == [(1, 0)]
    assert (in_progress(lab.folder), unfinished(lab.folder)) == ([], [])


async def test_a_plan_that_is_cancelled_can_be_resumed_and_waits_on(lab: Lab) -> None:
    never = asyncio.Event()

    async def hang(host: str, step: Step) -> Check:
        if isinstance(step.call, Watch):
            await never.wait()
        return lab.answer(host, step)

    executor = lab.executor
    lab.check = hang  # type: ignore[method-assign]
    work = asyncio.create_task(executor.execute(a_plan_of(a_step(), a_watch())))
    while not lab.calls:
        await asyncio.sleep(0)
    for _ in range(50):
        await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    del lab.check  # type: ignore[method-assign]
    [story] = unfinished(lab.folder)
    [outcome] = await executor.resume(story)
    assert outcome.state is OutcomeState.VERIFIED
    assert lab.calls == [("a", "one")]


def test_a_forgotten_plan_leaves_its_hosts_as_they_are_and_says_so(lab: Lab) -> None:
    journal_of(lab.folder, "plan-1").write(PlanOpened(time=START, plan=a_plan_of(a_step())))
    [story] = unfinished(lab.folder)
    forget(story, lab.audit, lab.folder, FastClock())
    assert unfinished(lab.folder) == []
    assert lab.calls == []
    assert lab.records()[-1].result == "forgotten"


async def test_the_audit_has_one_record_for_each_intent_step_and_outcome_of_each_host(lab: Lab) -> None:
    await lab.executor.execute(a_plan_of(a_step("one"), a_step("two"), hosts=("a", "b")))
    records = lab.records()
    assert [record.event for record in records[:2]] == ["intent", "intent"]
    for host in ("a", "b"):
        own = [record for record in records if record.host == host]
        assert [record.event for record in own] == ["intent", "step", "step", "outcome"]
        assert [record.state_before for record in own] == [own[0].state_before] * 4
        assert [record.state_after for record in own] == [None, "draining", "draining", "drained"]
    assert all(record.user == "ann" and record.tty == "/dev/pts/1" and record.plan == "plan-1" for record in records)
    assert (lab.folder / "audit.jsonl").stat().st_mode & 0o777 == 0o600


async def test_a_plan_with_nothing_to_do_is_verified_and_calls_nothing(lab: Lab) -> None:
    plan = a_plan_of()
    plan = structs.replace(plan, hosts=(structs.replace(plan.hosts[0], now="cordoned by ann"),))
    [outcome] = await lab.executor.execute(plan)
    assert outcome.state is OutcomeState.VERIFIED
    assert "nothing to do" in outcome.summary


async def test_a_host_that_waited_for_others_is_looked_at_again_and_the_first_is_not(lab: Lab) -> None:
    asked: list[str] = []

    async def recheck(plan: Plan, host: HostPlan) -> str | None:
        asked.append(host.host)
        return "carol runs on it now" if host.host == "b" else None

    plan = a_plan_of(a_step(), hosts=("a", "b", "c"), at_once=1)
    outcomes = await lab.executor.execute(plan, recheck=recheck)
    assert [outcome.state for outcome in outcomes] == [
        OutcomeState.VERIFIED,
        OutcomeState.SKIPPED,
        OutcomeState.SKIPPED,
    ]
    assert outcomes[1].summary == "not begun: carol runs on it now"
    assert outcomes[1].host_state is HostActState.UNKNOWN  # what the plan knew of it no longer holds
    assert asked == ["b"]
    assert lab.calls == [("a", "one")]


def interrupted_in(lab: Lab, plan: Plan) -> Story:
    """A plan whose process died after the first step was verified."""
    [host] = plan.hosts
    first = host.steps[0]
    result = StepResult(step=first.id, state=StepState.VERIFIED)
    journal = journal_of(lab.folder, plan.id)
    journal.write(PlanOpened(time=START, plan=plan))
    journal.write(StepBegan(time=START, host=host.host, step=first.id))
    journal.write(StepEnded(time=START, host=host.host, result=result))
    [story] = unfinished(lab.folder)
    return story


def test_what_is_no_journal_of_one_s_own_is_passed_over(lab: Lab, tmp_path: Path) -> None:
    """A pipe, above all: to open it is to wait for whoever writes."""
    story = interrupted_in(lab, a_plan_of(a_step(), a_watch()))
    folder = lab.folder / "plans"
    os.mkfifo(folder / "20260101T000000000Z-drain-a.jsonl")
    (folder / "20260101T000000000Z-drain-b.jsonl").mkdir()
    (folder / "20260101T000000000Z-drain-c.jsonl").symlink_to("/etc/passwd")
    (folder / "20260101T000000000Z-drain-d.jsonl").write_text("\0\0\0")
    (folder / "20260101T000000000Z-drain-e.jsonl").touch()
    assert [found.plan.id for found in unfinished(lab.folder)] == [story.plan.id]
    assert not is_closed(lab.folder, "20260101T000000000Z-drain-a")


def test_who_forgets_a_plan_is_told_what_it_began_and_what_it_owes(lab: Lab) -> None:
    steps = (a_step("stop the daemon"), a_step("reset"), a_step("start the daemon", always=True), a_watch())
    story = interrupted_in(lab, a_plan_of(*steps))
    forget(story, lab.audit, lab.folder, FastClock())
    said = "the host was left as it is: begun was stop the daemon; not start the daemon"
    assert lab.records()[-1].summary == f"closed by hand; {said}"
    assert left_behind(structs.replace(story, began=set()), story.plan.hosts[0]).endswith("nothing was called on it")


async def test_nothing_is_undone_on_another_machine(lab: Lab) -> None:
    undo = a_step("undo")
    story = interrupted_in(lab, a_plan_of(a_step(undo=undo), a_watch()))
    lab.identity = lambda host: HostIdentity(boot_id=BOOT, machine_id="another")
    [outcome] = await lab.executor.roll_back(story)
    assert outcome.state is OutcomeState.FAILED
    assert "another machine" in outcome.summary
    assert lab.calls == []
    assert unfinished(lab.folder) != []  # the marker of the true machine is not forgotten


async def test_without_machine_id_another_boot_counts_as_another_machine_in_the_middle_of_a_plan(lab: Lab) -> None:
    plan = a_plan_of(a_step(), a_watch())
    [host] = plan.hosts
    host = structs.replace(host, identity=HostIdentity(boot_id=BOOT))
    story = interrupted_in(lab, structs.replace(plan, hosts=(host,)))
    lab.identity = lambda host: HostIdentity(boot_id=BOOT[::-1])
    [outcome] = await lab.executor.resume(story)
    assert outcome.state is OutcomeState.FAILED
    assert "another machine" in outcome.summary


async def test_a_host_that_does_not_come_back_is_to_be_looked_at_by_its_console(lab: Lab) -> None:
    lab.answer = lambda host, step: UNKNOWN
    [outcome] = await lab.executor.execute(a_plan_of(a_step("reboot", goal=Goal.REBOOTED, check_first=False)))
    assert outcome.state is OutcomeState.UNVERIFIED
    assert outcome.summary == "reboot: silence; look at its console, by its BMC or its cloud"


async def test_a_reboot_that_nobody_waits_for_is_pending(lab: Lab) -> None:
    lab.answer = lambda host, step: UNKNOWN
    plan = a_plan_of(a_step("reboot", goal=Goal.REBOOTED), a_watch("frame", goal=Goal.FIRST_FRAME, waits=False))
    plan = structs.replace(plan, request=structs.replace(plan.request, wait=False))
    [outcome] = await lab.executor.execute(plan)
    assert (outcome.state, outcome.summary) == (OutcomeState.PENDING, "reboot: silence")
    assert lab.calls == [("a", "reboot")]


async def test_a_call_that_waits_by_itself_is_told_of_while_it_does(lab: Lab) -> None:
    ended = asyncio.Event()
    told: list[tuple[str, ...]] = []

    async def drain(host: str, step: Step) -> Performed:
        await ended.wait()
        return Performed(ok=True, exit_status=0)

    def listen(progress: Progress) -> None:
        if progress.left:
            told.append(progress.left)
            ended.set()

    lab.perform = drain  # type: ignore[method-assign]
    lab.answer = lambda host, step: DONE if ended.is_set() else structs.replace(NOT_DONE, left=("job 7 of carol",))
    [outcome] = await lab.executor.execute(a_plan_of(a_step(waits=True)), listen=listen)
    assert outcome.state is OutcomeState.VERIFIED
    assert told == [("job 7 of carol",)]


async def test_a_look_that_does_not_end_has_found_nothing_out_within_the_time_that_its_step_gives_it(lab: Lab) -> None:
    async def hang(host: str, step: Step) -> Check:
        await asyncio.Event().wait()
        raise AssertionError

    lab.check = hang  # type: ignore[method-assign]
    [outcome] = await lab.executor.execute(a_plan_of(a_step(check_seconds=0.01, unknown_ends=True)))
    assert (outcome.state, outcome.summary) == (OutcomeState.UNVERIFIED, "one: no answer within 0.01 s")


async def test_a_look_that_does_not_end_holds_a_wait_no_longer_than_its_deadline(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(host: str, step: Step) -> Check:
        await asyncio.Event().wait()
        raise AssertionError

    lab.check = hang  # type: ignore[method-assign]
    monkeypatch.setattr("gputop.actions.executor.LAST_LOOK_SECONDS", 0.2)
    step = a_watch(deadline_seconds=0.1, check_seconds=3600)
    async with asyncio.timeout(20):
        [outcome] = await lab.executor.execute(a_plan_of(step))
    assert (outcome.state, outcome.summary) == (OutcomeState.PENDING, "wait: no answer within 0.2 s")


async def test_a_call_that_does_not_end_is_told_as_such(lab: Lab) -> None:
    async def hang(host: str, step: Step) -> Performed:
        await asyncio.Event().wait()
        raise AssertionError

    lab.perform = hang  # type: ignore[method-assign]
    lab.answer = lambda host, step: UNKNOWN
    [outcome] = await lab.executor.execute(a_plan_of(a_step(deadline_seconds=0.01, check_first=False)))
    assert outcome.state is OutcomeState.UNVERIFIED
    assert outcome.summary == "one: no end within 0.01 s; silence"


async def test_an_audit_log_that_others_may_read_is_closed_to_them(lab: Lab) -> None:
    lab.audit.path.touch()
    lab.audit.path.chmod(0o644)
    await lab.executor.execute(a_plan_of(a_step()))
    assert stat.S_IMODE(lab.audit.path.stat().st_mode) == 0o600


def judged(asked: list[tuple[str, ...]], why: str | None = None) -> Callable[[Plan, HostPlan], Any]:
    """A recheck that notes what was left each time it was asked."""

    async def recheck(plan: Plan, host: HostPlan) -> str | None:
        asked.append(tuple(step.id for step in host.steps))
        return why

    return recheck


async def test_an_interrupted_plan_is_judged_again_once_before_its_first_call(lab: Lab) -> None:
    asked: list[tuple[str, ...]] = []
    story = interrupted_in(lab, a_plan_of(a_step("one"), a_watch(), a_step("two"), a_step("three")))
    [outcome] = await lab.executor.resume(story, recheck=judged(asked))
    assert outcome.state is OutcomeState.VERIFIED
    assert asked == [("two", "three")]
    assert lab.calls == [("a", "two"), ("a", "three")]


async def test_what_a_guard_refuses_by_now_is_not_called_and_the_plan_stays_unfinished(lab: Lab) -> None:
    story = interrupted_in(lab, a_plan_of(a_step("one", undo=a_step("undo")), a_step("two")))
    [outcome] = await lab.executor.resume(story, recheck=judged([], "carol runs on it (not-drained)"))
    assert (outcome.state, outcome.host_state) == (OutcomeState.FAILED, HostActState.BLOCKED)
    assert outcome.summary == "two: not called: carol runs on it (not-drained)"
    assert lab.calls == []
    assert lab.records()[-1].result == "failed"
    [story] = unfinished(lab.folder)
    await lab.executor.roll_back(story)
    assert lab.calls == [("a", "undo")]
    assert unfinished(lab.folder) == []


async def test_an_interrupted_call_that_is_taking_is_waited_for_and_neither_made_again_nor_refused(lab: Lab) -> None:
    """An instance that is stopping: its host does not answer any more, which a guard would refuse."""
    plan = a_plan_of(a_step("stop", goal=Goal.STOPPED))
    journal = journal_of(lab.folder, plan.id)
    journal.write(PlanOpened(time=START, plan=plan))
    journal.write(StepBegan(time=START, host="a", step="stop"))
    looks: list[str] = []

    def answer(host: str, step: Step) -> Check:
        looks.append(step.id)
        return DONE if len(looks) > 3 else structs.replace(NOT_DONE, under_way=True)

    lab.answer = answer
    [story] = unfinished(lab.folder)
    [outcome] = await lab.executor.resume(story, recheck=judged([], "there is no reading of now (stale-data)"))
    assert (outcome.state, lab.calls, len(looks)) == (OutcomeState.VERIFIED, [], 4)


async def test_what_was_stopped_or_switched_off_comes_back_whatever_a_guard_says_of_the_rest(lab: Lab) -> None:
    for steps in (
        (a_step("one"), a_step("reset"), a_step("back", always=True)),
        (a_step("one"), a_step("back", goal=Goal.RUNNING)),
    ):
        lab.calls.clear()
        lab.reached.clear()
        story = interrupted_in(lab, a_plan_of(*steps))
        await lab.executor.resume(story, recheck=judged([], "it is protected (protected)"))
        assert lab.calls == [("a", "back")]
        assert unfinished(lab.folder) == []
        (lab.folder / "plans" / "plan-1.jsonl").unlink()


async def test_a_host_that_a_step_has_opened_is_not_noted_as_drained_after_it(lab: Lab) -> None:
    await lab.executor.execute(
        a_plan_of(a_step("one"), a_step("open", goal=Goal.UNMARKED), a_step("uncordon", goal=Goal.SCHEDULABLE))
    )
    steps = [record for record in lab.records() if record.event == "step"]
    assert [record.state_after for record in steps] == ["draining", "active", "active"]


@pytest.mark.parametrize(
    ("kind", "then", "state"),
    [
        (ProblemKind.CONNECTION_REFUSED, CheckState.UNKNOWN, StepState.UNVERIFIED),
        (ProblemKind.TIMED_OUT, CheckState.UNKNOWN, StepState.UNVERIFIED),
        (ProblemKind.TIMED_OUT, CheckState.NOT_DONE, StepState.FAILED),
        (ProblemKind.PERMISSION, CheckState.UNKNOWN, StepState.FAILED),
    ],
)
async def test_a_call_without_an_answer_has_not_failed_before_somebody_could_look(
    lab: Lab, kind: ProblemKind, then: CheckState, state: StepState
) -> None:
    answers = {"one": [NOT_DONE]}
    lab.answer = lambda host, step: (
        answers[step.id].pop() if answers.get(step.id) else Check(state=then, summary="silent")
    )
    lab.perform_hook = lambda host, step: Performed(ok=False, problem=Problem(kind=kind, summary="no answer"))
    [outcome] = await lab.executor.execute(a_plan_of(a_step(), a_step("two")))
    assert [result.state for result in outcome.steps] == [state, StepState.SKIPPED]
    assert lab.calls == [("a", "one")]
    if state is StepState.UNVERIFIED:
        assert outcome.steps[0].summary == "no answer: whether it was done is not known"
        assert (outcome.state, outcome.host_state) == (OutcomeState.UNVERIFIED, HostActState.UNKNOWN)
