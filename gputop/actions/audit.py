"""The audit log: append-only JSON lines, one record for each intent, step and outcome of each host.

A record is on the disk before the call that it tells of is made. Whoever cannot write it does nothing.
"""

from __future__ import annotations

import errno
import json
import os
import pwd
import syslog
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from gputop.actions.statefile import append_line, foreign, open_own
from gputop.catalog.secrets import masked_data
from gputop.domain.record import AuditRecord


class AuditFailed(Exception):
    """The record could not be written; the message says why."""


class Who(Struct, frozen=True, kw_only=True):
    """Who acts, as far as this machine knows."""

    user: str
    tty: str | None = None
    ssh_connection: str | None = None


class AuditLog:
    """Writes records to a file, and to syslog where there is one."""

    def __init__(self, path: Path, who: Who, *, to_syslog: bool = True) -> None:
        self.path = path
        self._who = who
        self._to_syslog = to_syslog

    def write(self, record: AuditRecord) -> None:
        """Append `record` with who acts, synced to the disk; what is plainly a secret is masked. Raises
        `AuditFailed`."""
        who = self._who
        record = structs.replace(record, user=who.user, tty=who.tty, ssh_connection=who.ssh_connection)
        line = _visible(msgspec.json.encode(masked_data(msgspec.to_builtins(record))).decode()).encode() + b"\n"
        try:
            append_line(self.path, line)
        except OSError as error:
            raise AuditFailed(f"the audit log {self.path} cannot be written: {error.strerror}") from error
        if self._to_syslog:
            syslog.openlog("gputop", syslog.LOG_PID, syslog.LOG_AUTHPRIV)
            syslog.syslog(syslog.LOG_NOTICE, line.decode().rstrip())


def _visible(line: str) -> str:
    """The same JSON with an escape for each character that would act on a terminal, or hide, wherever it is shown."""
    return line if line.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)


def read_records(
    path: Path, *, own: bool = True, left_out: Callable[[int], None] = lambda line: None
) -> Iterator[AuditRecord]:
    """The records of the file, oldest first; none when there is no file. A line that is no record (a crash cut it
    short) is left out, and its number told. `own`: the file is believed only where others cannot have written it, nor
    put another one in its place. Raises `OSError`."""
    if not os.path.lexists(path):
        return
    if own and (why := foreign(path.parent)) is not None:
        raise OSError(errno.EPERM, why)
    decoder = msgspec.json.Decoder(AuditRecord)
    with os.fdopen(open_own(path, os.O_RDONLY), "rb") if own else path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield decoder.decode(line)
            except msgspec.DecodeError:
                left_out(number)


def who_acts() -> Who:
    """The real user (the one who logged in, not root behind sudo), the terminal and where they came from."""
    return Who(user=real_user(), tty=_terminal(), ssh_connection=os.environ.get("SSH_CONNECTION"))


def real_user() -> str:
    """The login name that the kernel remembers; else the one before sudo; else the current one."""
    try:
        login = int(Path("/proc/self/loginuid").read_text(encoding="ascii"))
        if login != 2**32 - 1:
            return pwd.getpwuid(login).pw_name
    except (OSError, ValueError, KeyError):
        pass  # no audit subsystem, or an account that is gone
    if os.geteuid() == 0 and (before := os.environ.get("SUDO_USER")):
        return before
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _terminal() -> str | None:
    for descriptor in (0, 1, 2):
        try:
            return os.ttyname(descriptor)
        except OSError:
            continue
    return None
