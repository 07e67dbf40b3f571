"""Acts by key in a real terminal, on a real machine over SSH: from the key to what has become of the machine.

One machine serves all of them. Its devices are those of NVML's and nvidia-smi's doubles; processes, sshd, sudo, boots
and terminals are real."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acts.conftest import Gputop
from tests.acts.machines import EVE_ID, OPS_ID, SUDOERS, Machine, Machines
from tests.acts.pane import back, cancel, closed, confirm, fill_in, focused, gputop_on, leave, press, see, type_in
from tests.acts.steps import DO, audit_of, wait_for
from tests.tmux.pane import Pane

pytestmark = [pytest.mark.tmux, pytest.mark.sshd]

HOST = "gpu-s"

CATCHES = """\
import os, signal, sys
def caught(number, frame):
    open(sys.argv[1], "w").write(signal.Signals(number).name)
    os._exit(0)
signal.signal(signal.SIGINT, caught)
signal.signal(signal.SIGTERM, caught)
device = open("/dev/nvidia0")
print(os.getpid(), flush=True)
os.close(1)
while True:
    signal.pause()
"""
"""A program that uses a device and writes down which signal ended it."""


@pytest.fixture(scope="module")
def machine(machines: Machines) -> Machine:
    return machines.add(HOST, sudoers=SUDOERS + 'ops ALL=(root) NOPASSWD: /usr/bin/wall ""\n')


@pytest.fixture(scope="module")
def inventory(machines: Machines, machine: Machine) -> Path:
    return machines.inventory(names=(HOST,))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Where `gputop` of the same test looks too."""
    return tmp_path / "state"


@pytest.fixture(autouse=True)
def idle(machine: Machine) -> Iterator[None]:
    machine.wait_until_up()
    machine.devices(gpu__0__compute="", gpu__0__mem_used="", gpu__0__error="", gpu__power_limit="700")
    machine.run("rm -rf /run/gputop")
    for log in ("smi.log", "systemctl.log"):
        (machine.folder / log).write_text("")
    yield
    machine.run("pkill -x sleep; pkill -f [c]atches.py; :")


def busy(machine: Machine, pid: int) -> None:
    machine.devices(gpu__0__compute=f"{pid}:4096", gpu__0__mem_used="4100")


def catcher(machine: Machine, log: Path) -> int:
    """A process of ops on GPU 0 that writes into `log` what ended it."""
    script = machine.folder / "catches.py"
    script.write_text(CATCHES)
    log.touch()
    log.chmod(0o666)
    return int(
        machine.run(f"setpriv --reuid 2000 --regid 2000 --clear-groups /usr/bin/python3 {script} {log} 2>/dev/null &")
    )


def on_process(pane: Pane, pid: int) -> None:
    """The cursor on the only process, which the table knows by all that a signal needs."""
    pane.keys("3")
    see(pane, rf"{HOST} +{pid} +ops ", as_pattern=True)
    pane.keys("g")


def ask_signal(pane: Pane, name: str) -> None:
    pane.keys("K")
    see(pane, "INT as ctrl-c does")
    assert focused(pane) == "Cancel"
    press(pane, name)


# --- signals --------------------------------------------------------------------------------------------------------


def test_the_menu_of_signals_sends_the_chosen_one_to_that_process(
    machine: Machine, inventory: Path, state: Path, gputop: Gputop
) -> None:
    with gputop_on(inventory, HOST, state=state) as pane:
        for name, caught in (("INT", "SIGINT"), ("TERM", "SIGTERM"), ("KILL", "")):
            log = machine.folder / f"caught-{name}"
            pid = catcher(machine, log)
            busy(machine, pid)
            on_process(pane, pid)
            ask_signal(pane, name)
            assert "catches.py" in see(pane, f"send {name} to {pid}")
            confirm(pane, HOST, "hangs since noon")
            wait_for(lambda pid=pid: not machine.run(f"ls -d /proc/{pid} 2>/dev/null || :"), f"{name} ends it")
            assert log.read_text() == caught
        pane.keys("9")
        see(pane, f"● Send KILL to {pid} on")
        leave(pane)
    outcomes = audit_of(gputop, "--act", "signal", "--event", "outcome")
    assert [outcome["result"] for outcome in outcomes] == ["verified"] * 3
    assert {outcome["reason"] for outcome in outcomes} == {"hangs since noon"}


