"""Files that gputop believes later: the audit log, journals, leases. They and their folders are this user's alone.

Whoever may write there could plant a plan to be resumed, or take lines out of the audit log."""

from __future__ import annotations

import errno
import os
import pwd
import stat
from pathlib import Path

FILE_MODE = 0o600
FOLDER_MODE = 0o700

ELSEWHERE = "set XDG_STATE_HOME to a folder of your own"


class NotOurs(OSError):
    """A file or a folder that others own or may write to; `strerror` says what to do."""

    def __init__(self, why: str, what_to_do: str) -> None:
        super().__init__(errno.EPERM, f"{why}: {what_to_do}")


def own_folder(path: Path) -> None:
    """Make `path` where it is missing, and close it to others. Raises `OSError`; `NotOurs` where others own it, or may
    have written to it."""
    path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    found = path.stat()
    _check(path, found, "chmod 700")
    if found.st_mode & 0o077:
        path.chmod(FOLDER_MODE)


def foreign(*folders: Path) -> str | None:
    """Why what lies in one of `folders` is not believed; `None`: it is, or there is none."""
    for path in folders:
        try:
            _check(path, path.stat(), "chmod 700")
        except FileNotFoundError:
            continue
        except OSError as error:
            return error.strerror
    return None


def open_own(path: Path, flags: int) -> int:
    """A descriptor of a plain file that is this user's alone; closed to others where they may read it. Raises
    `OSError`."""
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, FILE_MODE)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotOurs(f"{path} is a symbolic link", f"remove it, or {ELSEWHERE}") from error
        raise
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise NotOurs(f"{path} is no plain file", f"remove it, or {ELSEWHERE}")
        _check(path, found, "chmod 600")
        if found.st_mode & 0o077:
            os.fchmod(descriptor, FILE_MODE)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def read_own(path: Path) -> bytes:
    """The contents of a file that is this user's alone. Raises `OSError`."""
    with os.fdopen(open_own(path, os.O_RDONLY), "rb") as file:
        return file.read()


def append_line(path: Path, line: bytes) -> None:
    """Append one whole line and sync it. Raises `OSError`.

    After a crash in the middle of a line the next one starts on a line of its own."""
    own_folder(path.parent)
    is_new = not path.exists()
    descriptor = open_own(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line
        written = os.write(descriptor, line)
        if written < len(line):
            raise OSError(0, "written in part only: the disk is full")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if is_new:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_whole(path: Path, text: bytes) -> None:
    """Replace a small file; it is there whole, or as it was. Raises `OSError`."""
    own_folder(path.parent)
    fresh = path.with_suffix(".new")
    with os.fdopen(open_own(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def _check(path: Path, found: os.stat_result, close: str) -> None:
    if found.st_uid != os.geteuid():
        raise NotOurs(f"{path} belongs to {_name(found.st_uid)}, not to {_name(os.geteuid())}", ELSEWHERE)
    if found.st_mode & stat.S_IWOTH:
        raise NotOurs(f"everybody may write to {path}", f"look through it, then {close} it; or {ELSEWHERE}")


def _name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
