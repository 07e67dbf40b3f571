"""The Slurm scheduler without Slurm: what it makes of odd answers. Real ones: tests/services/test_slurm.py."""

from __future__ import annotations

import pytest

from gputop.domain.action import ActionKind, ActionRequest, Block, CheckState, Goal, Step
from gputop.domain.backend import Slurm
from gputop.domain.call import CommandResult, RunOn, Watch
from gputop.domain.host import Host, HostSpec
from gputop.domain.job import AdminState, NodeState
from gputop.domain.problem import Problem, ProblemKind
from gputop.schedulers.slurm import SlurmScheduler
from tests.fakes.builders import a_link
from tests.fakes.clock import ManualClock
from tests.unit.schedulers.programs import LOST, SILENT, Programs, said

NO_JSON = said(stderr="scontrol: unrecognized option '--json'", exit_status=1)
CONFIG = said("SlurmctldHost[0] = ctl(10.0.0.9)\n")
NODE = "NodeName=gpu01 NodeAddr=10.0.0.1 NodeHostName=gpu01 Gres=gpu:8 GresUsed=gpu:{used} State={state} {more}"


def node(state: str, used: int = 0, more: str = "") -> CommandResult:
    return said(NODE.format(state=state, used=used, more=more))


def programs(nodes: CommandResult, jobs: CommandResult | None = None) -> Programs:
    return Programs(
        ("show config", CONFIG),
        ("--json", NO_JSON),
        ("show node", nodes),
        ("squeue", jobs if jobs is not None else said()),
    )


def scheduler(runner: Programs, **spec: object) -> SlurmScheduler:
    return SlurmScheduler(Slurm(**spec), runner, ManualClock())  # type: ignore[arg-type]


def a_host(name: str = "gpu01", **fields: object) -> Host:
    return Host(spec=HostSpec(name=name, **fields), link=a_link(), reported=a_link())  # type: ignore[arg-type]


async def look(slurm: SlurmScheduler, name: str = "gpu01", **fields: object) -> NodeState:
    return (await slurm.observe([a_host(name, **fields)]))[name]


def step(goal: Goal, **fields: dict[str, str]) -> Step:
    wanted = {"node": "gpu01", **fields.pop("wanted", {})}
    return Step(id="x", actor="scheduler", title="", call=Watch(what=""), goal=goal, wanted=wanted, **fields)


def request(kind: ActionKind = ActionKind.DRAIN, **fields: object) -> ActionRequest:
    return ActionRequest(kind=kind, hosts=("gpu01",), **{"by": "alice", "reason": "NIC", **fields})  # type: ignore[arg-type]


async def test_everything_runs_over_ssh_where_the_inventory_says_and_changes_behind_sudo() -> None:
    runner = programs(node("IDLE"))
    slurm = scheduler(runner, via="login-1", sudo=True)
    steps = slurm.drain_steps(await look(slurm), request())
    assert not isinstance(steps, Block)
    call = steps[0].call
    assert isinstance(call, RunOn)
    assert (call.host, call.sudo, call.argv[:4]) == (
        "login-1",
        True,
        ("scontrol", "update", "nodename=gpu01", "state=drain"),
    )
    for read in runner.calls:
        assert isinstance(read, RunOn)
        assert (read.host, read.sudo) == ("login-1", False)
        assert "TZ=UTC" in read.argv


async def test_json_is_asked_for_once_and_never_again_where_it_is_not_known() -> None:
    runner = programs(node("IDLE"))
    slurm = scheduler(runner)
    for _ in range(3):
        await look(slurm)
    assert sum("--json" in call.argv for call in runner.calls) == 2, "one for scontrol, one for squeue"


@pytest.mark.parametrize("answer", [LOST, SILENT, said("", "", 0), said("x" * 9, truncated=True)])
async def test_what_could_not_be_read_is_unknown_never_done(answer: CommandResult) -> None:
    for runner in (programs(answer), programs(node("IDLE+DRAIN"), LOST)):
        slurm = scheduler(runner)
        for goal in (Goal.CORDONED, Goal.NO_WORK, Goal.SCHEDULABLE, Goal.REBOOT_REQUESTED):
            assert (await slurm.check("gpu01", step(goal))).state is CheckState.UNKNOWN
        state = await look(slurm)
        assert (state.block is not None, state.admin, state.cordoned) == (True, AdminState.UNKNOWN, None)
    jobs = step(Goal.JOBS_GONE, wanted={"job": "7"})
    assert (await scheduler(programs(node("IDLE"), LOST)).check("gpu01", jobs)).state is CheckState.UNKNOWN


