"""Where recordings are: files, folders, archives and compressed files, searched in order of their names."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

FILE_LIMIT = 64 << 20
"""Bytes of one file, uncompressed; the rest of it is left out."""
FILES_LIMIT = 10_000
"""Files of one folder or archive."""
TOTAL_LIMIT = 1 << 30
"""Bytes of one folder or archive, uncompressed."""


class Found(NamedTuple):
    """One file."""

    name: str
    """Of a folder or an archive: with the path in it."""
    data: bytes
    flaw: str | None = None
    """Why `data` is not all of it."""


def find(path: Path) -> Iterator[Found]:
    """The files that `path` is or holds. Never raises: what cannot be read has a flaw."""
    try:
        if path.is_dir():
            yield from _in_folder(path)
            return
        with path.open("rb") as file:
            data = file.read(FILE_LIMIT + 1)
    except OSError as failure:
        yield Found(path.name, b"", failure.strerror or str(failure))
        return
    yield from unpack(path.name, data)


def unpack(name: str, data: bytes) -> Iterator[Found]:
    """`data` itself, or what it holds when it is compressed or an archive."""
    flaw = None
    if data.startswith(b"\x1f\x8b"):
        data, flaw = _unzipped(data)
        name = name.removesuffix(".gz")
    if _is_archive(data):
        yield from _in_archive(name, data)
        return
    if len(data) > FILE_LIMIT:
        data, flaw = data[:FILE_LIMIT], f"only the first {FILE_LIMIT >> 20} MiB were read"
    yield Found(name, data, flaw)


def _in_folder(folder: Path) -> Iterator[Found]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    total = 0
    for path in paths[:FILES_LIMIT]:
        for found in find(path):
            total += len(found.data)
            if total > TOTAL_LIMIT:
                return
            yield found._replace(name=_below(path.relative_to(folder), found.name))


def _below(path: Path, name: str) -> str:
    """The name of a file in a folder; that of a file in an archive in a folder has both."""
    return (path.parent / name).as_posix() if name == path.name else (path.parent / path.name / name).as_posix()


def _in_archive(name: str, data: bytes) -> Iterator[Found]:
    total = files = 0
    try:
        with tarfile.open(fileobj=BytesIO(data), mode="r:") as archive:
            for member in archive:
                if not member.isfile():
                    continue
                files += 1
                stream = archive.extractfile(member)
                content = stream.read(FILE_LIMIT + 1) if stream is not None else b""
                flaw = None
                if content.startswith(b"\x1f\x8b"):
                    content, flaw = _unzipped(content)
                total += len(content)
                if files > FILES_LIMIT or total > TOTAL_LIMIT:
                    return
                yield Found(member.name.removeprefix("./"), content[:FILE_LIMIT], flaw)
    except (tarfile.TarError, OSError, EOFError, ValueError) as failure:
        yield Found(name, b"", f"the archive is damaged: {failure}")


def _is_archive(data: bytes) -> bool:
    return data[257:262] == b"ustar"


def _unzipped(data: bytes) -> tuple[bytes, str | None]:
    """As far as it can be unpacked, and why no further."""
    try:
        with gzip.GzipFile(fileobj=BytesIO(data)) as file:
            pieces = []
            room = TOTAL_LIMIT
            while room > 0 and (piece := file.read(min(room, 1 << 20))):
                pieces.append(piece)
                room -= len(piece)
    except (OSError, EOFError, zlib.error) as failure:
        return b"".join(pieces), f"the file is damaged: {failure}"
    return b"".join(pieces), None
