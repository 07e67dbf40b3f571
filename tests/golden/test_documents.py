"""What `gputop snapshot --demo --at` prints, as files that a person can read. `make golden` writes them anew."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from gputop.cli.main import main

AT = "2026-01-02T03:04:05Z"


class Json(SingleFileSnapshotExtension):
    _write_mode = WriteMode.TEXT
    file_extension = "json"


class Csv(Json):
    file_extension = "csv"


class Text(Json):
    file_extension = "txt"


def printed(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """Standard output; exit code 1, because some host of the demo fleet is always in trouble."""
    assert main(["snapshot", "--demo", "--at", AT, *options]) == 1
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_json(snapshot: SnapshotAssertion, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "--hosts", "6", "--format", "json") == snapshot(extension_class=Json)


def test_csv(snapshot: SnapshotAssertion, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "--hosts", "6", "--format", "csv") == snapshot(extension_class=Csv)


def test_table(snapshot: SnapshotAssertion, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "--format", "table", "--no-ascii") == snapshot(extension_class=Text)


def test_table_in_ascii(snapshot: SnapshotAssertion, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "--format", "table", "--ascii") == snapshot(extension_class=Text)


def test_schema(snapshot: SnapshotAssertion, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert capsys.readouterr().out == snapshot(extension_class=Json)
