"""Acts on the command line, as far as no host is needed."""

from __future__ import annotations

import json
import os
import pwd
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from gputop.actions.audit import AuditLog, Who
from gputop.cli.act import command_for, exit_code
from gputop.cli.main import COMMANDS, main, parser_for
from gputop.domain.action import ActionKind, HostActState, Outcome, OutcomeState
from gputop.domain.clock import SystemClock
from gputop.domain.record import AuditEvent, AuditRecord
from tests.fakes.acts import a_plan, a_request, an_evidence
from tests.needs import need_root

ACTS = ["drain", "cordon", "resume", "stop", "start", "reboot", "reset", "signal", "power-cap", "message", "ack"]


@pytest.mark.parametrize("act", ACTS)
def test_an_act_without_hosts_is_a_mistake_and_never_means_all(
    act: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / ".config/gputop").mkdir()
    (home / ".config/gputop/inventory.yaml").write_text("hosts: [a, b]\n")
    assert main([act, "--reason", "x", "--yes", "--allow-actions"]) == 2
    assert "no hosts named" in capsys.readouterr().err


@pytest.mark.parametrize("act", ["drain", "stop", "reboot", "reset", "ack"])
@pytest.mark.parametrize("reason", [[], ["--reason", " "]])
def test_what_takes_capacity_away_needs_a_reason(
    act: str, reason: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([act, "gpu-a", *reason]) == 2
    assert "needs --reason" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["drain", "a", "--reason", "x", "--deadline", "soon"], '--deadline "soon" is no time'),
        (["drain", "a", "--reason", "x", "--for", "3"], '--for "3" is no time'),
        (["drain", "a", "--reason", "x", "--for", "31d"], '--for "31d" must be above 0 and at most 30d'),
        (["signal", "a"], "signal needs --pid"),
        (["signal", "a", "--pid", "1"], "signal needs --pid"),
        (["signal", "a", "b", "--pid", "77"], "signal takes one host"),
        (["power-cap", "a", "--watts", "much"], "power-cap needs --watts"),
        (["reboot", "a", "b", "--reason", "x", "--no-wait"], "reboot --no-wait takes one host"),
        (
            ["drain", "a", "--reason", "x", "--consent", "unmanaged-pod"],
            '--consent "unmanaged-pod" is nothing that drain',
        ),
        (["drain", "a", "--reason", "x", "--consent", "power-cut"], "known: unmanaged-pods, empty-dir-data, node-not"),
        (["resume", "a", "--consent", "all"], "known: drained-by-other"),
        (["stop", "a", "--reason", "x", "--consent", ""], "known: power-cut"),
        (["reboot", "a", "--reason", "x", "--consent", "drained-by-other"], "known: power-cut"),
        (["message", "a"], "message needs --text"),
        (["message", "a", "--text", "caf\udce9"], "--text is not UTF-8 text"),
        (["drain", "a", "--reason", "caf\udce9"], "--reason is not UTF-8 text"),
        (["resume", "a", "--override", "caf\udce9"], "--override is not UTF-8 text"),
        (["drain", "a", "--reason", "x" * 501], "--reason has 501 characters, the most is 500"),
        (["resume", "a", "--override", "x" * 100_000], "--override has 100,000 characters, the most is 500"),
        (["message", "a", "--text", "x" * 501], "--text has 501 characters, the most is 500"),
        (["cancel", "a"], "cancel needs --job"),
        (["actions", "--resume", "nothing"], 'there is no unfinished plan "nothing"'),
        (["audit", "--last", "x"], '--last "x" is no number'),
        (["audit", "--file", "/nowhere"], "/nowhere: no such file"),
    ],
)
def test_mistakes_are_told_and_exit_2(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert words in capsys.readouterr().err


@pytest.fixture
def log(home: Path) -> Path:
    """Two plans, one of them old, and half a line."""
    path = home / ".local/state/gputop/audit.jsonl"
    audit = AuditLog(
        path, Who(user="ann", tty="/dev/pts/1", ssh_connection="192.0.2.1 5 192.0.2.2 22"), to_syslog=False
    )
    now = SystemClock().now()
    for host, act, event, age in [
        ("gpu-a", ActionKind.DRAIN, AuditEvent.INTENT, 48),
        ("gpu-a", ActionKind.DRAIN, AuditEvent.OUTCOME, 48),
        ("gpu-b", ActionKind.REBOOT, AuditEvent.OUTCOME, 1),
    ]:
        record = AuditRecord(
            time=now - timedelta(hours=age), event=event, plan=f"p-{host}", act=act, host=host, reason="NIC",
            summary="two\nlines",
        )  # fmt: skip
        audit.write(record)
    with path.open("ab") as file:
        file.write(b'{"time": "2026')
    return path


@pytest.mark.parametrize(
    ("filters", "hosts"),
    [
        ([], ["gpu-a", "gpu-a", "gpu-b"]),
        (["--host", "gpu-b"], ["gpu-b"]),
        (["--act", "drain"], ["gpu-a", "gpu-a"]),
        (["--by", "bob"], []),
        (["--plan", "p-gpu-b"], ["gpu-b"]),
        (["--event", "intent"], ["gpu-a"]),
        (["--since", "24h"], ["gpu-b"]),
        (["--last", "1"], ["gpu-b"]),
        (["--last", "0"], []),
    ],
)
def test_the_audit_log_is_filtered_and_printed_as_json_lines(
    log: Path, filters: list[str], hosts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "--format", "json", *filters]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["host"] for record in records] == hosts
    assert all(record["user"] == "ann" and record["ssh_connection"].startswith("192.0.2.1") for record in records)


