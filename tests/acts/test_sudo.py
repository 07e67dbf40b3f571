"""What the real sudo refuses on a real machine: told apart, with the line that it wants, and nothing is claimed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gputop.actions.device import UNITS
from tests.acts.conftest import Gputop
from tests.acts.machines import DEFAULTS, SUDOERS, Machine, Machines
from tests.acts.steps import DO, REASON, audit_of

DOCS = Path(__file__).parents[2] / "docs" / "acts.md"
ROOT = "root ALL=(ALL) NOPASSWD: ALL\n"
MARK = "ops ALL=(root) NOPASSWD: /usr/bin/install -D -m 0644 /dev/stdin /run/gputop/drain.json"
ANOTHER = SUDOERS.replace("/run/gputop/drain.json", "/run/other")
ADD = f"add to sudoers: {MARK}"


@pytest.mark.parametrize(
    ("name", "sudoers", "words", "hint"),
    [
        ("no-line", ROOT, "ops is not in sudoers", ADD),
        ("no-line-said", f"Defaults !authenticate\n{ROOT}", "ops is not in sudoers", ADD),
        ("other-line", ANOTHER, "sudoers does not allow ops this command", ADD),
        (
            "other-line-said",
            f"Defaults !authenticate\n{ROOT}ops ALL=(root) /usr/bin/true\n",
            "sudoers does not allow ops this command",
            ADD,
        ),
        (
            "password",
            f"{ROOT}ops ALL=(root) ALL\nops ALL=(root) NOPASSWD: /usr/bin/true\n",
            "sudo wants a password of ops for this command",
            ADD,
        ),
        (
            "either",
            f"{ROOT}ops ALL=(root) /usr/bin/true\n",
            "sudo wants a password of ops, or does not allow this command at all",
            ADD,
        ),
        (
            "tty",
            f"{SUDOERS}Defaults:ops requiretty\n",
            "sudo wants a terminal (requiretty)",
            "add Defaults:ACCOUNT !requiretty to sudoers",
        ),
    ],
)
def test_what_sudo_refuses_is_told_apart_with_what_to_do_and_nothing_is_claimed(
    name: str, sudoers: str, words: str, hint: str, machines: Machines, gputop: Gputop
) -> None:
    machine = machines.add(f"sudo-{name}", sudoers=sudoers)
    argv = ("drain", "-f", machines.inventory(names=(machine.name,)), machine.name, *DO, *REASON)
    ran = gputop(*argv)
    plain = gputop(*argv, "--format", "json")
    machine.stop()
    assert ran.returncode == 1, ran.stdout
    assert f"failed      failed      write the drain marker: {words}\n     → {hint}\n" in ran.stdout
    assert f"write the drain marker: failed: {words} → {hint}\n" in ran.stderr
    [outcome] = json.loads(plain.stdout)["outcomes"]
    assert (outcome["state"], outcome["hint"]) == ("failed", hint)
    step = next(record for record in audit_of(gputop, "--event", "step") if record["step"] == "marker.write")
    assert (step["result"], step["summary"], step["hint"]) == ("failed", words, hint)
    assert hint in gputop("audit", "--event", "outcome").stdout


def test_a_signal_that_sudo_refuses_says_why(machines: Machines, gputop: Gputop) -> None:
    """Its script calls sudo only where the process is another's."""
    for name, sudoers, words in (
        ("stranger", ROOT, "ops is not in sudoers"),
        ("other", f"{ROOT}ops ALL=(root) NOPASSWD: /usr/bin/true\n", "sudoers does not allow ops this command"),
    ):
        machine = machines.add(f"kill-{name}", sudoers=sudoers)
        pid = machine.spawn(user="root")
        argv = ("signal", "-f", machines.inventory(names=(machine.name,)), machine.name, *DO, *REASON)
        ran = gputop(*argv, "--pid", str(pid))
        machine.stop()
        assert f"send TERM to {pid}: {words}\n" in ran.stdout, ran.stderr


