"""The screen on a real machine ends in the middle of an act: it says so, and the next one knows."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.acts.machines import SUDOERS, Machine, Machines
from tests.acts.pane import confirm, gputop_on, leave, see

pytestmark = [pytest.mark.tmux, pytest.mark.sshd]

HOST = "gpu-l"


@pytest.fixture(scope="module")
def machine(machines: Machines) -> Machine:
    return machines.add(HOST, sudoers=SUDOERS + 'ops ALL=(root) NOPASSWD: /usr/bin/wall ""\n')


@pytest.fixture(scope="module")
def inventory(machines: Machines, machine: Machine) -> Path:
    return machines.inventory(names=(HOST,))


@pytest.mark.parametrize("end", ["ctrl-c", "SIGTERM"])
def test_a_drain_that_waits_when_the_screen_ends_is_told_of(
    end: str, machine: Machine, inventory: Path, tmp_path: Path
) -> None:
    machine.wait_until_up()
    machine.run("rm -rf /run/gputop")
    machine.devices(gpu__0__compute="1:4096", gpu__0__mem_used="4100")
    with gputop_on(inventory, HOST, state=tmp_path) as pane:
        pane.keys("D")
        confirm(pane, HOST, "NIC", "")
        see(pane, "1 act under way")
        if end == "ctrl-c":
            pane.keys("C-c")
            see(pane, "1 act under way. Nothing more of it is begun once you quit")
            pane.keys("C-c")
        else:
            os.kill(pane.program(), signal.SIGTERM)
        assert pane.exit_code() == (0 if end == "ctrl-c" else 128 + signal.SIGTERM)
        pane.assert_clean()
        plan = next(tmp_path.glob("**/*-drain-*.jsonl")).stem
        assert f"drain of {HOST} is unfinished: gputop actions --resume {plan}" in pane.text().replace("\n", "")
    with gputop_on(inventory, state=tmp_path) as pane:
        see(pane, "1 unfinished: 9")
        pane.keys("9")
        see(pane, "Unfinished")
        leave(pane)
