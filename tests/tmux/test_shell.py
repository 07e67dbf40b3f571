"""`s` in a real terminal, on real servers: a pane beside gputop in tmux, else in its place and back."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.transport.foreground import in_tmux
from tests.needs import need
from tests.ssh.fleet import Fleet, inventory, new_folder
from tests.tmux.pane import Pane, screen, wait_for

pytestmark = [pytest.mark.tmux, pytest.mark.sshd]

GPUTOP = [sys.executable, "-m", "gputop"]


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    """Two servers, and one that is down."""
    need("sshd", "needs OpenSSH's server: make services")
    folder = new_folder()
    fleet = Fleet(folder)
    try:
        for name in ("gpu-a", "gpu-b"):
            fleet.add(name)
        fleet.add("gpu-down", start=False)
        (folder / "inventory.yaml").write_text(inventory(fleet))
        yield fleet
    finally:
        fleet.stop()
        shutil.rmtree(folder, ignore_errors=True)


def on(fleet: Fleet, host: str) -> list[str]:
    return [*GPUTOP, "-f", str(fleet.folder / "inventory.yaml"), host]


def see(pane: Pane, sign: str) -> None:
    try:
        wait_for(lambda: sign in pane.text(), repr(sign), seconds=40)
    except AssertionError as failure:
        raise AssertionError(f"{failure}\n{pane.text()}") from failure


def panes(pane: Pane) -> list[str]:
    return pane.tmux("list-panes", "-s", "-F", "#{pane_id}").split()


def typed(pane: Pane, line: str) -> None:
    pane.tmux("send-keys", "-l", line)
    pane.keys("Enter")


def drawn(pane: Pane, host: str) -> None:
    """The screen, once the host answers in some way."""
    try:
        wait_for(
            lambda: re.search(rf"{host} +(ok|degraded|unreachable) ", pane.text()), f"{host} to be told", seconds=40
        )
    except AssertionError as failure:
        raise AssertionError(f"{failure}\n{pane.text()}") from failure


def test_in_tmux_a_pane_opens_that_is_really_on_that_host_and_its_end_leads_back(fleet: Fleet) -> None:
    server = next(server for server in fleet.servers if server.name == "gpu-b")
    with screen(120, 36, program=on(fleet, "gpu-b")) as pane:
        drawn(pane, "gpu-b")
        pane.keys("s")
        wait_for(lambda: len(panes(pane)) == 2, "a second pane")
        typed(pane, "echo at:${GPUTOP_TEST_SERVER##*/}:${SSH_CONNECTION##* }")
        see(pane, f"at:gpu-b:{server.port}")
        typed(pane, "exit")
        wait_for(lambda: len(panes(pane)) == 1, "the pane to close")
        see(pane, "1 Hosts")
        pane.keys("q")
        assert pane.exit_code() == 0


def test_in_tmux_the_words_of_an_ssh_that_fails_can_be_read(fleet: Fleet) -> None:
    with screen(120, 36, program=on(fleet, "gpu-down")) as pane:
        drawn(pane, "gpu-down")
        pane.keys("s")
        see(pane, "Connection refused")
        see(pane, "Enter closes the pane")
        pane.keys("Enter")
        wait_for(lambda: len(panes(pane)) == 1, "the pane to close")


def test_without_tmux_ssh_takes_the_terminal_and_gives_it_back(fleet: Fleet) -> None:
    with screen(100, 30, program=on(fleet, "gpu-a"), TMUX="") as pane:
        drawn(pane, "gpu-a")
        pane.keys("s")
        see(pane, "its end leads back to the screen")
        assert pane.flags()["alternate_on"] == "0"
        typed(pane, "echo at:${GPUTOP_TEST_SERVER##*/}")
        see(pane, "at:gpu-a")
        pane.resize(110, 32)
        typed(pane, "sh -c 'echo sleeps:$((40+2)); exec sleep 500'")
        see(pane, "sleeps:42")
        pane.keys("C-c")
        typed(pane, "echo still:$((40+2))")
        see(pane, "still:42")
        typed(pane, "printf '\\033[?1000h\\033[?1049h'")  # a program that leaves its traces
        typed(pane, "exit")
        drawn(pane, "gpu-a")
        assert pane.flags()["alternate_on"] == "1"
        assert pane.flags()["mouse_any_flag"] == "0"
        assert len(panes(pane)) == 1
        wait_for(lambda: len(pane.text().splitlines()[-1]) > 100, "the screen in the new size")
        pane.keys("?")
        see(pane, "A shell on the host by your own ssh")
        pane.keys("Escape")
        drawn(pane, "gpu-a")
        pane.keys("q")
        assert pane.exit_code() == 0
        pane.assert_clean()


def test_without_tmux_a_failure_stays_until_enter(fleet: Fleet) -> None:
    with screen(100, 30, program=on(fleet, "gpu-down"), TMUX="") as pane:
        drawn(pane, "gpu-down")
        pane.keys("s")
        see(pane, "Connection refused")
        see(pane, "Enter leads back to gputop")
        pane.keys("Enter")
        drawn(pane, "gpu-down")
        pane.keys("q")
        assert pane.exit_code() == 0
        pane.assert_clean()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_ends_gputop_and_its_ssh_while_it_has_no_terminal(fleet: Fleet, number: signal.Signals) -> None:
    with screen(100, 30, program=on(fleet, "gpu-a"), TMUX="") as pane:
        drawn(pane, "gpu-a")
        program = pane.program()
        pane.keys("s")
        see(pane, "its end leads back")
        typed(pane, "echo at:${GPUTOP_TEST_SERVER##*/}")
        see(pane, "at:gpu-a")
        children = Path(f"/proc/{program}/task/{program}/children").read_text().split()
        (ssh,) = [child for child in children if Path(f"/proc/{child}/comm").read_text().strip() == "ssh"]
        os.kill(program, number)
        assert pane.exit_code() == 128 + number, pane.text()
        wait_for(lambda: not Path(f"/proc/{ssh}").exists(), "ssh to end")
        pane.assert_clean()


def test_ctrl_z_stops_both_and_fg_brings_both_back(fleet: Fleet) -> None:
    """While ssh asks or connects, the keys of the terminal still make signals."""
    with screen(100, 30, program=["bash", "--norc", "-i"], TMUX="", PS1="prompt>") as pane:
        see(pane, "prompt>")
        typed(pane, " ".join(on(fleet, "gpu-down")))
        drawn(pane, "gpu-down")
        pane.keys("s")
        see(pane, "Enter leads back to gputop")
        pane.keys("C-z")
        see(pane, "Stopped")
        typed(pane, "fg")
        pane.keys("Enter")
        drawn(pane, "gpu-down")
        pane.keys("q")
        wait_for(lambda: pane.flags()["alternate_on"] == "0", "gputop to leave")
        typed(pane, "exit")
        assert pane.exit_code() == 0


def test_this_machine_gives_its_own_shell() -> None:
    with screen(100, 30, program=[*GPUTOP, "local"], TMUX="", SHELL="/bin/bash", MARK="of-the-test") as pane:
        see(pane, "1 degraded")
        pane.keys("s")
        see(pane, "bash on ")
        typed(pane, "echo mark:$MARK:${SSH_CONNECTION-no-ssh}")
        see(pane, "mark:of-the-test:")
        typed(pane, "exit")
        see(pane, "1 degraded")
        pane.keys("q")
        assert pane.exit_code() == 0
        pane.assert_clean()


def test_a_host_of_the_demo_has_a_shell_that_says_what_it_is() -> None:
    with screen(100, 30, program=[*GPUTOP, "demo", "--hosts", "6"]) as pane:
        see(pane, "● ")
        pane.keys("G", "s")
        see(pane, "simulated by the demo of gputop")
        typed(pane, "nvidia-smi -q")
        see(pane, "Process")
        typed(pane, "exit")
        wait_for(lambda: len(panes(pane)) == 1, "the pane to close")


@pytest.mark.parametrize("columns", [100, 200])
async def test_tmux_hands_every_word_on_as_it_is(tmp_path: Path, columns: int) -> None:
    odd = ["a;", ";", "a\\;", "#{pane_id}", "$(touch x)", "`touch x`", "' \"", "", "-t", "%1", "~", "a\nb", "ü"]
    told = tmp_path / "told"
    script = "import sys; open(sys.argv[1], 'w').write(ascii(sys.argv[2:]))"
    with screen(100, 30, program=["sleep", "600"]) as pane:
        wait_for(lambda: panes(pane), "the pane")
        tmux = {"TMUX": f"{pane.folder / 'tmux.sock'},0,0", "TMUX_PANE": panes(pane)[0]}
        argv = [sys.executable, "-c", script, str(told), *odd]
        assert await in_tmux(argv, {**os.environ, **tmux, "SSH_AUTH_SOCK": "/x;"}, columns)
        assert wait_for(lambda: told.exists() and told.read_text(), "the words") == ascii(odd)


async def test_a_pane_without_room_for_another_gets_a_window(tmp_path: Path) -> None:
    with screen(20, 2, program=["sleep", "600"]) as pane:
        wait_for(lambda: panes(pane), "the pane")
        tmux = {"TMUX": f"{pane.folder / 'tmux.sock'},0,0", "TMUX_PANE": panes(pane)[0]}
        assert await in_tmux(["sleep", "600"], {**os.environ, **tmux}, 20)
        assert len(pane.tmux("list-windows").splitlines()) == 2


async def test_a_tmux_that_is_gone_is_none(tmp_path: Path) -> None:
    gone = {"TMUX": f"{tmp_path / 'no.sock'},0,0", "TMUX_PANE": "%0"}
    assert not await in_tmux(["true"], {**os.environ, **gone}, 100)
    assert not await in_tmux(["true"], {**os.environ, **gone, "PATH": str(tmp_path)}, 100)
    assert not await in_tmux(["true"], {key: value for key, value in os.environ.items() if key != "TMUX"}, 100)