def test_with_the_lines_that_are_asked_for_every_act_succeeds(machines: Machines, gputop: Gputop) -> None:
    machine = machines.add("sudo-asks", sudoers=ROOT, systemd=True)
    inventory = machines.inventory(names=(machine.name,))
    asked = []
    for act in ("drain", "resume", "drain", "reboot"):
        while (ran := gputop(act, "-f", inventory, machine.name, *DO, *REASON, seconds=120)).returncode != 0:
            asked.append(ran.stdout.partition("add to sudoers: ")[2].partition("\n")[0])
            assert asked[-1] not in ("", *asked[:-1]), ran.stderr
            (machine.folder / "sudoers").write_text(ROOT + "".join(f"{line}\n" for line in asked))
            machine.run(f"cat {machine.folder}/sudoers >/etc/sudoers && visudo -c")
    machine.stop()
    assert [line.partition("NOPASSWD: ")[2] for line in asked] == [
        "/usr/bin/install -D -m 0644 /dev/stdin /run/gputop/drain.json",
        "/usr/bin/rm -f /run/gputop/drain.json",
        "/usr/local/bin/systemd-run --on-active\\=2 /usr/bin/systemctl reboot",
    ]


def lines_of_the_docs() -> list[str]:
    """The commands that the page asks for."""
    [block] = re.findall(r"```text\n(# drain.*?)```", DOCS.read_text(), re.DOTALL)
    return re.findall(r"^ops ALL=\(root\) NOPASSWD: (.*)$", block, re.MULTILINE)


def sudoers_of_the_docs(uuid: str) -> str:
    """The lines that the page asks for and no other, with the programs where the machine's doubles are."""
    lines = [
        re.sub(r"^/usr/s?bin/(nvidia-smi|systemctl|systemd-run|reboot|poweroff)\b", r"/usr/local/bin/\1", line)
        for line in lines_of_the_docs()
    ]
    head = f'Defaults !syslog, secure_path="/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin"\n{ROOT}'
    return head + "".join(f"ops ALL=(root) NOPASSWD: {line}\n" for line in lines).replace("GPU-UUID", uuid)


@pytest.mark.timeout(400)
def test_the_sudoers_lines_of_the_docs_are_enough_for_every_act_and_none_is_needless(
    machines: Machines, gputop: Gputop
) -> None:
    policy = DEFAULTS.replace("policy: {", "policy: {compute_mode: true, nologin: true, stop_units: [launcher], ")

    def do(name: str, act: str, *argv: str) -> str:
        inventory = machines.inventory(names=(name,), defaults=policy)
        ran = gputop(act, "-f", inventory, name, *DO, *REASON, *argv, "--format", "json", seconds=120)
        # over SSH, a power-off cannot be verified
        assert ran.returncode == (1 if act == "stop" else 0), (act, ran.stderr + ran.stdout)
        return str(json.loads(ran.stdout)["plan"]["id"])

    def add(name: str, systemd: bool) -> Machine:
        machine = machines.add(name, systemd=systemd, sudoers=sudoers_of_the_docs(f"GPU-{name}-1"))
        machine.add_unit("launcher", "launcher")
        machine.run(f"sed -i 's/ 3<.*//' {machine.folder}/units/launcher")  # it has no device open
        return machine

    machine, plain = add("docs-systemd", True), add("docs-plain", False)
    for unit in UNITS:
        machine.add_unit(unit, unit)
    for unit in (*UNITS, "launcher"):
        machine.run(f"systemctl start {unit}")
    eve = machine.terminal("eve")
    do(machine.name, "cordon")
    do(machine.name, "resume")
    do(machine.name, "message", "--text", "maintenance at noon")
    assert "maintenance at noon" in eve.text
    for mode in ("0", "3"):
        machine.devices(gpu__compute_mode=mode)
        do(machine.name, "drain")
        do(machine.name, "resume")
    do(machine.name, "reset")
    do(plain.name, "reset", "--gpu", "1")
    plan = do(machine.name, "power-cap", "--gpu", "1", "--watts", "500")
    assert gputop("actions", "--roll-back", plan, "--allow-actions").returncode == 0
    for name in (machine.name, plain.name):
        do(name, "drain")
        do(name, "reboot")
        do(name, "drain")
        do(name, "stop")
        machines.machines[name].stop()

    called = {
        step["command"].partition("sudo -n ")[2].partition(" <<<")[0]
        for step in audit_of(gputop, "--event", "step")
        if ": sudo -n " in step["command"]
    }
    called = {re.sub("GPU-[a-z0-9-]+", "GPU-UUID", words) for words in called} | {"wall"}
    asked = {re.sub(r'^/usr/s?bin/| ""$', "", line).replace("\\", "") for line in lines_of_the_docs()}
    assert called == asked
