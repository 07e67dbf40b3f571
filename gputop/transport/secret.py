"""Passwords that the inventory does not hold but names: `env:NAME` or `file:/path`."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from gputop.domain.problem import Problem, ProblemKind


def read_secret(place: str) -> str | Problem:
    """The value behind `env:NAME` or `file:/path`, the end of its line cut off. A file that others may read is
    refused, as ssh refuses such a key."""
    kind, _, name = place.partition(":")
    if kind == "env":
        value = os.environ.get(name)
        if value is not None:
            return value
        return _refused(f"the environment variable {name} is not set")
    if kind != "file":
        return _refused("a password is named as env:NAME or file:/path, never written down here")
    try:
        with Path(name).expanduser().open(encoding="utf-8") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                return _refused(f"{name}: others may read it", hint=f"chmod 600 {name}")
            return file.read().rstrip("\n")
    except OSError as error:
        return _refused(f"{name}: {error.strerror}")
    except ValueError:
        return _refused(f"{name}: is no UTF-8 text")


def _refused(summary: str, hint: str | None = None) -> Problem:
    return Problem(kind=ProblemKind.PERMISSION, summary=summary, hint=hint)
