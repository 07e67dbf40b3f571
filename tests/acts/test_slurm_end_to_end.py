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
