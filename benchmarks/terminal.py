"""gputop in a pseudo-terminal: what it paints, how much it sends, what it costs."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import termios
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

import pyte

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Terminal:
    """One program in a terminal of `columns` x `lines`.

    A thread takes the program's output as soon as it comes, since a full pseudo-terminal would hold the program up.
    What it means for the screen is worked out later (`when`), so that this cannot delay what is measured.
    """

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], *, columns: int = 120, lines: int = 36
    ) -> None:
        self.bytes_received = 0
        self._pieces: deque[tuple[float, bytes]] = deque()
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self.started_at = time.monotonic()
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            try:
                os.execvpe(argv[0], list(argv), dict(environment))
            finally:
                os._exit(127)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        self._reader.join(timeout=5.0)
        if self._reader.is_alive():
            os.kill(self.pid, signal.SIGKILL)
            self._reader.join()
        os.waitpid(self.pid, 0)
        os.close(self._fd)

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._fd, 65536)
            except OSError:  # the program ended
                return
            if not data:
                return
            self.bytes_received += len(data)
            self._pieces.append((time.monotonic(), data))

    def press(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def text(self) -> str:
        """The screen, as far as its output was looked at."""
        return "\n".join(self._screen.display)

    def backgrounds(self) -> tuple[str, ...]:
        """The background of each line's third cell: the line under the cursor has its own."""
        return tuple(self._screen.buffer[line][2].bg for line in range(self._screen.lines))

    def catch_up(self) -> None:
        """Look at all output so far."""
        self.when(lambda: False)

    def when(self, is_there: Callable[[], bool]) -> float | None:
        """When the piece of output came that made `is_there()` true, looking piece by piece at what has come; `None`
        when none did."""
        while self._pieces:
            at, data = self._pieces.popleft()
            self._stream.feed(data)
            if is_there():
                return at
        return None

    def wait(self, is_there: Callable[[], bool], what: str, *, step: float, seconds: float = 60.0) -> float:
        """As `when`, looking once every `step` seconds until it is there."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            time.sleep(step)
            at = self.when(is_there)
            if at is not None:
                return at
        raise TimeoutError(f"no {what} within {seconds} s; the screen:\n{self.text()}")


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


def machine_cpu_seconds() -> float:
    """Time that all cores together have worked so far, or waited for a core that another virtual machine had."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _idle, _iowait, irq, softirq, steal = (int(text) for text in file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS_PER_SECOND
