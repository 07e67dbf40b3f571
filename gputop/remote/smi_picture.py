"""All that nvidia-smi has said so far, as one sample of all devices."""

import re
from typing import Any, Callable, Dict, List, Optional, Tuple

from gputop.remote import nvidia_lists, nvidia_smi, nvidia_xml, problem
from gputop.remote.metrics import Sample, same_bus_id
from gputop.remote.nvidia_smi import CSV, FAST, FAST_NAMES, MEDIUM, MEDIUM_NAMES, Query
from gputop.remote.problem import Problem
from gputop.remote.sample import DEVICE_KEYS, NESTED_KEYS, Row

_APPS_SECONDS = 5.0
_LONG_AGO_SECONDS = 1e9
_BUS_ID = re.compile(r"device handle for GPU\s*\d*:?\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])")
_NO_METRICS = frozenset((*DEVICE_KEYS, *NESTED_KEYS, "state", "processes_known"))
_TOO_OLD = frozenset((*FAST, "pcie_tx_bytes_per_second", "pcie_rx_bytes_per_second"))
"""What `-q -x` tells as well, and what is no value any more minutes later."""

LookUp = Callable[[int], Optional[Dict[str, Any]]]


class Picture:
    """What is to be asked for, and what was answered."""

    def __init__(self, medium: float = 30.0, slow: float = 300.0) -> None:
        """Seconds between two readings of what changes seldom, and of what is dear to read."""
        self.facts: Dict[str, Any] = {}
        self.revision = 0
        """Grows whenever devices or facts change."""
        self.devices: List[Row] = []
        self.fast = Query(FAST, FAST_NAMES, nvidia_smi.offered(""))
        self._medium_query = Query(MEDIUM, MEDIUM_NAMES, nvidia_smi.offered(""))
        self._medium_seconds, self._slow_seconds = medium, slow
        self._asked: Dict[str, float] = {}
        self._count = 1
        self._rows: Dict[str, Tuple[Row, float]] = {}
        self._seldom: Dict[str, Dict[str, Row]] = {}
        """By the word of the question, then by device."""
        self._lost: Dict[str, Tuple[str, float]] = {}
        self._words: List[str] = []
        self._failure: Optional[Problem] = None
        self._apps: Optional[List[nvidia_smi.App]] = None
        self._was_told_apps = False

    @property
    def has_devices(self) -> bool:
        """Every GPU has spoken, or the program has ended."""
        return self._failure is not None or len(self._rows) + len(self._lost) >= self._count

    @property
    def complete(self) -> bool:
        """There is nothing to wait for: whoever reads but once sees whether a GPU is idle too."""
        return self._failure is not None or (self.has_devices and self._was_told_apps)

    # questions

    def question(self, now: float, interval: float) -> Optional[Tuple[str, List[str]]]:
        """Of what is due at `now` (monotonic), what has waited longest: a word for `take`, and the arguments of
        nvidia-smi. Beside the stream it runs once at a time, so that one that hangs does not gather company."""
        sliced = any(row.get("mig_mode") == "enabled" for row in self._seldom.get("medium", {}).values())
        due = []
        for word, seconds, arguments in (
            ("apps", max(_APPS_SECONDS, interval), list(nvidia_smi.APPS_QUERY)),
            ("medium", self._medium_seconds, [self._medium_query.argument, CSV]),
            ("list", self._medium_seconds if sliced else None, ["-L"]),
            ("detail", self._medium_seconds if sliced else self._slow_seconds, ["-q", "-x"]),
            ("links", self._slow_seconds, ["nvlink", "-s"]),
            ("errors", self._slow_seconds, ["nvlink", "-e"]),
        ):
            at = self._asked.get(word, -_LONG_AGO_SECONDS) + (seconds or 0.0)
            if seconds is not None and now >= at:
                due.append((at if word in self._asked else -_LONG_AGO_SECONDS, word, arguments))
        if not due:
            return None
        _, word, arguments = min(due, key=lambda one: one[0])  # of equals, the first
        self._asked[word] = now
        return word, arguments

    def take_help(self, output: str) -> None:
        names = nvidia_smi.offered(output)
        self.fast = Query(FAST, FAST_NAMES, names)
        self._medium_query = Query(MEDIUM, MEDIUM_NAMES, names)

    def take(self, word: str, status: Optional[int], output: str) -> None:
        """The answer to a question."""
        if word == "apps":
            self._apps = nvidia_smi.apps(output) if status == 0 else None
            self._was_told_apps = True
        elif word == "medium":
            rows = [self._medium_query.row(line) for line in output.splitlines()]
            self._take_seldom(word, [row for row in rows if row is not None])
        elif word == "detail":
            sample = nvidia_xml.read(output)
            self._learn_facts(sample["facts"])
            self._take_seldom(word, sample["devices"])
        else:
            self._take_seldom(word, nvidia_lists.read_list(output)["devices"])

    def take_line(self, line: str, now: float) -> None:
        """One line of the stream, at `now` (monotonic). Blank ones mean nothing; what is no row costs only itself."""
        if not line.strip():
            return
        row = self.fast.row(line)
        if row is None:
            self._words = [*self._words[-20:], line.rstrip()]
            bus_id = _BUS_ID.search(line)
            if bus_id:
                self._take_lost(bus_id.group(1), line.strip(), now)
            return
        self._failure = None
        self._words = []
        self._count = self.fast.count(line)
        self._learn_facts(self.fast.facts(line))
        self._rows[_key(row)] = (row, now)
        self._lost = {bus: lost for bus, lost in self._lost.items() if not same_bus_id(bus, row.get("pci_bus_id"))}
        self._learn(row, is_listed=True)

    def end(self, status: Optional[int]) -> None:
        """The stream has ended."""
        self._failure = nvidia_smi.failure(status, "\n".join(self._words))
        self._words = []

    # the answer

    def sample(self, now: float, patience: float, look_up: LookUp) -> Sample:
        """The newest values; rows older than `patience` seconds are no values any more."""
        sample = Sample()
        if self._failure is not None:
            sample.problems.append(self._failure)
        sample.partitions, sample.processes = [], []
        unknown = {uuid for uuid, pid, _, _ in self._apps or () if pid is None}
        for position, device in enumerate(self.devices):
            values, problems = self._state(device, now, patience)
            if values["state"] == "ok":
                values["processes_known"] = self._apps is not None and device.get("uuid") not in unknown
            sample.values.append(values)
            if problems:
                sample.device_problems[position] = problems
            sample.partitions += [dict(row, device_index=position) for row in self._partitions(device)]
        sample.processes = self._processes(look_up)
        return sample

    def _state(self, device: Row, now: float, patience: float) -> Tuple[Row, List[Problem]]:
        """Values of a device, and what is wrong with it."""
        row, at = self._rows.get(_key(device), ({}, now))
        values: Row = {"state": "ok", "processes_known": False}
        for bus_id, (words, _) in self._lost.items():
            if same_bus_id(bus_id, device.get("pci_bus_id")):
                lost = "lost" in words.lower()
                values["state"] = "lost" if lost else "error"
                return values, [(problem.device_lost if lost else problem.device_error)(words, None)]
        if now - at > patience:
            values["state"] = "error"
            hung = [] if self._failure is not None else [problem.probe_hung("nvidia-smi", now - at, None)]
            return values, hung
        values["state"] = row.get("state", "ok")
        if values["state"] == "ok":
            for word in ("errors", "links", "detail", "medium"):
                values.update(_metrics(self._seldom.get(word, {}).get(_key(device), {}), _TOO_OLD))
            values.update(_metrics(row))
        problems = list(row.get("problems", ()))
        for other in (self._seldom.get("medium", {}).get(_key(device), {}), self._detail(device)):
            kinds = [one["kind"] for one in problems]
            problems += [one for one in other.get("problems", ()) if one["kind"] not in kinds]
        return values, problems

    def _detail(self, device: Row) -> Row:
        return self._seldom.get("detail", {}).get(_key(device), {})

    def _partitions(self, device: Row) -> List[Row]:
        """The list has names, the detail has values."""
        listed = self._seldom.get("list", {}).get(_key(device), {}).get("partitions", ())
        detailed = {row["index"]: row for row in self._detail(device).get("partitions", ()) if row["kind"] == "mig"}
        found = {row["index"]: dict(detailed.get(row["index"], {}), **row) for row in listed}
        return [found.get(index) or detailed[index] for index in sorted(set(found) | set(detailed))]

    def _processes(self, look_up: LookUp) -> List[Row]:
        """Those of the list of compute processes; what the detail alone lists, only while it still runs."""
        rows = []
        told = set()
        for uuid, pid, name, used in self._apps or ():
            position = self._position(uuid)
            if pid is None or position is None:
                continue
            told.add((position, pid))
            row = {"device_index": position, "pid": pid, "kind": "compute", "memory_used_bytes": used}
            known = [one for one in self._detail(self.devices[position]).get("processes", ()) if one["pid"] == pid]
            if len(known) == 1:
                more = ("kind", "gpu_instance_id", "compute_instance_id")
                row.update((key, known[0][key]) for key in more if known[0].get(key) is not None)
            who = look_up(pid)
            if who is None:  # it has ended, or is hidden from this account; nvidia-smi still knew its name
                who = {"name": (name or "").rpartition("/")[2] or None}
            rows.append(dict(row, **who))
        for position, device in enumerate(self.devices):
            for one in self._detail(device).get("processes", ()):
                found = look_up(one["pid"]) if (position, one["pid"]) not in told else None
                if one.get("kind") == "graphics" and found:
                    rows.append(dict(one, device_index=position, **found))
        return rows

    def _position(self, uuid: Optional[str]) -> Optional[int]:
        """Of the device, or of the one that the instance is part of."""
        for position, device in enumerate(self.devices):
            instances = self._seldom.get("list", {}).get(_key(device), {}).get("partitions", ())
            if uuid is not None and (device.get("uuid") == uuid or any(one["uuid"] == uuid for one in instances)):
                return position
        return None

    # who is who

    def _take_seldom(self, word: str, rows: List[Row]) -> None:
        found = {}
        for row in rows:
            device = self._known(row)
            if device is not None:
                self._learn(row)
                found[_key(device)] = row
        self._seldom[word] = found

    def _known(self, row: Row) -> Optional[Row]:
        """The device that a row is about. Its uuid says it, or its bus id."""
        for device in self.devices:
            if row.get("uuid") and row["uuid"] == device.get("uuid"):
                return device
        for device in self.devices:
            if same_bus_id(row.get("pci_bus_id"), device.get("pci_bus_id")):
                return device
        return None

    def _learn(self, row: Row, is_listed: bool = False) -> None:
        """Who a row is about. `is_listed`: its index is that of the device."""
        known = [device for device in self.devices if _key(device) == _key(row)] if is_listed else [self._known(row)]
        device = known[0] if known else None
        if device is None:
            device = {"vendor": "nvidia", "pci_bus_id": None, "uuid": None}
        keys = DEVICE_KEYS if is_listed else ("serial", "minor_number")
        told = {key: row[key] for key in keys if row.get(key) is not None}
        if any(device.get(key) != told[key] for key in told):
            device.update(told)
            self.revision += 1
        if not known:
            # One that was lost and unknown until now has only its bus id.
            others = [
                one for one in self.devices if one["uuid"] or not same_bus_id(one["pci_bus_id"], device["pci_bus_id"])
            ]
            self.devices = sorted([*others, device], key=lambda one: one["index"])

    def _learn_facts(self, facts: Dict[str, Any]) -> None:
        new = {key: value for key, value in facts.items() if value and self.facts.get(key) != value}
        if new:
            self.facts.update(new)
            self.revision += 1

    def _take_lost(self, bus_id: str, words: str, now: float) -> None:
        self._lost[bus_id] = (words, now)
        if not any(same_bus_id(bus_id, device["pci_bus_id"]) for device in self.devices):
            taken = {device["index"] for device in self.devices}
            index = min(set(range(len(taken) + 1)) - taken)
            self.devices.append({"index": index, "uuid": None, "pci_bus_id": bus_id, "vendor": "nvidia"})
            self.devices.sort(key=lambda one: one["index"])
            self.revision += 1


def _metrics(row: Row, without: "frozenset[str]" = frozenset()) -> Row:
    return {key: value for key, value in row.items() if key not in _NO_METRICS and key not in without}


def _key(row: Row) -> str:
    return row.get("uuid") or row.get("pci_bus_id") or "#%s" % row.get("index")
