"""Files are the old one or the whole new one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gputop.export.write import replace_file, write_text


def test_a_file_is_new_whole_and_private(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    assert write_text("ä\n", str(target)) is None
    assert target.read_text(encoding="utf-8") == "ä\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["out.json"]


def test_an_old_file_is_replaced_and_becomes_private(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    target.write_text("a longer text that was there before")
    target.chmod(0o644)
    reader = target.open()
    assert write_text("new", str(target)) is None
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    with reader:
        assert reader.read() == "a longer text that was there before"


def test_a_link_keeps_pointing_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    replace_file(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_when_writing_fails_the_old_file_stays_and_nothing_else_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "out.json"
    target.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert write_text("new", str(target)) == f"cannot write {target}: No space left on device"
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.json"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    target = tmp_path / "missing" / "out.json"
    assert write_text("x", str(target)) == f"cannot write {target}: No such file or directory"


def test_a_device_is_written_to_and_not_replaced() -> None:
    replace_file(Path(os.devnull), b"x")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


@pytest.mark.parametrize("output", [None, "-"])
def test_without_a_file_it_goes_to_standard_output(output: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    assert write_text("text\n", output) is None
    assert capsys.readouterr().out == "text\n"