def test_the_audit_log_as_text_has_one_line_a_record(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert "reason: NIC" in lines[0]


def test_a_record_after_half_a_line_stands_on_its_own(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = AuditRecord(time=SystemClock().now(), event=AuditEvent.OUTCOME, plan="p", act=ActionKind.STOP, host="late")
    AuditLog(log, Who(user="ann"), to_syslog=False).write(record)
    assert main(["audit", "--last", "1", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["host"] == "late"


def test_an_act_that_there_is_not_is_a_mistake_and_no_empty_answer(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "--act", "drian"]) == 2
    assert '--act "drian" is no act' in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["pipe", "link", "another's"])
def test_an_audit_log_that_is_not_ours_is_not_read_as_such(
    kind: str, log: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    log.rename(kept)
    words = {"pipe": "is no plain file", "link": "is a symbolic link", "another's": "belongs to nobody"}[kind]
    if kind == "pipe":
        os.mkfifo(log)
    elif kind == "link":
        log.symlink_to(kept)
    else:
        need_root("needs root, to give a file away")
        shutil.copy(kept, log)
        os.chown(log, pwd.getpwnam("nobody").pw_uid, -1)
    assert main(["audit"]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert words in said.err
    assert main(["audit", "--file", str(kept)]) == 0


def test_that_there_is_nothing_to_tell_is_said_on_standard_error(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for argv, words in (("audit", "there is no audit log yet"), ("actions", "no unfinished plans, nothing drained")):
        assert main([argv]) == 0
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith(words)
        assert said.err.count("\n") == 1


def test_that_no_record_fits_is_said(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--host", "nosuch"]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"no record in {log} fits\n")
    assert main(["audit", "--file", os.devnull]) == 0
    assert capsys.readouterr() == ("", f"no record in {os.devnull}\n")


def test_lines_that_are_no_records_are_counted_and_named(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = log.read_text().splitlines()[:-1]  # the last one was cut
    log.write_text("\n".join([whole[0], '{"time": "20', *whole[1:], "", "[]"]) + "\n")
    assert main(["audit", "--format", "json"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == whole
    last = len(whole) + 3
    assert f"3 lines left out, no record can be read there: {log}:2, {log}:{last - 1}, {log}:{last}\n" in said.err


def test_an_audit_log_in_a_folder_that_everybody_may_write_to_is_not_read_as_ours(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log.parent.chmod(0o777)
    assert main(["audit"]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert f"everybody may write to {log.parent}" in said.err
    assert main(["audit", "--file", str(log)]) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (["hibernate", "gpu01"], 'did you mean "gputop stop --hibernate"?'),
        (["undrain", "gpu01"], 'did you mean "gputop resume"?'),
        (["drain", "a", "--reason", "x", "--for", "2"], "write 30m or 2h"),
        (["hosts", "--wait", "2", "--check", "a"], "write 10s or 500ms"),
        (["ack", "a"], "it goes into the audit log\n"),
        (["drain", "a"], "it goes into the audit log, and to the scheduler or into the marker on the host\n"),
    ],
)
def test_a_hint_fits_what_was_asked(
    argv: list[str], hint: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gputop.cli.screen.refusal", lambda: None)
    assert main(argv) == 2
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize("word", ["--bogus", "--x", "--fast"])
def test_an_option_that_is_like_no_other_gets_no_guess(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([word])
    assert "did you mean" not in capsys.readouterr().err


def test_the_hint_that_goes_on_with_a_plan_is_the_whole_command() -> None:
    parser = parser_for(next(command for command in COMMANDS if command.name == "drain"))
    args = parser.parse_words(
        ["gpu-a", "--reason", "x", "--ssh-config", "my config", "-l", "ops", "-i", "k1", "-p", "7"]
    )
    assert command_for(args, "--resume", "P1") == (
        "gputop actions --resume P1 --allow-actions --user ops --port 7 --ssh-config 'my config' --identity k1"
    )
    args = parser.parse_words(["gpu-a", "--reason", "x"])
    assert command_for(args, "--roll-back", "P1") == "gputop actions --roll-back P1 --allow-actions"
    assert command_for(args, "--forget", "P1") == "gputop actions --forget P1"


@pytest.mark.parametrize(
    ("outcomes", "waited", "code"),
    [
        (["verified"], True, 0),
        (["verified", "pending"], True, 1),
        (["verified", "pending"], False, 0),
        (["unverified"], False, 1),
        (["failed"], False, 1),
        (["skipped"], False, 1),
    ],
)
def test_an_act_that_nobody_was_to_wait_for_is_done_when_it_was_asked_for(
    outcomes: list[str], waited: bool, code: int
) -> None:
    found = [
        Outcome(host="a", state=OutcomeState(state), host_state=HostActState.UNKNOWN, summary="x") for state in outcomes
    ]
    assert exit_code(found, waited=waited) == code


@pytest.mark.parametrize("kind", [ActionKind.CANCEL, ActionKind.REQUEUE])
def test_a_host_without_a_scheduler_has_no_jobs_to_act_on(kind: ActionKind) -> None:
    request = a_request(kind, jobs=("7",))
    (host,) = a_plan(request, an_evidence()).hosts
    assert [block.summary for block in host.blocks] == [f"it has no scheduler that could {kind.value}"]
