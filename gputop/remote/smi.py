"""NVIDIA devices through a resident nvidia-smi, where there is no NVML library that can be used."""

import queue
from typing import Any, Callable, Dict, List, Optional

from gputop.remote.lane import Lane
from gputop.remote.machine import Child, Machine
from gputop.remote.metrics import Sample
from gputop.remote.nvidia_smi import CSV
from gputop.remote.options import Options
from gputop.remote.processes import ProcessTable
from gputop.remote.smi_picture import Picture

_RUN_SECONDS = 20.0
_PATIENCE_INTERVALS = 3
_PATIENCE_SECONDS = 5.0

Done = Callable[[], None]


class SmiRoute:
    """Reads the lines of `nvidia-smi --query-gpu … -lms N`, and beside them what cannot be had in that query."""

    name = "nvidia-smi"

    def __init__(self, machine: Machine, options: Options, processes: ProcessTable, program: str) -> None:
        self._machine = machine
        self._options = options
        self._processes = processes
        self._program = program
        self._interval = options.interval
        self._picture = Picture(options.medium, options.slow)
        self._lines: Any = queue.Queue()
        self._stream: Optional[Child] = None
        self._stream_at = machine.monotonic()
        self._helped = False
        self._beside: Lane[Done] = Lane(machine)

    @property
    def facts(self) -> Dict[str, Any]:
        return self._picture.facts

    @property
    def revision(self) -> int:
        return self._picture.revision

    @property
    def devices(self) -> List[Dict[str, Any]]:
        return [dict(device) for device in self._picture.devices]

    def sample(self, until: float) -> Sample:
        """The newest values. Waits for the first ones, at most until `until` (monotonic)."""
        while True:
            self._go_on(until)
            self._take_lines()
            now = self._machine.monotonic()
            if self._picture.complete or now >= until:
                break
            if self._picture.has_devices:
                self._take_answer(until)
            elif self._stream is not None:
                self._wait_for_line(until)
        patience = max(_PATIENCE_INTERVALS * self._interval, self._interval + _PATIENCE_SECONDS)
        return self._picture.sample(now, patience, self._processes.look_up)

    def set_interval(self, seconds: float) -> None:
        self._interval = seconds
        if self._stream is not None:
            self._stream.kill()
            self._stream = None
            self._stream_at = self._machine.monotonic()

    def _go_on(self, until: float) -> None:
        """Take what has come, and start what is due; one program at a time beside the stream."""
        now = self._machine.monotonic()
        self._take_answer(now)
        if self._beside.idle:
            if not self._helped:
                self._ask(["--help-query-gpu"], self._take_help)
            else:
                due = self._picture.question(now, self._interval)
                if due is not None:
                    self._ask_beside(*due)
        if not self._helped:  # that alone has to be waited for: without it there is no query
            self._take_answer(until)
        if self._helped and self._stream is None and self._machine.monotonic() >= self._stream_at:
            self._start_stream()

    def _take_answer(self, until: float) -> None:
        done = self._beside.answer(until)
        if done is not None:
            done()

    def _ask_beside(self, word: str, arguments: List[str]) -> None:
        if word == "medium":
            self._processes.forget()
        self._ask(arguments, lambda status, output: self._picture.take(word, status, output))

    def _ask(self, arguments: List[str], take: Callable[[Optional[int], str], None]) -> None:
        def job() -> Done:
            status, output = self._machine.run([self._program, *arguments], _RUN_SECONDS)
            return lambda: take(status, output)

        self._beside.ask(job)

    def _take_help(self, status: Optional[int], output: str) -> None:
        self._helped = True
        self._picture.take_help(output)

    def _start_stream(self) -> None:
        self._stream_at = self._machine.monotonic() + self._options.retry
        milliseconds = "%d" % (self._interval * 1000)
        command = [self._program, self._picture.fast.argument, CSV, "-lms", milliseconds]
        line_buffered = self._machine.find_program(("stdbuf",))
        try:
            stream = self._machine.start(([line_buffered, "-oL"] if line_buffered else []) + command)
        except OSError as error:
            self._picture.take_line(str(error), self._machine.monotonic())
            self._picture.end(127)
            return
        self._stream = stream
        self._machine.thread(lambda: self._read(stream))

    def _read(self, stream: Child) -> None:
        for line in stream.lines():
            self._lines.put((stream, line, self._machine.monotonic()))
        self._lines.put((stream, None, self._machine.monotonic()))

    def _take_lines(self) -> None:
        while True:
            try:
                self._take(*self._lines.get_nowait())
            except queue.Empty:
                return

    def _wait_for_line(self, until: float) -> None:
        try:
            self._take(*self._lines.get(timeout=max(0.0, until - self._machine.monotonic())))
        except queue.Empty:
            return

    def _take(self, stream: Child, line: Optional[str], at: float) -> None:
        if stream is not self._stream:
            return  # one that was replaced
        if line is not None:
            self._picture.take_line(line, at)
        else:
            self._stream = None
            self._picture.end(stream.wait())
