"""The terminal around the screen: kept clean of stray writes, given back whatever happens."""

from __future__ import annotations

import atexit
import os
import select
import signal
import sys
import termios
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import IO, Any

RESET = (
    b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1016l"  # mouse reports off
    b"\x1b[?1004l\x1b[?2004l\x1b[?2026l\x1b[?2048l"  # focus, paste, synchronized output, resize reports off
    b"\x1b[<u"  # kitty keyboard protocol off
    b"\x1b[?1049l\x1b[?7h\x1b[?25h\x1b[0m"  # back from the alternate screen, wrap, cursor, plain text
)

LAST_SECONDS = 2.5
"""Once asked to end, gputop is gone after so long, whatever still hangs."""

WRITE_ATTEMPTS = 20
WRITE_PAUSE_SECONDS = 0.005

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT)


class Terminal:
    """Standard input and the terminal that is drawn on."""

    def __init__(self) -> None:
        self.input = sys.__stdin__.fileno() if sys.__stdin__ is not None else 0
        self.output = os.dup(sys.__stdout__.fileno() if sys.__stdout__ is not None else 1)
        self.errors = os.dup(2)
        """Standard error, as it is outside of the screen."""
        self.file: IO[str] = os.fdopen(os.dup(self.output), "w", encoding="utf-8", errors="replace", newline="")
        self.modes = _modes(self.input)
        self.exit_code: int | None = None
        self.last_words: Callable[[], Sequence[str]] = tuple
        """Lines that the person is told when gputop has to end before all of it has."""
        self.is_clean = False
        """The screen was left in order: leaving it once more would take the cursor back over what was printed since."""

    def restore(self) -> None:
        """Give the terminal back. Never blocks; harmless when it is clean already."""
        if self.modes is not None:
            try:
                termios.tcsetattr(self.input, termios.TCSANOW, self.modes)
            except termios.error:
                pass  # the terminal is gone, nothing is left to restore
        if not self.is_clean:
            _write_at_once(self.output, RESET)

    def end_soon(self, code: int) -> None:
        """End the process with `code` in `LAST_SECONDS` at the latest, even if the event loop or a write hangs."""
        if self.exit_code is None:
            self.exit_code = code
            signal.signal(signal.SIGALRM, self._end_now)
            signal.setitimer(signal.ITIMER_REAL, LAST_SECONDS)

    def _end_now(self, number: int, frame: FrameType | None) -> None:
        self._let_go()
        self.restore()
        self.tell(self.last_words())
        os._exit(self.exit_code or 0)

    def tell(self, lines: Sequence[str]) -> None:
        """Write to standard error as it was before the screen. Never blocks: where it takes nothing, nobody reads."""
        data = "".join(f"{line}\n" for line in lines).encode(errors="replace")
        try:
            if data and select.select([], [self.errors], [], 0)[1]:
                os.write(self.errors, data)
        except OSError:
            pass  # the terminal is gone: there is nobody to tell

    def _let_go(self) -> None:
        """Make a thread that still waits for the terminal to take its output go on, elsewhere: nobody else can write
        as long as it waits."""
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, self.file.fileno())
        signal.signal(signal.SIGUSR1, lambda number, frame: None)  # a handled signal ends the wait
        for thread in threading.enumerate():
            if thread.ident is not None and thread is not threading.main_thread():
                signal.pthread_kill(thread.ident, signal.SIGUSR1)


@contextmanager
def guarded() -> Iterator[Terminal]:
    """The terminal, with stray writes to standard output and error kept off the screen, and given back at the end."""
    terminal = Terminal()
    atexit.register(terminal.restore)
    stdout, stderr, nothing = os.dup(1), os.dup(2), os.open(os.devnull, os.O_WRONLY)
    python_stderr = sys.stderr
    sys.stderr = os.fdopen(os.dup(stderr), "w", errors="backslashreplace", newline="")
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    try:
        yield terminal
    finally:
        terminal.restore()
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        sys.stderr.close()
        sys.stderr = python_stderr
        for descriptor in (stdout, stderr, nothing):
            os.close(descriptor)
        atexit.unregister(terminal.restore)
        signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            terminal.file.close()
        except OSError:
            pass  # the terminal is gone, and with it what was still to be written
        os.close(terminal.output)
        os.close(terminal.errors)


@contextmanager
def ending_signals(terminal: Terminal, end: Callable[[int], None]) -> Iterator[None]:
    """Signals that end a program call `end` with its exit code; `terminal.end_soon` sees to the rest."""

    def received(number: int, frame: FrameType | None) -> None:
        code = 128 + number
        terminal.end_soon(code)
        end(code)

    before = {number: signal.signal(number, received) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def lent_signals() -> Iterator[None]:
    """While another program has the terminal, its keys for signals are for that program alone."""

    def unheard(number: int, frame: FrameType | None) -> None:
        """A handler, not SIG_IGN: that one would be passed on to the program."""

    before = {number: signal.signal(number, unheard) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _modes(descriptor: int) -> list[Any] | None:
    try:
        return termios.tcgetattr(descriptor)
    except termios.error:
        return None


def _write_at_once(descriptor: int, data: bytes) -> None:
    """Write to a terminal that may be slow, stopped or gone, without waiting for it: what it has not yet taken is
    dropped, so that there is room."""
    try:
        path = os.ttyname(descriptor)
        fresh = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return
    try:
        for _ in range(WRITE_ATTEMPTS):
            try:
                termios.tcflush(fresh, termios.TCOFLUSH)
                os.write(fresh, data)
                return
            except BlockingIOError:
                select.select([], [], [], WRITE_PAUSE_SECONDS)  # a write that was given up is not over yet
    except (OSError, termios.error):
        pass  # gone: there is nobody to tell
    finally:
        os.close(fresh)
