"""One .tar.gz: whole or not at all, mode 0600, never over another file, and telling nothing of who wrote it."""

from __future__ import annotations

import errno
import gzip
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from datetime import datetime
from io import BytesIO
from itertools import count
from pathlib import Path

LEVEL = 6
FILE_MODE = 0o600
NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})
"""What file systems without hard links say."""


class GivenUp(Exception):
    """Nobody wants the file any more."""


def write_archive(
    target: Path, members: Iterable[tuple[str, bytes]], at: datetime, is_wanted: Callable[[], bool] = lambda: True
) -> int:
    """Write `members` (path and content, in this order) to `target`; its size in bytes. Raises `OSError`:
    `FileExistsError` where there is such a file already, and nothing is left behind."""
    folder = target.absolute().parent
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".new", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            _write(file, members, at, is_wanted)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        _publish(Path(name), target)
    finally:
        Path(name).unlink(missing_ok=True)
    return size


def write_beside(target: Path, content: bytes) -> None:
    """A small private file that must not be there yet. Raises `OSError`."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def unused(path: Path) -> Path:
    """`path`, or the first of `NAME-2.tar.gz`, `NAME-3.tar.gz`, … that does not exist."""
    stem = path.name.removesuffix(".tar.gz")
    numbered = (path.with_name(f"{stem}-{number}.tar.gz") for number in count(2))
    return path if not os.path.lexists(path) else next(each for each in numbered if not os.path.lexists(each))


def _write(file: object, members: Iterable[tuple[str, bytes]], at: datetime, is_wanted: Callable[[], bool]) -> None:
    stamp = int(at.timestamp())
    with (
        gzip.GzipFile(filename="", mode="wb", compresslevel=LEVEL, fileobj=file, mtime=stamp) as packed,  # type: ignore[call-overload]
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path, content in members:
            if not is_wanted():
                raise GivenUp
            entry = tarfile.TarInfo(path)
            entry.size, entry.mtime, entry.mode = len(content), stamp, FILE_MODE
            archive.addfile(entry, BytesIO(content))


def _publish(written: Path, target: Path) -> None:
    """Give a file its name, but not that of another one."""
    try:
        os.link(written, target)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        os.rename(written, target)