SAME_NUMBER = """\
kill {pid}
while [ -d /proc/{pid} ]; do sleep 0.02; done
for try in 1 2 3 4 5 6 7 8 9; do
    echo {before} >/proc/sys/kernel/ns_last_pid
    setpriv --reuid {user} --clear-groups sleep 10000 </dev/null >/dev/null 2>&1 3</dev/nvidia0 &
    [ $! = {pid} ] && exit
    kill $!
done
exit 1
"""
"""Lets a process of `user` take the number of one that ends."""


@pytest.mark.parametrize("user", [OPS_ID, EVE_ID], ids=["of another start time", "of another owner"])
def test_a_process_that_took_the_number_of_the_chosen_one_gets_no_signal(
    user: int, machine: Machine, inventory: Path, state: Path, gputop: Gputop
) -> None:
    pid = machine.spawn()
    busy(machine, pid)
    with gputop_on(inventory, HOST, state=state) as pane:
        on_process(pane, pid)
        ask_signal(pane, "KILL")
        see(pane, f"send KILL to {pid}")
        machine.run(SAME_NUMBER.format(pid=pid, before=pid - 1, user=user))
        fill_in(pane, HOST, "hangs")
        pane.keys("Enter")
        text = see(pane, "things have changed meanwhile: gpu-s: the process has changed")
        assert "Signal  " not in text, "there is nothing to press but Cancel"
        cancel(pane)
        leave(pane)
    assert machine.run(f"cat /proc/{pid}/comm").strip() == "sleep", "it lives"
    assert [record for record in audit_of(gputop) if record["event"] != "refused"] == []


def test_a_process_of_which_only_the_number_is_known_gets_no_signal(
    machine: Machine, inventory: Path, state: Path
) -> None:
    machine.devices(gpu__0__compute="4000000:4096")
    with gputop_on(inventory, HOST, state=state) as pane:
        pane.keys("3")
        see(pane, rf"{HOST} +4000000 +\? ", as_pattern=True)
        ask_signal(pane, "KILL")
        text = see(pane, "only the number of process 4000000 is known")
        assert "To confirm" not in text
        cancel(pane)
        leave(pane)


# --- GPUs -----------------------------------------------------------------------------------------------------------


def test_a_gpu_that_is_held_is_not_reset_and_is_once_it_is_let_go(
    machine: Machine, inventory: Path, state: Path, gputop: Gputop
) -> None:
    pid = machine.spawn()
    with gputop_on(inventory, HOST, state=state) as pane:
        pane.keys("2", "g", "R")
        assert "To confirm" not in see(pane, f"sleep (pid {pid}) of ops has GPU 0 open")
        cancel(pane)
        machine.run(f"kill {pid}")
        pane.keys("R")
        see(pane, "sudo -n nvidia-smi --gpu-reset -i GPU-gpu-s-0")
        assert machine.smi_calls() == []
        confirm(pane, HOST, "fell off the bus")
        pane.keys("9")
        see(pane, "verified: 1 of 1 GPU is well")
        leave(pane)
    assert machine.smi_calls() == ["--gpu-reset -i GPU-gpu-s-0"]
    assert audit_of(gputop, "--event", "outcome")[-1]["result"] == "verified"


