"""Fixtures for every test: an empty home, so that no test reads or writes the user's own ssh and gputop files."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import missing, need, need_root, need_that

__all__ = ["home", "missing", "need", "need_root", "need_that"]

UNSET = (
    "GPUTOP_INVENTORY",
    "SSH_AUTH_SOCK",
    "SSH_ASKPASS",
    "NO_COLOR",
    "FORCE_COLOR",
    "COLORTERM",
    "COLUMNS",
    "LINES",
    "TMUX",
    "TMUX_PANE",
)
"""Variables that would let the tester's own terminal, agent or inventory leak into a test."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as under `nohup`, or in the background of a script
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

XDG = {
    "XDG_CONFIG_HOME": ".config",
    "XDG_CACHE_HOME": ".cache",
    "XDG_STATE_HOME": ".local/state",
    "XDG_DATA_HOME": ".local/share",
}


def empty_home(patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.setenv("HOME", str(folder))
    for variable, below in XDG.items():
        (folder / below).mkdir(parents=True)
        patch.setenv(variable, str(folder / below))
    for variable in UNSET:
        patch.delenv(variable, raising=False)


@pytest.fixture(scope="session", autouse=True)
def session_home() -> Iterator[None]:
    """An empty home for fixtures that live longer than one test."""
    with tempfile.TemporaryDirectory(prefix="gputop-test-home-") as folder, pytest.MonkeyPatch.context() as patch:
        empty_home(patch, Path(folder))
        yield


@pytest.fixture(autouse=True)
def home(session_home: None) -> Iterator[Path]:
    """A fresh, empty $HOME (and XDG folders) for each test. The `ssh` program looks up the home folder in the
    password database instead: give it `-F`."""
    folder = Path(tempfile.mkdtemp(prefix="gputop-test-home-"))
    with pytest.MonkeyPatch.context() as patch:
        empty_home(patch, folder)
        yield folder
    shutil.rmtree(folder, ignore_errors=True)
