"""Machines for all tests of this folder that need real ones."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acts.machines import Machines


@pytest.fixture(scope="session")
def machines() -> Iterator[Machines]:
    folder = Path(tempfile.mkdtemp(prefix="gputop-acts-"))
    folder.chmod(0o755)
    raised: Machines | None = None
    try:
        raised = Machines(folder / "machines")
        yield raised
    finally:
        if raised is not None:
            raised.stop()
        shutil.rmtree(folder, ignore_errors=True)


Gputop = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def gputop(tmp_path: Path) -> Gputop:
    """Runs `gputop ARGS…` in a state folder of its own."""

    def run(*argv: str | Path, seconds: float = 60, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "gputop", *map(str, argv)],
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), **environment},
        )

    return run


Background = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def gputop_in_background(tmp_path: Path) -> Iterator[Background]:
    """Starts `gputop ARGS…` in the same state folder as `gputop`; ended at the end."""
    started: list[subprocess.Popen[str]] = []

    def start(*argv: str | Path, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "gputop", *map(str, argv)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), **environment},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
