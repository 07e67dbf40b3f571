"""`gputop bundle` on real servers: what is in the file, what its index says of it, and what a redacted one does not."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gputop.bundle.tools import HOST_TOOLS, vendor_tools
from tests.fakes.acts import a_host
from tests.needs import need
from tests.ssh.fleet import Fleet, inventory, new_folder

pytestmark = pytest.mark.sshd

SMI = """\
#!/bin/sh
case "$*" in
  "-q -x") echo '<nvidia_smi_log><serial>1650022004711</serial></nvidia_smi_log>' ;;
  -q) printf 'Serial Number : 1650022004711\\nProcess: /home/carol/secret-project/train.py on %s\\n\\377\\n' "$NAME" ;;
  "topo -m") echo "cannot" >&2; exit 9 ;;
  "nvlink -s") : ;;
  *) echo "driver of $NAME.lab.example.org at 10.77.0.5, mailed to carol@example.org" ;;
esac
"""
DMESG = """\
#!/bin/sh
[ "$1" = -T ] || exit 1
echo "[Mon] $NAME kernel: eth0: aa:bb:cc:00:11:22 fe80::aabb:ccff:fe00:1122"
echo "[Mon] NVRM: Xid (PCI:0000:3b:00): 79, pid=7, name=train"
"""
SECRETS = ["carol", "1650022004711", "10.77.0.5", "example.org", "aa:bb:cc:00:11:22", "fe80::aabb:ccff:fe00:1122"]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    need("sshd", "needs OpenSSH's server: make services")
    folder = new_folder()
    fleet = Fleet(folder)
    try:
        for name in ("node-a", "node-b", "node-down"):
            server = fleet.add(name, start=False, environment=f"NAME={name}")
            (server.folder / "bin").mkdir()
            for program, text in (("nvidia-smi", SMI), ("dmesg", DMESG)):
                path = server.folder / "bin" / program
                path.write_text(text)
                path.chmod(0o755)
            if name != "node-down":
                fleet.start(server)
        (folder / "inventory.yaml").write_text(inventory(fleet))
        yield fleet
    finally:
        fleet.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def bundle(fleet: Fleet, tmp_path: Path) -> Run:
    def run(*argv: str) -> subprocess.CompletedProcess[str]:
        root = Path(__file__).resolve().parents[2]
        return subprocess.run(
            [sys.executable, "-m", "gputop", "bundle", "-f", str(fleet.folder / "inventory.yaml"), *argv],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(root), "XDG_STATE_HOME": str(tmp_path / "state")},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    return run


def opened(path: Path) -> dict[str, bytes]:
    """Members by their path below the top folder."""
    with tarfile.open(path) as archive:
        found = {}
        for entry in archive.getmembers():
            file = archive.extractfile(entry)
            assert file is not None
            assert (entry.uid, entry.gid, entry.uname, entry.gname, entry.mode) == (0, 0, "", "", 0o600)
            found[entry.name.partition("/")[2]] = file.read()
        return found


def only(folder: Path) -> Path:
    (path,) = folder.glob("*.tar.gz")
    return path


def files(index: dict[str, Any], host: str) -> dict[str, dict[str, Any]]:
    (found,) = [one for one in index["hosts"] if one["name"] == host]
    return {file["name"]: file for file in found["files"]}


def test_the_index_tells_of_every_file_and_of_all_that_is_not_there(bundle: Run, tmp_path: Path) -> None:
    ran = bundle("node-a", "node-b", "node-down")
    assert ran.returncode == 1, ran.stderr
    path = only(tmp_path)
    assert re.fullmatch(r"gputop-bundle-\d{8}T\d{6}Z\.tar\.gz", path.name)
    assert ran.stdout.startswith(f"saved {path} (")
    assert "3 hosts, of which node-down did not answer" in ran.stdout
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    members = opened(path)
    assert list(members)[:2] == ["index.txt", "index.json"]
    index = json.loads(members["index.json"])
    assert index["schema"] == "gputop-bundle/1"
    listed = {file["path"].partition("/")[2]: file for one in index["hosts"] for file in one["files"] if file["path"]}
    assert set(listed) == set(members) - {"index.txt", "index.json"}
    for name, file in listed.items():
        assert file["bytes"] == len(members[name])
        assert file["sha256"] == hashlib.sha256(members[name]).hexdigest()
    for host in ("node-a", "node-b", "node-down"):
        its = files(index, host)
        assert {tool.path for tool in (*HOST_TOOLS, *vendor_tools(a_host()))} <= set(its)
        assert all(file["path"] is not None or file["problem"] for file in its.values())
    assert [one["answered"] for one in index["hosts"]] == [True, True, False]


def test_what_programs_print_is_kept_byte_for_byte_and_what_they_refuse_is_said(bundle: Run, tmp_path: Path) -> None:
    assert bundle("node-a", "--output", "here.tar.gz").returncode == 0
    members = opened(tmp_path / "here.tar.gz")
    assert b"/home/carol/secret-project/train.py on node-a\n\377\n" in members["node-a/tools/nvidia-smi-q.txt"]
    assert members["node-a/kernel.log"].startswith(b"source: dmesg -T\n[Mon] node-a kernel:")
    assert members["node-a/kernel-devices.log"].count(b"\n") == 2
    its = files(json.loads(members["index.json"]), "node-a")
    assert its["tools/nvidia-smi-topo-m.txt"]["problem"] == "exit status 9: cannot"
    assert its["tools/nvidia-smi-nvlink-s.txt"]["problem"] == "printed nothing"
    assert its["tools/nvidia-smi-q.txt"]["command"] == "nvidia-smi -q"
    frames = [json.loads(line) for line in members["node-a/frames.jsonl"].splitlines()]
    assert len(frames) == 3
    assert len({frame["sampled_at"] for frame in frames}) == 3
    host = json.loads(members["node-a/host.json"])
    assert host["schema"] == "gputop-inspect/1"
    assert host["host"]["name"] == "node-a"
    text = members["index.txt"].decode()
    assert "exit status 9: cannot" in text
    assert "node-a/kernel.log" in text


def test_a_host_that_is_down_is_in_it_with_its_trouble_and_is_asked_nothing(bundle: Run, tmp_path: Path) -> None:
    assert bundle("node-down").returncode == 3
    members = opened(only(tmp_path))
    index = json.loads(members["index.json"])
    assert index["hosts"][0]["link"]["state"] == "unreachable"
    assert index["hosts"][0]["link"]["problem"]["kind"] == "connection-refused"
    its = files(index, "node-down")
    assert its["versions.txt"]["problem"].startswith("not asked: unreachable: connection refused by 127.0.0.1:")
    assert json.loads(members["node-down/host.json"])["host"]["link"]["state"] == "unreachable"


def test_a_redacted_one_names_nobody_and_its_key_lies_beside_it(bundle: Run, fleet: Fleet, tmp_path: Path) -> None:
    assert bundle("node-a", "node-b", "--redact").returncode == 0
    path = only(tmp_path)
    members = opened(path)
    originals = [*SECRETS, "node-a", "node-b", "node-down", fleet.user, os.uname().nodename]
    for name, content in {**members, "names": "\n".join(members).encode()}.items():
        for original in originals:
            pattern = rb"(?<![A-Za-z0-9])" + re.escape(original.encode()) + rb"(?![A-Za-z0-9])"
            assert not re.search(pattern, content, re.IGNORECASE), (original, name)
    assert {name.partition("/")[0] for name in members} == {"index.txt", "index.json", "host-1", "host-2"}
    assert b"on host-1\n\377\n" in members["host-1/tools/nvidia-smi-q.txt"]
    assert b"user-" in members["host-1/tools/nvidia-smi-q.txt"]
    key = path.with_name(f"{path.name}.names.json")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    names = json.loads(key.read_bytes())["names"]
    assert names["host-1"][0] == "node-a"
    assert {name for its in names.values() for name in its} >= {"carol", "10.77.0.5", "node-b", "1650022004711"}
    serial = next(pseudonym for pseudonym, its in names.items() if its == ["1650022004711"]).encode()
    for host in ("host-1", "host-2"):
        assert b"<serial>" + serial + b"<" in members[f"{host}/tools/nvidia-smi-q-x.xml"]
        assert b"Serial Number : " + serial in members[f"{host}/tools/nvidia-smi-q.txt"]


def test_it_never_writes_over_a_file_and_says_where_it_cannot_write(bundle: Run, tmp_path: Path) -> None:
    (tmp_path / "there.tar.gz").write_text("mine")
    ran = bundle("node-a", "--output", "there.tar.gz")
    assert (ran.returncode, ran.stderr.splitlines()[0]) == (2, "gputop: there.tar.gz is there already")
    assert (tmp_path / "there.tar.gz").read_text() == "mine"
    ran = bundle("node-a", "--output", "no/where.tar.gz")
    assert ran.returncode == 2
    assert "there is no folder" in ran.stderr
    assert bundle().returncode == 2


def test_the_index_is_the_json_output(bundle: Run, tmp_path: Path) -> None:
    ran = bundle("node-a", "--format", "json")
    found = json.loads(ran.stdout)
    assert found["file"] == str(only(tmp_path))
    assert found["names_file"] is None
    assert found["hosts"][0]["name"] == "node-a"


def test_the_vendors_report_is_refused_in_read_only_mode_and_nothing_is_done(bundle: Run, tmp_path: Path) -> None:
    ran = bundle("node-a", "--bug-report")
    assert ran.returncode == 4
    assert "read-only" in ran.stderr
    assert list(tmp_path.glob("*.tar.gz")) == []
    (record,) = [json.loads(line) for line in (tmp_path / "state/gputop/audit.jsonl").read_text().splitlines()]
    assert (record["event"], record["act"], record["host"]) == ("refused", "bug-report", "node-a")