async def test_jobs_that_slurm_hides_still_keep_a_node_from_being_empty() -> None:
    slurm = scheduler(programs(node("MIXED+DRAIN", used=4)))
    state = await look(slurm)
    assert [(job.id, job.user) for job in state.jobs] == [("?", None)]
    check = await slurm.check("gpu01", step(Goal.NO_WORK))
    assert (check.state, check.left) == (CheckState.NOT_DONE, ("a job that Slurm does not show",))
    block = slurm.cancel_steps(state, request(ActionKind.CANCEL, jobs=("?",)))
    assert isinstance(block, Block)


async def test_a_node_that_is_still_clearing_away_is_not_empty_and_a_failed_kill_is_told() -> None:
    check = await scheduler(programs(node("IDLE+COMPLETING+DRAIN"))).check("gpu01", step(Goal.NO_WORK))
    assert check.state is CheckState.NOT_DONE
    failed = node("IDLE+DRAIN", more="Reason=Kill task failed [root@2026-03-01T10:15:00]")
    check = await scheduler(programs(failed)).check("gpu01", step(Goal.NO_WORK))
    assert check.state is CheckState.DONE
    assert "look at the GPUs" in check.summary
    silent = await scheduler(programs(node("DOWN*+DRAIN"))).check("gpu01", step(Goal.NO_WORK))
    assert "does not respond" in silent.summary


async def test_a_suspended_job_keeps_a_node_from_being_empty() -> None:
    job = said("7|7|SUSPENDED|carol|train|gpu01|2026-01-02T03:00:00|2026-01-02T09:04:05|gres:gpu:4|x\n")
    check = await scheduler(programs(node("IDLE+DRAIN"), job)).check("gpu01", step(Goal.NO_WORK))
    assert (check.state, check.left) == (CheckState.NOT_DONE, ("job 7 of carol, 6 h 00 m left",))


async def test_the_machine_that_runs_slurmctld_is_known_as_such() -> None:
    slurm = scheduler(programs(node("IDLE")), node="gpu01")
    assert (await look(slurm, "ctl")).controller
    assert (await look(slurm, "x", address="10.0.0.9")).controller
    assert not (await look(slurm, "gpu01")).controller
    named = scheduler(programs(node("IDLE")), node="gpu01", controllers=("mgmt",))
    assert (await look(named, "mgmt")).controller
    local = Programs(
        ("show config", said("SlurmctldHost[0] = localhost")),
        ("--json", NO_JSON),
        ("show node", node("IDLE")),
        ("squeue", said()),
    )
    assert (await look(scheduler(local, node="gpu01", via="login-1"), "login-1")).controller


@pytest.mark.parametrize(
    ("stderr", "exit_status", "kind"),
    [
        ("slurm_update error: Invalid user id", 1, ProblemKind.PERMISSION),
        ("scontrol_reboot_nodes error: Permission denied", 1, ProblemKind.PERMISSION),
        ("scancel: error: Kill job error on job id 1: Access/permission denied", 210, ProblemKind.PERMISSION),
        ("sudo: a password is required", 1, ProblemKind.PERMISSION),
        ("slurm_update error: Unable to contact slurm controller (connect failure)", 1, ProblemKind.CONNECTION_REFUSED),
        ("env: 'scontrol': No such file or directory", 127, ProblemKind.TOOL_MISSING),
        ("slurm_update error: Invalid node name specified", 1, ProblemKind.TOOL_FAILED),
    ],
)
async def test_refusals_are_told_apart(stderr: str, exit_status: int, kind: ProblemKind) -> None:
    slurm = scheduler(programs(node("IDLE")))
    steps = slurm.cordon_steps(await look(slurm), request())
    assert not isinstance(steps, Block)
    refusing = scheduler(Programs(("scontrol", said("", stderr, exit_status))))
    performed = await refusing.perform("gpu01", steps[0])
    assert performed.problem is not None
    assert (performed.ok, performed.problem.kind) == (False, kind)


async def test_a_program_of_slurm_that_does_not_end_is_told_as_slurm_s_silence() -> None:
    late = CommandResult(lost=Problem(kind=ProblemKind.TIMED_OUT, summary="no end within 30 s"))
    found = await look(scheduler(Programs(("show", late), ("--json", late))))
    assert found.block is not None
    assert found.block.summary == "Slurm does not answer: no end within 30 s"


async def test_a_boot_time_that_only_trembles_is_no_reboot() -> None:
    before = {"booted_at": "2026-01-02T03:00:00+00:00"}
    for booted, state in (("2026-01-02T03:00:02", CheckState.BLOCKED), ("2026-01-02T03:04:00", CheckState.DONE)):
        slurm = scheduler(programs(node("IDLE", more=f"BootTime={booted}")))
        assert (await slurm.check("gpu01", step(Goal.REBOOT_ISSUED, before=before))).state is state


