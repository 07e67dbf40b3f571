"""What the programs of a tool print: of those that end by themselves, and of those that go on."""

import threading
from collections import deque
from typing import Deque, List, Optional, Tuple

from gputop.remote import failures, problem
from gputop.remote.lane import Lane
from gputop.remote.machine import Child, Machine
from gputop.remote.options import Options
from gputop.remote.problem import Problem
from gputop.remote.sample import Row
from gputop.remote.vendors import SELDOM, Stream, Tool

DEADLINES = 4
"""A tool may take so many times as long as a call of a library: most are programs in Python that ask each device."""
SHARE = 3.0
"""A question that takes a second is asked at most once in so many seconds."""
_PATIENCE_INTERVALS = 3
_STREAM_SECONDS = 15.0
"""The slowest period of a stream, and time to start."""


class Polls:
    """Asks one question at a time. The first one is about the devices; the others are worth nothing without it."""

    def __init__(self, machine: Machine, options: Options, tool: Tool, program: str) -> None:
        self.texts: List[Optional[str]] = [None] * len(tool.asks)
        """The last good answer to each question."""
        self.listed: List[Row] = []
        """Devices in the last answer to the first question."""
        self.failure: Optional[Problem] = None
        """Why the first question got no answer."""
        self._machine = machine
        self._options = options
        self._tool = tool
        self._program = program
        self._limit = DEADLINES * options.deadline
        self._lane: Lane[Tuple[Optional[int], str]] = Lane(machine)
        self._asked = 0
        self._asked_at = machine.monotonic()
        self._due = [self._asked_at] * len(tool.asks)

    @property
    def is_ready(self) -> bool:
        """Whether it is known who the devices are: what tells it was asked, and answered or failed."""
        return all(text is not None for text, ask in zip(self.texts, self._tool.asks) if ask.every in (0, SELDOM))

    @property
    def hangs(self) -> Optional[Problem]:
        """The program that does not end: although it was killed, or so that nothing is known yet."""
        since = self._lane.since
        seconds = 0.0 if since is None else self._machine.monotonic() - since
        if seconds <= (self._limit + 1 if self.is_ready else self._options.deadline):
            return None
        return problem.probe_hung(self._command, seconds, self._machine.wall() - seconds)

    def go_on(self, interval: float) -> None:
        """Ask what is due, if nothing is being asked."""
        now = self._machine.monotonic()
        due = [number for number in range(len(self._due)) if now >= self._due[number]]
        if not due or not self._lane.idle or (self.failure is not None and due[0] != 0):
            return
        # The first question goes first; the others wait for each other.
        self._asked = 0 if due[0] == 0 else min(due, key=lambda number: self._due[number])
        self._asked_at = now
        command = [self._program, *self._tool.asks[self._asked].arguments]
        self._lane.ask(lambda: self._machine.run(command, self._limit))

    def take(self, until: float, interval: float) -> None:
        """Take what was answered. Waits for the answer that is on its way, and at the start for one to each question,
        at most until `until` (monotonic)."""
        while True:
            answer = self._lane.answer(until)
            if answer is None:
                return
            self._take(*answer)
            if self.failure is not None or all(text is not None for text in self.texts):
                return
            self.go_on(interval)

    def _take(self, status: Optional[int], text: str) -> None:
        number, now = self._asked, self._machine.monotonic()
        took = now - self._asked_at
        self._due[number] = self._asked_at + max(self._tool.asks[number].every, SHARE * took)
        found = self._tool.read([text]) if status is not None else None
        if found is not None and found["devices"]:
            self.texts[number] = text
            if number == 0:
                self.listed, self.failure = found["devices"], None
        elif number != 0:
            # An older or newer tool may not know the question: what it would have told stays unknown.
            self.texts[number] = self.texts[number] or ""
            self._due[number] = max(self._due[number], now + self._options.retry)
        else:
            self._due[0] = max(self._due[0], now + self._options.retry)
            self.failure = self._failure(status, text, took)

    def _failure(self, status: Optional[int], text: str, took: float) -> Problem:
        if status is None:
            return problem.probe_hung(self._command, took, self._machine.wall() - took)
        return failures.explain(self._tool.programs[0], text)

    @property
    def _command(self) -> str:
        return " ".join([self._tool.programs[0], *self._tool.asks[self._asked].arguments])


class Streamed:
    """Keeps the newest report of a program that prints one after the other."""

    def __init__(self, machine: Machine, options: Options, stream: Stream, program: str, interval: float) -> None:
        self.trouble: Optional[Problem] = None
        """Why there is no report."""
        self._machine = machine
        self._options = options
        self._stream = stream
        self._program = program
        self._interval = interval
        self._lock = threading.Lock()
        self._runs = False
        self._child: Optional[Child] = None
        self._is_replaced = False
        self._start_at = self._heard_at = machine.monotonic()
        self._header: Optional[str] = None
        self._lines: Deque[str] = deque(maxlen=stream.lines)

    def set_interval(self, seconds: float) -> None:
        """Starts it anew when it is to print in another rhythm."""
        with self._lock:
            changes = self._stream.arguments(seconds) != self._stream.arguments(self._interval)
            self._interval = seconds
            if changes and self._child is not None:
                self._is_replaced = True
                self._child.kill()

    def go_on(self) -> None:
        """Start it when it does not run."""
        now = self._machine.monotonic()
        with self._lock:
            if self._runs or now < self._start_at:
                return
            self._runs, self._is_replaced = True, False
            self._start_at = now + self._options.retry
            self._heard_at = now
        self._machine.thread(self._run)

    def report(self) -> List[str]:
        """The newest whole report; none when there is none that is new enough to be true."""
        with self._lock:
            silent = self._machine.monotonic() - self._heard_at
            if self._runs:
                limit = max(_PATIENCE_INTERVALS * self._interval, _STREAM_SECONDS, DEADLINES * self._options.deadline)
                hangs = silent > limit
                since = self._machine.wall() - silent
                self.trouble = problem.probe_hung(self._program, silent, since) if hangs else None
            if self.trouble is not None or not self._lines:
                return []
            return ["\n".join(([self._header] if self._header else []) + list(self._lines))]

    def _run(self) -> None:
        try:
            child = self._machine.start([self._program, *self._stream.arguments(self._interval)])
        except OSError as error:
            self._end(str(error))
            return
        with self._lock:
            self._child = child
        for line in child.lines():
            self._keep(line.rstrip("\n"))
        child.wait()
        self._end("\n".join(self._lines) or self._header or "")

    def _keep(self, line: str) -> None:
        with self._lock:
            self._heard_at = self._machine.monotonic()
            if self._stream.has_header and self._header is None:
                self._header = line
            elif line.strip():
                self._lines.append(line)

    def _end(self, words: str) -> None:
        with self._lock:
            self._child = None
            self._runs = False
            self._header = None
            self._lines.clear()
            if self._is_replaced:
                self._start_at = self._machine.monotonic()
            else:
                self.trouble = failures.explain(self._program, words)
