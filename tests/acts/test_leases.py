"""The list of drained hosts says what is known, also after a reboot that nobody watched."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import pytest

from tests.acts.conftest import Gputop
from tests.acts.machines import Machine, Machines
from tests.acts.steps import DO, REASON, wait_for

NUMBERS = count(1)


@pytest.fixture
def machine(machines: Machines) -> Machine:
    return machines.add(f"lease-{next(NUMBERS)}")


@pytest.fixture
def inventory(machines: Machines, machine: Machine) -> Path:
    return machines.inventory(names=(machine.name,))


def test_a_drain_that_a_reboot_ended_is_told_as_gone(machine: Machine, inventory: Path, gputop: Gputop) -> None:
    assert gputop("drain", "-f", inventory, machine.name, *DO, *REASON).returncode == 0
    looked = gputop("actions", "--look")
    assert looked.returncode == 0, looked.stderr
    assert f"{machine.name}  drained by" in looked.stdout
    assert "now: drained by" in looked.stdout
    machine.crash()
    machine.wait_until_up()
    gone = gputop("actions", "--look")
    assert "gone by a reboot: its marker with it, and it takes work" in gone.stdout
    assert "now: idle; it takes work" in gone.stdout
    [lease] = json.loads(gputop("actions", "--look", "--format", "json").stdout)["leases"]
    assert (lease["standing"], lease["now"]["state"]) == ("gone", "active")
    assert gputop("resume", "-f", inventory, machine.name, *DO).returncode == 0
    assert gputop("actions").stdout == ""
    machine.stop()


def test_a_reboot_that_nobody_waited_for_leaves_a_doubt_in_the_list(
    machine: Machine, inventory: Path, gputop: Gputop
) -> None:
    assert gputop("drain", "-f", inventory, machine.name, *DO, *REASON).returncode == 0
    assert gputop("reboot", "-f", inventory, machine.name, *DO, *REASON, "--no-wait").returncode == 0
    listed = gputop("actions").stdout
    assert "reboot at 20" in listed
    assert "pending: its marker may be gone with the boot" in listed
    machine.stop()


def test_a_drain_whose_time_is_over_is_reminded_of(machine: Machine, inventory: Path, gputop: Gputop) -> None:
    ran = gputop("drain", "-f", inventory, machine.name, *DO, *REASON, "--for", "1s")
    assert ran.returncode == 0, ran.stderr
    wait_for(lambda: "(over: resume it)" in gputop("actions").stdout, "its time was not over")
    other = gputop("message", "-f", inventory, machine.name, "--text", "hello")
    assert f"reminder: {machine.name} was to be drained until 20" in other.stderr
    assert gputop("resume", "-f", inventory, machine.name, *DO).returncode == 0
    assert "reminder" not in gputop("message", "-f", inventory, machine.name, "--text", "hello").stderr
    machine.stop()


def test_a_host_that_does_not_answer_is_not_said_to_be_drained(
    machine: Machine, inventory: Path, gputop: Gputop
) -> None:
    assert gputop("drain", "-f", inventory, machine.name, *DO, *REASON).returncode == 0
    machine.stop()
    looked = gputop("actions", "--look")
    assert looked.returncode == 1
    assert "now: unreachable; whether it takes work is not known" in looked.stdout


def test_a_drain_that_is_not_proven_is_listed_as_draining(machine: Machine, inventory: Path, gputop: Gputop) -> None:
    machine.devices(gpu__0__compute="4000000:100")
    ran = gputop("drain", "-f", inventory, machine.name, *DO, *REASON, "--no-wait")
    assert ran.returncode == 0, ran.stderr
    looked = gputop("actions", "--look").stdout
    assert f"{machine.name}  draining by" in looked
    assert "not proven empty" in looked
    assert "now: draining by" in looked
    machine.stop()
