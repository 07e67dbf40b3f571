"""The file: whole or not there, private, never over another one, the same bytes for the same content."""

from __future__ import annotations

import errno
import os
import stat
import tarfile
from pathlib import Path

import pytest

from gputop.bundle import archive
from gputop.bundle.archive import GivenUp, unused, write_archive, write_beside
from tests.fakes.clock import START

MEMBERS = [("b/index.txt", b"index"), ("b/host/x.bin", b"\x00\xff")]


def test_it_holds_the_members_in_their_order_and_says_nothing_of_who_wrote_it(tmp_path: Path) -> None:
    target = tmp_path / "a.tar.gz"
    assert write_archive(target, MEMBERS, START) == target.stat().st_size
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    with tarfile.open(target) as opened:
        entries = opened.getmembers()
        assert [(entry.name, opened.extractfile(entry).read()) for entry in entries] == MEMBERS  # type: ignore[union-attr]
    assert {(entry.uid, entry.gid, entry.uname, entry.gname, entry.mode) for entry in entries} == {
        (0, 0, "", "", 0o600)
    }
    assert b"a.tar" not in target.read_bytes()[:64]
    assert os.listdir(tmp_path) == ["a.tar.gz"]


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.tar.gz", "b.tar.gz"):
        write_archive(tmp_path / name, MEMBERS, START)
    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tar.gz").read_bytes()


@pytest.mark.parametrize("has_links", [True, False])
def test_another_file_is_never_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool) -> None:
    if not has_links:

        def link(source: object, target: object) -> None:
            raise OSError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(archive.os, "link", link)
    target = tmp_path / "a.tar.gz"
    write_archive(target, MEMBERS, START)
    before = target.read_bytes()
    with pytest.raises(FileExistsError):
        write_archive(target, [], START)
    assert target.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.tar.gz"]
    assert unused(target) == tmp_path / "a-2.tar.gz"


def test_a_disk_that_is_full_leaves_nothing(tmp_path: Path) -> None:
    def members() -> object:
        yield MEMBERS[0]
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space left"):
        write_archive(tmp_path / "a.tar.gz", members(), START)  # type: ignore[arg-type]
    assert os.listdir(tmp_path) == []


def test_one_that_nobody_wants_any_more_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(GivenUp):
        write_archive(tmp_path / "a.tar.gz", MEMBERS, START, lambda: False)
    assert os.listdir(tmp_path) == []


def test_the_key_to_its_names_is_private_and_written_once(tmp_path: Path) -> None:
    target = tmp_path / "names.json"
    write_beside(target, b"{}")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        write_beside(target, b"")
    assert target.read_bytes() == b"{}"