async def test_a_job_put_back_that_runs_anew_on_the_same_node_counts_as_put_back() -> None:
    line = "7|7|RUNNING|carol|train|gpu01|{}|NONE|gres:gpu:4|x\n"
    before = {"started_at": "2026-01-02T03:00:00+00:00"}
    goal = step(Goal.JOBS_REQUEUED, wanted={"job": "7"}, before=before)
    for started, state in (("2026-01-02T03:00:00", CheckState.NOT_DONE), ("2026-01-02T03:09:00", CheckState.DONE)):
        slurm = scheduler(programs(node("MIXED"), said(line.format(started))))
        assert (await slurm.check("gpu01", goal)).state is state
    gone = said(stderr="slurm_load_jobs error: Invalid job id specified", exit_status=1)
    check = await scheduler(programs(node("IDLE"), gone)).check("gpu01", goal)
    assert check.state is CheckState.BLOCKED
    assert "has ended" in check.summary


async def test_no_step_ever_ends_jobs_but_those_that_are_named_for_it() -> None:
    job = said("7|7|RUNNING|carol|train|gpu01|2026-01-02T03:00:00|NONE|gres:gpu:4|x\n")
    slurm = scheduler(programs(node("MIXED"), job))
    state = await look(slurm)
    for found in (
        slurm.cordon_steps(state, request()),
        slurm.drain_steps(state, request()),
        slurm.resume_steps(state, request()),
        slurm.reboot_steps(state, request()),
    ):
        assert not isinstance(found, Block)
        commands = " ".join(one.command for one in found).lower()
        for word in ("scancel", "requeue", "state=down", "force", " now", "nodename=all"):
            assert word not in commands


async def test_a_program_that_is_late_is_not_asked_again_as_text() -> None:
    runner = Programs(("show config", CONFIG), ("--json", said(exit_status=124)))
    slurm = scheduler(runner, via="login-1")
    for _ in range(2):
        state = await look(slurm)
        assert state.block is not None
        assert state.block.summary == "Slurm does not answer: was ended at its deadline"
    assert not [call for call in runner.calls if "-o" in call.argv]


async def test_no_variable_of_a_person_s_shell_hides_a_job() -> None:
    runner = programs(node("IDLE"))
    await look(scheduler(runner))
    squeue = next(call.argv for call in runner.calls if "squeue" in call.argv)
    for name in ("SQUEUE_LICENSES", "SQUEUE_PARTITION", "SQUEUE_STATES", "SQUEUE_USERS"):
        assert squeue[squeue.index(name) - 1] == "-u"


async def test_jobs_that_slurm_hides_beside_one_s_own_are_known_by_the_gpus_they_hold() -> None:
    job = said("7|7|RUNNING|carol|train|gpu01|2026-01-02T03:00:00|NONE|gres:gpu:2|x\n")
    assert [one.id for one in (await look(scheduler(programs(node("MIXED", used=2), job)))).jobs] == ["7"]
    assert [one.id for one in (await look(scheduler(programs(node("MIXED", used=6), job)))).jobs] == ["7", "?"]
    check = await scheduler(programs(node("MIXED+DRAIN", used=6), job)).check("gpu01", step(Goal.NO_WORK))
    assert check.left == ("job 7 of carol, no time limit", "a job that Slurm does not show")


async def test_a_glance_says_nothing_of_jobs() -> None:
    runner = Programs(("--json", NO_JSON), ("show node", node("MIXED+DRAIN", used=4)))
    state = (await scheduler(runner).glance([a_host()]))["gpu01"]
    assert (state.admin, state.jobs, state.block) == (AdminState.DRAINING, (), None)


@pytest.mark.parametrize(
    ("state", "then", "summary"),
    [
        ("IDLE", CheckState.DONE, "it takes jobs (IDLE)"),
        ("IDLE+MAINTENANCE+RESERVED", CheckState.DONE, "it takes jobs of its reservation (IDLE+MAINTENANCE+RESERVED)"),
        ("IDLE+NOT_RESPONDING", CheckState.NOT_DONE, "it is IDLE+NOT_RESPONDING"),
        ("IDLE+DRAIN+INVALID_REG", CheckState.NOT_DONE, "it is IDLE+DRAIN+INVALID_REG"),
        ("DOWN", CheckState.NOT_DONE, "it is DOWN"),
    ],
)
async def test_a_node_that_is_back_takes_jobs_and_what_else_it_is_is_told(
    state: str, then: CheckState, summary: str
) -> None:
    check = await scheduler(programs(node(state))).check("gpu01", step(Goal.SCHEDULABLE))
    assert (check.state, check.summary) == (then, summary)
