"""Two operators with accounts of their own, here and on the host, do not act on one host at the same time."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from msgspec import structs

from gputop.actions.hostlock import HostLocks
from gputop.actions.journal import InUse, JournalFailed, locked
from gputop.domain.action import ActionKind, Plan
from gputop.domain.clock import SystemClock
from gputop.domain.host import HostSpec
from gputop.transport.runner import ProgramRunner
from gputop.transport.ssh import SshTransport
from tests.acts.conftest import Background, Gputop
from tests.acts.machines import SUDOERS, Machine, Machines
from tests.acts.steps import DO, REASON, wait_for
from tests.fakes.acts import a_plan, a_request, an_evidence

FOLDER = "/run/lock"


@pytest.fixture(scope="module")
def machine(machines: Machines) -> Machine:
    return machines.add("gpu-shared", sudoers=SUDOERS + SUDOERS.replace("ops ", "eve "))


@pytest.fixture(autouse=True)
def idle(machine: Machine) -> None:
    machine.wait_until_up()
    machine.devices(gpu__0__compute="")
    machine.run(f"rm -rf /run/gputop {FOLDER}/* /dev/shm/*; chmod 1777 {FOLDER}")


class Operator:
    """Somebody with a state folder, a name here and an account on the host."""

    def __init__(self, name: str, account: str, machines: Machines, machine: Machine, gputop: Gputop, folder: Path):
        self._gputop, self._host = gputop, machine.name
        self.inventory = machines.inventory(user=account, names=(machine.name,))
        self.environment = {"SUDO_USER": name, "XDG_STATE_HOME": str(folder / name)}

    def argv(self, act: str, *more: str) -> tuple[str | Path, ...]:
        return (act, "-f", self.inventory, self._host, *DO, *REASON, *more)

    def run(self, act: str, *more: str) -> subprocess.CompletedProcess[str]:
        return self._gputop(*self.argv(act, *more), **self.environment)

    def say(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return self._gputop(*argv, **self.environment)


@pytest.fixture
def ana(machines: Machines, machine: Machine, gputop: Gputop, tmp_path: Path) -> Operator:
    return Operator("ana", "ops", machines, machine, gputop, tmp_path)


@pytest.fixture
def bob(machines: Machines, machine: Machine, gputop: Gputop, tmp_path: Path) -> Operator:
    return Operator("bob", "eve", machines, machine, gputop, tmp_path)


def marks(machine: Machine, folder: str = FOLDER) -> list[str]:
    return machine.run(f"ls {folder}").split()


def test_the_second_of_two_is_refused_and_told_who_is_at_it_since_when(
    machine: Machine, ana: Operator, bob: Operator, gputop_in_background: Background
) -> None:
    machine.devices(gpu__0__compute="4000000:100")
    drain = gputop_in_background(*ana.argv("drain"), **ana.environment)
    wait_for(lambda: "drain.json" in machine.run("ls /run/gputop 2>/dev/null || :"), "the drain was not begun")
    [mark] = marks(machine)
    holder = json.loads(machine.run(f"sed -n 4p {FOLDER}/{mark}"))
    assert (holder["by"], holder["act"], holder["bastion"]) == ("ana", "drain", os.uname().nodename)
    for act, more in (("drain", ()), ("cordon", ()), ("resume", ("--consent", "drained-by-other"))):
        refused = bob.run(act, *more)
        assert refused.returncode == 4, (act, refused.stdout)
        assert "ana acts on it (drain) since 20" in refused.stderr
        assert f"from {os.uname().nodename}, as account ops of the host: nothing was done" in refused.stderr
    [record, *_] = [json.loads(line) for line in bob.say("audit", "--format", "json").stdout.splitlines()]
    assert (record["event"], record["result"], record["user"]) == ("refused", "in-use", "bob")
    assert marks(machine) == [mark], "those who were refused left nothing behind"
    machine.devices(gpu__0__compute="")
    drain.communicate(timeout=60)
    assert drain.returncode == 0
    assert marks(machine) == []
    assert bob.run("resume", "--consent", "drained-by-other").returncode == 0


def test_what_a_drain_waits_for_can_be_ended_while_it_waits(
    machine: Machine, ana: Operator, bob: Operator, gputop_in_background: Background
) -> None:
    pid = machine.spawn()
    machine.devices(gpu__0__compute=f"{pid}:4096")
    drain = gputop_in_background(*ana.argv("drain"), **ana.environment)
    wait_for(lambda: "drain.json" in machine.run("ls /run/gputop 2>/dev/null || :"), "the drain was not begun")
    own = ana.run("message", "--text", "please end your job")
    assert own.returncode == 0, own.stderr
    ended = ana.run("signal", "--pid", str(pid))
    assert ended.returncode == 0, ended.stderr + ended.stdout
    machine.devices(gpu__0__compute="")
    drain.communicate(timeout=60)
    assert drain.returncode == 0


def test_what_shares_a_host_keeps_clear_of_an_act_that_overturns_it(machine: Machine, bob: Operator) -> None:
    """And leaves no lock of its own, nor takes one away."""
    file = f"{FOLDER}/gputop-act.planted"
    for act, code in (("reboot", 4), ("stop", 4), ("reset", 4), ("no-such-act", 4), ("drain", 0), ("cordon", 0)):
        who = {"by": "ana", "act": act, "plan": "p", "since": "2026-03-01T10:00:00Z", "bastion": "b1"}
        text = f"p\n900\n{json.dumps(who)}"
        machine.run(f"(cat /proc/sys/kernel/random/boot_id; echo '{text}') >{file}; chown 2000 {file}")
        ran = bob.run("message", "--text", "hello")
        assert ran.returncode == code, (act, ran.stderr)
        if code:
            told = f"ana acts on it ({act})" if act != "no-such-act" else "somebody acts on it"
            assert told in ran.stderr
            assert "as account ops of the host: nothing was done" in ran.stderr
        assert marks(machine) == ["gputop-act.planted"]


def test_a_gputop_that_was_killed_keeps_others_away_until_it_is_resumed_or_its_time_is_over(
    machine: Machine, ana: Operator, bob: Operator, gputop_in_background: Background
) -> None:
    machine.devices(gpu__0__compute="4000000:100")
    drain = gputop_in_background(*ana.argv("drain"), **ana.environment)
    wait_for(lambda: "drain.json" in machine.run("ls /run/gputop 2>/dev/null || :"), "the drain was not begun")
    drain.send_signal(signal.SIGKILL)
    drain.communicate()
    machine.devices(gpu__0__compute="")
    assert bob.run("drain").returncode == 4
    [mark] = marks(machine)
    machine.run(f"touch -d '-2 hours' {FOLDER}/{mark}")
    late = bob.run("drain")
    assert late.returncode == 0, late.stderr
    machine.run(f"touch {FOLDER}/{mark}")
    plan = ana.say("actions").stdout.split()[1]
    resumed = ana.say("actions", "--resume", plan, "--allow-actions")
    assert resumed.returncode == 0, resumed.stderr + resumed.stdout
    assert marks(machine) == []


def test_a_lock_of_an_earlier_boot_holds_nothing(
    machine: Machine, ana: Operator, bob: Operator, gputop_in_background: Background
) -> None:
    machine.devices(gpu__0__compute="4000000:100")
    drain = gputop_in_background(*ana.argv("drain"), **ana.environment)
    wait_for(lambda: marks(machine) != [], "no lock was taken")
    drain.send_signal(signal.SIGKILL)
    drain.communicate()
    machine.devices(gpu__0__compute="")
    machine.run(f"f=$(echo {FOLDER}/gputop-act.*); sed -i 1s/.*/99999999-2222-4333-8444-555555555555/ $f")
    assert bob.run("drain", "--override", "x").returncode == 0


@pytest.mark.parametrize(
    ("plant", "refused"),
    [
        (f"ln -s /etc/shadow {FOLDER}/gputop-act.evil", False),
        (f"mkfifo {FOLDER}/gputop-act.evil", False),
        (f"mkdir {FOLDER}/gputop-act.evil", False),
        (f"setpriv --reuid 2001 touch -d '-5 minutes' {FOLDER}/gputop-act.evil", False),
        (f"setpriv --reuid 2001 touch {FOLDER}/gputop-act.evil", True),
        (
            f"(cat /proc/sys/kernel/random/boot_id; echo p; echo 900; printf '[b]\\033]0;x\\007')"
            f" >{FOLDER}/gputop-act.evil; chown 2001 {FOLDER}/gputop-act.evil",
            True,
        ),
    ],
    ids=["link", "pipe", "folder", "empty and old", "empty", "rubbish"],
)
def test_what_others_leave_there_is_never_followed_and_at_most_refuses_with_whose_it_is(
    plant: str, refused: bool, machine: Machine, ana: Operator
) -> None:
    machine.run(plant)
    ran = ana.run("drain")
    if refused:
        assert ran.returncode == 4, ran.stdout
        assert "somebody acts on it, as account eve of the host" in ran.stderr
        assert "\x1b" not in ran.stderr
    else:
        assert ran.returncode == 0, ran.stderr + ran.stdout


def test_where_everybody_may_not_write_to_the_first_folder_the_next_is_taken_by_all(
    machine: Machine, ana: Operator, bob: Operator, gputop_in_background: Background
) -> None:
    """As on systems where /run/lock is root's own."""
    machine.run(f"chmod 755 {FOLDER}")
    machine.devices(gpu__0__compute="4000000:100")
    drain = gputop_in_background(*ana.argv("drain"), **ana.environment)
    wait_for(lambda: marks(machine, "/dev/shm") != [], "no lock was taken")
    assert bob.run("drain").returncode == 4
    machine.devices(gpu__0__compute="")
    drain.communicate(timeout=60)
    assert marks(machine, "/dev/shm") == []


