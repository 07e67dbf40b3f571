"""gputop in a pseudo-terminal: what it paints, how much it sends, what it costs."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

import pyte

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Terminal:
    """One program in a terminal of `columns` x `lines`. Waiting has a deadline and ends in `TimeoutError`."""

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], *, columns: int = 160, lines: int = 48
    ) -> None:
        self.bytes_received = 0
        self.first_byte_at: float | None = None
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self._unseen = bytearray()
        self.started_at = time.monotonic()
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            try:
                os.execvpe(argv[0], list(argv), dict(environment))
            finally:
                os._exit(127)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._has_ended():
                break
            os.kill(self.pid, number)
            deadline = time.monotonic() + 5.0
            while not self._has_ended() and time.monotonic() < deadline:
                self._receive(0.05)
        os.close(self._fd)

    def _has_ended(self) -> bool:
        if self.pid == 0:
            return True
        pid, _ = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self.pid = 0
        return self.pid == 0

    def press(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def _receive(self, seconds: float) -> bool:
        """Read what is there, waiting at most so long; whether something came."""
        readable, _, _ = select.select([self._fd], [], [], seconds)
        if not readable:
            return False
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # the program ended
            return False
        if self.first_byte_at is None:
            self.first_byte_at = time.monotonic()
        self.bytes_received += len(data)
        self._unseen += data
        return bool(data)

    def text(self) -> str:
        """The screen as it is now."""
        self._stream.feed(bytes(self._unseen))
        self._unseen.clear()
        return "\n".join(self._screen.display)

    def backgrounds(self) -> tuple[str, ...]:
        """The background of each line's third cell: the line under the cursor has its own."""
        self.text()
        return tuple(self._screen.buffer[line][2].bg for line in range(self._screen.lines))

    def wait(self, is_there: Callable[[], bool], what: str, *, seconds: float = 30.0) -> float:
        """Wait until `is_there()`; the monotonic time of the piece of output that made it so."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self._receive(0.05):
                at = time.monotonic()
                if is_there():
                    return at
        raise TimeoutError(f"no {what} within {seconds} s; the screen:\n{self.text()}")

    def watch(self, seconds: float) -> None:
        """Let it run for so long, reading all output but looking at none of it."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._receive(left)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def memory_bytes(pid: int) -> int:
    """Resident memory of a process."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        line = next(line for line in file if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024
