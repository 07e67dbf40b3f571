"""Acts against a real Slurm: three nodes with eight GPUs each."""

from __future__ import annotations

import getpass
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.domain.action import ActionKind, Block, CheckState, Goal, Step
from gputop.domain.backend import Slurm
from gputop.domain.call import Watch
from gputop.domain.clock import SystemClock
from gputop.domain.host import HostSpec
from gputop.domain.job import AdminState, NodeState
from gputop.domain.problem import ProblemKind
from gputop.ports import CanCancelJobs, CanCordon, CanDrain, CanGlance, CanRebootNode, CanRequeueJobs, CanResume
from gputop.schedulers.slurm import SlurmScheduler
from gputop.transport.runner import ProgramRunner
from gputop.transport.ssh import SshTransport
from tests.needs import need, need_that
from tests.services.acting import InEnvironment, a_host, a_request, take, take_all, until
from tests.services.slurm import TREES, SlurmCluster
from tests.ssh.fleet import Fleet, new_folder

pytestmark = pytest.mark.timeout(90)


@pytest.fixture(scope="module", params=TREES, ids=lambda tree: "tree" if tree else "installed")
def running(request: pytest.FixtureRequest) -> Iterator[SlurmCluster]:
    for program in ("munged", "slurmctld", "slurmd", "scontrol"):
        need(program)
    folder = Path(tempfile.mkdtemp(prefix="gputop-slurm-"))
    cluster = SlurmCluster(folder, 3, request.param)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def cluster(running: SlurmCluster) -> Iterator[SlurmCluster]:
    yield running
    if "slurmctld" not in running.processes:
        running.start_controller()
    running.reset()


def scheduler(cluster: SlurmCluster, **variables: str) -> SlurmScheduler:
    environment = {"SLURM_CONF": str(cluster.conf), "PATH": cluster.environment["PATH"], **variables}
    return SlurmScheduler(Slurm(), InEnvironment(environment), SystemClock())


async def look(slurm: SlurmScheduler, name: str = "gpu01") -> NodeState:
    return (await slurm.observe([a_host(name)]))[name]


def steps_of(found: tuple[Step, ...] | Block) -> tuple[Step, ...]:
    assert not isinstance(found, Block), found
    return found


async def test_slurm_can_do_all_that_schedulers_can(cluster: SlurmCluster) -> None:
    slurm = scheduler(cluster)
    for capability in (CanCordon, CanDrain, CanResume, CanCancelJobs, CanRequeueJobs, CanRebootNode):
        assert isinstance(slurm, capability), capability


async def test_nodes_are_found_by_name_and_by_address_and_never_guessed(cluster: SlurmCluster) -> None:
    slurm = scheduler(cluster)
    hosts = [a_host("gpu01"), a_host("box", address="127.0.1.2"), a_host("gpu0"), a_host("local", address="127.0.0.1")]
    states = await slurm.observe(hosts)
    assert [states[name].node for name in ("gpu01", "box")] == ["gpu01", "gpu02"]
    assert [states[name].block is not None and states[name].block.kind for name in ("gpu0", "local")] == [
        "node-not-found",
        "node-not-found",
    ]
    assert states["gpu01"].admin is AdminState.SCHEDULABLE
    assert not states["gpu01"].controller
    shared = await slurm.observe([a_host("gpu01"), a_host("twin", address="127.0.1.1")])
    assert {state.block.kind for state in shared.values() if state.block is not None} == {"node-ambiguous"}


async def test_a_glance_tells_who_takes_no_work_and_nothing_of_what_runs(cluster: SlurmCluster) -> None:
    slurm = scheduler(cluster)
    assert isinstance(slurm, CanGlance)
    cluster.submit("-N1", "-w", "gpu01", "--gres=gpu:1")
    cluster.submit("-N1", "-w", "gpu02", "--gres=gpu:1")
    drain = steps_of(slurm.cordon_steps(await look(slurm, "gpu02"), a_request(ActionKind.CORDON, "gpu02")))
    await take_all(slurm, "gpu02", drain)
    cluster.run("scontrol", "update", "nodename=gpu03", "state=drain", "reason=bad DIMM")
    hosts = [a_host("gpu01"), a_host("box", address="127.0.1.2"), a_host("gpu03"), a_host("gpu0")]
    found = await slurm.glance(hosts)
    assert {name: (node.admin, node.cordoned, node.jobs) for name, node in found.items()} == {
        "gpu01": (AdminState.SCHEDULABLE, False, ()),
        "box": (AdminState.DRAINING, True, ()),
        "gpu03": (AdminState.DRAINED, True, ()),
        "gpu0": (AdminState.UNKNOWN, None, ()),
    }
    assert (found["box"].by, found["box"].reason) == ("alice", "gputop:alice:OPS-7: replace NIC, OPS-7")
    assert (found["gpu03"].by, found["gpu03"].reason) == (getpass.getuser(), "bad DIMM")
    assert found["gpu03"].since is not None
    assert found["gpu0"].block is not None
    assert found["gpu0"].block.kind == "node-not-found"
    full = await slurm.observe(hosts)
    for name, node in found.items():
        assert (node.node, node.raw, node.cordoned) == (full[name].node, full[name].raw, full[name].cordoned)