def test_a_power_cap_is_set_and_undone_to_what_it_was(machine: Machine, inventory: Path, state: Path) -> None:
    with gputop_on(inventory, HOST, state=state) as pane:
        pane.keys("2", "g", "P")
        see(pane, "GPU 0: 700 W now, 700 W by default")
        pane.keys("Tab")
        type_in(pane, "450")
        pane.keys("Enter")
        see(pane, "GPU 0 to 450 W")
        confirm(pane, HOST, "too hot")
        pane.keys("9")
        see(pane, "● Set the power cap")
        pane.keys("Enter")
        see(pane, "undo it: the power limits before it come back")
        pane.keys("Enter")
        see(pane, f"Type {HOST}")
        pane.keys("Tab")
        type_in(pane, HOST)
        see(pane, rf"Type {HOST} +{HOST} ", as_pattern=True)
        pane.keys("Enter")
        closed(pane)
        wait_for(lambda: len(calls_that_cap(machine)) == 2, "the old limit is set again")
        leave(pane)
        see(pane, "ENDED")
    assert calls_that_cap(machine) == ["-i GPU-gpu-s-0 -pl 450", "-i GPU-gpu-s-0 -pl 700"]


def test_a_second_power_cap_remembers_the_first_one_and_not_what_was_before(
    machine: Machine, inventory: Path, state: Path
) -> None:
    with gputop_on(inventory, HOST, state=state) as pane:
        for watts, before in ((450, 700), (400, 450)):
            pane.keys("2", "g", "P")
            see(pane, "Show the plan")
            pane.keys("Tab")
            type_in(pane, str(watts))
            pane.keys("Enter")
            see(pane, f"GPU 0 to {watts} W")
            assert f"GPU 0 now: {before} W" in pane.text()
            confirm(pane, HOST, "too hot")
            pane.keys("9")
            see(pane, f"verified: {watts} W")
            back(pane)
        leave(pane)


def calls_that_cap(machine: Machine) -> list[str]:
    return [call for call in machine.smi_calls() if "-pl" in call]


# --- hosts ----------------------------------------------------------------------------------------------------------


def test_a_host_is_drained_rebooted_and_cordoned_and_the_same_again(
    machine: Machine, inventory: Path, state: Path, gputop: Gputop
) -> None:
    with gputop_on(inventory, HOST, state=state) as pane:
        pane.keys("C")
        see(pane, "/run/gputop/drain.json")
        confirm(pane, HOST, "look at it", "")
        see(pane, rf"{HOST} +drained ", as_pattern=True)
        pane.keys("U")
        see(pane, "rm -f /run/gputop/drain.json")
        confirm(pane, HOST, "")
        see(pane, rf"● {HOST} +ok ", as_pattern=True)
        pane.keys("D")
        see(pane, "/run/gputop/drain.json")
        confirm(pane, HOST, "new kernel", "2h")
        see(pane, rf"{HOST} +drained ", as_pattern=True)
        before, downs = machine.boot_id, machine.downs
        pane.keys("B")
        see(pane, "reboot over SSH")
        confirm(pane, HOST, "new kernel")
        see(pane, rf"{HOST} +rebooting ", as_pattern=True)
        see(pane, rf"● {HOST} +ok ", as_pattern=True)
        assert (machine.downs, machine.boot_id != before) == (downs + 1, True)
        pane.keys(".")
        assert "not drained" in see(pane, f"Reboot {HOST}"), "the same act, looked at again"
        cancel(pane)
        leave(pane)
    outcomes = audit_of(gputop, "--event", "outcome")
    assert [(one["act"], one["result"]) for one in outcomes] == [
        ("cordon", "verified"), ("resume", "verified"), ("drain", "verified"), ("reboot", "verified"),
    ]  # fmt: skip


def test_people_on_a_host_get_a_message(machine: Machine, inventory: Path, state: Path) -> None:
    eve, text = machine.terminal("eve"), "down at noon; $(touch ran) 'and' \"why\" `id`"
    with gputop_on(inventory, HOST, state=state) as pane:
        pane.keys("M")
        see(pane, f"Message to the people on {HOST}")
        pane.keys("Tab")
        type_in(pane, text)
        pane.keys("Enter")
        assert text in see(pane, "tell people")
        press(pane, "Write")
        closed(pane)
        pane.keys("9")
        see(pane, "told 1 of 1 terminals")
        leave(pane)
    wait_for(lambda: text in eve.text, "eve was not told")
    assert not list(machine.folder.rglob("ran"))


