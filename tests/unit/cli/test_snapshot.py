"""gputop snapshot, demo and schema: mistakes, exit codes, files, waiting."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Collection
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gputop.cli.collect import exit_code, fleet_once, has_answered
from gputop.cli.diagnostics import Exit
from gputop.cli.main import main
from gputop.cli.snapshot import parse_size, parse_time
from gputop.domain.clock import SystemClock
from gputop.domain.event import FrameReceived, HostsChanged, LinkChanged, SourceEvent
from gputop.domain.link import LinkState
from gputop.domain.problem import ProblemKind
from gputop.fleet.collector import Collector
from gputop.fleet.fleet import Fleet
from gputop.fleet.reduce import reduce
from tests.fakes.builders import a_frame, a_link, a_problem, a_spec
from tests.fakes.clock import START

AT = "2026-01-02T03:04:05Z"
DEADLINE_SECONDS = 60


def failure(state: LinkState) -> LinkChanged:
    return LinkChanged(host="b", link=a_link(state, problem=a_problem(ProblemKind.TIMED_OUT, "no answer"), attempts=1))


def fleet_of(*events: SourceEvent) -> Fleet:
    hosts = HostsChanged(source="ssh", hosts=(a_spec("a"), a_spec("b")))
    return reduce(Fleet(as_of=START), [hosts, *events], START)


def ok(host: str, **frame: object) -> list[SourceEvent]:
    return [
        LinkChanged(host=host, link=a_link()),
        FrameReceived(host=host, frame=a_frame(**frame)),  # type: ignore[arg-type]
    ]


# --- exit codes


def test_0_when_every_host_answered_and_every_device_is_readable() -> None:
    assert exit_code(fleet_of(*ok("a"), *ok("b"))) is Exit.DONE


@pytest.mark.parametrize("state", [LinkState.UNREACHABLE, LinkState.AUTH_FAILED, LinkState.THROTTLED])
def test_1_when_a_host_could_not_be_read(state: LinkState) -> None:
    assert exit_code(fleet_of(*ok("a"), failure(state))) is Exit.PARTIAL


def test_1_when_a_host_was_not_asked_in_time() -> None:
    assert exit_code(fleet_of(*ok("a"))) is Exit.PARTIAL


def test_1_when_a_device_could_not_be_read() -> None:
    lost = ok("b", columns={"state": ["lost"]})
    assert exit_code(fleet_of(*ok("a"), *lost)) is Exit.PARTIAL


def test_3_when_nothing_could_be_read() -> None:
    assert exit_code(fleet_of(failure(LinkState.UNREACHABLE))) is Exit.NOTHING


# --- when a host has answered


@pytest.mark.parametrize(
    ("state", "answered"),
    [
        (LinkState.PENDING, False),
        (LinkState.CONNECTING, False),
        (LinkState.THROTTLED, False),
        (LinkState.UNREACHABLE, True),
        (LinkState.HOST_KEY_REJECTED, True),
        (LinkState.UNSUPPORTED, True),
    ],
)
def test_a_failure_is_an_answer_unless_it_passes_by_itself_soon(state: LinkState, answered: bool) -> None:
    assert has_answered(fleet_of(failure(state)).hosts["b"]) is answered


class SlowSource:
    """Host `a` answers at once, `b` never."""

    name = "ssh"

    async def events(self) -> AsyncIterator[SourceEvent]:
        now = SystemClock().now()
        yield HostsChanged(source="ssh", hosts=(a_spec("a"), a_spec("b")))
        yield LinkChanged(host="a", link=a_link(since=now))
        yield FrameReceived(host="a", frame=a_frame(now))
        await asyncio.Event().wait()

    def retry(self, hosts: Collection[str], *, by_person: bool = True) -> None: ...

    async def let_go(self, hosts: Collection[str]) -> None: ...

    def set_interval(self, seconds: float) -> None: ...


async def test_a_host_that_stays_silent_costs_the_wait_and_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    collector = Collector([SlowSource()], SystemClock())
    async with asyncio.timeout(DEADLINE_SECONDS):
        fleet = await fleet_once(collector, SystemClock(), wait_seconds=1.6, progress=True)
    assert [host.link.state for host in fleet] == [LinkState.OK, LinkState.PENDING]
    assert "1 of 2 hosts answered" in (err := capsys.readouterr().err)
    assert "for b" in err
    assert err.endswith("\r\x1b[K")


async def test_hosts_are_listed_however_short_the_wait_is() -> None:
    collector = Collector([SlowSource()], SystemClock())
    fleet = await fleet_once(collector, SystemClock(), wait_seconds=0.001, progress=False)
    assert list(fleet.hosts) == ["a", "b"]


async def test_without_a_terminal_nothing_is_said_about_progress(capsys: pytest.CaptureFixture[str]) -> None:
    collector = Collector([SlowSource()], SystemClock())
    await fleet_once(collector, SystemClock(), wait_seconds=1.2, progress=False)
    assert capsys.readouterr().err == ""


# --- mistakes


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--at", AT], "--at goes with --demo"),
        (["--seed", "1"], "--seed goes with --demo"),
        (["--hosts", "9"], "--hosts goes with --demo"),
        (["--demo", "gpu1"], "--demo is a fleet of its own"),
        (["--demo", "--at", "yesterday"], '--at "yesterday" is not a time such as 2026'),
        (["--demo", "--at", "2026-01-02T03:04:05"], "is not a time"),
        (["--demo", "--hosts", "5"], "6 to 1000 hosts"),
        (["--demo", "--seed", "-"], '--seed "-" is not a whole number'),
        (["--demo", "--wait", "10"], '--wait "10"'),
        (["--demo", "--wait", "0s"], '--wait "0s"'),
        (["--demo", "--view", "gpus"], "--view goes with --format text or svg"),
        (["--demo", "--at", AT, "--format", "text", "--view", "cpus"], '--view "cpus" is not a view'),
        (["--demo", "--at", AT, "--format", "text", "--view", "host:x"], 'no host "x"'),
        (["--demo", "--at", AT, "--format", "svg", "--size", "9x9"], '--size "9x9" is not a size'),
        (["--demo", "--at", AT, "--format", "svg", "--theme", "pink"], 'there is no theme "pink"'),
        (["--demo", "--format", "pdf"], "pdf"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_clear_line_and_nothing_is_done(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["snapshot", *options])
    except SystemExit as left:
        code = int(left.code or 0)
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert said in err.splitlines()[0]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        (AT, START),
        ("2026-01-02t03:04:05z", START),
        ("2026-01-02 04:04:05+01:00", START),
        ("2026-01-02T03:04:05.250Z", START.replace(microsecond=250_000)),
        ("2026-13-02T03:04:05Z", None),
        ("2026-01-02T03:04:05", None),
        ("2026-01-02", None),
        ("20260102T030405Z", None),
        ("0001-01-01T00:00:00Z", None),
        ("1970-01-01T00:00:00Z", None),
        ("9999-12-31T23:59:59-12:00", None),
    ],
)
def test_a_time_is_written_as_rfc_3339_has_it(text: str, moment: datetime | None) -> None:
    assert parse_time(text) == moment
    assert moment is None or moment.tzinfo is UTC


@pytest.mark.parametrize(
    ("text", "size"), [("120x36", (120, 36)), ("20x5", (20, 5)), ("120", None), ("120x", None), ("501x9", None)]
)
def test_a_size_is_columns_x_lines(text: str, size: tuple[int, int] | None) -> None:
    assert parse_size(text) == size


# --- output


def test_a_file_is_written_instead_of_standard_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "fleet.json"
    code = main(["snapshot", "--demo", "--at", AT, "--hosts", "6", "--format", "json", "--output", str(target)])
    assert (code, capsys.readouterr().out) == (1, "")
    assert json.loads(target.read_text())["schema"] == "gputop/1"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("/missing/fleet.txt", "cannot write /missing/fleet.txt: there is no folder /missing"),
        ("/", 'cannot write "/": it is a folder'),
        ("", "the name of the output file is empty"),
    ],
)
def test_a_file_that_cannot_be_written_is_said_before_anything_is_read(
    output: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["snapshot", "--demo", "--at", AT, "--hosts", "6", "--output", output]) == 2
    assert capsys.readouterr() == ("", f"gputop: {said}\n")


def test_a_disk_that_is_full_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["snapshot", "--demo", "--at", AT, "--hosts", "6", "--output", "/dev/full"]) == 1
    assert capsys.readouterr() == ("", "gputop: cannot write /dev/full: No space left on device\n")


@pytest.mark.parametrize("output", ["json", "csv", "table", "text", "svg"])
def test_the_same_moment_gives_the_same_bytes_everywhere(output: str, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "gputop", "snapshot", "--demo", "--at", AT, "--hosts", "6", "--format", output]
    runs = [
        subprocess.run(
            argv,
            cwd=folder,
            env={**os.environ, "TZ": zone, "PYTHONHASHSEED": zone[-1], "LC_ALL": locale} | more,
            capture_output=True,
            check=False,
            timeout=DEADLINE_SECONDS,
        )
        for folder, zone, locale, more in (
            (tmp_path, "UTC0", "C.UTF-8", {}),
            ("/", "XYZ7", "C", {"NO_COLOR": "1", "COLUMNS": "60", "TERM": "dumb"}),
        )
    ]
    assert [run.returncode for run in runs] == [1, 1]
    assert runs[0].stdout == runs[1].stdout
    assert len(runs[0].stdout) > 500


def test_who_reads_only_the_first_line_of_the_output_ends_it_quietly() -> None:
    command = f"{sys.executable} -m gputop snapshot --demo --at {AT} --format json | head -1"
    ran = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=DEADLINE_SECONDS)
    assert (ran.stdout, ran.stderr) == ("{\n", "")


def test_the_demo_over_ssh_prints_the_whole_fleet(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["snapshot", "--demo", "--hosts", "6", "--wait", "30s", "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["source"] == "demo"
    states = [host["link"]["state"] for host in document["hosts"]]
    assert {"unreachable", "stale", "degraded", "ok"} == set(states)
    assert "lost" in {device["state"] for host in document["hosts"] for device in host["devices"]}
    assert document["totals"]["devices"] > 20


def test_without_a_terminal_the_demo_prints_a_table_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--hosts", "6"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("6 hosts ")
    assert err == (
        "gputop: standard input is no terminal, so this is a snapshot of the demo fleet; in a terminal it is live\n"
    )


def test_in_a_terminal_the_table_has_color_and_fits() -> None:
    lines = in_terminal("snapshot", "--demo", "--at", AT, "--hosts", "6").splitlines()
    assert any("\x1b[31m" in line for line in lines)
    assert max(len(re.sub(r"\x1b\[\d+m", "", line)) for line in lines) <= 80


def test_no_color_is_respected() -> None:
    assert "\x1b[" not in in_terminal("snapshot", "--demo", "--at", AT, "--hosts", "6", NO_COLOR="1")


def in_terminal(*argv: str, **environment: str) -> str:
    """What gputop writes to a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "gputop", *argv],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LC_ALL": "C.UTF-8", **environment},
    ):
        os.close(theirs)
        written = b""
        try:
            while piece := os.read(ours, 65536):
                written += piece
        except OSError:  # the terminal's other end was closed
            pass
        finally:
            os.close(ours)
    return written.decode()
