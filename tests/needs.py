"""What a test needs of the machine. Missing: the test is skipped with the reason in words, or fails where `CI=true`."""

from __future__ import annotations

import os
import shutil

import pytest

SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
"""Not on an ordinary user's PATH, yet sshd and ip live there."""


def missing(reason: str) -> None:
    """Skip the test in words; with `CI=true` fail it, so that no test is silently left out there."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"with CI=true nothing may be skipped: {reason}", pytrace=False)
    pytest.skip(reason)


def need(program: str, reason: str | None = None) -> str:
    """Path of `program`, or the test is skipped (see `missing`). `reason` replaces the standard words."""
    path = shutil.which(program, path=f"{os.environ.get('PATH', '')}:{SBIN}")
    if path is None:
        missing(reason or f"needs {program}: make services")
        raise AssertionError("unreachable: missing() ends the test")
    return path


def need_that(condition: object, reason: str) -> None:
    """Skip (see `missing`) unless `condition` holds; `reason` says what is missing."""
    if not condition:
        missing(reason)


def need_root(reason: str = "needs root") -> None:
    """Skip (see `missing`) unless the tests run as root. Only for what has an unprivileged twin elsewhere."""
    need_that(os.geteuid() == 0, reason)
