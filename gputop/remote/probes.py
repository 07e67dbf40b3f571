"""All devices of a server, whoever made them."""

from typing import Any, Dict, List, Tuple, Union

from gputop.remote.machine import Machine
from gputop.remote.metrics import Sample
from gputop.remote.nvidia_probe import NvidiaProbe
from gputop.remote.options import Options
from gputop.remote.processes import ProcessTable
from gputop.remote.tool_probe import ToolProbe
from gputop.remote.vendors import NVIDIA_NODES, NVIDIA_PCI, VENDORS, Evidence

Probe = Union[NvidiaProbe, ToolProbe]
"""Reads the devices of one vendor. `ask` starts what takes long, `sample` waits for it; `devices` says whom the sample
is about, and `revision` grows when that changes."""


class Probes:
    """One probe a vendor whose devices, or whose tool, are here: NVIDIA first."""

    def __init__(self, machine: Machine, options: Options, processes: ProcessTable) -> None:
        self._machine = machine
        self._options = options
        self._processes = processes
        evidence = Evidence(machine)
        seen = evidence.of(NVIDIA_PCI, NVIDIA_NODES) or bool(machine.names("/proc/driver/nvidia"))
        self.nvidia = NvidiaProbe(machine, options, processes, is_seen=seen)
        self._probes: List[Probe] = [self.nvidia]
        for vendor in VENDORS.values():
            seen = evidence.of(vendor.pci, vendor.nodes)
            if seen or any(machine.find_program(tool.programs) for tool in vendor.tools):
                self._probes.append(ToolProbe(machine, options, processes, vendor, is_seen=seen))

    @property
    def name(self) -> str:
        """The route of the first vendor that has devices; `none` when nothing can be read."""
        names = [probe.name for probe in self._probes if probe.devices] or [probe.name for probe in self._probes]
        return next((name for name in names if name != "none"), "none")

    @property
    def facts(self) -> Dict[str, Any]:
        """Of all vendors; where two say the same, the first counts."""
        facts: Dict[str, Any] = {}
        for probe in self._probes:
            for key, value in probe.facts.items():
                facts.setdefault(key, value)
        return facts

    @property
    def devices(self) -> List[Dict[str, Any]]:
        """Keys of `domain.reading.Device`, by position."""
        return [device for probe in self._probes for device in probe.devices]

    @property
    def revision(self) -> Tuple[int, ...]:
        """Changes whenever devices or facts do."""
        return tuple(probe.revision for probe in self._probes)

    @property
    def has_nvidia(self) -> bool:
        return self.nvidia.is_seen or bool(self.nvidia.devices)

    def set_interval(self, seconds: float) -> None:
        for probe in self._probes:
            probe.set_interval(seconds)

    def read_all(self) -> None:
        """Somebody asks: the next sample has nothing in it that was merely remembered, as far as that costs little."""
        self.nvidia.read_all()

    def sample(self, until: float) -> Sample:
        """Everything that has answered by `until` (monotonic)."""
        for probe in self._probes:
            probe.ask()
        samples = [probe.sample(until) for probe in self._probes]
        whole = Sample()
        whole.partitions, whole.processes = [], []
        for probe, sample in zip(self._probes, samples):
            position = len(whole.values)
            whole.values += sample.values
            whole.partitions += _moved(sample.partitions or [], position)
            whole.processes += _moved(sample.processes or [], position)
            for at, problems in sample.device_problems.items():
                whole.device_problems[position + at] = problems
            if sample.values or self._is_worth_saying(probe):
                whole.problems += sample.problems
        return whole

    def _is_worth_saying(self, probe: Probe) -> bool:
        """Whether it matters that a probe found no devices. Where others did, a tool that lies about does not, nor
        does a device that is there besides and has no tool, such as the graphics of a processor."""
        others = [other for other in self._probes if other is not probe]
        if any(other.devices for other in others):
            return probe.is_seen and probe.name != "none"
        if probe is self.nvidia and self.nvidia.is_missing and not probe.is_seen:
            return not others
        return True


def _moved(rows: List[Dict[str, Any]], by: int) -> List[Dict[str, Any]]:
    return [dict(row, device_index=row["device_index"] + by) for row in rows] if by else rows
