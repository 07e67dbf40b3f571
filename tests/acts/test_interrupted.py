"""Plans that were interrupted and are gone on with later, when the world may be another one: real machines, instances
of moto."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acts.conftest import Background, Gputop
from tests.acts.machines import DEFAULTS, Machine, Machines
from tests.acts.steps import DO, REASON, audit_of, cut_after, wait_for
from tests.needs import need_that
from tests.services.moto import Moto, program

REGION = "us-east-1"
KEYS = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
AWS = {key.upper(): value for key, value in KEYS.items()} | {"AWS_EC2_METADATA_DISABLED": "true"}


@pytest.fixture(scope="module")
def moto() -> Iterator[Moto]:
    server = program("moto_server")
    need_that(server, "needs moto: make services")
    assert server is not None
    running = Moto(server)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def machine(machines: Machines) -> Machine:
    machine = machines.add("gpu-cut", systemd=True)
    machine.add_unit("nvidia-persistenced", "nvidia-persistenced")
    return machine


@pytest.fixture(autouse=True)
def idle(machine: Machine) -> None:
    machine.devices(gpu__0__compute="")
    machine.run("rm -rf /run/gputop; systemctl stop nvidia-persistenced")
    (machine.folder / "smi.log").write_text("")


class Instance:
    """One of EC2, and the inventory by which it is the machine."""

    def __init__(self, moto: Moto, machines: Machines, machine: Machine) -> None:
        import boto3

        self.api = boto3.client("ec2", region_name=REGION, endpoint_url=moto.url, **KEYS)
        made = self.api.run_instances(ImageId="ami-12c6146b", MinCount=1, MaxCount=1, InstanceType="p4d.24xlarge")
        self.id = made["Instances"][0]["InstanceId"]
        power = f"power: {{kind: ec2, instance_id: {self.id}, region: {REGION}, endpoint: '{moto.url}'}}"
        self.inventory = machines.inventory(names=(machine.name,), defaults=DEFAULTS.replace("power: ssh", power))

    @property
    def state(self) -> Any:
        found = self.api.describe_instances(InstanceIds=[self.id])["Reservations"][0]["Instances"][0]
        return found["State"]["Name"]

    def start(self) -> None:
        self.api.start_instances(InstanceIds=[self.id])


@pytest.fixture
def instance(moto: Moto, machines: Machines, machine: Machine) -> Instance:
    return Instance(moto, machines, machine)


def stopped_and_cut(instance: Instance, gputop: Gputop, folder: Path) -> str:
    assert gputop("drain", "-f", instance.inventory, "gpu-cut", *DO, *REASON, **AWS).returncode == 0
    stopped = gputop("stop", "-f", instance.inventory, "gpu-cut", *DO, *REASON, **AWS)
    assert stopped.returncode == 0, stopped.stderr + stopped.stdout
    assert instance.state == "stopped"
    return cut_after("ec2.StopInstances", "began", folder)


def test_a_stop_that_was_interrupted_is_not_called_again_where_a_guard_would_refuse_it_by_now(
    machine: Machine, instance: Instance, gputop: Gputop, tmp_path: Path
) -> None:
    plan = stopped_and_cut(instance, gputop, tmp_path)
    instance.start()
    machine.run("rm -r /run/gputop")
    machine.devices(gpu__0__compute="4000000:100")
    for _ in range(2):
        ran = gputop("actions", "--resume", plan, "--allow-actions", **AWS)
        assert ran.returncode == 1, ran.stderr + ran.stdout
        assert "failed      blocked" in ran.stdout
        assert "stop the instance: not called again: it is active, not drained; 1 left (not-drained)" in ran.stdout
        assert instance.state == "running"
    assert f"unfinished: {plan}" in gputop("actions").stdout
    assert gputop("actions", "--forget", plan).returncode == 0
    assert audit_of(gputop, "--event", "outcome")[-2]["result"] == "failed"


def test_a_stop_that_was_interrupted_is_called_again_where_it_may_be(
    machine: Machine, instance: Instance, gputop: Gputop, tmp_path: Path
) -> None:
    plan = stopped_and_cut(instance, gputop, tmp_path)
    instance.start()
    ran = gputop("actions", "--resume", plan, "--allow-actions", **AWS)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert instance.state == "stopped"


def reset_and_cut(machines: Machines, machine: Machine, gputop: Gputop, folder: Path) -> str:
    """A reset that was interrupted when what holds the device was stopped."""
    machine.run("systemctl start nvidia-persistenced")
    reset = gputop("reset", "-f", machines.inventory(names=("gpu-cut",)), "gpu-cut", "--gpu", "0", *DO, *REASON)
    assert reset.returncode == 0, reset.stderr + reset.stdout
    plan = cut_after("holder.stop.nvidia-persistenced", "ended", folder)
    machine.run("systemctl stop nvidia-persistenced")
    (machine.folder / "smi.log").write_text("")
    return plan


def test_a_reset_that_was_interrupted_is_not_made_under_somebody_who_came_meanwhile(
    machine: Machine, machines: Machines, gputop: Gputop, tmp_path: Path
) -> None:
    plan = reset_and_cut(machines, machine, gputop, tmp_path)
    machine.devices(gpu__0__compute="4000000:100")
    ran = gputop("actions", "--resume", plan, "--allow-actions")
    assert ran.returncode == 1, ran.stderr + ran.stdout
    assert "reset GPU 0: not called: a process that cannot be seen (pid 4000000)" in ran.stdout
    assert "(device-busy)" in ran.stdout
    assert machine.smi_calls() == []
    assert machine.runs("nvidia-persistenced"), "what was stopped for it was not started again"
    assert gputop("actions").stdout == "", "all is as it was before: nothing is left to go on with"


def test_a_reset_that_was_interrupted_goes_on_where_nobody_came(
    machine: Machine, machines: Machines, gputop: Gputop, tmp_path: Path
) -> None:
    plan = reset_and_cut(machines, machine, gputop, tmp_path)
    ran = gputop("actions", "--resume", plan, "--allow-actions")
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert machine.smi_calls() == ["--gpu-reset -i GPU-gpu-cut-0"]
    assert machine.runs("nvidia-persistenced")


def test_an_unfinished_plan_is_not_touched_by_way_of_an_inventory_that_has_not_its_hosts(
    machine: Machine, machines: Machines, gputop: Gputop, tmp_path: Path
) -> None:
    machines.add("gpu-other")
    other = machines.inventory(names=("gpu-other",))
    plan = drain_and_cut(machines, gputop, tmp_path)
    journal = tmp_path / "state" / "gputop" / "plans" / f"{plan}.jsonl"
    before = journal.read_text(), audit_of(gputop)
    for how in ("--resume", "--roll-back"):
        ran = gputop("actions", how, plan, "-f", other, "--allow-actions")
        assert ran.returncode == 2, ran.stderr + ran.stdout
        assert "not in this inventory: gpu-cut" in ran.stderr
    assert (journal.read_text(), audit_of(gputop)) == before
    assert gputop("actions", "--roll-back", plan, "--allow-actions").returncode == 0


def drain_and_cut(machines: Machines, gputop: Gputop, folder: Path) -> str:
    """A drain that was interrupted when its marker was written."""
    drained = gputop("drain", "-f", machines.inventory(names=("gpu-cut",)), "gpu-cut", *DO, *REASON)
    assert drained.returncode == 0, drained.stderr + drained.stdout
    return cut_after("marker.write", "ended", folder)


@pytest.mark.parametrize(
    ("how", "steps", "closed"),
    [("--resume", "verified", "finished"), ("--roll-back", "undone", "rolled-back"), ("--forget", None, "forgotten")],
)
def test_what_became_of_an_unfinished_plan_is_told_as_json_too(
    how: str, steps: str | None, closed: str, machine: Machine, machines: Machines, gputop: Gputop, tmp_path: Path
) -> None:
    plan = drain_and_cut(machines, gputop, tmp_path)
    ran = gputop("actions", how, plan, "--allow-actions", "--format", "json")
    assert ran.returncode == 0, ran.stderr
    document = json.loads(ran.stdout)
    assert (document["schema"], document["verdict"], document["closed"]) == ("gputop-act/1", None, closed)
    assert document["plan"]["id"] == plan
    states = {step["state"] for outcome in document["outcomes"] for step in outcome["steps"]}
    assert steps is None or steps in states
    assert [outcome["host"] for outcome in document["outcomes"]] == ([] if steps is None else ["gpu-cut"])


def test_an_act_whose_audit_log_fails_in_the_middle_is_told_as_json_too(
    machine: Machine, machines: Machines, gputop: Gputop, gputop_in_background: Background, tmp_path: Path
) -> None:
    machine.devices(gpu__0__compute="4000000:100")
    inventory = machines.inventory(names=("gpu-cut",))
    drain = gputop_in_background("drain", "-f", inventory, "gpu-cut", *DO, *REASON, "--format", "json")
    audit = tmp_path / "state" / "gputop" / "audit.jsonl"
    wait_for(lambda: audit.exists() and '"marker.write"' in audit.read_text(), "the marker was not written")
    audit.rename(audit.with_suffix(".kept"))
    audit.mkdir()
    machine.devices(gpu__0__compute="")
    said, _ = drain.communicate(timeout=60)
    assert drain.returncode == 1
    document = json.loads(said)
    assert document["outcomes"] == []
    assert document["plan"]["hosts"][0]["host"] == "gpu-cut"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_an_act_that_a_signal_ends_says_how_to_go_on(
    number: signal.Signals, machine: Machine, machines: Machines, gputop: Gputop, tmp_path: Path
) -> None:
    machine.devices(gpu__0__compute="4000000:100")
    argv = ["drain", "-f", machines.inventory(names=("gpu-cut",)), "gpu-cut", *DO, *REASON]
    plan = ""
    for words in (argv, ["actions", "--resume", "PLAN", "--allow-actions"]):
        said = tmp_path / "said"
        with said.open("w") as file:
            act = subprocess.Popen(
                [sys.executable, "-m", "gputop", *(str(plan if word == "PLAN" else word) for word in words)],
                stderr=file,
                env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")},
            )
        try:
            wait_for(lambda said=said: "1 left" in said.read_text(), "what is left was not told")
            act.send_signal(number)
            assert act.wait(timeout=30) == 128 + number
        finally:
            act.kill()
            act.wait()
        plan = gputop("actions").stdout.split()[1]
        assert f"interrupted; this goes on: gputop actions --resume {plan} --allow-actions\n" in said.read_text()
    assert f"  go on           gputop actions --resume {plan} --allow-actions\n" in gputop("actions").stderr
    assert gputop("actions", "--forget", plan).returncode == 0
