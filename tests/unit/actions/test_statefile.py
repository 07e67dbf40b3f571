"""What gputop believes later lies in files and folders that are this user's alone."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

import pytest

from gputop.actions.audit import AuditFailed, AuditLog, Who
from gputop.actions.journal import JournalFailed, folder_of, locked, read_story
from gputop.actions.statefile import NotOurs, append_line, open_own, read_own, write_whole
from gputop.domain.action import ActionKind
from gputop.domain.record import AuditEvent, AuditRecord
from tests.fakes.acts import a_plan, a_request, an_evidence
from tests.fakes.clock import START
from tests.needs import need_root

NOBODY = pwd.getpwnam("nobody").pw_uid


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_made_is_closed_to_others_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        append_line(tmp_path / "state/audit.jsonl", b"one\n")
        write_whole(tmp_path / "state/leases/a.json", b"{}")
        with locked(tmp_path / "state", a_plan(a_request(), an_evidence())):
            pass
    finally:
        os.umask(before)
    folders = [path for path in (tmp_path / "state").rglob("*") if path.is_dir()] + [tmp_path / "state"]
    assert {mode_of(folder) for folder in folders} == {0o700}
    files = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert {mode_of(file) for file in files} == {0o600}


def test_what_others_may_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "state/audit.jsonl"
    append_line(path, b"one\n")
    path.chmod(0o640)
    path.parent.chmod(0o755)
    append_line(path, b"two\n")
    assert (mode_of(path), mode_of(path.parent)) == (0o600, 0o700)
    assert read_own(path) == b"one\ntwo\n"


@pytest.mark.parametrize("what", ["file", "folder"])
@pytest.mark.parametrize("how", ["another's", "open to all"])
def test_what_others_may_have_written_is_not_added_to(what: str, how: str, tmp_path: Path) -> None:
    path = tmp_path / "state/audit.jsonl"
    append_line(path, b"one\n")
    target = path if what == "file" else path.parent
    if how == "another's":
        need_root("needs root, to give a file away")
        os.chown(target, NOBODY, -1)
    else:
        target.chmod(0o777 if what == "folder" else 0o666)
    before = mode_of(target)
    record = AuditRecord(time=START, event=AuditEvent.INTENT, plan="p", act=ActionKind.DRAIN)
    with pytest.raises(AuditFailed) as failure:
        AuditLog(path, Who(user="ann"), to_syslog=False).write(record)
    assert "set XDG_STATE_HOME to a folder of your own" in str(failure.value)
    assert ("belongs to nobody" if how == "another's" else f"chmod {'600' if what == 'file' else '700'}") in str(
        failure.value
    )
    assert path.read_bytes() == b"one\n"
    assert mode_of(target) == before


def test_a_link_and_a_pipe_are_not_followed_and_what_to_do_is_said(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").touch()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotOurs, match="is a symbolic link: remove it, or set XDG_STATE_HOME"):
        append_line(tmp_path / "link", b"one\n")
    for flags in (os.O_RDONLY, os.O_RDWR):
        with pytest.raises(NotOurs, match="is no plain file: remove it"):
            open_own(tmp_path / "pipe", flags)


def test_a_journal_that_somebody_else_has_put_there_is_not_believed(tmp_path: Path) -> None:
    need_root("needs root, to give a file away")
    plan = a_plan(a_request(), an_evidence())
    planted = folder_of(tmp_path) / f"{plan.id}.jsonl"
    append_line(planted, b"{}\n")
    os.chown(planted, NOBODY, -1)
    assert read_story(planted) is None
    with pytest.raises(JournalFailed, match="belongs to nobody"), locked(tmp_path, plan):
        raise AssertionError("it is held")
