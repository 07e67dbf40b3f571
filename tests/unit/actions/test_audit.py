"""Who acts, as far as this machine knows, and where it is written down."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from gputop.actions.audit import AuditFailed, AuditLog, Who, read_records
from gputop.domain.action import ActionKind
from gputop.domain.record import AuditEvent, AuditRecord
from tests.fakes.clock import START

WHO = """
import json
from gputop.actions.audit import who_acts
who = who_acts()
print(json.dumps([who.user, who.tty, who.ssh_connection]))
"""


def a_record(**fields: str) -> AuditRecord:
    return AuditRecord(time=START, event=AuditEvent.INTENT, plan="p", act=ActionKind.DRAIN, host="gpu-01", **fields)  # type: ignore[arg-type]


def test_the_user_before_sudo_the_terminal_and_where_they_came_from_are_known() -> None:
    if Path("/proc/self/loginuid").exists() and Path("/proc/self/loginuid").read_text() != str(2**32 - 1):
        pytest.skip("the kernel itself remembers who logged in here")
    master, slave = pty.openpty()
    environment = {**os.environ, "SUDO_USER": "ana", "SSH_CONNECTION": "192.0.2.1 50022 192.0.2.2 22"}
    ran = subprocess.run(
        [sys.executable, "-c", WHO], stdin=slave, stdout=subprocess.PIPE, text=True, check=True, env=environment
    )
    terminal = os.ttyname(slave)
    os.close(slave)
    os.close(master)
    user = "ana" if os.geteuid() == 0 else os.environ.get("USER", "")
    assert json.loads(ran.stdout) == [user, terminal, "192.0.2.1 50022 192.0.2.2 22"]


def test_a_record_goes_to_the_file_and_to_syslog_with_who_acts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int, str]] = []
    opened: list[int] = []
    monkeypatch.setattr("syslog.openlog", lambda name, options, facility: opened.append(facility))
    monkeypatch.setattr("syslog.syslog", lambda level, line: told.append((opened[-1], level, line)))
    path = tmp_path / "state" / "audit.jsonl"
    log = AuditLog(path, Who(user="ana", tty="/dev/pts/7", ssh_connection="192.0.2.1 5 192.0.2.2 22"))
    log.write(a_record(reason="NIC", instance_id="i-1", command="scontrol update nodename=gpu-01 state=drain"))
    import syslog

    [line] = path.read_text().splitlines()
    assert told == [(syslog.LOG_AUTHPRIV, syslog.LOG_NOTICE, line)]
    record = json.loads(line)
    wanted = ("time", "plan", "user", "tty", "ssh_connection", "host", "instance_id", "act", "reason", "command")
    assert [record[key] for key in wanted] == [
        "2026-01-02T03:04:05Z",
        "p",
        "ana",
        "/dev/pts/7",
        "192.0.2.1 5 192.0.2.2 22",
        "gpu-01",
        "i-1",
        "drain",
        "NIC",
        "scontrol update nodename=gpu-01 state=drain",
    ]
    assert {"state_before", "state_after", "exit_status", "duration_seconds", "result", "step", "summary"} <= set(
        record
    )
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_lines_are_only_ever_added_and_a_link_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path, Who(user="ana"), to_syslog=False)
    log.write(a_record())
    first = path.read_bytes()
    log.write(a_record())
    assert path.read_bytes().startswith(first)
    assert len(list(read_records(path))) == 2
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "target")
    with pytest.raises(AuditFailed):
        AuditLog(tmp_path / "link.jsonl", Who(user="ana"), to_syslog=False).write(a_record())
    assert not (tmp_path / "target").exists()


def test_what_a_program_of_a_site_prints_leaves_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path, Who(user="ana"), to_syslog=False)
    log.write(a_record(summary="failed: token=hunter2hunter2", command="power --password hunter2hunter2 off"))
    assert "hunter2" not in path.read_text()
    [record] = read_records(path)
    assert (record.summary, record.command) == ("failed: token=***", "power --password *** off")
