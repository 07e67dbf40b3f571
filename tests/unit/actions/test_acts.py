"""The gate: what is proposed, and what must hold when it is carried out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from gputop.actions.acts import Acts, Expired, NotConfirmed, Proposal
from gputop.actions.audit import AuditLog, Who, read_records
from gputop.actions.executor import Executor
from gputop.actions.journal import journal_of, unfinished
from gputop.actions.lease import is_over, leases
from gputop.actions.lock import ActionLock
from gputop.actions.onhost import HostActor
from gputop.actions.plan import BackEnds
from gputop.domain.action import ActionKind, Confirm, Deny, Goal, OutcomeState, Progress
from gputop.domain.call import CommandResult, RunHere, RunOn
from gputop.domain.host import Host
from gputop.domain.problem import Problem
from gputop.domain.record import AuditEvent, AuditRecord, PlanOpened
from gputop.schedulers.none import MARKER, MarkerScheduler
from gputop.transport.route import bare
from tests.fakes.acts import BOOT, FastClock, LabPower, a_host, a_process, a_request, straight
from tests.fakes.clock import START


class Machine:
    """A Runner and an Observer: one host without a scheduler, as far as its acts go."""

    def __init__(self) -> None:
        self.marker: str | None = None
        self.boot_id = BOOT
        self.ran: list[str] = []
        self.host: Host = a_host(policy=structs.replace(a_host().spec.policy, wall=False))

    async def run(self, call: RunHere | RunOn, *, deadline_seconds: float) -> CommandResult:
        text = " ".join(call.argv)
        said = ""
        if call.argv[0] == "install" and MARKER in text:
            self.marker = call.stdin
            self.ran.append("mark")
        elif call.argv[:2] == ("rm", "-f"):
            self.marker = None
            self.ran.append("unmark")
        elif "boot_id" in text:
            said = f"{self.boot_id}\nmachine-of-gpu-01\n"
        elif MARKER in text:
            said = f"marked\n{self.marker}" if self.marker else "free\n"
        return CommandResult(exit_status=0, stdout=said.encode())

    async def look(self, hosts: Sequence[str]) -> Mapping[str, Host]:
        return dict.fromkeys(hosts, self.host)

    known = look

    async def let_go(self, hosts: Sequence[str]) -> None:
        self.ran.append("let go")


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = FastClock()
        self.machine = Machine()
        specs = {"gpu-01": self.machine.host.spec}
        scheduler = MarkerScheduler(specs, self.machine, self.clock)
        host_actor = HostActor(self.machine, self.machine, specs)
        audit = AuditLog(folder / "audit.jsonl", Who(user="ann"), to_syslog=False)

        def actor_of(host: str, actor: str) -> Any:
            return scheduler if actor == "scheduler" else host_actor

        self.lock = ActionLock(self.clock, allowed=True)
        self.acts = Acts(
            specs=specs,
            back_ends={"gpu-01": BackEnds(scheduler=scheduler, power=LabPower())},
            observer=self.machine,
            runner=self.machine,
            host_actor=host_actor,
            executor=Executor(actor_of, host_actor.identify, audit, folder, self.clock),
            audit=audit,
            lock=self.lock,
            clock=self.clock,
            state_folder=folder,
            trace=straight,
        )

    async def proposal(self, **fields: Any) -> Proposal:
        made = await self.acts.propose(a_request(**fields))
        assert isinstance(made, Proposal)
        return made

    def events(self) -> list[str]:
        return [record.event.value for record in read_records(self.folder / "audit.jsonl")]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def test_a_proposal_changes_nothing(site: Site) -> None:
    proposal = await site.proposal()
    assert isinstance(proposal.verdict, Confirm)
    assert site.machine.ran == []
    assert site.events() == []


async def test_a_confirmed_plan_is_carried_out_and_leaves_a_lease(site: Site) -> None:
    [outcome] = await site.acts.carry_out(await site.proposal(), typed="gpu-01")  # type: ignore[misc]
    assert outcome.state is OutcomeState.VERIFIED
    assert site.machine.ran == ["mark"]
    [lease] = leases(site.folder)
    assert (lease.host, lease.by, lease.reason) == ("gpu-01", "ann", "NIC")
    assert not is_over(lease, site.clock.now())
    [outcome] = await site.acts.carry_out(await site.proposal(kind=ActionKind.RESUME), typed="gpu-01")  # type: ignore[misc]
    assert site.machine.ran == ["mark", "unmark"]
    assert leases(site.folder) == []


async def test_a_drain_that_the_list_of_drained_hosts_cannot_take_up_says_so(site: Site) -> None:
    (site.folder / "leases").touch()
    said: list[str] = []
    await site.acts.carry_out(
        await site.proposal(), typed="gpu-01", listen=lambda progress: said.append(progress.summary)
    )
    assert said[-1] == '"gputop actions" does not know of it: File exists'


@pytest.mark.parametrize("typed", ["", "y", "yes", "gpu-02", "1"])
async def test_what_was_not_typed_is_not_done(site: Site, typed: str) -> None:
    assert isinstance(await site.acts.carry_out(await site.proposal(), typed=typed), NotConfirmed)
    assert site.machine.ran == []


async def test_a_reason_given_in_the_dialog_is_the_plan_s(site: Site) -> None:
    proposal = await site.proposal(reason="")
    assert isinstance(await site.acts.carry_out(proposal, typed="gpu-01"), NotConfirmed)
    await site.acts.carry_out(proposal, typed="gpu-01", reason="smoke")
    assert "smoke" in (site.machine.marker or "")


NASTY = "NIC\n\x1b[31m\u202egnihton\u202c\u200b of rack\t7"
PLAIN = "NIC [31mgnihton of rack 7"


async def test_what_is_typed_is_written_everywhere_on_one_line_and_without_what_hides(site: Site) -> None:
    proposal = await site.proposal(reason=NASTY, override=NASTY)
    assert (proposal.plan.request.reason, proposal.plan.request.override) == (PLAIN, PLAIN)
    await site.acts.carry_out(await site.proposal(reason=""), typed="gpu-01", reason=NASTY)
    assert [lease.reason for lease in leases(site.folder)] == [PLAIN]
    text = (site.folder / "audit.jsonl").read_text()
    assert PLAIN in text
    assert text.replace("\n", "").isprintable()


async def test_nothing_but_what_hides_is_no_reason(site: Site) -> None:
    done = await site.acts.carry_out(await site.proposal(reason=""), typed="gpu-01", reason="\u200b\u202e")
    assert isinstance(done, NotConfirmed)


@pytest.mark.parametrize("name", ["reason", "override", "text"])
async def test_words_without_end_are_a_problem(name: str, site: Site) -> None:
    found = await site.acts.propose(a_request(**{name: "x" * 501}))
    assert isinstance(found, Problem)
    assert found.summary == f"the {name} has 501 characters, the most is 500"


def test_whatever_else_stands_in_a_record_is_shown_harmlessly_and_read_back_whole(tmp_path: Path) -> None:
    summary = "exit status 1: \u202egnihton\u202c \x1b[31m \U000e0041 größer"
    log = AuditLog(tmp_path / "audit.jsonl", Who(user="ann"), to_syslog=False)
    log.write(AuditRecord(time=START, event=AuditEvent.STEP, plan="p", act=ActionKind.DRAIN, summary=summary))
    assert (tmp_path / "audit.jsonl").read_text().removesuffix("\n").isprintable()
    assert [record.summary for record in read_records(tmp_path / "audit.jsonl")] == [summary]


async def test_a_plan_whose_facts_changed_is_not_carried_out(site: Site) -> None:
    proposal = await site.proposal()
    await site.clock.sleep(10)
    frame = structs.replace(site.machine.host.frame, processes=(a_process(),))  # type: ignore[type-var]
    site.machine.host = structs.replace(site.machine.host, frame=frame)
    found = await site.acts.carry_out(proposal, typed="gpu-01")
    assert isinstance(found, Expired)
    assert site.machine.ran == []
    assert any("carol" in loss.summary for loss in found.proposal.plan.hosts[0].losses)


async def test_a_drain_of_a_host_whose_work_comes_and_goes_can_be_confirmed(site: Site) -> None:
    """Every look finds other processes of the same people."""
    host = site.machine.host
    site.machine.host = structs.replace(host, frame=a_host(processes=[a_process(1), a_process(2, "dave")]).frame)
    proposal = await site.proposal()
    await site.clock.sleep(10)
    site.machine.host = structs.replace(host, frame=a_host(processes=[a_process(3), a_process(4)]).frame)

    def empty(progress: Progress) -> None:
        if progress.step == "host.empty":
            site.machine.host = host

    [outcome] = await site.acts.carry_out(proposal, typed="gpu-01", listen=empty)  # type: ignore[misc]
    assert outcome.state is OutcomeState.VERIFIED


async def test_what_is_new_since_a_plan_was_seen_is_named(site: Site) -> None:
    host = site.machine.host
    site.machine.host = structs.replace(host, frame=a_host(processes=[a_process(1)]).frame)
    proposal = await site.proposal()
    await site.clock.sleep(10)
    site.machine.host = structs.replace(host, frame=a_host(processes=[a_process(1), a_process(2, "dave")]).frame)
    found = await site.acts.carry_out(proposal, typed="gpu-01")
    assert isinstance(found, Expired)
    assert found.changes == ("gpu-01: python (pid 2) of dave is new",)


async def test_a_scheduler_that_takes_its_time_does_not_make_readings_old(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    observe = MarkerScheduler.observe

    async def slowly(self: MarkerScheduler, hosts: Sequence[Host]) -> Any:
        await site.clock.sleep(40)
        return await observe(self, hosts)

    async def look(hosts: Sequence[str]) -> Mapping[str, Host]:
        frame = structs.replace(site.machine.host.frame, received_at=site.clock.now())  # type: ignore[type-var]
        return dict.fromkeys(hosts, structs.replace(site.machine.host, frame=frame))

    monkeypatch.setattr(MarkerScheduler, "observe", slowly)
    monkeypatch.setattr(site.machine, "look", look)
    assert isinstance((await site.proposal()).verdict, Confirm)


async def test_an_old_plan_is_not_carried_out_although_nothing_changed(site: Site) -> None:
    proposal = await site.proposal()
    await site.clock.sleep(400)
    assert isinstance(await site.acts.carry_out(proposal, typed="gpu-01"), Expired)
    assert site.machine.ran == []


async def test_a_host_that_rebooted_meanwhile_is_another_fact(site: Site) -> None:
    proposal = await site.proposal()
    await site.clock.sleep(10)
    site.machine.boot_id = "99999999-2222-4333-8444-555555555555"
    assert isinstance(await site.acts.carry_out(proposal, typed="gpu-01"), Expired)


async def test_a_plan_from_before_the_clock_was_set_back_is_made_again(site: Site) -> None:
    proposal = await site.proposal()
    await site.clock.sleep(100)
    site.clock._start -= timedelta(hours=1)
    site.machine.boot_id = "99999999-2222-4333-8444-555555555555"
    assert isinstance(await site.acts.carry_out(proposal, typed="gpu-01"), Expired)
    assert site.machine.ran == []


async def test_a_lock_that_fell_shut_refuses_and_the_refusal_is_noted(site: Site) -> None:
    proposal = await site.proposal()
    site.lock.relock()
    found = await site.acts.carry_out(proposal, typed="gpu-01")
    assert isinstance(found, Deny)
    assert site.machine.ran == []
    assert site.events() == ["refused"]


async def test_the_lock_falls_shut_after_ten_idle_minutes_and_a_touch_keeps_it_open(site: Site) -> None:
    await site.clock.sleep(599)
    site.lock.touch()
    await site.clock.sleep(599)
    assert site.lock.allowed
    await site.clock.sleep(2)
    assert not site.lock.allowed
    site.lock.touch()
    assert not site.lock.allowed
    site.lock.unlock()
    assert site.lock.allowed


async def test_a_host_that_is_not_of_the_fleet_is_a_problem_for_all(site: Site) -> None:
    found = await site.acts.propose(a_request(ActionKind.DRAIN, "gpu-01", "gpu-99"))
    assert isinstance(found, Problem)
    assert "gpu-99" in found.summary


async def test_a_request_without_hosts_is_a_problem(site: Site) -> None:
    assert isinstance(await site.acts.propose(a_request(hosts=())), Problem)


@pytest.mark.parametrize(
    ("hop", "host"),
    [
        ("bastion", "bastion"),
        ("ops@b1:2222", "b1"),
        ("u@[2001:db8::1]:22", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
    ],
)
def test_the_host_of_a_hop(hop: str, host: str) -> None:
    assert bare(hop) == host


async def test_a_plan_that_was_never_begun_is_judged_again_when_it_is_resumed(site: Site) -> None:
    before = await site.proposal()
    journal_of(site.folder, before.plan.id).write(PlanOpened(time=site.clock.now(), plan=before.plan))
    [story] = unfinished(site.folder)
    site.machine.host = structs.replace(site.machine.host, frame=None)
    [outcome] = await site.acts.resume(story)  # type: ignore[misc]
    assert outcome.state is OutcomeState.SKIPPED
    assert outcome.summary == "not begun: there is no reading of now (stale-data)"
    assert site.machine.ran == []


async def test_a_drain_is_not_proven_by_the_readings_of_another_machine(site: Site) -> None:
    """The address moves to an idle machine while a busy one is being drained."""
    machine = site.machine
    idle = machine.host
    machine.host = structs.replace(idle, frame=a_host(processes=[a_process()]).frame)
    proposal = await site.proposal()
    assert idle.frame is not None
    facts = structs.replace(idle.frame.facts, machine_id="another")
    stranger = structs.replace(idle, frame=structs.replace(idle.frame, facts=facts))

    def moved(progress: Progress) -> None:
        if progress.step == "host.empty":
            machine.host = stranger

    [outcome] = await site.acts.carry_out(proposal, typed="gpu-01", listen=moved)  # type: ignore[misc]
    assert outcome.state is OutcomeState.FAILED
    assert "another machine answers under this name now" in outcome.summary


async def test_a_process_cannot_speak_to_everybody_by_its_name(site: Site) -> None:
    process = a_process(name="python\nall:go home")
    host = a_host(processes=[process])
    scheduler = MarkerScheduler({host.name: host.spec}, site.machine, site.clock)
    node = (await scheduler.observe([host]))[host.name]
    steps = scheduler.drain_steps(node, a_request())
    assert isinstance(steps, tuple)
    [told] = [step.call.stdin for step in steps if step.goal is Goal.TOLD and isinstance(step.call, RunOn)]
    assert "python all:go home (pid 4242, GPU 0)" in told
    assert [line for line in told.splitlines() if line.startswith("all:go")] == []