async def test_of_two_who_come_at_the_same_moment_at_most_one_goes_on(
    machine: Machine, machines: Machines, tmp_path: Path
) -> None:
    spec = HostSpec(
        name=machine.name, address="127.0.0.1", port=machine.port, user="ops", identity=(str(machines.key),),
        known_hosts=(str(machines.known_hosts),), ssh_config=(),
    )  # fmt: skip
    others = structs.replace(spec, user="eve")
    operators = []
    for one in (spec, others):
        transport = SshTransport([one], clock=SystemClock(), own_known_hosts=tmp_path / "own")
        runner = ProgramRunner({one.name: transport}, [one])
        operators.append((HostLocks(runner, SystemClock(), "b1"), transport, runner))
    plans = [plan_named(machine.name, f"plan-{number}") for number in (1, 2)]
    try:
        for _ in range(15):
            pairs = list(zip(operators, plans, strict=True))
            found = await asyncio.gather(*(locks.take(machine.name, plan) for (locks, _, _), plan in pairs))
            assert found.count(None) <= 1
            await asyncio.gather(*(locks.leave(machine.name, plan) for (locks, _, _), plan in pairs))
        assert marks(machine) == []
    finally:
        for _, transport, runner in operators:
            await runner.close()
            await transport.close()


def plan_named(host: str, name: str) -> Plan:
    return structs.replace(a_plan(a_request(ActionKind.DRAIN, host), an_evidence(host)), id=name)


def test_users_of_one_bastion_see_each_other_s_locks_where_it_has_a_folder_for_them(tmp_path: Path) -> None:
    """Also of hosts that do not answer."""
    shared = tmp_path / "locks"
    shared.mkdir()
    plan = plan_named("gpu-off", "plan-1")
    other = structs.replace(plan, id="plan-2", request=structs.replace(plan.request, by="bob"))
    with locked(tmp_path / "ana", plan, shared), locked(tmp_path / "bob", other, shared):
        pass  # a folder in which others could take a lock away is none
    shared.chmod(0o1777)
    with (
        locked(tmp_path / "ana", plan, shared),
        pytest.raises(InUse, match="gpu-off: another user of this machine acts on it: ann, drain, plan plan-1"),
        locked(tmp_path / "bob", other, shared),
    ):
        raise AssertionError("both hold it")
    with locked(tmp_path / "bob", other, shared):
        pass
    link = shared / "gpu-link.lock"
    link.symlink_to(tmp_path / "target")

    with pytest.raises(JournalFailed), locked(tmp_path / "ana", plan_named("gpu-link", "plan-3"), shared):
        raise AssertionError("a link was followed")
    assert not (tmp_path / "target").exists()
