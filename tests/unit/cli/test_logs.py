"""The log file."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.cli import logs


@pytest.fixture(autouse=True)
def _own_handlers() -> Iterator[None]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    for handler in root.handlers[:]:
        if handler not in before:
            root.removeHandler(handler)
            handler.close()
    root.setLevel(level)
    logging.captureWarnings(False)


def test_a_line_has_time_level_logger_host_and_a_harmless_message(tmp_path: Path) -> None:
    assert logs.start(str(tmp_path / "log"), debug=False) is None
    logging.getLogger("gputop.test").info("hello \x1b[2J %s", "x", extra={"host": "gpu1"})
    logging.getLogger("gputop.test").debug("not this")
    (line,) = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    time, rest = line.split(" ", 1)
    assert len(time) == len("2026-01-02T03:04:05.678901Z")
    assert rest == "INFO gputop.test gpu1 hello \\x1b[2J x"


def test_debug_alone_logs_into_the_state_folder(home: Path) -> None:
    assert logs.start(None, debug=True) is None
    logging.getLogger("gputop.test").debug("this too")
    path = home / ".local" / "state" / "gputop" / "gputop.log"
    assert path.read_text(encoding="utf-8").endswith("DEBUG gputop.test - this too\n")


def test_without_a_log_file_nothing_reaches_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    assert logs.start(None, debug=False) is None
    logging.getLogger("somebody").error("not on the screen")
    assert capfd.readouterr().err == ""
