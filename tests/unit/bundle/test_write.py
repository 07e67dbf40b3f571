"""What is written is read again: each host once, by the index."""

from __future__ import annotations

import tarfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gputop.bundle.items import Gathered, Item, Order, Text
from gputop.bundle.write import Known, Made, write_bundle
from gputop.domain.link import LinkState
from gputop.readers.load import load, load_bytes
from tests.fakes.builders import a_link, a_problem, a_spec

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TABLE = (
    Path(__file__).parents[2] / "fixtures" / "recordings" / "nvidia" / "table_l40s_driver-595.80_load.txt"
).read_bytes()
LINKS = b"GPU 0: NVIDIA L40S (UUID: GPU-aaaaaaaa-0000-4000-8000-000000000001)\n"
UNKNOWN_OPTION = b'Invalid combination of input arguments. Please run "nvidia-smi -h" for help.\n'
VERSIONS = b'$ docker info\ncould not select device driver "" with capabilities: [[gpu]]\nDriver Version: 595.80\n'
XID = b"[Fri Jan  2 03:00:00 2026] NVRM: Xid (PCI:0000:01:00): 79, pid=7, name=train, GPU has fallen off the bus.\n"


def a_host(name: str, *, answered: bool = True) -> Gathered:
    files = {"versions.txt": VERSIONS, "tools/nvidia-smi.txt": TABLE, "tools/nvidia-smi-nvlink-s.txt": LINKS,
             "tools/nvidia-smi-nvlink-e.txt": UNKNOWN_OPTION, "kernel.log": XID, "kernel-devices.log": XID}  # fmt: skip
    items = tuple(Item(path=path, what="words", body=Text.of(text)) for path, text in files.items())
    items += (Item(path="lspci.txt", what="not there", problem="lspci is not on this host"),)
    link = a_link()
    if not answered:
        link = a_link(LinkState.UNREACHABLE, problem=a_problem(summary="no route to host"))
    return Gathered(host=name, answered=answered, link=link, versions={"driver_version": "595.80"},
                    items=items if answered else ())  # fmt: skip


def written(target: Path | None, *hosts: Gathered, redact: bool = False) -> Path:
    order = Order(hosts=tuple(host.host for host in hosts), redact=redact)
    made = write_bundle(
        hosts,
        Known(specs={host.host: a_spec(host.host) for host in hosts}, hosts={}),
        order,
        AT,
        source="ssh",
        target=target,
    )
    assert isinstance(made, Made), made
    return made.path


def test_a_bundle_is_read_as_its_hosts_each_once(tmp_path: Path) -> None:
    path = written(tmp_path / "case.tar.gz", a_host("gpu/1"), a_host("gpu-2"), a_host("gpu-3", answered=False))
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (inner,) = (tmp_path / "unpacked").iterdir()
    for recordings, left_out in (
        load(path, None),
        load_bytes("stdin", path.read_bytes(), None),
        load(tmp_path / "unpacked", None),
        load(inner, None),
    ):
        assert left_out == 0
        assert [recording.name for recording in recordings] == ["gpu/1", "gpu-2", "gpu-3"]
        first, _, silent = (recording.sample for recording in recordings)
        assert [device["model"] for device in first["devices"]] == ["NVIDIA L40S"]
        assert first["devices"][0]["uuid"] == "GPU-aaaaaaaa-0000-4000-8000-000000000001"
        assert first["problems"] == []
        assert [event["code"] for event in first["events"]] == [79]
        assert first["facts"]["driver_version"] == "595.80"
        assert [found["summary"] for found in silent["problems"]] == [
            "it did not answer when the bundle was made: no route to host"
        ]


def test_a_redacted_bundle_is_read_under_its_pseudonyms(tmp_path: Path) -> None:
    path = written(tmp_path / "case.tar.gz", a_host("node-a"), a_host("node-b"), redact=True)
    recordings, _ = load(path, None)
    assert [recording.name for recording in recordings] == ["host-1", "host-2"]


def test_files_beside_a_bundle_are_read_as_ever(tmp_path: Path) -> None:
    written(tmp_path / "case.tar.gz", a_host("gpu-1"))
    (tmp_path / "table.txt").write_bytes(TABLE)
    (tmp_path / "index.json").write_text('{"schema": "another", "hosts": []}')
    recordings, left_out = load(tmp_path, None)
    assert ([recording.name for recording in recordings], left_out) == (["gpu-1", "table.txt"], 1)


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("gputop-bundle-20260101T000000Z.tar.gz", "gputop-bundle-20260101T000000Z"),
        ("gputop-bundle-20260101T000000Z-2.tar.gz", "gputop-bundle-20260101T000000Z-2"),
        ("gpu-1 of ann.tar.gz", "gputop-bundle-20260102T030405Z"),
        (None, "gputop-bundle-20260102T030405Z"),
    ],
)
def test_the_folder_in_it_has_the_name_of_its_file_where_that_tells_nothing(
    name: str | None, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path / name if name is not None else None, a_host("gpu-1"))
    with tarfile.open(path) as archive:
        assert {member.name.partition("/")[0] for member in archive} == {folder}
