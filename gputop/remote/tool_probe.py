"""Devices of one vendor, read by the vendor's tool."""

from typing import Any, Dict, List, Optional

from gputop.remote import problem
from gputop.remote.machine import Machine
from gputop.remote.merge import find, same_device
from gputop.remote.metrics import Sample
from gputop.remote.options import Options
from gputop.remote.problem import Problem
from gputop.remote.processes import ProcessTable
from gputop.remote.sample import DEVICE_KEYS, NESTED_KEYS, Row
from gputop.remote.tool_output import Polls, Streamed
from gputop.remote.vendors import Tool, Vendor


class ToolProbe:
    """Asks the first tool that is there and finds devices."""

    def __init__(
        self, machine: Machine, options: Options, processes: ProcessTable, vendor: Vendor, *, is_seen: bool
    ) -> None:
        self.devices: List[Dict[str, Any]] = []
        """Keys of `domain.reading.Device`. One that was listed once stays, in its place."""
        self.facts: Dict[str, Any] = {}
        self.revision = 0
        """Grows whenever devices or facts change."""
        self.is_seen = is_seen
        """The devices themselves were seen, not only their tool."""
        self._machine = machine
        self._options = options
        self._processes = processes
        self._vendor = vendor
        self._interval = options.interval
        self._lost_since: Dict[int, float] = {}
        self._texts: List[str] = []
        self._rows: List[Row] = []
        self._tools = [tool for tool in vendor.tools if machine.find_program(tool.programs)]
        self._use(0)

    @property
    def name(self) -> str:
        """The route of docs/reference/json.md; `none` without a tool."""
        return self._tool.route if self._tool is not None else "none"

    def set_interval(self, seconds: float) -> None:
        self._interval = seconds
        if self._stream is not None:
            self._stream.set_interval(seconds)

    def ask(self) -> None:
        """Start what is due."""
        if self._polls is not None:
            self._polls.go_on(self._interval)
        if self._stream is not None:
            self._stream.go_on()

    def sample(self, until: float) -> Sample:
        """The newest values. Waits, at most until `until` (monotonic), for those that are on their way."""
        sample = Sample()
        sample.partitions, sample.processes = [], []
        if self._tool is None or self._polls is None:
            sample.problems = [self._tool_missing()]
            return sample
        rows = self._read(self._tool, self._polls, until)
        trouble = self._polls.hangs or self._polls.failure
        for position, device in enumerate(self.devices):
            self._report(sample, position, None if trouble is not None else find(rows, device), trouble)
        if trouble is not None and not self.devices:
            sample.problems.append(trouble)
        if self._stream is not None and self._stream.trouble is not None:
            sample.problems.append(self._stream.trouble)
        return sample

    def _use(self, position: int) -> None:
        """Ask another of the tools."""
        self._at = position
        self._tool: Optional[Tool] = None
        self._polls: Optional[Polls] = None
        self._stream: Optional[Streamed] = None
        if not self._tools:
            return
        self._tool = tool = self._tools[position]
        program = self._machine.find_program(tool.programs) or tool.programs[0]
        self._polls = Polls(self._machine, self._options, tool, program)
        if tool.stream is not None:
            streaming = self._machine.find_program(tool.stream.programs) if tool.stream.programs else program
            if streaming is not None:
                self._stream = Streamed(self._machine, self._options, tool.stream, streaming, self._interval)

    def _read(self, tool: Tool, polls: Polls, until: float) -> List[Row]:
        """Rows by all that was said, devices and facts brought up to date."""
        polls.take(until, self._interval)
        if polls.failure is not None and not self.devices and self._at + 1 < len(self._tools):
            self._use(self._at + 1)
            assert self._tool is not None
            assert self._polls is not None
            self._polls.go_on(self._interval)
            return self._read(self._tool, self._polls, until)
        if polls.failure is not None or not polls.is_ready:
            return []
        texts = [text for text in polls.texts if text] + (self._stream.report() if self._stream is not None else [])
        if texts != self._texts:
            self._texts, self._rows = texts, self._told(tool, polls, texts)
        return self._rows

    def _told(self, tool: Tool, polls: Polls, texts: List[str]) -> List[Row]:
        told = tool.read(texts)
        facts = {key: value for key, value in told["facts"].items() if value is not None}
        if facts != self.facts:
            self.facts = facts
            self.revision += 1
        # What was told long ago may list more than what is there now.
        rows: List[Row] = [row for row in told["devices"] if find(polls.listed, row) is not None]
        for row in rows:
            self._learn(row)
        return rows

    def _learn(self, row: Row) -> None:
        identity = {key: row.get(key) for key in DEVICE_KEYS}
        for position, device in enumerate(self.devices):
            if same_device(device, row):
                merged = dict(device, **{key: value for key, value in identity.items() if value is not None})
                if merged != device:
                    self.devices[position] = merged
                    self.revision += 1
                return
        self.devices.append(identity)
        self.revision += 1

    def _report(self, sample: Sample, position: int, row: Optional[Row], trouble: Optional[Problem]) -> None:
        values: Dict[str, Any] = {"state": "ok", "processes_known": False}
        if row is not None:
            self._lost_since.pop(position, None)
            values.update((key, row[key]) for key in row if key not in DEVICE_KEYS + NESTED_KEYS)
            values["state"] = row.get("state") or "ok"
            values["processes_known"] = bool(row.get("processes_known"))
            self._report_nested(sample, position, row)
        elif trouble is not None:
            values["state"] = "error"
            sample.device_problems[position] = [trouble]
        else:
            since = self._lost_since.setdefault(position, self._machine.wall())
            values["state"] = "lost"
            summary, hint = "%s does not list the device any more" % self.name, "dmesg tells more; a reboot may help"
            sample.device_problems[position] = [problem.problem("device-lost", summary, None, hint, since)]
        sample.values.append(values)

    def _report_nested(self, sample: Sample, position: int, row: Row) -> None:
        assert sample.partitions is not None
        assert sample.processes is not None
        sample.partitions.extend(dict(part, device_index=position) for part in row.get("partitions") or ())
        for process in row.get("processes") or ():
            who = self._processes.look_up(process["pid"]) or {}
            known = {key: value for key, value in who.items() if value is not None}
            sample.processes.append(dict(process, device_index=position, **known))
        if row.get("problems"):
            sample.device_problems[position] = list(row["problems"])

    def _tool_missing(self) -> Problem:
        names = [tool.programs[0] for tool in self._vendor.tools]
        return problem.problem(
            "tool-missing",
            "%s devices are there, and no %s to read them" % (self._vendor.title, " or ".join(names)),
            "tried:\n" + "\n".join(name for tool in self._vendor.tools for name in tool.programs),
            "install %s" % names[0],
        )
