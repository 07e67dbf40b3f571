"""Where output goes: standard output, or a file that is either the old one or the whole new one."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path


def write_text(text: str, output: str | None) -> str | None:
    """Write `text` to the file `output` (`None` or `-`: standard output). Why a file could not be written, in one
    line; a broken standard output raises `OSError`."""
    if output is None or output == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return None
    try:
        replace_file(Path(output), text.encode("utf-8", "surrogateescape"))
    except OSError as failure:
        return f"cannot write {output}: {failure.strerror or failure}"
    return None


def unwritable(output: str) -> str | None:
    """Why the file `output` cannot be written, known before there is anything to write; `None` when nothing speaks
    against it."""
    path = Path(output)
    if not output or path.is_dir():
        return f'cannot write "{output}": it is a folder' if output else "the name of the output file is empty"
    folder = path.resolve().parent
    if not folder.is_dir():
        return f"cannot write {output}: there is no folder {folder}"
    if path.exists() and not path.is_file():
        return None
    return None if os.access(folder, os.W_OK | os.X_OK) else f"cannot write {output}: no files may be made in {folder}"


def replace_file(path: Path, content: bytes) -> None:
    """Make `path` a file of mode 0600 with `content`. Who reads it meanwhile sees the old one or the new one, whole;
    when it fails, the old one stays. What is no regular file (a device, a pipe) is written to directly."""
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    target = path.resolve()
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".new", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise
