"""The whole of gputop against a real Slurm and real machines: drain under a multi-node job, and resume."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acts.conftest import Background, Gputop
from tests.acts.machines import Machine, Machines
from tests.acts.steps import DO, REASON, wait_for
from tests.needs import need, need_that
from tests.services.slurm import TREES, SlurmCluster

pytestmark = pytest.mark.timeout(150)

POLICY = "  policy: {idle_samples: 2, idle_interval: 200ms, drain_deadline: 60s, max_percent: 100}\n"


@pytest.fixture(scope="module", params=TREES, ids=lambda tree: "tree" if tree else "installed")
def running(request: pytest.FixtureRequest) -> Iterator[SlurmCluster]:
    for program in ("munged", "slurmctld", "slurmd", "scontrol"):
        need(program)
    folder = Path(tempfile.mkdtemp(prefix="gputop-slurm-"))
    cluster = SlurmCluster(folder, 2, request.param)
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


class Site:
    """One machine, which is a node of the cluster."""

    def __init__(self, cluster: SlurmCluster, machines: Machines, machine: Machine, node: str, gputop: Gputop) -> None:
        self.cluster, self.machine, self.node, self._gputop = cluster, machine, node, gputop
        machine.wait_until_up()
        machine.devices(gpu__0__compute="")
        self.environment = {"SLURM_CONF": str(cluster.conf), "PATH": cluster.environment["PATH"]}
        defaults = f"  scheduler: {{kind: slurm, node: {node}}}\n  power: ssh\n{POLICY}"
        self.inventory = machines.inventory(names=(machine.name,), defaults=defaults)

    def argv(self, act: str, *more: str) -> tuple[str | Path, ...]:
        return (act, "-f", self.inventory, self.machine.name, *DO, *more)

    def run(self, act: str, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self._gputop(*self.argv(act, *more), seconds=120, **{**self.environment, **environment})


@pytest.fixture(scope="module")
def machine(machines: Machines) -> Machine:
    return machines.add("slurm-node")


@pytest.fixture
def site(cluster: SlurmCluster, machines: Machines, machine: Machine, gputop: Gputop) -> Site:
    return Site(cluster, machines, machine, "gpu01", gputop)


def test_a_reboot_waits_behind_a_job_and_is_proven_by_the_machine_itself(
    site: Site, gputop_in_background: Background
) -> None:
    folder = site.machine.folder
    site.cluster.on_reboot(site.node, f'pkill -TERM -f -- "-f {folder}/sshd_config"')
    job = site.cluster.submit("-N1", "-w", site.node, "--gres=gpu:8")
    boot, downs = site.machine.boot_id, site.machine.downs
    plan = site.run("reboot", *REASON, "--dry-run").stdout
    assert "scontrol reboot asap nextstate=resume 'reason=gputop:" in plan
    reboot = gputop_in_background(*site.argv("reboot", *REASON), **site.environment)
    wait_for(lambda: "REBOOT" in site.cluster.node(site.node), "Slurm was not asked for a reboot")
    assert site.cluster.state_of_job(job) == "RUNNING"
    assert site.machine.downs == downs
    site.cluster.run("scancel", job)
    said, _ = reboot.communicate(timeout=120)
    assert reboot.returncode == 0, said
    assert "verified" in said
    assert site.machine.boot_id != boot
    assert site.machine.downs == downs + 1
    wait_for(lambda: "State=IDLE " in site.cluster.node(site.node), "the node did not come back into service")


def test_a_job_is_canceled_and_another_put_back_while_a_drain_waits_for_them(
    site: Site, gputop_in_background: Background
) -> None:
    doomed = site.cluster.submit("-N1", "-w", site.node, "--gres=gpu:1")
    kept = site.cluster.submit("-N1", "-w", site.node, "--gres=gpu:1", "--requeue")
    drain = gputop_in_background(*site.argv("drain", *REASON), **site.environment)
    wait_for(lambda: "DRAIN" in site.cluster.node(site.node), "Slurm never heard of the drain")
    silent = site.run("cancel", "--job", doomed)
    assert silent.returncode == 2, "work is lost: why must be said"
    assert site.cluster.state_of_job(doomed) == "RUNNING"
    assert site.run("cancel", "--job", doomed, "--reason", "hangs").returncode == 0
    assert site.cluster.state_of_job(doomed) == ""
    assert site.cluster.state_of_job(kept) == "RUNNING", "each is an act of its own"
    requeued = site.run("requeue", "--job", kept)
    assert requeued.returncode == 0, requeued.stderr + requeued.stdout
    said, _ = drain.communicate(timeout=60)
    assert drain.returncode == 0, said
    assert site.cluster.state_of_job(kept) != "RUNNING" or site.node not in site.cluster.run("squeue", "-h", "-o", "%N")


def test_what_kill_task_failed_left_is_found_on_the_gpu(site: Site) -> None:
    left = site.machine.spawn()
    site.machine.devices(gpu__0__compute=f"{left}:2000")
    site.cluster.run("scontrol", "update", f"nodename={site.node}", "state=drain", "reason=Kill task failed")
    ran = site.run("drain", *REASON, "--deadline", "3s")
    assert ran.returncode == 1
    assert f"left: GPU 0: sleep (pid {left}) of ops" in ran.stdout
    site.machine.run(f"kill {left}")
    site.machine.devices(gpu__0__compute="")
    again = site.run("drain", *REASON)
    assert again.returncode == 0, again.stderr + again.stdout
    assert "Kill task failed): look at the GPUs" in again.stderr
    refused = site.run("resume")
    assert refused.returncode == 4
    assert "Kill task failed" in refused.stderr


def test_a_controller_that_goes_away_in_the_middle_is_waited_for_and_nothing_is_claimed_meanwhile(
    site: Site, gputop_in_background: Background, tmp_path: Path
) -> None:
    job = site.cluster.submit("-N1", "-w", site.node, "--gres=gpu:8")
    said = tmp_path / "said"
    argv = [sys.executable, "-m", "gputop", *map(str, site.argv("drain", *REASON))]
    with said.open("w") as file:
        drain = subprocess.Popen(
            argv, stdout=file, stderr=file,
            env={**os.environ, **site.environment, "XDG_STATE_HOME": str(tmp_path / "state")},
        )  # fmt: skip
    try:
        wait_for(lambda: f"job {job} of" in said.read_text(), "the job was not waited for")
        site.cluster.stop_controller()
        wait_for(lambda: "slurmctld does not answer" in said.read_text(), "the silence was not told", 60)
        assert drain.poll() is None
        site.cluster.start_controller()
        site.cluster.run("scancel", job)
        drain.wait(timeout=90)
    finally:
        drain.kill()
        drain.wait()
    assert drain.returncode == 0, said.read_text()
    assert "verified    drained" in said.read_text()
    site.cluster.stop_controller()
    gone = site.run("resume")
    assert gone.returncode == 4, gone.stdout
    assert "slurmctld does not answer" in gone.stderr
    away = site.run("message", "--text", "hello", "--format", "json")
    assert away.returncode == 0, "what does not need Slurm does not wait for it"
    assert json.loads(away.stdout)["outcomes"][0]["host_state"] == "unknown"


def test_an_account_without_rights_in_slurm_is_told_so_and_nothing_is_claimed(site: Site) -> None:
    need_that(os.geteuid() == 0 and shutil.which("runuser"), "needs root: another account must be refused")
    folder = site.cluster.as_user("nobody")
    ran = site.run("drain", *REASON, PATH=f"{folder}:{site.environment['PATH']}")
    assert ran.returncode == 1, ran.stdout
    assert "Slurm does not allow this account to do that" in ran.stdout
    assert "DRAIN" not in site.cluster.node(site.node)


def test_a_drain_waits_for_a_multi_node_job_and_for_what_it_left_on_the_gpu(
    cluster: SlurmCluster, machines: Machines, gputop: Gputop, tmp_path: Path
) -> None:
    names = ("slurm-1", "slurm-2")
    made = [machines.add(name) for name in names]
    path = machines.folder / "slurm.yaml"
    hosts = "".join(
        f"  - {{name: {it.name}, address: 127.0.0.1, port: {it.port}, "
        f"scheduler: {{kind: slurm, node: gpu{number:02d}}}}}\n"
        for number, it in enumerate(made, start=1)
    )
    path.write_text(
        machines.inventory(names=names, defaults=POLICY).read_text().partition("\nhosts:")[0] + f"\nhosts:\n{hosts}"
    )
    slurm = {"SLURM_CONF": str(cluster.conf), "PATH": cluster.environment["PATH"]}
    job = cluster.submit("-N2", "--gres=gpu:8")
    left = made[0].spawn()
    made[0].devices(gpu__0__compute=f"{left}:2000")

    plan = gputop("drain", "-f", path, "slurm-1", "--reason", "NIC, OPS-7", **slurm)
    assert "scontrol update" in plan.stdout, plan.stdout + plan.stderr
    assert f"job {job}" in plan.stdout
    argv = [sys.executable, "-m", "gputop", "drain", "-f", path, "slurm-1", *DO, "--reason", "NIC, OPS-7"]
    environment = {**os.environ, **slurm, "XDG_STATE_HOME": str(tmp_path / "state")}
    said = tmp_path / "said"
    with said.open("w") as file:
        drain = subprocess.Popen(argv, stdout=file, stderr=file, env=environment)
    try:
        wait_for(lambda: "DRAIN" in cluster.node("gpu01"), "Slurm never heard of the drain")
        assert "OPS-7" in cluster.node("gpu01")
        assert cluster.state_of_job(job) == "RUNNING"
        cluster.run("scancel", job)
        wait_for(lambda: cluster.state_of_job(job) == "", "the job did not end")
        wait_for(lambda: f"(pid {left}) of ops" in said.read_text(), "the process that the job left was not named")
        assert drain.poll() is None, "drained although a process of the job is left on a GPU"
        made[0].devices(gpu__0__compute="")
        drain.wait(timeout=60)
    finally:
        drain.kill()
        drain.wait()
    assert drain.returncode == 0, said.read_text()
    assert "verified    drained" in said.read_text()
    assert "gpu02" not in cluster.run("sinfo", "-R", "-h", "-N", "-o", "%N").split()

    resumed = gputop("resume", "-f", path, "slurm-1", *DO, **slurm)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    wait_for(lambda: "State=IDLE " in cluster.node("gpu01"), "the node did not come back")
    events = [json.loads(line) for line in gputop("audit", "--format", "json").stdout.splitlines()]
    assert [event["result"] for event in events if event["event"] == "outcome"] == ["verified", "verified"]


def test_a_node_that_somebody_else_drained_is_not_resumed_by_the_way(
    cluster: SlurmCluster, machines: Machines, gputop: Gputop
) -> None:
    machine = machines.add("slurm-3")
    path = machines.folder / "slurm-3.yaml"
    base = machines.inventory(names=("slurm-3",), defaults=POLICY).read_text().partition("\nhosts:")[0]
    where = f"address: 127.0.0.1, port: {machine.port}"
    path.write_text(f"{base}\nhosts:\n  - {{name: slurm-3, {where}, scheduler: {{kind: slurm, node: gpu02}}}}\n")
    slurm = {"SLURM_CONF": str(cluster.conf), "PATH": cluster.environment["PATH"]}
    cluster.run("scontrol", "update", "nodename=gpu02", "state=drain", "reason=gputop:bob: smoke")
    refused = gputop("resume", "-f", path, "slurm-3", *DO, **slurm)
    assert refused.returncode == 4, refused.stdout
    assert "smoke" in refused.stderr
    assert "DRAIN" in cluster.node("gpu02")
    asked = gputop("resume", "-f", path, "slurm-3", "--override", "bob asked me to", **slurm)
    assert "note   overridden: whether it is fit for work is not checked" in asked.stdout
    agreed = gputop("resume", "-f", path, "slurm-3", "--consent", "drained-by-other", **slurm)
    assert "check that it is fit for work" in agreed.stdout
    forced = gputop("resume", "-f", path, "slurm-3", *DO, "--override", "bob asked me to", **slurm)
    assert forced.returncode == 0, forced.stdout + forced.stderr
    wait_for(lambda: "DRAIN" not in cluster.node("gpu02"), "the node did not come back")


def test_a_reboot_through_slurm_waits_for_jobs_and_never_ends_what_is_of_no_job_unasked(
    cluster: SlurmCluster, machines: Machines, gputop: Gputop
) -> None:
    site = Site(cluster, machines, machines.add("slurm-4"), "gpu02", gputop)
    machine = site.machine
    job = cluster.submit("-N1", "-w", "gpu02", "--gres=gpu:8")
    its = machine.spawn(SLURM_JOB_ID=job)
    machine.devices(gpu__0__compute=f"{its}:2000", gpu__0__mem_used="2100")
    waits = site.run("reboot", "--reason", "k", "--dry-run")
    assert waits.returncode == 0, waits.stderr
    assert f"waits  job {job} of root" in waits.stdout
    assert f"waits  sleep (pid {its}) of ops" in waits.stdout
    assert "note   Slurm reboots it as soon as its jobs have ended: what is of no job ends with it" in waits.stdout
    assert "refused by not-drained" not in waits.stdout
    machine.terminal("eve")
    assert "loses  session of eve" in site.run("reboot", "--reason", "k", "--dry-run").stdout

    stray = machine.spawn()
    machine.devices(gpu__1__compute=f"{stray}:40000")
    refused = site.run("reboot", "--reason", "k")
    assert refused.returncode == 4, refused.stderr + refused.stdout
    assert f"loses  sleep (pid {stray}) of ops" in refused.stdout
    assert f"refused (not-drained): slurm-4: not of a job that Slurm waits for: GPU 1: sleep (pid {stray})" in (
        refused.stderr
    )
    assert "REBOOT" not in cluster.node("gpu02")
    asked = site.run("reboot", "--reason", "k", "--dry-run", "--override", "its owner agrees")
    assert f"loses  sleep (pid {stray}) of ops" in asked.stdout
    assert 'to confirm, type "slurm-4"' in asked.stdout

    machine.devices(gpu__1__compute="", gpu__1__nvmlDeviceGetComputeRunningProcesses_v3__error="3")
    unknown = site.run("reboot", "--reason", "k")
    assert unknown.returncode == 4, unknown.stderr + unknown.stdout
    assert "refused (not-drained): slurm-4: GPU 1 does not tell its processes" in unknown.stderr


def test_a_reboot_through_slurm_of_a_drained_node_with_a_leftover_process_needs_a_reason_to_end_it(
    cluster: SlurmCluster, machines: Machines, gputop: Gputop
) -> None:
    site = Site(cluster, machines, machines.add("slurm-5"), "gpu02", gputop)
    left = site.machine.spawn(SLURM_JOB_ID="4711")
    site.machine.devices(gpu__0__compute=f"{left}:2000")
    cluster.run("scontrol", "update", "nodename=gpu02", "state=drain", "reason=Kill task failed")
    refused = site.run("reboot", "--reason", "k")
    assert refused.returncode == 4, refused.stderr + refused.stdout
    assert f"loses  sleep (pid {left}) of ops" in refused.stdout
    assert "refused (not-drained)" in refused.stderr
    assert "REBOOT" not in cluster.node("gpu02")


def test_a_reboot_through_slurm_is_proven_by_the_machine_itself(
    cluster: SlurmCluster, machines: Machines, gputop: Gputop
) -> None:
    site = Site(cluster, machines, machines.add("slurm-6"), "gpu02", gputop)
    before = site.machine.boot_id
    cluster.on_reboot("gpu02", f"kill -KILL {site.machine.init_pid()}")
    ran = site.run("reboot", "--reason", "k")
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert site.machine.boot_id != before


def test_jobs_are_canceled_by_a_plan_that_was_killed_at_the_first_of_them(
    cluster: SlurmCluster, machines: Machines, gputop: Gputop, tmp_path: Path
) -> None:
    site = Site(cluster, machines, machines.add("slurm-7"), "gpu02", gputop)
    stubborn = "trap '' TERM; sleep 600"
    first, second, other = (cluster.submit("-N1", "-w", "gpu02", command=stubborn) for _ in range(3))
    words = ["cancel", "-f", site.inventory, "slurm-7", "--job", first, "--job", second, "--reason", "k", *DO]
    cancel = subprocess.Popen(
        [sys.executable, "-m", "gputop", *words],
        env={**os.environ, **site.environment, "XDG_STATE_HOME": str(tmp_path / "state")},
    )
    try:
        wait_for(lambda: cluster.state_of_job(first) != "RUNNING", "it was not begun")
    finally:
        cancel.kill()
        cancel.wait()
    wait_for(lambda: cluster.state_of_job(first) == "", "the first was not canceled")
    assert cluster.state_of_job(second) == "RUNNING"
    resumed = gputop("actions", "--resume", gputop("actions").stdout.split()[1], "--allow-actions", **site.environment)
    assert resumed.returncode == 0, resumed.stderr + resumed.stdout
    assert [cluster.state_of_job(job) for job in (second, other)] == ["", "RUNNING"]
