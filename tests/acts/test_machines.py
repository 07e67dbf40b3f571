"""Acts on real machines over SSH."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acts.conftest import Gputop
from tests.acts.machines import Machine, Machines


@pytest.fixture(scope="module")
def machine(machines: Machines) -> Machine:
    return machines.add("gpu-a")


@pytest.fixture(scope="module")
def inventory(machines: Machines, machine: Machine) -> Path:
    return machines.inventory(names=("gpu-a",))


def test_a_host_without_scheduler_is_drained_verified_and_resumed(
    machine: Machine, inventory: Path, gputop: Gputop
) -> None:
    act = ("-f", inventory, "gpu-a", "--allow-actions", "--yes")
    drained = gputop("drain", *act, "--reason", "replace NIC, ticket 4711", "--for", "2h")
    assert drained.returncode == 0, drained.stderr + drained.stdout
    assert "verified" in drained.stdout
    assert "drained" in drained.stdout
    marker = json.loads(machine.run("cat /run/gputop/drain.json"))
    assert marker["reason"] == "replace NIC, ticket 4711"
    assert "until" in marker
    listed = gputop("actions")
    assert "gpu-a  drained by" in listed.stdout
    resumed = gputop("resume", *act)
    assert resumed.returncode == 0, resumed.stderr + resumed.stdout
    assert machine.run("ls /run/gputop") == ""
    assert gputop("actions").stdout == ""
