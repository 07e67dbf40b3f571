"""The gate before a resume, on a real machine: its kernel log, what somebody knows of, and DCGM's word.

dmesg and dcgmi of the machine are doubles."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acts.conftest import Gputop
from tests.acts.machines import DEFAULTS, Machine, Machines
from tests.acts.steps import DO, REASON, audit_of

XID = "[  200.250000] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
LATER = "[  300.500000] NVRM: Xid (PCI:0000:86:00): 79, GPU has fallen off the bus."
KNOWN = ("--reason", "riser replaced, ticket 9")


@pytest.fixture(scope="module")
def machine(machines: Machines) -> Machine:
    return machines.add("gpu-gate")


@pytest.fixture
def inventory(machines: Machines, machine: Machine) -> Path:
    machine.kernel_log()
    machine.run("rm -rf /run/gputop")
    return machines.inventory(names=(machine.name,), defaults=f"  expect_devices: 2\n{DEFAULTS}")


def test_every_item_of_the_gate_is_shown(machine: Machine, inventory: Path, gputop: Gputop) -> None:
    assert gputop("drain", "-f", inventory, machine.name, *DO, *REASON).returncode == 0
    ran = gputop("resume", "-f", inventory, machine.name, *DO)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    shown = dict(line.strip().removeprefix("gate: ").split(": ", 1) for line in ran.stdout.splitlines()[1:])
    assert shown["devices"] == "ok 2 of 2"
    assert shown["xid"] == "ok no fatal Xid since boot"
    assert shown["driver"].startswith("not-checked")
    assert set(shown) == {"devices", "xid", "remap", "link width", "driver", "dcgmi diag"}


def test_a_fatal_xid_stops_a_resume_until_somebody_knows_of_it_and_a_later_one_stops_it_again(
    machine: Machine, inventory: Path, gputop: Gputop
) -> None:
    machine.kernel_log(XID)
    assert gputop("drain", "-f", inventory, machine.name, *DO, *REASON).returncode == 0
    refused = gputop("resume", "-f", inventory, machine.name, *DO)
    assert refused.returncode == 1, refused.stdout
    assert "xid: Xid 79 on 0000:3b:00" in refused.stdout
    assert f"gputop ack {machine.name}" in refused.stdout
    assert "--override REASON" in refused.stdout

    plan = gputop("ack", "-f", inventory, machine.name, *KNOWN)
    assert plan.returncode == 0
    assert "known from then on: Xid 79 on 0000:3b:00" in plan.stdout
    assert gputop("ack", "-f", inventory, machine.name, *KNOWN, "--yes").returncode == 4, "read-only"
    assert gputop("resume", "-f", inventory, machine.name, *DO).returncode == 1, "nothing was acknowledged so far"
    acked = gputop("ack", "-f", inventory, machine.name, *KNOWN, *DO)
    assert acked.returncode == 0, acked.stderr + acked.stdout
    records = audit_of(gputop, "--act", "ack", "--host", machine.name)
    assert [record["event"] for record in records if record["event"] != "refused"] == ["intent", "step", "outcome"]
    assert records[-1]["reason"] == "riser replaced, ticket 9"

    machine.kernel_log(XID, LATER)
    again = gputop("resume", "-f", inventory, machine.name, *DO)
    assert again.returncode == 1
    assert "Xid 79 on 0000:86:00" in again.stdout
    assert "0000:3b:00" not in again.stdout

    machine.kernel_log(XID)
    ran = gputop("resume", "-f", inventory, machine.name, *DO)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert "gate: xid: ok no fatal Xid since ack by root at 20" in ran.stdout
    assert "riser replaced, ticket 9" in ran.stdout


def test_an_acknowledgment_ends_with_the_boot(machine: Machine, inventory: Path, gputop: Gputop) -> None:
    machine.kernel_log(XID)
    assert gputop("ack", "-f", inventory, machine.name, *KNOWN, *DO).returncode == 0
    machine.crash()
    machine.wait_until_up()
    assert gputop("drain", "-f", inventory, machine.name, *DO, *REASON).returncode == 0
    assert gputop("resume", "-f", inventory, machine.name, *DO).returncode == 1


def test_without_a_fault_there_is_nothing_to_acknowledge(machine: Machine, inventory: Path, gputop: Gputop) -> None:
    ran = gputop("ack", "-f", inventory, machine.name, *KNOWN, *DO, "--format", "json")
    assert ran.returncode == 0, ran.stderr
    [host] = json.loads(ran.stdout)["plan"]["hosts"]
    assert (host["steps"], host["notes"]) == ([], ["no fatal event since boot"])


def test_a_kernel_log_that_cannot_be_read_is_said_to_be_not_checked_and_blocks_an_ack(
    machine: Machine, inventory: Path, gputop: Gputop
) -> None:
    (machine.folder / "dmesg").write_text("")
    assert gputop("drain", "-f", inventory, machine.name, *DO, *REASON).returncode == 0
    ran = gputop("resume", "-f", inventory, machine.name, *DO)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert "gate: xid: not-checked the kernel log cannot be read" in ran.stdout
    blocked = gputop("ack", "-f", inventory, machine.name, *KNOWN, *DO)
    assert blocked.returncode == 4
    assert "its kernel log cannot be read" in blocked.stderr


SXID = "[  200.250000] nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 22012, Fatal, Link 27 NVLDL error"
HARMLESS = "[  200.250000] NVRM: Xid (PCI:0000:3b:00): 31, pid=7, name=python, MMU Fault"
RING = "[ 9000.000000] audit: rate limit exceeded"
JOURNAL = (
    "[    0.000000] a kernel: Linux version 6.1.0\n[  200.250000] a kernel: NVRM: Xid (PCI:0000:3b:00): 79, it fell"
)


@pytest.mark.parametrize(
    ("ring", "journal", "catalog", "code", "words"),
    [
        (SXID, "", "", 1, "xid: SXid 22012 on 0000:c1:00"),
        (HARMLESS, "", "xid: [{codes: 31, severity: reset}]", 1, "xid: Xid 31 on 0000:3b:00"),
        (RING, JOURNAL, "", 1, "xid: Xid 79 on 0000:3b:00"),
        (RING, "", "", 0, "gate: xid: not-checked the kernel log does not reach back to the boot"),
        (RING, "-- No entries --", "", 0, "gate: xid: not-checked the kernel log does not reach back to the boot"),
    ],
)
def test_what_of_the_kernel_log_can_be_read_is_judged_by_the_site_s_catalog(
    ring: str, journal: str, catalog: str, code: int, words: str, machine: Machine, inventory: Path, gputop: Gputop,
    tmp_path: Path,
) -> None:  # fmt: skip
    machine.kernel_log(ring)
    if ring == RING:  # it has forgotten its beginning
        (machine.folder / "dmesg").write_text(f"{ring}\n")
    own = machine.folder / "journal"
    own.write_text(journal and f"{journal}\n")
    machine.run(f"printf '#!/bin/sh\\ncat {own}\\n' >/usr/local/bin/journalctl; chmod 755 /usr/local/bin/journalctl")
    (tmp_path / "gputop").mkdir()
    (tmp_path / "gputop" / "xid.yaml").write_text(catalog)
    assert gputop("drain", "-f", inventory, machine.name, *DO, *REASON).returncode == 0
    ran = gputop("resume", "-f", inventory, machine.name, *DO, XDG_CONFIG_HOME=str(tmp_path))
    machine.run("rm /usr/local/bin/journalctl")
    assert ran.returncode == code, ran.stderr + ran.stdout
    assert words in ran.stdout


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        ("echo '| Deployment        | Pass |'", 0, "gate: dcgmi diag: ok level 1 passed"),
        ("echo '| PCIe              | Fail - GPU: 1 |'; exit 205", 1, "dcgmi diag: PCIe              | Fail - GPU: 1"),
        ("echo 'no hostengine' >&2; exit 1", 1, "gate: dcgmi diag: bad exit status 1: no hostengine"),
        ("exit 127", 0, "gate: dcgmi diag: not-checked dcgmi did not run"),
        ("kill -KILL $$", 0, "gate: dcgmi diag: not-checked dcgmi did not run"),
    ],
)
def test_dcgm_has_its_word_where_the_policy_asks_for_it(
    script: str, code: int, words: str, machine: Machine, machines: Machines, inventory: Path, gputop: Gputop
) -> None:
    double = machine.folder / "bin" / "dcgmi"
    log = machine.folder / "dcgmi.log"
    double.write_text(f'#!/bin/sh\necho "$@" >{log}\n{script}\n')
    double.chmod(0o755)
    log.touch()
    log.chmod(0o666)
    machine.run(f"cp {double} /usr/local/bin/dcgmi")
    policy = DEFAULTS.replace("policy: {", "policy: {dcgm_diag: true, ")
    inventory = machines.inventory(names=(machine.name,), defaults=policy)
    assert gputop("drain", "-f", inventory, machine.name, *DO, *REASON).returncode == 0
    ran = gputop("resume", "-f", inventory, machine.name, *DO)
    assert ran.returncode == code, ran.stderr + ran.stdout
    assert words in ran.stdout
    assert log.read_text() == "diag -r 1\n"
