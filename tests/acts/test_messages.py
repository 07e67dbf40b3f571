"""People who are logged in are told, on real terminals with an entry in utmp; who could not be told is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputop.schedulers.none import TELL
from tests.acts.conftest import Gputop
from tests.acts.machines import SUDOERS, Machine, Machines
from tests.acts.steps import DO, REASON, audit_of, wait_for

WALL = 'ops ALL=(root) NOPASSWD: /usr/bin/wall ""\n'
Make = Callable[..., tuple[Machine, Path]]
TEXT = ("--text", "maintenance at noon")


@pytest.fixture
def make(machines: Machines) -> Iterator[Make]:
    """A machine of its own for each test."""
    made: list[Machine] = []

    def add(name: str, **fields: str) -> tuple[Machine, Path]:
        machine = machines.add(name, **fields)
        made.append(machine)
        return machine, machines.inventory(names=(name,))

    yield add
    for machine in made:
        machine.stop()


def test_nobody_logged_in_is_no_failure(make: Make, gputop: Gputop) -> None:
    machine, inventory = make("empty-room")
    ran = gputop("message", "-f", inventory, machine.name, *DO, *TEXT)
    assert ran.returncode == 0, ran.stderr
    assert "verified    active      nobody is logged in" in ran.stdout


def test_an_account_without_the_right_to_write_to_others_says_whom_it_could_not_tell(
    make: Make, gputop: Gputop
) -> None:
    machine, inventory = make("no-rights")
    eve = machine.terminal("eve")
    nobody = gputop("message", "-f", inventory, machine.name, *DO, *TEXT)
    assert nobody.returncode == 1, nobody.stdout
    assert "told 0 of 1 terminals; not told: eve on pts/" in nobody.stdout
    own = machine.terminal("ops")
    some = gputop("message", "-f", inventory, machine.name, *DO, *TEXT)
    assert some.returncode == 0, some.stderr
    assert "told 1 of 2 terminals; not told: eve on pts/" in some.stdout
    wait_for(lambda: "maintenance at noon" in own.text, "ops was not told")
    assert eve.text == ""


@pytest.mark.parametrize(("user", "sudoers"), [("root", SUDOERS), ("ops", SUDOERS + WALL)])
def test_everybody_is_told_by_root_or_by_one_line_of_sudoers(
    user: str,
    sudoers: str,
    make,
    machines: Machines,
    gputop: Gputop,
) -> None:
    machine, _ = make(f"rights-{user}", sudoers=sudoers)
    inventory = machines.inventory(user=user, names=(machine.name,))
    terminals = [machine.terminal("eve"), machine.terminal("ops")]
    ran = gputop("message", "-f", inventory, machine.name, *DO, *TEXT)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert "told 2 of 2 terminals" in ran.stdout
    for terminal in terminals:
        wait_for(lambda terminal=terminal: "Message from root: maintenance at noon" in terminal.text, terminal.name)


def test_a_name_is_no_pattern(make: Make) -> None:
    """`e.e` is not told what `eve` runs."""
    machine, _ = make("patterns")
    machine.run("echo e.e:x:2002:2002::/:/bin/sh >>/etc/passwd")
    eve, dotted = machine.terminal("eve"), machine.terminal("e.e")
    (machine.folder / "lines").write_text("all:maintenance\nof eve:what eve runs\nof e.e:what the other runs\n")
    (machine.folder / "tell").write_text(TELL)
    machine.run(f"sh {machine.folder}/tell <{machine.folder}/lines")
    wait_for(lambda: "what eve runs" in eve.text, "eve was not told")
    wait_for(lambda: "what the other runs" in dotted.text, "the other was not told")
    assert "what eve runs" not in dotted.text


def test_a_drain_tells_each_person_what_of_theirs_runs_and_nobody_else(
    make,
    machines: Machines,
    gputop: Gputop,
) -> None:
    machine, _ = make("private")
    inventory = machines.inventory(user="root", names=(machine.name,))
    eve, own = machine.terminal("eve"), machine.terminal("ops")
    pid = machine.spawn()
    machine.devices(gpu__0__compute=f"{pid}:4096")
    gputop("drain", "-f", inventory, machine.name, *DO, *REASON, "--no-wait")
    line = f"Still yours here: sleep (pid {pid}, GPU 0)"
    wait_for(lambda: line in own.text, "ops was not told what runs")
    assert "private is being drained by" in own.text
    wait_for(lambda: "private is being drained by" in eve.text, "eve was not told")
    assert line not in eve.text
    [told] = [step for step in audit_of(gputop, "--event", "step") if step["step"] == "scheduler.tell"]
    assert (told["result"], told["summary"]) == ("verified", "told 2 of 2 terminals")
