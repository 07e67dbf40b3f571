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

from tests.tmux.pane import ROOT, SHOW


@contextmanager
def detached() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The screen on a pseudo-terminal that is not its controlling one, so that no SIGHUP comes."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 80))
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    process = subprocess.Popen(
        [sys.executable, str(SHOW)], stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
    )
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


def test_a_terminal_that_takes_no_output_does_not_keep_it_from_ending() -> None:
    with detached() as (process, master):
        read_until(master, b"unreachable")
        for _ in range(60):  # nobody reads: the terminal's buffer and the queue of writes fill up
            os.write(master, b"G2g1")
            time.sleep(0.02)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=6) == 128 + signal.SIGTERM
        assert time.monotonic() - began < 4
