"""NVIDIA devices: by NVML, or by nvidia-smi where there is no library that can be used."""

from typing import Any, Dict, List, Union

from gputop.remote import nvidia_smi, problem
from gputop.remote.machine import Machine
from gputop.remote.metrics import Sample
from gputop.remote.nvidia import NvmlRoute
from gputop.remote.options import Options
from gputop.remote.processes import ProcessTable
from gputop.remote.smi import SmiRoute


class NvidiaProbe:
    """The route that works; where none does, samples that say so."""

    def __init__(self, machine: Machine, options: Options, processes: ProcessTable, *, is_seen: bool) -> None:
        self.is_seen = is_seen
        """The devices themselves were seen, or their driver."""
        self._machine = machine
        self._options = options
        self._processes = processes
        self._interval = options.interval
        self._route: Union[NvmlRoute, SmiRoute] = NvmlRoute(machine, options, processes)

    @property
    def is_missing(self) -> bool:
        """There is neither a library nor a program."""
        return isinstance(self._route, NvmlRoute) and self._route.tried is not None

    @property
    def name(self) -> str:
        return "none" if self.is_missing else self._route.name

    @property
    def facts(self) -> Dict[str, Any]:
        return self._route.facts

    @property
    def devices(self) -> List[Dict[str, Any]]:
        return self._route.devices

    @property
    def revision(self) -> int:
        return self._route.revision

    def set_interval(self, seconds: float) -> None:
        self._interval = seconds
        self._route.set_interval(seconds)

    def read_all(self) -> None:
        """The next sample remembers little: limits and modes are read too. nvidia-smi always prints all."""
        if isinstance(self._route, NvmlRoute):
            self._route.read_all()

    def ask(self) -> None:
        """Nothing has to be started early: all is asked when it is sampled."""

    def sample(self, until: float) -> Sample:
        sample = self._route.sample(until)
        if isinstance(self._route, NvmlRoute) and self._route.tried is not None:
            program = self._machine.find_program(nvidia_smi.PROGRAMS)
            if program is None:
                sample.problems = [problem.tool_missing(self._route.tried + list(nvidia_smi.PROGRAMS))]
            else:
                self._route = SmiRoute(self._machine, self._options, self._processes, program)
                self._route.set_interval(self._interval)
                sample = self._route.sample(until + self._options.deadline)
        return sample
