"""Follows the kernel log, from the start of the server on, for events of its devices."""

import threading
from collections import deque
from typing import Any, Deque, Dict, Iterator, List, Optional, Tuple

from gputop.remote import hostinfo, problem
from gputop.remote.kernel_log import Clock, Event, Reader
from gputop.remote.machine import Machine
from gputop.remote.options import Options
from gputop.remote.problem import Problem

KMSG = "/dev/kmsg"
MOST_EVENTS = 200
"""Told at a time; of a longer burst the newest."""
_SETTLE_SECONDS = 1.0
"""The driver may say the same again in better words."""
_BACKLOG_LINES = "10000"
_PROGRAMS: Tuple[Tuple[str, ...], ...] = (
    ("dmesg", "--follow"),
    ("journalctl", "-k", "-f", "-n", _BACKLOG_LINES, "-o", "json"),
)
_REFUSAL_LINES = 3
"""A program that may not, or cannot, says so at once; without the right to, journalctl goes on without a line."""
_REFUSALS = (
    "operation not permitted",
    "permission denied",
    "insufficient permissions",
    "not seeing messages",
    "usage:",
    "unrecognized option",
    "invalid option",
)


class LogFollower:
    """One thread that reads, and events that wait to be told."""

    def __init__(self, machine: Machine, options: Options) -> None:
        self.way: Optional[str] = None
        """What is read: `/dev/kmsg`, or a program; `None` while nothing can be."""
        self._machine = machine
        self._retry = options.slow
        self._lock = threading.Lock()
        self._waiting: Deque[Tuple[float, Event]] = deque()
        self._left_out = 0
        self._refusals: List[str] = []
        machine.thread(self._follow)

    def take(self) -> List[Event]:
        """Events that were not told yet, oldest first."""
        settled = self._machine.monotonic() - _SETTLE_SECONDS
        with self._lock:
            events = []
            while self._waiting and self._waiting[0][0] <= settled:
                events.append(dict(self._waiting.popleft()[1]))
        return events

    def settle_seconds(self) -> Optional[float]:
        """Until there is an event to tell; `None` while there is none."""
        with self._lock:
            if not self._waiting:
                return None
            return max(0.0, self._waiting[0][0] + _SETTLE_SECONDS - self._machine.monotonic())

    def problems(self) -> List[Problem]:
        """What stands against hearing everything."""
        with self._lock:
            found = []
            if self.way is None and self._refusals:
                hint = "add the account to group systemd-journal or adm, or set the sysctl kernel.dmesg_restrict to 0"
                words = "\n".join(self._refusals)
                found.append(problem.problem("kernel-log", "the kernel log cannot be read", words, hint))
            if self._left_out:
                words = "%d more events were logged than are told" % self._left_out
                found.append(problem.problem("kernel-log", words, None, "read the log on the server"))
            return found

    def _follow(self) -> None:
        while True:
            refusals = []
            for way, lines, counts_from_boot in self._ways():
                refused = self._read(way, lines, counts_from_boot)
                if refused is None:
                    break
                refusals.append("%s: %s" % (way, refused))
            with self._lock:
                self.way = None
                self._refusals = refusals
            self._machine.sleep(self._retry)

    def _ways(self) -> Iterator[Tuple[str, Iterator[str], bool]]:
        yield KMSG, self._machine.records(KMSG), True
        for words in _PROGRAMS:
            program = self._machine.find_program((words[0], "/usr/bin/" + words[0], "/bin/" + words[0]))
            if program is not None:
                yield words[0], self._printed([program, *words[1:]]), words[0] == "dmesg"

    def _printed(self, command: List[str]) -> Iterator[str]:
        """Lines of a program. Raises `OSError` with its words when it refuses."""
        child = self._machine.start(command)
        last = ""
        try:
            for number, line in enumerate(child.lines()):
                last = line.strip()[:200] or last
                if number < _REFUSAL_LINES and any(words in last.lower() for words in _REFUSALS):
                    raise OSError(last)
                yield line
        finally:
            child.kill()
        raise OSError(last or "it ended")

    def _read(self, way: str, lines: Iterator[str], counts_from_boot: bool) -> Optional[str]:
        """Read to the end. Why nothing could be read; `None` when something was."""
        uptime = hostinfo.first_number(self._machine.text("/proc/uptime"))
        boot = None if uptime is None else self._machine.wall() - uptime
        reader = Reader(Clock(boot_time=0.0) if counts_from_boot else Clock())
        count = 0
        try:
            for line in lines:
                count += 1
                if count == 1:
                    with self._lock:
                        self.way, self._refusals = way, []
                event = reader.feed(line.rstrip("\n"))
                if event is not None:
                    if counts_from_boot:
                        _date(event, boot)
                    self._put(event)
        except OSError as error:
            return None if count else error.strerror or str(error)
        return None if count else "it is empty"

    def _put(self, event: Event) -> None:
        with self._lock:
            self._waiting.append((self._machine.monotonic(), event))
            if len(self._waiting) > MOST_EVENTS:
                self._waiting.popleft()
                self._left_out += 1


def _date(event: Dict[str, Any], boot: Optional[float]) -> None:
    """Seconds since the start of the server, which are the same whenever they are read, and the time they stand for."""
    event["uptime_seconds"] = event["at"]
    event["at"] = None if boot is None or event["at"] is None else round(boot + event["at"], 6)
