"""`gputop read`: formats, standard input, exit codes, mistakes."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from gputop.cli.main import main
from gputop.sources.file import FileSource
from tests.fakes.clock import ManualClock

HEALTHY = "index, name, utilization.gpu [%]\n0, NVIDIA A100, 7 %\n"
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 560.35\n"
LOST = "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.\n"


def file(tmp_path: Path, text: str, name: str = "a.txt") -> str:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def hosts(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    document = json.loads(capsys.readouterr().out)
    assert document["source"] == "file"
    found: list[dict[str, Any]] = document["hosts"]
    return found


def test_a_file_is_a_host_of_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["read", file(tmp_path, HEALTHY), "--format", "json"]) == 0
    (host,) = hosts(capsys)
    assert (host["name"], host["address"], host["link"]["state"], host["route"]) == ("a.txt", None, "ok", "nvidia-smi")
    assert (host["clock_skew_seconds"], host["age_seconds"]) == (None, 0)
    assert [device["utilization_percent"] for device in host["devices"]] == [7]


@pytest.mark.parametrize(
    ("text", "code", "kind"),
    [
        (MISMATCH, 1, "driver-mismatch"),
        (LOST, 1, "device-lost"),
        ("hello\n", 3, "unreadable-file"),
        ("", 3, "unreadable-file"),
    ],
)
def test_trouble_is_a_document_and_an_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, code: int, kind: str
) -> None:
    assert main(["read", "--format", "json", file(tmp_path, text)]) == code
    (host,) = hosts(capsys)
    assert host["link"]["state"] == "degraded"
    assert host["link"]["problem"]["kind"] == kind


def test_one_readable_file_is_something(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["read", file(tmp_path, HEALTHY), file(tmp_path, "hello", "b.txt"), "--format", "json"]) == 1
    assert [host["name"] for host in hosts(capsys)] == ["a.txt", "b.txt"]


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(HEALTHY.encode())))
    assert main(["read", "-", "--format", "json"]) == 0
    assert [host["name"] for host in hosts(capsys)] == ["stdin"]


def test_a_tool_with_columns_reads_bare_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tool = "nvidia-smi --query-gpu=index,temperature.gpu --format=csv,noheader"
    assert main(["read", "--tool", tool, "--format", "json", file(tmp_path, "0, 35\n1, 36\n")]) == 0
    (host,) = hosts(capsys)
    assert [device["temperature_celsius"] for device in host["devices"]] == [35, 36]


def test_joined_files_are_one_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    apps = "gpu_name, pid, process_name, used_gpu_memory [MiB]\nNVIDIA A100, 7, python, 5 MiB\n"
    assert main(["read", "--join", file(tmp_path, HEALTHY), file(tmp_path, apps, "b"), "--format", "json"]) == 0
    (host,) = hosts(capsys)
    assert [[process["pid"] for process in device["processes"]] for device in host["devices"]] == [[7]]


@pytest.mark.parametrize("output", ["table", "csv"])
def test_the_other_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str], output: str) -> None:
    assert main(["read", file(tmp_path, HEALTHY), "--format", output]) == 0
    assert "A100" in capsys.readouterr().out


def test_output_goes_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out.json"
    assert main(["read", file(tmp_path, HEALTHY), "--format", "json", "-o", str(target)]) == 0
    assert capsys.readouterr().out == ""
    assert json.loads(target.read_text())["hosts"][0]["name"] == "a.txt"


def test_files_that_are_left_out_of_a_folder_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file(tmp_path, HEALTHY)
    file(tmp_path, "hello", "b.md")
    assert main(["read", str(tmp_path)]) == 0
    assert "1 file of no known tool left out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (["read"], "no file named"),
        (["read", "/nonexistent/file"], "no such file or folder"),
        (["read", "--tool", "nvidia-smy", "x"], "no tool that gputop knows"),
        (["read", "--frob", "x"], "unknown option --frob"),
        (["read", "--tui", "x"], "the screen needs a terminal"),
    ],
)
def test_a_mistake_is_said_and_nothing_is_done(capsys: pytest.CaptureFixture[str], argv: list[str], word: str) -> None:
    try:
        code = main(argv)
    except SystemExit as left:
        code = int(left.code or 0)
    written = capsys.readouterr()
    assert (code, written.out) == (2, "")
    assert word in written.err


def test_the_screen_gets_the_recordings_and_no_host_of_them_ages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: dict[str, Any] = {}

    def show(settings: Any, make_feed: Any, *, title: str, interval_seconds: float) -> int:
        shown.update(feed=make_feed(), title=title)
        return 0

    monkeypatch.setattr("gputop.cli.screen.refusal", lambda: None)
    monkeypatch.setattr("gputop.cli.screen.show", show)
    assert main(["read", "--tui", file(tmp_path, HEALTHY)]) == 0
    assert (shown["title"], shown["feed"].source) == ("a.txt", "file")


async def test_a_file_is_read_once() -> None:
    from gputop.readers.load import load_bytes

    recordings, _ = load_bytes("a", HEALTHY.encode(), None)
    source = FileSource(recordings, ManualClock())
    source.retry(["a"])
    source.set_interval(1.0)
    assert [type(event).__name__ async for event in source.events()] == ["HostsChanged", "LinkChanged", "FrameReceived"]


XID = "[  100.250000] NVRM: Xid (PCI:0000:3b:00): 94, pid=1, name=a, Contained\n"


def test_events_are_graded_by_the_catalog_as_the_user_changed_it(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = home / ".config" / "gputop" / "xid.yaml"
    own.parent.mkdir(parents=True, exist_ok=True)
    words = ["read", file(tmp_path, XID), "--format", "json"]
    assert main(words) == 0
    assert [event["severity"] for event in hosts(capsys)[0]["events"]] == ["restart"]
    own.write_text("xid: [{codes: 94, severity: reset}]\n")
    assert main(words) == 0
    assert [event["severity"] for event in hosts(capsys)[0]["events"]] == ["reset"]
    own.write_text("xid: [{codes: 94, severity: rset}]\n")
    assert main(words) == 2
    assert 'xid.yaml:1:29: "severity" in xid 94 must be' in capsys.readouterr().err
