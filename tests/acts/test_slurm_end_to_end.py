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

from tests.acts.conftest import Gputop
from tests.acts.machines import Machines
from tests.acts.steps import DO, wait_for
from tests.needs import need
from tests.services.slurm import SlurmCluster

pytestmark = pytest.mark.timeout(150)

POLICY = "  policy: {idle_samples: 2, idle_interval: 200ms, drain_deadline: 60s, max_percent: 100}\n"


@pytest.fixture
def cluster() -> Iterator[SlurmCluster]:
    for program in ("munged", "slurmctld", "slurmd", "scontrol"):
        need(program)
    folder = Path(tempfile.mkdtemp(prefix="gputop-slurm-"))
    cluster = SlurmCluster(folder, 2)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


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
    forced = gputop("resume", "-f", path, "slurm-3", *DO, "--override", "bob asked me to", **slurm)
    assert forced.returncode == 0, forced.stdout + forced.stderr
    wait_for(lambda: "DRAIN" not in cluster.node("gpu02"), "the node did not come back")


class Site:
    """A machine that is node gpu02."""

    def __init__(self, cluster: SlurmCluster, machines: Machines, gputop: Gputop, name: str) -> None:
        self.machine = machine = machines.add(name)
        self.inventory = machines.folder / f"{name}.yaml"
        base = machines.inventory(names=(name,), defaults=POLICY).read_text().partition("\nhosts:")[0]
        where = f"address: 127.0.0.1, port: {machine.port}"
        self.inventory.write_text(
            f"{base}\nhosts:\n  - {{name: {name}, {where}, scheduler: {{kind: slurm, node: gpu02}}}}\n"
        )
        self.environment = {"SLURM_CONF": str(cluster.conf), "PATH": cluster.environment["PATH"]}
        self._gputop = gputop

    def run(self, act: str, *words: str) -> subprocess.CompletedProcess[str]:
        return self._gputop(act, "-f", self.inventory, self.machine.name, *words, **self.environment)


def test_a_reboot_through_slurm_waits_for_jobs_and_never_ends_what_is_of_no_job_unasked(
    cluster: SlurmCluster, machines: Machines, gputop: Gputop
) -> None:
    site = Site(cluster, machines, gputop, "slurm-4")
    machine = site.machine
    job = cluster.submit("-N1", "-w", "gpu02", "--gres=gpu:8")
    its = machine.spawn(SLURM_JOB_ID=job)
    machine.devices(gpu__0__compute=f"{its}:2000", gpu__0__mem_used="2100")
    waits = site.run("reboot", "--reason", "k")
    assert waits.returncode == 0, waits.stderr
    assert f"waits  job {job} of root" in waits.stdout
    assert f"waits  sleep (pid {its}) of ops" in waits.stdout
    assert "note   Slurm reboots it as soon as its jobs have ended: what is of no job ends with it" in waits.stdout
    assert "refused by not-drained" not in waits.stdout

    stray = machine.spawn()
    machine.devices(gpu__1__compute=f"{stray}:40000")
    refused = site.run("reboot", "--reason", "k", *DO)
    assert refused.returncode == 4, refused.stderr + refused.stdout
    assert f"loses  sleep (pid {stray}) of ops" in refused.stdout
    assert f"refused (not-drained): slurm-4: not of a job that Slurm waits for: GPU 1: sleep (pid {stray})" in (
        refused.stderr
    )
    assert "REBOOT" not in cluster.node("gpu02")
    asked = site.run("reboot", "--reason", "k", "--allow-actions", "--override", "its owner agrees")
    assert f"loses  sleep (pid {stray}) of ops" in asked.stdout
    assert 'to confirm, type "slurm-4"' in asked.stdout

    machine.devices(gpu__1__compute="", gpu__1__nvmlDeviceGetComputeRunningProcesses_v3__error="3")
    unknown = site.run("reboot", "--reason", "k", *DO)
    assert unknown.returncode == 4, unknown.stderr + unknown.stdout
    assert "refused (not-drained): slurm-4: GPU 1 does not tell its processes" in unknown.stderr


def test_a_reboot_through_slurm_of_a_drained_node_with_a_leftover_process_needs_a_reason_to_end_it(
    cluster: SlurmCluster, machines: Machines, gputop: Gputop
) -> None:
    site = Site(cluster, machines, gputop, "slurm-5")
    left = site.machine.spawn(SLURM_JOB_ID="4711")
    site.machine.devices(gpu__0__compute=f"{left}:2000")
    cluster.run("scontrol", "update", "nodename=gpu02", "state=drain", "reason=Kill task failed")
    refused = site.run("reboot", "--reason", "k", *DO)
    assert refused.returncode == 4, refused.stderr + refused.stdout
    assert f"loses  sleep (pid {left}) of ops" in refused.stdout
    assert "refused (not-drained)" in refused.stderr
    assert "REBOOT" not in cluster.node("gpu02")


def test_a_reboot_through_slurm_is_proven_by_the_machine_itself(
    cluster: SlurmCluster, machines: Machines, gputop: Gputop
) -> None:
    site = Site(cluster, machines, gputop, "slurm-6")
    before = site.machine.boot_id
    cluster.at_reboot(f"kill -KILL {site.machine.init_pid()}")
    ran = site.run("reboot", "--reason", "k", *DO)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert site.machine.boot_id != before


def test_jobs_are_canceled_by_a_plan_that_was_killed_at_the_first_of_them(
    cluster: SlurmCluster, machines: Machines, gputop: Gputop, tmp_path: Path
) -> None:
    site = Site(cluster, machines, gputop, "slurm-7")
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
