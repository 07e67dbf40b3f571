"""Resets on a real machine: real processes have its devices open, and nvidia-smi's double refuses while any has.

The machine's systemctl is a double too; what it starts and stops are real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acts.conftest import Gputop
from tests.acts.machines import Machine, Machines
from tests.acts.steps import DO, REASON, audit_of, wait_for

UNITS = {
    "nvidia-persistenced": "nvidia-persistenced",
    "nvidia-dcgm": "nv-hostengine",
    "nvidia-fabricmanager": "nv-fabricmanager",
}


@pytest.fixture(scope="module")
def machine(machines: Machines) -> Machine:
    machine = machines.add("gpu-reset", systemd=True)
    for unit, program in UNITS.items():
        machine.add_unit(unit, program)
    return machine


@pytest.fixture(scope="module")
def inventory(machines: Machines, machine: Machine) -> Path:
    return machines.inventory(names=(machine.name,))


@pytest.fixture(autouse=True)
def idle(machine: Machine) -> None:
    machine.devices(gpu__broken="", gpu__0__compute="", gpu__0__mem_used="", gpu__0__error="")
    machine.run("for unit in /run/units/*; do [ -e $unit ] && systemctl stop $(basename $unit); done; :")
    for log in ("smi.log", "systemctl.log"):
        (machine.folder / log).write_text("")


def start(machine: Machine, *units: str) -> None:
    for unit in units:
        machine.run(f"systemctl start {unit}")
        wait_for(lambda unit=unit: UNITS[unit][:15] in machine.run("cat /proc/*/comm 2>/dev/null"), f"{unit} is not up")
    (machine.folder / "systemctl.log").write_text("")


def test_what_holds_the_devices_is_stopped_and_runs_again_after_the_reset(
    machine: Machine, inventory: Path, gputop: Gputop
) -> None:
    start(machine, "nvidia-persistenced", "nvidia-dcgm")
    ran = gputop("reset", "-f", inventory, machine.name, *DO, "--gpu", "1", *REASON)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert machine.smi_calls() == ["--gpu-reset -i GPU-gpu-reset-1"]
    assert machine.systemctl_calls() == [
        "stop nvidia-persistenced",
        "stop nvidia-dcgm",
        "start nvidia-dcgm",
        "start nvidia-persistenced",
    ]
    assert machine.runs("nvidia-persistenced")
    assert machine.runs("nvidia-dcgm")


def test_on_an_nvswitch_machine_all_devices_go_together(machine: Machine, inventory: Path, gputop: Gputop) -> None:
    start(machine, "nvidia-fabricmanager")
    plan = gputop("reset", "-f", inventory, machine.name, "--gpu", "1", *REASON)
    assert "NVSwitch: all GPUs are reset together" in plan.stdout
    ran = gputop("reset", "-f", inventory, machine.name, *DO, "--gpu", "1", *REASON)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert machine.smi_calls() == ["--gpu-reset"]
    assert machine.runs("nvidia-fabricmanager")


def test_an_nvswitch_is_seen_also_where_its_fabric_manager_has_died(
    machine: Machine, inventory: Path, gputop: Gputop
) -> None:
    machine.run("touch /dev/nvidia-nvswitchctl")
    plan = gputop("reset", "-f", inventory, machine.name, "--gpu", "0", *REASON).stdout
    machine.run("rm /dev/nvidia-nvswitchctl")
    assert "NVSwitch: all GPUs are reset together" in plan
    assert "sudo -n nvidia-smi --gpu-reset\n" in plan


def test_a_reset_that_fails_leaves_nothing_stopped(machine: Machine, inventory: Path, gputop: Gputop) -> None:
    start(machine, "nvidia-persistenced")
    machine.devices(gpu__broken="1")
    ran = gputop("reset", "-f", inventory, machine.name, *DO, "--gpu", "0", *REASON)
    assert ran.returncode == 1
    assert "reset GPU 0: exit status 1: GPU could not be reset" in ran.stdout
    assert machine.runs("nvidia-persistenced")


def test_a_program_that_computes_nothing_but_has_the_device_open_is_named(
    machine: Machine, inventory: Path, gputop: Gputop
) -> None:
    pid = machine.spawn()
    ran = gputop("reset", "-f", inventory, machine.name, *DO, "--gpu", "0", *REASON)
    other = gputop("reset", "-f", inventory, machine.name, *DO, "--gpu", "1", *REASON)
    machine.run(f"kill {pid}")
    assert ran.returncode == 4
    assert f"sleep (pid {pid}) of ops has GPU 0 open" in ran.stderr
    assert other.returncode == 0, other.stderr


def test_what_this_account_cannot_see_is_told_in_nvidia_smi_s_words_and_all_is_restored(
    machine: Machine, machines: Machines, inventory: Path, gputop: Gputop
) -> None:
    start(machine, "nvidia-persistenced")
    pid = machine.spawn(user="root")
    ran = gputop("reset", "-f", inventory, machine.name, *DO, "--gpu", "0", *REASON)
    seen = gputop("reset", "-f", machines.inventory(user="root", names=(machine.name,)), machine.name, *DO, *REASON)
    machine.run(f"kill {pid}")
    assert ran.returncode == 1
    assert "1 device is currently being used by one or more other processes (sleep)" in ran.stdout
    assert machine.runs("nvidia-persistenced")
    assert seen.returncode == 4
    assert f"sleep (pid {pid}) of root has GPU 0 open" in seen.stderr


@pytest.mark.parametrize("how", ["--resume", "--roll-back"])
def test_a_gputop_that_was_killed_during_a_reset_leaves_a_journal_that_restores_what_was_stopped(
    how: str, machine: Machine, inventory: Path, gputop: Gputop, tmp_path: Path
) -> None:
    start(machine, "nvidia-persistenced", "nvidia-dcgm")
    slow = machine.folder / "nvml.conf.slow"
    slow.touch()
    argv = [sys.executable, "-m", "gputop", "reset", "-f", inventory, machine.name, *DO, "--gpu", "0", *REASON]
    reset = subprocess.Popen(
        argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")},
    )  # fmt: skip
    try:
        wait_for(lambda: machine.smi_calls() != [], "the reset was not begun")
    finally:
        reset.kill()
        reset.wait()
    assert not machine.runs("nvidia-persistenced")
    slow.unlink()
    listed = gputop("actions").stdout
    assert 'in "reset GPU 0"' in listed
    ran = gputop("actions", how, listed.split()[1], "--allow-actions")
    assert machine.runs("nvidia-persistenced"), ran.stderr + ran.stdout
    assert machine.runs("nvidia-dcgm")
    assert machine.smi_calls() == ["--gpu-reset -i GPU-gpu-reset-0"], "a reset is never done twice"
    if how == "--resume":
        assert ran.returncode == 1
        assert "interrupted: whether it was called is not known" in ran.stdout
        assert audit_of(gputop, "--event", "outcome")[-1]["result"] == "unverified"
    else:
        assert ran.returncode == 0, ran.stderr + ran.stdout


def test_the_state_that_is_shown_after_a_reset_is_that_of_before(
    machine: Machine, inventory: Path, gputop: Gputop
) -> None:
    ran = gputop("reset", "-f", inventory, machine.name, *DO, "--gpu", "1", *REASON, "--format", "json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["outcomes"][0]["host_state"] == "active"


LOST, OF_NO_KNOWN_KIND = "15", "999"
"""What the driver's library answers about a GPU that needs a reset."""


