"""Programs that are run to their end, here and on a host: what counts as an answer and what does not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gputop.domain.call import CommandResult, RunHere, RunOn
from gputop.domain.host import Endpoint, HostSpec
from gputop.domain.link import LinkFailure, LinkState
from gputop.domain.problem import Problem, ProblemKind
from gputop.transport.process import LocalProcess, ProcessConnection, ProcessTransport
from gputop.transport.runner import OUTPUT_BYTES, ProgramRunner, performed, trouble


class Noisy(ProcessTransport):
    """A host whose login files print, and that counts its logins."""

    def __init__(self) -> None:
        self.logins = 0
        self.refuses: LinkFailure | None = None

    async def locate(self, spec: HostSpec) -> Endpoint:
        return Endpoint(address="localhost")

    async def connect(self, spec: HostSpec) -> NoisyConnection | LinkFailure:  # type: ignore[override]
        self.logins += 1
        return self.refuses or NoisyConnection()


class NoisyConnection(ProcessConnection):
    async def start(self, command: str) -> LocalProcess | LinkFailure:
        return await super().start(f"printf 'Welcome!\\nexit 0\\n\\377\\n'; {command}")


@pytest.fixture
def host() -> Noisy:
    return Noisy()


@pytest.fixture
async def runner(host: Noisy) -> AsyncIterator[ProgramRunner]:
    made = ProgramRunner({"a": host}, [HostSpec(name="a")])
    yield made
    await made.close()


async def on(runner: ProgramRunner, *argv: str, seconds: float = 10, **fields: object) -> CommandResult:
    return await runner.run(RunOn(host="a", argv=argv, **fields), deadline_seconds=seconds)  # type: ignore[arg-type]


async def test_what_login_files_print_is_no_output(runner: ProgramRunner) -> None:
    result = await on(runner, "echo", "a  b", "$HOME", "'")
    assert result.ok
    assert result.stdout == b"a  b $HOME '\n"


async def test_standard_input_ends_where_the_text_ends(runner: ProgramRunner) -> None:
    result = await on(runner, "sh", "-c", "cat; echo end", stdin="line\nno line end")
    assert result.text == "line\nno line endend\n"


async def test_bytes_that_are_no_text_do_no_harm(runner: ProgramRunner) -> None:
    result = await on(runner, "printf", "\\377\\000x")
    assert result.ok
    assert result.stdout == b"\xff\x00x"


async def test_an_exit_status_is_kept(runner: ProgramRunner) -> None:
    result = await on(runner, "sh", "-c", "echo why >&2; exit 7")
    assert (result.ok, result.exit_status) == (False, 7)
    problem = trouble(result)
    assert problem is not None
    assert problem.summary == "exit status 7: why"


async def test_a_program_that_is_not_there_has_failed(runner: ProgramRunner) -> None:
    assert (await on(runner, "no-such-program")).exit_status == 127
    here = await runner.run(RunHere(argv=("no-such-program",)), deadline_seconds=5)
    assert here.lost is not None
    assert here.lost.kind is ProblemKind.TOOL_MISSING


async def test_a_program_without_an_end_is_ended_and_is_no_answer(runner: ProgramRunner) -> None:
    result = await on(runner, "sh", "-c", "echo early; sleep 60", seconds=2)
    assert not result.ok
    assert trouble(result) is not None


async def test_after_a_deadline_the_next_call_logs_in_anew(host: Noisy, runner: ProgramRunner) -> None:
    await on(runner, "true")
    await on(runner, "true")
    assert host.logins == 1
    lost = await on(runner, "sh", "-c", "trap '' TERM; sleep 60 & wait; sleep 60", seconds=0.3)
    assert lost.lost is not None
    assert lost.lost.kind is ProblemKind.TIMED_OUT
    assert (await on(runner, "true")).ok
    assert host.logins == 2


async def test_a_host_that_refuses_is_asked_again_by_the_next_call(host: Noisy, runner: ProgramRunner) -> None:
    problem = Problem(kind=ProblemKind.CONNECTION_REFUSED, summary="refused")
    host.refuses = LinkFailure(state=LinkState.UNREACHABLE, problem=problem)
    assert (await on(runner, "true")).lost == problem
    host.refuses = None
    assert (await on(runner, "true")).ok


async def test_more_output_than_is_kept_is_no_answer(runner: ProgramRunner) -> None:
    result = await on(runner, "head", "-c", str(OUTPUT_BYTES + 1), "/dev/zero", seconds=30)
    assert result.exit_status == 0
    assert not result.ok
    assert len(result.stdout) <= OUTPUT_BYTES


async def test_secrets_reach_the_environment_and_no_argv(runner: ProgramRunner, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    secret.chmod(0o600)
    call = RunHere(
        argv=("sh", "-c", 'echo "$PASS"; tr "\\0" " " </proc/$$/cmdline'), secrets={"PASS": f"file:{secret}"}
    )
    result = await runner.run(call, deadline_seconds=5)
    first, _, cmdline = result.text.partition("\n")
    assert first == "s3cret"
    assert "s3cret" not in cmdline
    missing = RunHere(argv=("true",), secrets={"PASS": "env:GPUTOP_NOT_SET"})
    assert (await runner.run(missing, deadline_seconds=5)).lost is not None


async def test_rights_of_root_are_asked_for_without_a_password(
    runner: ProgramRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, script in (("sudo", 'echo sudo "$@"'), ("id", "echo 1000")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert (await on(runner, "reboot", sudo=True)).text == "sudo -n -- reboot\n"
    (tmp_path / "id").write_text("#!/bin/sh\necho 0\n")
    assert (await on(runner, "echo", "as root", sudo=True)).text == "as root\n"


@pytest.mark.parametrize(
    ("said", "summary"),
    [
        ("sudo: a password is required", "sudo wants a password"),
        ("ops is not in the sudoers file.", "the account is not in sudoers"),
        ("Sorry, user ops is not allowed to execute '/bin/x' as root on gpu", "sudoers does not allow this command"),
        ("sudo: sorry, you must have a tty to run sudo", "sudo wants a terminal (requiretty)"),
        ("sh: 1: sudo: not found", "sudo is not installed"),
    ],
)
def test_what_sudo_refuses_is_told_apart(said: str, summary: str) -> None:
    problem = trouble(CommandResult(exit_status=1, stderr=said.encode()))
    assert problem is not None
    assert problem.kind is ProblemKind.PERMISSION
    assert problem.summary == summary
    assert problem.hint


def test_no_exit_status_is_a_failure_but_where_the_channel_was_to_drop() -> None:
    cut = CommandResult(exit_status=None, stdout=b"")
    assert performed(cut).ok is False
    assert performed(cut).problem is not None
    assert performed(cut, may_drop=True).pending is True
    assert performed(CommandResult(exit_status=1), may_drop=True).pending is False


def test_output_for_records_holds_no_control_characters() -> None:
    shown = performed(CommandResult(exit_status=0, stdout=b"a\x1b[31mred\r\nb" + b"x" * 9999)).output
    assert shown.startswith("a\\x1b[31mred\\r\nb")
    assert len(shown) == 2000


HOLDER = """
import asyncio, sys
from gputop.domain.call import RunHere, RunOn
from gputop.domain.host import HostSpec
from gputop.transport.process import ProcessTransport
from gputop.transport.runner import ProgramRunner

