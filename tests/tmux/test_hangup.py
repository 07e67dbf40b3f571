"""A terminal that vanishes without a signal, or takes no more output, does not keep gputop alive."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.tmux.pane import ROOT, SHOW, modes_left_on


@contextmanager
def detached(*options: str, errors: int | None = None) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The screen on a pseudo-terminal that is not its controlling one, so that no SIGHUP comes. `errors`: where
    standard error goes, if not there."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 80))
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    process = subprocess.Popen(
        [sys.executable, str(SHOW), *options], stdin=slave, stdout=slave, stderr=slave if errors is None else errors,
        env=environment, start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    try:
        yield process, master
    finally:
        process.kill()
        process.wait(timeout=10)
        try:
            os.close(master)
        except OSError:
            pass  # closed by the test


def read_until(master: int, sign: bytes, seconds: float = 20.0) -> None:
    seen = b""
    end = time.monotonic() + seconds
    while sign not in seen:
        assert time.monotonic() < end, seen[-500:]
        if select.select([master], [], [], 0.1)[0]:
            seen += os.read(master, 65536)


def test_a_terminal_that_vanishes_ends_it_without_a_signal() -> None:
    with detached() as (process, master):
        read_until(master, b"unreachable")
        os.close(master)
        assert process.wait(timeout=5) == 128 + signal.SIGHUP


def rest_of(master: int) -> bytes:
    """What still comes after the program has ended."""
    rest = b""
    while select.select([master], [], [], 0.2)[0]:
        try:
            rest += os.read(master, 65536)
        except OSError:  # all of it came, and the other side is closed
            break
    return rest


@pytest.mark.parametrize("end", [b"\x03", signal.SIGTERM], ids=["ctrl-c", "SIGTERM"])
def test_a_terminal_that_takes_no_output_is_left_in_time_and_clean(end: bytes | signal.Signals) -> None:
    with detached() as (process, master):
        read_until(master, b"unreachable")
        for _ in range(60):  # nobody reads: the terminal's buffer fills up, and gputop draws no more
            os.write(master, b"G2g1")
            time.sleep(0.1)
        began = time.monotonic()
        if isinstance(end, bytes):
            os.write(master, end)
        else:
            process.send_signal(end)
        assert process.wait(timeout=6) == (0 if isinstance(end, bytes) else 128 + end)
        assert time.monotonic() - began < 4
        assert modes_left_on(b"\x1b[?1049h\x1b[?2004h" + rest_of(master)) == []


@pytest.mark.parametrize("slow", [(), ("--slow-end",)], ids=["at-once", "slow"])
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGHUP, b"\x03\x03"], ids=["SIGTERM", "SIGHUP", "ctrl-c"])
def test_whatever_ends_it_in_the_middle_of_an_act_says_how_to_go_on(
    end: bytes | signal.Signals, slow: tuple[str, ...], tmp_path: Path
) -> None:
    with (
        (tmp_path / "errors").open("wb") as errors,
        detached("--plan", str(tmp_path), *slow, errors=errors.fileno()) as (process, master),
    ):
        read_until(master, b"1 act under way")
        if isinstance(end, bytes):
            for key in end:
                os.write(master, bytes([key]))
                time.sleep(1.0)
        else:
            process.send_signal(end)
        assert process.wait(timeout=6) == (0 if isinstance(end, bytes) else 128 + end)
    plan = next(tmp_path.glob("**/*.jsonl")).stem
    said = (tmp_path / "errors").read_text()
    assert said.splitlines()[-1] == f"drain of gpu-01 is unfinished: gputop actions --resume {plan} --allow-actions"
    assert said.count("unfinished") == 1


def test_a_slow_terminal_gets_fewer_pictures_and_the_newest_last() -> None:
    with detached() as (_, master):
        read_until(master, b"unreachable")
        for _ in range(60):
            os.write(master, b"2G1g")
            time.sleep(0.1)
        os.write(master, b"?")
        time.sleep(0.5)
        assert len(rest_of(master)) < 100_000  # a picture is 3 kB, and 240 were asked for
        os.write(master, b"\x1b")
        read_until(master, b"unreachable")