async def test_a_glance_asks_once_for_any_number_of_hosts_and_never_of_jobs(cluster: SlurmCluster) -> None:
    runner = InEnvironment({"SLURM_CONF": str(cluster.conf), "PATH": cluster.environment["PATH"]})
    slurm = SlurmScheduler(Slurm(), runner, SystemClock())
    await slurm.glance([a_host("gpu01")])
    runner.calls.clear()
    await slurm.glance([a_host(name) for name in cluster.names])
    assert [[word for word in argv if word in ("scontrol", "squeue")] for argv in runner.calls] == [["scontrol"]]


async def test_a_glance_of_a_slurm_that_does_not_answer_knows_nothing_and_says_why(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    slurm = scheduler(cluster)
    cluster.run("scontrol", "update", "nodename=gpu01", "state=drain", "reason=bad DIMM")
    cluster.stop_controller()
    (tmp_path / "env").symlink_to(need("env"))
    for asked, words in (
        (slurm, "slurmctld does not answer"),
        (scheduler(cluster, PATH=str(tmp_path)), "Slurm's programs are not on the PATH of this account"),
    ):
        node = (await asked.glance([a_host("gpu01")]))["gpu01"]
        assert node.block is not None
        assert words in node.block.summary
        assert (node.block.kind, node.admin, node.cordoned) == ("no-answer", AdminState.UNKNOWN, None)
    cluster.start_controller()
    assert (await slurm.glance([a_host("gpu01")]))["gpu01"].admin is AdminState.DRAINED


async def test_a_node_of_a_running_multi_node_job_drains_when_the_job_has_ended_and_resumes(
    cluster: SlurmCluster,
) -> None:
    job = cluster.submit("-N2", "-w", "gpu01,gpu02", "--gres=gpu:h100:4", "-t", "60")
    slurm = scheduler(cluster)
    node = await look(slurm)
    assert [(one.id, one.gpus, len(one.nodes)) for one in node.jobs] == [(job, 4, 2)]
    assert node.jobs[0].ends_at is not None
    drain, empty = steps_of(slurm.drain_steps(node, a_request(ActionKind.DRAIN, "gpu01")))
    performed, cordoned = await take(slurm, "gpu01", drain)
    assert performed is not None
    assert performed.ok
    assert cordoned.state is CheckState.DONE
    assert "Reason=gputop:alice:OPS-7: replace NIC, OPS-7 [" in cluster.node("gpu01")

    waiting = await slurm.check("gpu01", empty)
    assert waiting.state is CheckState.NOT_DONE
    assert len(waiting.left) == 1
    assert waiting.left[0].startswith(f"job {job} of ")
    assert " left, 2 nodes" in waiting.left[0]
    draining = await look(slurm)
    assert (draining.admin, draining.by, draining.cordoned) == (AdminState.DRAINING, "alice", True)

    cluster.run("scancel", job)
    assert (await until(slurm, "gpu01", empty)).state is CheckState.DONE
    drained = await look(slurm)
    assert (drained.admin, drained.raw) == (AdminState.DRAINED, "IDLE+DRAIN")

    resume = steps_of(slurm.resume_steps(drained, a_request(ActionKind.RESUME, "gpu01")))
    assert [check.state for check in await take_all(slurm, "gpu01", resume)] == [CheckState.DONE]
    assert (await look(slurm)).admin is AdminState.SCHEDULABLE


async def test_draining_twice_calls_once_and_undoing_it_spares_what_was_so_before(cluster: SlurmCluster) -> None:
    slurm = scheduler(cluster)
    request = a_request(ActionKind.DRAIN, "gpu01")
    drain = steps_of(slurm.drain_steps(await look(slurm), request))[0]
    assert (await take(slurm, "gpu01", drain))[0] is not None
    assert (await take(slurm, "gpu01", drain))[0] is None
    again = steps_of(slurm.drain_steps(await look(slurm), request))[0]
    assert (again.undo, again.why_no_undo) == (None, "it was drained before")
    assert drain.undo is not None
    performed, check = await take(slurm, "gpu01", drain.undo)
    assert performed is not None
    assert check.state is CheckState.DONE
    assert (await look(slurm)).cordoned is False


async def test_a_node_drained_by_somebody_else_is_not_resumed_before_that_was_agreed_to(cluster: SlurmCluster) -> None:
    cluster.run("scontrol", "update", "nodename=gpu02", "state=drain", "reason=bad DIMM [slot 3] Xid=79")
    slurm = scheduler(cluster)
    node = await look(slurm, "gpu02")
    assert node.reason == "bad DIMM [slot 3] Xid=79"
    request = a_request(ActionKind.RESUME, "gpu02")
    block = slurm.resume_steps(node, request)
    assert isinstance(block, Block)
    assert (block.kind, block.consent) == ("drained-by-other", "drained-by-other")
    assert node.by is not None
    assert block.summary.startswith(f"taken out of service by {node.by} at 20")
    assert block.summary.endswith(": bad DIMM [slot 3] Xid=79")
    for agreed in ({"override": "bob said so"}, {"consents": frozenset({"drained-by-other"})}):
        steps = steps_of(slurm.resume_steps(node, a_request(ActionKind.RESUME, "gpu02", **agreed)))
    cluster.run("scontrol", "update", "nodename=gpu02", "reason=fire")
    assert (await slurm.check("gpu02", steps[0])).state is CheckState.BLOCKED  # it is another drain now


async def test_a_node_that_was_resumed_meanwhile_ends_the_wait(cluster: SlurmCluster) -> None:
    slurm = scheduler(cluster)
    cluster.submit("-N1", "-w", "gpu01", "--gres=gpu:1")
    drain, empty = steps_of(slurm.drain_steps(await look(slurm), a_request(ActionKind.DRAIN, "gpu01")))
    await take(slurm, "gpu01", drain)
    cluster.run("scontrol", "update", "nodename=gpu01", "state=resume")
    check = await slurm.check("gpu01", empty)
    assert check.state is CheckState.BLOCKED
    assert "it takes new jobs" in check.summary


async def test_jobs_are_cancelled_and_put_back_by_acts_of_their_own(cluster: SlurmCluster) -> None:
    slurm = scheduler(cluster)
    doomed = cluster.submit("-N1", "-w", "gpu01", "--gres=gpu:1")
    kept = cluster.submit("-N1", "-w", "gpu01", "--gres=gpu:1", "--requeue")
    fixed = cluster.submit("-N1", "-w", "gpu01", "--gres=gpu:1", "--no-requeue")
    elsewhere = cluster.submit("-N1", "-w", "gpu02", "--gres=gpu:1")
    node = await look(slurm)
    cancel = steps_of(slurm.cancel_steps(node, a_request(ActionKind.CANCEL, "gpu01", jobs=(doomed,))))
    assert [step.command for step in cancel] == [f"scancel {doomed}"]
    assert [check.state for check in await take_all(slurm, "gpu01", cancel)] == [CheckState.DONE]
    assert cluster.state_of_job(kept) == "RUNNING"

    await take(slurm, "gpu01", steps_of(slurm.drain_steps(node, a_request(ActionKind.DRAIN, "gpu01")))[0])
    requeue = steps_of(slurm.requeue_steps(node, a_request(ActionKind.REQUEUE, "gpu01", jobs=(kept,))))
    assert [(step.command, step.repeatable) for step in requeue] == [(f"scontrol requeue {kept}", False)]
    assert [check.state for check in await take_all(slurm, "gpu01", requeue)] == [CheckState.DONE]
    assert cluster.state_of_job(kept) != "RUNNING"

    for steps, kind in (
        (slurm.requeue_steps(node, a_request(ActionKind.REQUEUE, "gpu01", jobs=(fixed,))), "not-requeueable"),
        (slurm.cancel_steps(node, a_request(ActionKind.CANCEL, "gpu01", jobs=(elsewhere,))), "no-such-job"),
        (slurm.cancel_steps(node, a_request(ActionKind.CANCEL, "gpu01")), "no-such-job"),
    ):
        assert isinstance(steps, Block)
        assert steps.kind == kind


async def test_one_task_of_an_array_is_canceled_or_put_back_and_never_the_whole_array(cluster: SlurmCluster) -> None:
    """The last task that starts has the number of the array."""
    options = ("-N1", "--exclusive", "--array=1-3", "--wrap", "sleep 600")
    array = cluster.run("sbatch", "--parsable", "-o", "/dev/null", *options).strip()

    def states() -> dict[str, str]:
        return dict(line.split() for line in cluster.run("squeue", "-h", "-r", "-o", "%i %T").splitlines())

    cluster.until(lambda: list(states().values()) == ["RUNNING"] * 3, "the array")
    numbers = dict(line.split()[:2] for line in cluster.run("squeue", "-h", "-o", "%A %N").splitlines())
    slurm = scheduler(cluster)
    name = numbers[array]
    node = await look(slurm, name)
    assert [(job.id, job.handle) for job in node.jobs] == [(array, f"{array}_3")]
    for words in (array, f"{array}_3"):
        cancel = steps_of(slurm.cancel_steps(node, a_request(ActionKind.CANCEL, name, jobs=(words,))))
        assert [step.command for step in cancel] == [f"scancel {array}_3"]
    requeue = steps_of(slurm.requeue_steps(node, a_request(ActionKind.REQUEUE, name, jobs=(array,))))
    assert [check.state for check in await take_all(slurm, name, cancel)] == [CheckState.DONE]
    assert states() == {f"{array}_1": "RUNNING", f"{array}_2": "RUNNING"}
    assert requeue[0].command == f"scontrol requeue {array}_3"
    other = next(node for number, node in numbers.items() if number != array)
    node = await look(slurm, other)
    requeue = steps_of(slurm.requeue_steps(node, a_request(ActionKind.REQUEUE, other, jobs=(node.jobs[0].handle,))))
    assert [check.state for check in await take_all(slurm, other, requeue)] == [CheckState.DONE]
    assert sorted(states()) == [f"{array}_1", f"{array}_2"]
    assert list(states().values()).count("RUNNING") == 1


async def test_a_part_of_a_heterogeneous_job_is_named_and_not_put_back_alone(cluster: SlurmCluster) -> None:
    words = ("-N1", "-w", "gpu01", ":", "-N1", "-w", "gpu02", "--wrap", "sleep 600")
    whole = cluster.run("sbatch", "--parsable", "-o", "/dev/null", *words).strip()
    cluster.until(lambda: cluster.run("squeue", "-h", "-o", "%T").split() == ["RUNNING"] * 2, "its parts")
    slurm = scheduler(cluster)
    for name, part in (("gpu01", f"{whole}+0"), ("gpu02", f"{whole}+1")):
        node = await look(slurm, name)
        assert [job.handle for job in node.jobs] == [part]
        block = slurm.requeue_steps(node, a_request(ActionKind.REQUEUE, name, jobs=(part,)))
        assert isinstance(block, Block)
        cancel = steps_of(slurm.cancel_steps(node, a_request(ActionKind.CANCEL, name, jobs=(part,))))
        assert cancel[0].title.endswith("all its other parts") is (name == "gpu01"), "Slurm ends them with the first"
        assert block.summary == f"part of a heterogeneous job, which starts anew as a whole: job {part}"
    cancel = steps_of(slurm.cancel_steps(node, a_request(ActionKind.CANCEL, "gpu02", jobs=(f"{whole}+1",))))
    assert [check.state for check in await take_all(slurm, "gpu02", cancel)] == [CheckState.DONE]
    assert cluster.run("squeue", "-h", "-o", "%i %T").split() == [f"{whole}+0", "RUNNING"]


async def test_a_reboot_waits_behind_a_running_job_and_the_node_comes_back_in_service(cluster: SlurmCluster) -> None:
    job = cluster.submit("-N1", "-w", "gpu01", "--gres=gpu:8")
    slurm = scheduler(cluster)
    reboot, issued = steps_of(slurm.reboot_steps(await look(slurm), a_request(ActionKind.REBOOT, "gpu01")))
    assert (
        reboot.command == "scontrol reboot asap nextstate=resume 'reason=gputop:alice:OPS-7: replace NIC, OPS-7' gpu01"
    )
    performed, asked = await take(slurm, "gpu01", reboot)
    assert performed is not None
    assert asked.state is CheckState.DONE
    assert (await take(slurm, "gpu01", reboot))[0] is None  # never asked twice
    waiting = await slurm.check("gpu01", issued)
    assert (waiting.state, waiting.left[0][: len(job) + 5]) == (CheckState.NOT_DONE, f"job {job} ")
    assert cluster.state_of_job(job) == "RUNNING"
    cluster.run("scancel", job)
    assert (await until(slurm, "gpu01", issued)).state is CheckState.DONE
    back = Step(
        id="back", actor="scheduler", title="", call=Watch(what=""), goal=Goal.SCHEDULABLE, wanted={"node": "gpu01"}
    )
    assert (await until(slurm, "gpu01", back)).state is CheckState.DONE
    after = await look(slurm)
    assert after.booted_at is not None
    assert after.booted_at.isoformat() > reboot.before["booted_at"]


async def test_a_reboot_can_be_called_off_while_it_waits(cluster: SlurmCluster) -> None:
    cluster.submit("-N1", "-w", "gpu01", "--gres=gpu:8")
    slurm = scheduler(cluster)
    reboot, issued = steps_of(slurm.reboot_steps(await look(slurm), a_request(ActionKind.REBOOT, "gpu01")))
    await take(slurm, "gpu01", reboot)
    assert reboot.undo is not None
    assert (await take(slurm, "gpu01", reboot.undo))[1].state is CheckState.DONE
    check = await slurm.check("gpu01", issued)
    assert check.state is CheckState.BLOCKED
    assert "no longer means to reboot" in check.summary


async def test_a_drained_node_is_still_drained_after_its_reboot(cluster: SlurmCluster) -> None:
    slurm = scheduler(cluster)
    drain = steps_of(slurm.cordon_steps(await look(slurm, "gpu03"), a_request(ActionKind.CORDON, "gpu03")))
    await take_all(slurm, "gpu03", drain)
    steps = steps_of(slurm.reboot_steps(await look(slurm, "gpu03"), a_request(ActionKind.REBOOT, "gpu03")))
    assert steps[0].command == "scontrol reboot gpu03"
    assert [check.state for check in await take_all(slurm, "gpu03", steps)] == [CheckState.DONE, CheckState.DONE]
    booted = steps[1]
    cluster.run("scontrol", "ping")
    assert (await until(slurm, "gpu03", booted)).state is CheckState.DONE
    node = await look(slurm, "gpu03")
    assert node.cordoned
    assert node.by == "alice"


async def test_a_reboot_of_a_node_whose_boot_time_slurm_does_not_know_is_left_to_the_proof_by_its_boot_id(
    cluster: SlurmCluster,
) -> None:
    cluster.run("scontrol", "update", "nodename=gpu03", "state=down", "reason=test")
    cluster.run("scontrol", "update", "nodename=gpu03", "state=resume")
    slurm = scheduler(cluster)
    node = await look(slurm, "gpu03")
    assert node.booted_at is None, "Slurm knows it already"
    reboot, issued = steps_of(slurm.reboot_steps(node, a_request(ActionKind.REBOOT, "gpu03")))
    assert (await slurm.check("gpu03", reboot)).state is CheckState.NOT_DONE
    _, check = await take(slurm, "gpu03", reboot)
    assert check.state is CheckState.DONE
    cluster.until(lambda: "State=IDLE " in cluster.node("gpu03"), "the node did not come back")
    check = await slurm.check("gpu03", issued)
    assert check.state is CheckState.DONE
    assert check.summary == "Slurm does not tell whether it has booted (IDLE): its boot id does"


async def test_a_refused_permission_is_told_apart_and_changes_nothing(cluster: SlurmCluster) -> None:
    need_that(os.geteuid() == 0 and shutil.which("runuser"), "needs root: another account must be refused")
    folder = cluster.as_user("nobody")
    slurm = scheduler(cluster, PATH=f"{folder}:{cluster.environment['PATH']}")
    job = cluster.submit("-N1", "-w", "gpu01", "--gres=gpu:1")
    node = await look(slurm)
    steps = [
        steps_of(slurm.drain_steps(node, a_request(ActionKind.DRAIN, "gpu01")))[0],
        steps_of(slurm.cancel_steps(node, a_request(ActionKind.CANCEL, "gpu01", jobs=(job,))))[0],
        steps_of(slurm.requeue_steps(node, a_request(ActionKind.REQUEUE, "gpu01", jobs=(job,))))[0],
        steps_of(slurm.reboot_steps(node, a_request(ActionKind.REBOOT, "gpu01")))[0],
    ]
    for step in steps:
        performed = await slurm.perform("gpu01", step)
        assert not performed.ok
        assert performed.problem is not None
        assert performed.problem.kind is ProblemKind.PERMISSION, step.id
        assert (await slurm.check("gpu01", step)).state is CheckState.NOT_DONE, step.id
    assert (await look(slurm)).raw == "MIXED"


async def test_a_controller_that_dies_in_the_middle_leaves_unknown_and_never_done(cluster: SlurmCluster) -> None:
    slurm = scheduler(cluster)
    drain, empty = steps_of(slurm.drain_steps(await look(slurm), a_request(ActionKind.DRAIN, "gpu01")))
    await take(slurm, "gpu01", drain)
    assert (await slurm.check("gpu01", empty)).state is CheckState.DONE
    cluster.stop_controller()
    check = await slurm.check("gpu01", empty)
    assert (check.state, check.summary) == (CheckState.UNKNOWN, "slurmctld does not answer")
    performed = await slurm.perform("gpu01", drain)
    assert not performed.ok
    assert performed.problem is not None
    assert performed.problem.kind is ProblemKind.CONNECTION_REFUSED
    node = await look(slurm)
    assert node.block is not None
    assert (node.block.kind, node.admin) == ("no-answer", AdminState.UNKNOWN)
    cluster.start_controller()
    assert (await until(slurm, "gpu01", empty)).state is CheckState.DONE  # another process could go on here


async def test_slurm_is_reached_over_ssh_on_the_host_that_the_inventory_names(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    need("sshd")
    if cluster.tree:
        pytest.skip("another account cannot enter the tree")
    fleet = Fleet(new_folder())
    try:
        login = fleet.add("login-1", environment=f"SLURM_CONF={cluster.conf}")
        spec = HostSpec(
            name="login-1",
            address="127.0.0.1",
            port=login.port,
            user=login.user,
            identity=(str(fleet.key),),
            known_hosts=(str(fleet.known_hosts),),
            ssh_config=(),
        )
        transport = SshTransport([spec], clock=SystemClock(), own_known_hosts=tmp_path / "own")
        runner = ProgramRunner({"login-1": transport}, [spec])
        try:
            slurm = SlurmScheduler(Slurm(via="login-1"), runner, SystemClock())
            node = await look(slurm)
            assert node.admin is AdminState.SCHEDULABLE, node.block
            drain = steps_of(slurm.drain_steps(node, a_request(ActionKind.DRAIN, "gpu01")))[0]
            assert drain.command.startswith("login-1: scontrol update nodename=gpu01 state=drain 'reason=gputop:alice:")
            performed, check = await take(slurm, "gpu01", drain, 5)
            assert performed is not None
            if login.user == "ops":  # an account that is no operator of this Slurm
                assert performed.problem is not None
                assert performed.problem.kind is ProblemKind.PERMISSION
                assert check.state is CheckState.NOT_DONE
            else:
                assert check.state is CheckState.DONE
        finally:
            await runner.close()
            await transport.close()
    finally:
        fleet.stop()
        shutil.rmtree(fleet.folder, ignore_errors=True)


async def test_names_that_users_choose_change_nothing_that_is_read(cluster: SlurmCluster) -> None:
    evil = "x|9|RUNNING|root State=IDLE UserId=root(0)"
    job = cluster.submit("-N1", "-w", "gpu01", "--gres=gpu:2", "-J", evil)
    slurm = scheduler(cluster)
    slurm._no_json.add("squeue")  # as text, where it could matter
    text = (await look(slurm)).jobs
    json = (await look(scheduler(cluster))).jobs
    assert [(one.id, one.name, one.state, one.gpus) for one in text] == [(job, evil, "RUNNING", 2)]
    assert [(one.id, one.name, one.state, one.gpus) for one in json] == [(job, evil, "RUNNING", 2)]