argv = ("sh", "-c", "echo $$ >%s; exec sleep 1000" % sys.argv[2])
call = RunHere(argv=argv, tied=True) if sys.argv[1] == "here" else RunOn(host="a", argv=argv, tied=True)
runner = ProgramRunner({"a": ProcessTransport()}, [HostSpec(name="a")])
asyncio.run(runner.run(call, deadline_seconds=600))
"""


@pytest.mark.parametrize("where", ["here", "on a host"])
def test_a_program_that_is_tied_to_us_ends_also_when_we_are_killed(where: str, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, where.split()[0], file])
    deadline = time.monotonic() + 20
    while not (file.exists() and file.read_text().endswith("\n")):
        assert time.monotonic() < deadline, "it was not started"
        time.sleep(0.02)
    program = Path(f"/proc/{file.read_text().strip()}")
    assert program.exists()
    holder.kill()
    holder.wait()
    while program.exists():
        assert time.monotonic() < deadline, "it goes on by itself"
        time.sleep(0.02)


async def test_a_program_that_is_tied_to_us_ends_as_any_other(runner: ProgramRunner) -> None:
    for call in (
        RunHere(argv=("sh", "-c", "echo out; echo err >&2; exit 7"), tied=True),
        RunOn(host="a", argv=("sh", "-c", "echo out; echo err >&2; exit 7"), tied=True),
    ):
        result = await runner.run(call, deadline_seconds=10)
        assert (result.exit_status, result.stdout, result.stderr) == (7, b"out\n", b"err\n")
