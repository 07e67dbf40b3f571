"""The vendor's report on a real machine, where sudo has its say: fetched, nothing left behind, written down."""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path

import pytest

from tests.acts.conftest import Gputop
from tests.acts.machines import SUDOERS, Machine, Machines

LINE = 'ops ALL=(root) NOPASSWD: /usr/local/bin/nvidia-bug-report.sh ""\n'
REPORTER = r"""#!/bin/sh
[ "$(id -u)" = 0 ] || { echo "must be run as root" >&2; exit 1; }
head -c 5000000 /dev/urandom > noise
{ echo "report of $(hostname) for carol@example.org"; cat noise; } | gzip > nvidia-bug-report.log.gz
echo "nvidia-bug-report.sh will now collect information about your"
"""


def add(machines: Machines, name: str, sudoers: str) -> Machine:
    machine = machines.add(name, sudoers=sudoers)
    path = "/usr/local/bin/nvidia-bug-report.sh"
    machine.run(f"cat > {path} <<'END'\n{REPORTER}END\nchmod 755 {path}")
    return machine


@pytest.fixture(scope="module")
def may(machines: Machines) -> Machine:
    return add(machines, "gpu-may", SUDOERS + LINE)


@pytest.fixture(scope="module")
def may_not(machines: Machines) -> Machine:
    return add(machines, "gpu-may-not", SUDOERS)


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {entry.name.partition("/")[2]: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]


def test_the_report_is_in_the_bundle_and_nothing_of_it_is_left_on_the_host(
    machines: Machines, may: Machine, may_not: Machine, gputop: Gputop, tmp_path: Path
) -> None:
    inventory = machines.inventory(names=("gpu-may", "gpu-may-not"))
    target = tmp_path / "b.tar.gz"
    ran = gputop("bundle", "-f", inventory, "gpu-may", "gpu-may-not", "--bug-report", "--allow-actions", "-o", target)
    assert ran.returncode == 1, ran.stderr
    assert "gpu-may: sudo -n nvidia-bug-report.sh, up to 10 min" in ran.stderr
    found = members(target)
    report = gzip.decompress(found["gpu-may/tools/nvidia-bug-report.log.gz"])
    assert report.startswith(b"report of gpu-may for carol@example.org\n")
    assert len(report) > 5_000_000
    index = json.loads(found["index.json"])
    its = {file["name"]: file for file in index["hosts"][1]["files"]}
    assert its["tools/nvidia-bug-report.log.gz"]["problem"] == "sudo wants a password"
    for machine in (may, may_not):
        assert machine.run("ls -d /tmp/gputop-bug-report.* 2>/dev/null || echo none") == "none\n"
    records = [
        json.loads(line) for line in gputop("audit", "--format", "json", "--act", "bug-report").stdout.splitlines()
    ]
    ends = {(record["host"], record["event"], record["result"]) for record in records}
    assert ends == {
        ("gpu-may", "intent", None),
        ("gpu-may", "outcome", "verified"),
        ("gpu-may-not", "intent", None),
        ("gpu-may-not", "outcome", "failed"),
    }


def test_in_a_redacted_bundle_the_report_is_looked_through_too(
    machines: Machines, may: Machine, gputop: Gputop, tmp_path: Path
) -> None:
    inventory = machines.inventory(names=("gpu-may",))
    target = tmp_path / "b.tar.gz"
    ran = gputop("bundle", "-f", inventory, "gpu-may", "--bug-report", "--allow-actions", "--redact", "-o", target)
    assert ran.returncode == 0, ran.stderr
    found = members(target)
    assert found["host-1/tools/nvidia-bug-report.log"].startswith(b"report of host-1 for email-1\n")


def test_on_real_readings_it_holds_the_devices_and_their_last_minutes(
    machines: Machines, may: Machine, gputop: Gputop, tmp_path: Path
) -> None:
    inventory = machines.inventory(names=("gpu-may",))
    target = tmp_path / "b.tar.gz"
    assert gputop("bundle", "-f", inventory, "gpu-may", "-o", target).returncode == 0
    found = members(target)
    host = json.loads(found["gpu-may/host.json"])["host"]
    assert [device["uuid"] for device in host["devices"]] == ["GPU-gpu-may-0", "GPU-gpu-may-1"]
    assert json.loads(found["index.json"])["hosts"][0]["versions"]["driver_version"]