@pytest.mark.parametrize("error", [LOST, OF_NO_KNOWN_KIND])
def test_a_gpu_that_tells_nothing_any_more_is_reset_once_somebody_says_why(
    error: str, machine: Machine, inventory: Path, gputop: Gputop
) -> None:
    machine.devices(gpu__0__error=error)
    refused = gputop("reset", "-f", inventory, machine.name, *DO, "--gpu", "0", *REASON)
    assert refused.returncode == 4
    assert "GPU 0 does not tell its processes" in refused.stderr
    assert "--override REASON" in refused.stderr
    assert machine.smi_calls() == []
    ran = gputop("reset", "-f", inventory, machine.name, *DO, "--gpu", "0", *REASON, "--override", "Xid 79")
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert "1 of 1 GPU is well" in ran.stdout
    assert machine.smi_calls() == ["--gpu-reset -i 0"], "its number is all that is left of it"


def test_who_has_a_silent_gpu_open_is_in_the_way_whatever_is_overridden(
    machine: Machine, inventory: Path, gputop: Gputop
) -> None:
    pid = machine.spawn()
    machine.devices(gpu__0__error=LOST)
    ran = gputop("reset", "-f", inventory, machine.name, *DO, "--gpu", "0", *REASON, "--override", "Xid 79")
    machine.run(f"kill {pid}")
    assert ran.returncode == 4
    assert f"sleep (pid {pid}) of ops has GPU 0 open" in ran.stderr
    assert machine.smi_calls() == []


def test_memory_that_no_process_holds_is_freed_by_a_reset_once_somebody_says_why(
    machine: Machine, inventory: Path, gputop: Gputop
) -> None:
    machine.devices(gpu__0__mem_used="9000")
    argv = ("reset", "-f", inventory, machine.name, "--gpu", "0", *REASON)
    assert "in use without a process" in gputop(*argv, *DO).stderr
    plan = gputop(*argv, "--override", "left by a crash").stdout
    assert "GPU 0: 9,000 MiB in use without a process that can be seen: set aside" in plan
    assert "reset GPU 0: gpu-reset: sudo -n nvidia-smi --gpu-reset -i GPU-gpu-reset-0" in plan


def test_a_reset_is_proven_by_the_gpus_that_were_reset_alone(machine: Machine, inventory: Path, gputop: Gputop) -> None:
    machine.devices(gpu__0__error=LOST)
    ran = gputop("reset", "-f", inventory, machine.name, *DO, "--gpu", "1", *REASON)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert "1 of 1 GPU is well" in ran.stdout


def test_a_gpu_that_is_named_several_times_is_reset_once(machine: Machine, inventory: Path, gputop: Gputop) -> None:
    names = ("--gpu", "1", "--gpu", "GPU-gpu-reset-1", "--gpu", "1")
    ran = gputop("reset", "-f", inventory, machine.name, *DO, *names, *REASON)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert machine.smi_calls() == ["--gpu-reset -i GPU-gpu-reset-1"]
