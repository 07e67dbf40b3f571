"""The drain marker on real machines: whose it is, and that a resume undoes what the drain did and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acts.conftest import Background, Gputop
from tests.acts.machines import DEFAULTS, Machine, Machines
from tests.acts.steps import DO, REASON, audit_of, wait_for

MARKER = "/run/gputop/drain.json"
BOBS = '{"by":"bob","reason":"fans","since":"2026-03-01T10:15:00Z","gputop":1}'


@pytest.fixture(scope="module")
def machine(machines: Machines) -> Iterator[Machine]:
    machine = machines.add("gpu-marked")
    machine.add_unit("launcher", "launcher")
    yield machine
    machine.stop()


@pytest.fixture(autouse=True)
def active(machine: Machine) -> None:
    """Every test begins with an active, idle machine."""
    machine.devices(gpu__0__compute="", gpu__0__compute_mode="", gpu__1__compute_mode="", gpu__compute_mode="0")
    machine.run(f"rm -f {MARKER} /run/nologin; systemctl stop launcher")
    (machine.folder / "systemctl.log").write_text("")


@pytest.fixture
def inventory(machines: Machines, machine: Machine) -> Path:
    return machines.inventory(names=(machine.name,))


def by_policy(machines: Machines, machine: Machine, words: str) -> Path:
    return machines.inventory(
        user="root", names=(machine.name,), defaults=DEFAULTS.replace("policy: {", f"policy: {{{words}, ")
    )


def mark(machine: Machine, text: str) -> None:
    machine.run(f"mkdir -p /run/gputop && cat >{MARKER} <<'END'\n{text}\nEND")


def test_a_roll_back_leaves_the_marker_of_somebody_who_drained_it_meanwhile(
    machine: Machine, inventory: Path, gputop: Gputop, gputop_in_background: Background
) -> None:
    machine.devices(gpu__0__compute="4000000:100")
    drain = gputop_in_background("drain", "-f", inventory, machine.name, *DO, *REASON)
    wait_for(lambda: audit_of(gputop, "--event", "step") != [], "the marker was not written")
    drain.kill()
    drain.wait()
    mark(machine, BOBS)
    plan = gputop("actions").stdout.split()[1]
    ran = gputop("actions", "--roll-back", plan, "--allow-actions")
    assert ran.returncode == 1, ran.stdout
    assert "bob has drained it meanwhile: fans" in ran.stdout
    assert json.loads(machine.run(f"cat {MARKER}"))["by"] == "bob"


def test_a_resume_leaves_the_marker_of_somebody_who_drained_it_while_the_gate_was_asked(
    machine: Machine, machines: Machines, gputop: Gputop, gputop_in_background: Background
) -> None:
    machine.run("printf '#!/bin/sh\\ntouch /run/asked; while [ -e /run/asked ]; do sleep 0.05; done\\n'"
                " >/usr/local/bin/dcgmi; chmod +x /usr/local/bin/dcgmi")  # fmt: skip
    inventory = by_policy(machines, machine, "dcgm_diag: true, nologin: true")
    assert gputop("drain", "-f", inventory, machine.name, *DO, *REASON).returncode == 0
    resume = gputop_in_background("resume", "-f", inventory, machine.name, *DO)
    wait_for(lambda: machine.run("ls /run/asked 2>/dev/null || :") != "", "the gate was not asked")
    mark(machine, BOBS)
    machine.run("rm /run/asked")
    said, _ = resume.communicate(timeout=60)
    assert resume.returncode == 1, said
    assert "bob has drained it meanwhile: fans" in said
    assert json.loads(machine.run(f"cat {MARKER}"))["by"] == "bob"
    assert machine.run("ls /run/nologin") == "/run/nologin\n"


@pytest.mark.parametrize("act", ["reboot", "stop", "reset"])
def test_what_somebody_else_drained_is_left_alone(act: str, machine: Machine, inventory: Path, gputop: Gputop) -> None:
    mark(machine, BOBS)
    downs = machine.downs
    ran = gputop(act, "-f", inventory, machine.name, *DO, *REASON)
    assert ran.returncode == 4, ran.stdout
    assert "(drained-by-other): gpu-marked: drained by bob since 2026-03-01 10:15 UTC: fans" in ran.stderr
    assert machine.downs == downs
    assert json.loads(machine.run(f"cat {MARKER}"))["by"] == "bob"


def test_a_reboot_that_would_end_the_drain_of_somebody_else_says_so(
    machine: Machine, inventory: Path, gputop: Gputop
) -> None:
    mark(machine, BOBS)
    plan = gputop("reboot", "-f", inventory, machine.name, *REASON, "--override", "bob is ill")
    assert "loses  the drain of bob: a boot removes its marker" in plan.stdout


def test_a_drain_of_what_somebody_else_drained_stays_theirs(machine: Machine, inventory: Path, gputop: Gputop) -> None:
    mark(machine, BOBS)
    ran = gputop("drain", "-f", inventory, machine.name, *DO, *REASON, "--for", "2h")
    assert ran.returncode == 0, ran.stderr
    assert "verified    drained     2 devices empty; drained by bob since 2026-03-01 10:15 UTC: fans" in ran.stdout
    assert gputop("actions").stdout == ""
    assert json.loads(machine.run(f"cat {MARKER}")) == json.loads(BOBS)


@pytest.mark.parametrize("text", ["maintenance until friday", "none"])
def test_a_marker_of_somebody_unknown_has_no_date_that_nobody_wrote(
    text: str, machine: Machine, inventory: Path, gputop: Gputop
) -> None:
    mark(machine, text)
    ran = gputop("resume", "-f", inventory, machine.name, *DO)
    assert ran.returncode == 4, ran.stdout
    assert f"drained by somebody unknown: a marker that is not gputop's: {text}" in ran.stderr


def test_a_resume_undoes_what_the_drain_did_and_nothing_else(
    machine: Machine, machines: Machines, gputop: Gputop
) -> None:
    inventory = by_policy(machines, machine, "compute_mode: true, nologin: true, stop_units: [launcher]")
    machine.run("echo 'an admin was here' >/run/nologin")
    machine.devices(gpu__0__compute_mode="3", gpu__1__compute_mode="0")
    assert gputop("drain", "-f", inventory, machine.name, *DO, *REASON).returncode == 0
    assert machine.run("nvidia-smi --query-gpu=compute_mode") == "Prohibited\nProhibited\n"
    resumed = gputop("resume", "-f", inventory, machine.name, *DO)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert machine.run("nvidia-smi --query-gpu=compute_mode") == "Exclusive_Process\nDefault\n"
    assert machine.run("cat /run/nologin") == "an admin was here\n"
    assert machine.systemctl_calls() == []  # it did not run before


def test_a_second_drain_forgets_nothing_of_how_it_was_before(
    machine: Machine, machines: Machines, gputop: Gputop
) -> None:
    inventory = by_policy(machines, machine, "compute_mode: true, nologin: true, stop_units: [launcher]")
    machine.run("systemctl start launcher")
    assert gputop("cordon", "-f", inventory, machine.name, *DO).returncode == 0
    for more in (("--for", "2h"), ()):
        ran = gputop("drain", "-f", inventory, machine.name, *DO, *REASON, *more)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    marker = json.loads(machine.run(f"cat {MARKER}"))
    assert marker["until"] is not None
    assert marker["reason"] == "replace NIC, ticket 4711"
    assert not machine.runs("launcher")
    resumed = gputop("resume", "-f", inventory, machine.name, *DO)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert machine.runs("launcher")
    assert machine.run("ls /run/nologin 2>/dev/null || echo none") == "none\n"
    assert machine.run("nvidia-smi --query-gpu=compute_mode") == "Default\nDefault\n"


def test_a_unit_that_comes_back_by_itself_is_stopped(machine: Machine, machines: Machines, gputop: Gputop) -> None:
    inventory = by_policy(machines, machine, "stop_units: [launcher]")
    machine.run("touch /run/units/launcher.restarts")
    ran = gputop("drain", "-f", inventory, machine.name, *DO, *REASON)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert machine.systemctl_calls() == ["stop launcher"]


def test_a_unit_of_which_nothing_is_known_is_not_taken_for_stopped(
    machine: Machine, machines: Machines, gputop: Gputop
) -> None:
    inventory = by_policy(machines, machine, "stop_units: [launcher]")
    (machine.folder / "no-bus").touch()
    try:
        ran = gputop("drain", "-f", inventory, machine.name, *DO, *REASON)
    finally:
        (machine.folder / "no-bus").unlink()
    assert ran.returncode == 1, ran.stdout
    assert "stop launcher: exit status 1: Failed to connect to bus" in ran.stdout


def test_a_host_with_a_marker_of_another_make_is_not_drained_by_policy(
    machine: Machine, machines: Machines, gputop: Gputop
) -> None:
    inventory = by_policy(machines, machine, "nologin: true")
    mark(machine, "maintenance until friday")
    ran = gputop("drain", "-f", inventory, machine.name, *DO, *REASON)
    assert ran.returncode == 4, ran.stdout
    assert "how the host was before cannot be noted there" in ran.stderr
    assert machine.run("ls /run/nologin 2>/dev/null || echo none") == "none\n"
