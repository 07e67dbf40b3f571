"""Reboots and power-offs by the machine's own operating system, in the way that systemd does them.

systemctl and systemd-run are doubles (see machines.py); the machine really goes down, two seconds later."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acts.conftest import Gputop
from tests.acts.machines import DEFAULTS, SUDOERS, Machine, Machines
from tests.acts.steps import DO, REASON, audit_of, wait_for

SYSTEMD = "ops ALL=(root) NOPASSWD: /usr/local/bin/systemd-run\n"


@pytest.fixture(scope="module")
def machine(machines: Machines) -> Machine:
    machine = machines.add("gpu-systemd", systemd=True, sudoers=SUDOERS + SYSTEMD)
    return machine


@pytest.fixture
def inventory(machines: Machines, machine: Machine) -> Path:
    machine.wait_until_up()
    return machines.inventory(names=(machine.name,))


def test_a_reboot_is_left_to_systemd_and_the_call_has_ended_before_the_machine_goes_down(
    machine: Machine, inventory: Path, gputop: Gputop
) -> None:
    assert gputop("drain", "-f", inventory, machine.name, *DO, *REASON).returncode == 0
    (machine.folder / "systemctl.log").write_text("")
    before, downs = machine.boot_id, machine.downs
    ran = gputop("reboot", "-f", inventory, machine.name, *DO, *REASON, seconds=120)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert machine.systemctl_calls() == ["systemd-run --on-active=2 /usr/bin/systemctl reboot", "reboot"]
    assert machine.boot_id != before
    assert machine.downs == downs + 1
    [step] = [one for one in audit_of(gputop, "--act", "reboot", "--event", "step") if one["step"] == "ssh.reboot"]
    assert (step["exit_status"], step["result"]) == (0, "verified")


def test_a_site_without_a_reboot_program_reboots_over_ssh_and_the_plan_says_so(
    machine: Machine, machines: Machines, inventory: Path, gputop: Gputop
) -> None:
    power = "power: {kind: command, status: [echo, RUNNING], stop: ['false'], id: vm-1}"
    inventory = machines.inventory(names=(machine.name,), defaults=DEFAULTS.replace("power: ssh", power))
    assert gputop("drain", "-f", inventory, machine.name, *DO, *REASON).returncode == 0
    plan = gputop("reboot", "-f", inventory, machine.name, *REASON).stdout
    assert "its operating system is asked, over SSH" in plan
    assert "sudo -n systemd-run --on-active=2 /usr/bin/systemctl reboot" in plan
    before = machine.boot_id
    ran = gputop("reboot", "-f", inventory, machine.name, *DO, *REASON, seconds=120)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert machine.boot_id != before


def test_listed_services_are_stopped_while_drained_and_run_again_after(machines: Machines, gputop: Gputop) -> None:
    machine = machines.add("gpu-units")
    for unit in ("launcher", "prefetch"):
        machine.add_unit(unit, unit)
        machine.run(f"systemctl start {unit}")
    policy = DEFAULTS.replace("policy: {", "policy: {stop_units: [launcher, prefetch], ")
    inventory = machines.inventory(names=(machine.name,), defaults=policy)
    (machine.folder / "systemctl.log").write_text("")
    assert gputop("drain", "-f", inventory, machine.name, *DO, *REASON).returncode == 0
    assert (machine.runs("launcher"), machine.runs("prefetch")) == (False, False)
    assert gputop("resume", "-f", inventory, machine.name, *DO).returncode == 0
    assert (machine.runs("launcher"), machine.runs("prefetch")) == (True, True)
    assert machine.systemctl_calls() == ["stop launcher", "stop prefetch", "start prefetch", "start launcher"]
    machine.stop()


def test_a_power_off_by_systemd_is_told_as_unverified_and_the_machine_stays_off(
    machine: Machine, inventory: Path, gputop: Gputop
) -> None:
    """Last: it does not come back."""
    assert gputop("drain", "-f", inventory, machine.name, *DO, *REASON).returncode == 0
    downs = machine.downs
    ran = gputop("stop", "-f", inventory, machine.name, *DO, *REASON, "--format", "json", seconds=120)
    assert ran.returncode == 1, ran.stderr
    assert json.loads(ran.stdout)["outcomes"][0]["state"] == "unverified"
    wait_for(lambda: machine.downs == downs + 1, "it did not go down")
    assert machine.systemctl_calls()[-2:] == ["systemd-run --on-active=2 /usr/bin/systemctl poweroff", "poweroff"]
    assert not machine.is_up