def test_faults_are_acknowledged_from_the_palette_and_the_gate_of_a_resume_then_knows_of_them(
    machine: Machine, inventory: Path, state: Path, gputop: Gputop
) -> None:
    machine.kernel_log("[  100.500000] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.")
    try:
        with gputop_on(inventory, HOST, state=state) as pane:
            pane.keys(":")
            see(pane, "a command")
            type_in(pane, "acknowledge")
            see(pane, "a resume counts later ones")
            pane.keys("Enter")
            see(pane, "known from then on: Xid 79 on 0000:3b:00")
            confirm(pane, HOST, "riser replaced")
            pane.keys("9")
            see(pane, "verified: acknowledged: Xid 79")
            leave(pane)
        gate = gputop("resume", "-f", inventory, HOST, *DO, "--format", "json").stdout
    finally:
        machine.kernel_log()
    assert "no fatal Xid since ack by" in gate


# --- what is refused ------------------------------------------------------------------------------------------------


def test_read_only_every_key_shows_its_plan_and_none_does_anything(
    machine: Machine, inventory: Path, state: Path
) -> None:
    pid = machine.spawn()
    busy(machine, pid)
    with gputop_on(inventory, HOST, state=state, allowed=False) as pane:
        on_process(pane, pid)
        for key in "CUDXOBRKPM":
            pane.keys(key)
            if key == "K":
                see(pane, "INT as ctrl-c does")
                press(pane, "KILL")
            elif key in "PM":
                see(pane, "Show the plan")
                pane.keys("Tab")
                type_in(pane, "450")
                pane.keys("Enter")
            see(pane, "gputop is read-only")
            text = see(pane, "start with --allow-actions")
            assert "To confirm" not in text
            cancel(pane)
        leave(pane)
    assert machine.run(f"cat /proc/{pid}/comm").strip() == "sleep"
    assert machine.smi_calls() == []
    assert machine.run("ls /run/gputop 2>/dev/null || :") == ""


def test_a_host_that_falls_silent_behind_its_open_plan_is_left_alone_when_that_is_cancelled(
    machine: Machine, inventory: Path, state: Path, gputop: Gputop
) -> None:
    with gputop_on(inventory, HOST, state=state) as pane:
        pane.keys("2", "g", "R")
        fill_in(pane, HOST, "hangs")
        silence(machine)
        try:
            pane.keys("Enter")
            see(pane, "looking at it once more before anything is done")
            cancel(pane)
        finally:
            wake(machine)
        pane.keys("1")
        see(pane, rf"● {HOST} +ok ", as_pattern=True)
        pane.keys("9")
        see(pane, "Under way\n   nothing")
        leave(pane)
    assert machine.smi_calls() == []
    assert {record["event"] for record in audit_of(gputop)} <= {"intent"}


def test_a_host_that_is_down_is_not_acted_on_by_what_was_known_of_it(
    machine: Machine, inventory: Path, state: Path
) -> None:
    off = machine.folder / "off"
    with gputop_on(inventory, HOST, state=state) as pane:
        off.touch()
        machine.crash()
        try:
            for key in "RCDB":
                pane.keys(key)
                assert "To confirm" not in see(pane, "there is no reading of now")
                cancel(pane)
        finally:
            off.unlink()
        leave(pane)
    machine.wait_until_up()
    assert machine.smi_calls() == []


def silence(machine: Machine) -> None:
    """It accepts connections, and nothing on it runs."""
    init = machine.init_pid()
    machine.run("kill -STOP -1")
    os.kill(init, signal.SIGSTOP)


def wake(machine: Machine) -> None:
    os.kill(machine.init_pid(), signal.SIGCONT)
    machine.run("kill -CONT -1")
