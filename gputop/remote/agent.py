"""The program that runs on a server for as long as gputop looks at it. See `wire` for what it says and obeys."""

import json
import math
import sys
import threading
import traceback
from typing import Any, Dict, List, Optional

from gputop.remote import hostinfo, wire
from gputop.remote.log_follower import LogFollower
from gputop.remote.machine import Machine
from gputop.remote.metrics import Sample, columns
from gputop.remote.nvidia import LATE_MIN_SECONDS
from gputop.remote.options import Options, within_limits
from gputop.remote.probes import Probes
from gputop.remote.processes import ProcessTable

_LATE_SHARE = 0.8
"""How much of an interval a frame waits for devices that are slow to answer."""
_EVENT_SECONDS = 2.0
"""Between two samples that are taken because of events."""
_SAY_AGAIN = object()
"""Stands for a value that the controller has, and that is told once more all the same."""


def main(token: str) -> None:
    """Speak to the controller until it ends, or wants no more."""
    machine = Machine()
    try:
        Agent(machine, token).run()
    except BaseException:
        traceback.print_exc()
        machine.exit(1)


class Agent:
    """One sample an interval, and an ear for the controller."""

    def __init__(self, machine: Machine, token: str) -> None:
        self._machine = machine
        self._token = token
        self._options = Options({})
        self._speaking = threading.Lock()
        self._heard = threading.Condition()
        self._interval = self._options.interval
        self._sample_wanted = False
        self._meter = hostinfo.CpuMeter(machine.text("/proc/stat") or "")
        self._processes = ProcessTable(machine)
        self._log: Optional[LogFollower] = None
        self._greeted: Any = None
        self._sent: Dict[str, Any] = {}
        self._full_at = 0.0
        self._frames = 0

    def run(self) -> None:
        self._machine.arm(wire.SILENCE_LIMIT_SECONDS)
        word, _, rest = self._machine.control_line().partition(b" ")
        try:
            self._options = Options(json.loads(rest.decode("utf-8")) if word == b"options" else {})
        except (ValueError, TypeError):
            self._machine.exit(wire.EXIT_PROTOCOL)
        self._machine.arm(self._options.silence)
        self._interval = self._options.interval
        self._machine.thread(self._listen)
        probes = Probes(self._machine, self._options, self._processes)
        patience = self._options.deadline + LATE_MIN_SECONDS
        due = self._machine.monotonic()
        while True:
            interval = self._interval
            sample = probes.sample(self._machine.monotonic() + patience)
            if self._log is None and probes.has_nvidia and self._options.kernel_log:
                self._log = LogFollower(self._machine, self._options)
            self._send(probes, sample, interval)
            patience = max(LATE_MIN_SECONDS, min(self._options.deadline, _LATE_SHARE * interval))
            # A tick that was missed is left out, never made up for.
            late = self._machine.monotonic() - due
            if late >= 0:
                due += interval * max(1, math.ceil(late / interval))
            if self._wait(due, interval):
                probes.read_all()
            if interval != self._interval:
                probes.set_interval(self._interval)
                due = self._machine.monotonic()

    # speaking

    def _send(self, probes: Probes, sample: Sample, interval: float) -> None:
        greeting = (probes.name, probes.revision, self._log.way if self._log is not None else None)
        now = self._machine.monotonic()
        if greeting != self._greeted:
            self._greeted = greeting
            self._sent = {}
            self._full_at = now + self._options.slow
            self._say(self._hello(probes, interval))
        elif now >= self._full_at:
            # What is left out is carried by the controller; from time to time everything is said again.
            self._sent = dict.fromkeys((key for key, value in self._sent.items() if value is not None), _SAY_AGAIN)
            self._full_at = now + self._options.slow
        self._say(self._frame(sample, interval))

    def _hello(self, probes: Probes, interval: float) -> Dict[str, Any]:
        facts = hostinfo.facts(self._machine)
        facts["python_version"] = "%d.%d.%d" % sys.version_info[:3]
        if self._log is not None and self._log.way is not None:
            facts["kernel_log"] = self._log.way
        facts.update(probes.facts)
        return {
            "k": "hello",
            "v": wire.PROTOCOL_VERSION,
            "route": probes.name,
            "interval": interval,
            "facts": facts,
            "devices": dict({"index": []}, **columns(probes.devices)),
        }

    def _frame(self, sample: Sample, interval: float) -> Dict[str, Any]:
        self._frames += 1
        frame: Dict[str, Any] = {
            "k": "frame",
            "n": self._frames,
            "t": round(self._machine.wall(), 3),
            "interval": interval,
            "host": hostinfo.reading(self._machine, self._meter),
            "columns": self._changed(columns(sample.values)),
        }
        if frame["host"]["cpu_utilization_percent"] is None:
            del frame["host"]["cpu_utilization_percent"]
        tables = {"partitions": table(sample.partitions), "processes": table(sample.processes)}
        frame.update((key, rows) for key, rows in tables.items() if rows != self._sent.get(key))
        self._sent.update(tables)
        problems = sample.problems + (self._log.problems() if self._log is not None else [])
        if problems:
            frame["problems"] = problems
        events = self._log.take() if self._log is not None else []
        if events:
            frame["events"] = events
        if sample.device_problems:
            frame["device_problems"] = {str(key): value for key, value in sample.device_problems.items()}
        return frame

    def _changed(self, now: Dict[str, List[Any]]) -> Dict[str, Optional[List[Any]]]:
        """Columns that are not what the controller carries."""
        changed: Dict[str, Any] = {key: values for key, values in now.items() if values != self._sent.get(key)}
        gone = [key for key in self._sent if key not in now and key not in ("partitions", "processes")]
        changed.update((key, None) for key in gone if self._sent[key] is not None)
        self._sent.update(changed)
        return changed

    def _say(self, message: Dict[str, Any]) -> None:
        line = wire.pack(self._token, message)
        with self._speaking:
            try:
                self._machine.say(line)
            except OSError:
                self._machine.exit(0)  # the controller is gone

    # listening

    def _wait(self, due: float, interval: float) -> bool:
        """Until `due` (monotonic), or until the controller wants another interval or a sample now, which is answered
        by true. An event in the kernel log does not wait for long: it comes with a sample that shows what it did."""
        began = self._machine.monotonic()
        with self._heard:
            while not self._sample_wanted and self._interval == interval:
                now = self._machine.monotonic()
                left = due - now
                if self._log is not None:
                    settling = self._log.settle_seconds()
                    if settling is not None:
                        left = min(left, max(settling, began + _EVENT_SECONDS - now))
                if left <= 0:
                    break
                self._heard.wait(min(left, _EVENT_SECONDS) if self._log is not None else left)
            wanted, self._sample_wanted = self._sample_wanted, False
            return wanted

    def _listen(self) -> None:
        while True:
            line = self._machine.control_line()
            if not line:
                self._machine.exit(0)
            self._machine.arm(self._options.silence)
            word, _, rest = line.strip().partition(b" ")
            if word == b"stop":
                self._stop()
            with self._heard:
                if word == b"interval":
                    self._interval = within_limits(float(rest))
                elif word == b"sample":
                    self._sample_wanted = True
                self._heard.notify_all()

    def _stop(self) -> None:
        # Whoever holds the lock may be blocked in a write for ever, and so may we: the alarm ends us all the same.
        self._machine.arm(1)
        if self._speaking.acquire(timeout=0.5):
            try:
                self._machine.say(wire.pack(self._token, {"k": "bye", "reason": "stop"}))
            except OSError:
                pass  # nobody is there to hear it
        self._machine.exit(0)


def table(rows: Optional[List[Dict[str, Any]]]) -> Optional[Dict[str, List[Any]]]:
    """Rows as columns; the two keys by which they are placed stand even when there is no row."""
    if rows is None:
        return None
    found = columns(rows)
    if not rows:
        found = {"device_index": [], "pid": []}
    return found
