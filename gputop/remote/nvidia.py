"""NVIDIA devices through NVML: the library of the driver, spoken to by nvidia-ml-py."""

from typing import Any, Dict, List, Optional, Tuple

from gputop.remote import problem
from gputop.remote.lane import Lane
from gputop.remote.machine import Machine
from gputop.remote.metrics import Sample, same_bus_id
from gputop.remote.nvml_calls import (
    DRIVER_NOT_LOADED,
    FUNCTION_NOT_FOUND,
    GPU_IS_LOST,
    LIBRARY_NOT_FOUND,
    NO_PERMISSION,
    VERSION_MISMATCH,
    DriverGone,
    error_of,
)
from gputop.remote.nvml_gpu import FAST, MEDIUM, SLOW, Gpu, Reading, text
from gputop.remote.options import Options
from gputop.remote.problem import Problem
from gputop.remote.processes import ProcessTable

LIBRARIES = (
    "libnvidia-ml.so.1",
    "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
    "/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
    "/usr/lib64/libnvidia-ml.so.1",
    "/usr/lib/libnvidia-ml.so.1",
    "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
    "/run/nvidia/driver/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
    "/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1",
)
"""Where the library is looked for; the first entry is the loader's own search."""

LATE_MIN_SECONDS = 0.05
"""The shortest time that is waited for devices which are slow to answer."""

_KERNEL_MODULE = "/proc/driver/nvidia/version"
_KERNEL_GPUS = "/proc/driver/nvidia/gpus"


class Opening:
    """What came of loading and initialising the library."""

    def __init__(self) -> None:
        self.nvml: Any = None
        """The initialised binding; `None` when there is no library that could be used, or it refused."""
        self.count = 0
        self.facts: Dict[str, Any] = {}
        self.refusal: Optional[Problem] = None
        """Why a library that was found does not work."""
        self.tried: List[str] = []


def open_nvml(machine: Machine, library: Optional[str]) -> Opening:
    """Find the library and initialise it; may hang. `library` is tried first."""
    opening = Opening()
    for path in ((library,) if library else ()) + LIBRARIES:
        try:
            loaded = machine.load_library(path)
        except (OSError, ImportError) as error:
            opening.tried.append(str(error) if path in str(error) else "%s: %s" % (path, error))
            continue
        import pynvml as nvml

        nvml.nvmlLib = loaded
        nvml._nvmlGetFunctionPointer_cache.clear()
        try:
            nvml.nvmlInit()
            opening.count = nvml.nvmlDeviceGetCount()
        except Exception as error:
            code, words = error_of(nvml, error)
            if code in (LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND):  # a stub of the CUDA toolkit, or not NVML at all
                opening.tried.append("%s: %s" % (path, words))
                continue
            opening.refusal = _refusal(machine, nvml, code, words)
            return opening
        opening.nvml = nvml
        opening.facts = _facts(nvml)
        return opening
    return opening


class NvmlRoute:
    """Samples all devices at once, each in a lane of its own."""

    name = "nvml"

    def __init__(self, machine: Machine, options: Options, processes: ProcessTable) -> None:
        self.facts: Dict[str, Any] = {}
        self.revision = 0
        """Grows whenever devices, facts or the driver's state change: time for another hello."""
        self.tried: Optional[List[str]] = None
        """No library can be used: what was tried. `None` while that is not so."""
        self._machine = machine
        self._options = options
        self._processes = processes
        self._opening: Lane[Opening] = Lane(machine)
        self._nvml: Any = None
        self._refusal: Optional[Problem] = None
        self._retry_at = machine.monotonic()
        self._medium_at = self._slow_at = 0.0
        self._gpus: List[_Slot] = []
        self._absent: List[_Absent] = []
        self._kernel: Lane[List[_Absent]] = Lane(machine)
        self._remembered: List[Dict[str, Any]] = []

    @property
    def devices(self) -> List[Dict[str, Any]]:
        """Keys of `domain.reading.Device`, by position."""
        return [slot.identity for slot in self._listed()]

    def sample(self, until: float) -> Sample:
        """Everything that has answered by `until` (monotonic)."""
        sample = Sample()
        if self._nvml is None:
            if not self._open(until, sample):
                return sample
            # So that the first frame is complete: all that answers within the deadline, and what hangs is told as such.
            until = self._machine.monotonic() + self._options.deadline + LATE_MIN_SECONDS
        try:
            self._ask_all(until)
        except DriverGone as gone:
            self._close(str(gone))
            sample.problems = [problem.driver_not_loaded(str(gone))]
            return sample
        sample.partitions, sample.processes = [], []
        listed = self._listed()
        for position, slot in enumerate(listed):
            slot.report(sample, position)
        if not listed:
            sample.problems = [problem.no_devices("NVML is there and lists no device")]
        return sample

    def set_interval(self, seconds: float) -> None:
        """Nothing here runs by itself."""

    def read_all(self) -> None:
        """What is read from time to time is due with the next sample, but for what a device itself has to be asked."""
        self._medium_at = 0.0

    def _open(self, until: float, sample: Sample) -> bool:
        now = self._machine.monotonic()
        if now >= self._retry_at:
            self._opening.ask(lambda: open_nvml(self._machine, self._options.nvml_library))
        since = self._opening.since
        opening = self._opening.answer(until)
        if opening is None:
            if self._refusal is not None:
                sample.problems = [self._refusal]
            elif since is not None:
                waited = self._machine.monotonic() - since
                if waited >= self._options.deadline:
                    sample.problems = [problem.probe_hung("nvmlInit", waited, self._machine.wall() - waited)]
            return False
        self._retry_at = self._machine.monotonic() + self._options.retry
        self._refusal = opening.refusal
        self.tried = opening.tried if opening.nvml is None and opening.refusal is None else None
        if opening.nvml is None:
            sample.problems = [opening.refusal] if opening.refusal is not None else []
            return False
        self._nvml = opening.nvml
        self.facts = opening.facts
        gpus = [Gpu(self._nvml, index, self._processes.pid_max, self._machine) for index in range(opening.count)]
        self._gpus = [_Slot(self._machine, self._options, self._processes, gpu) for gpu in gpus]
        self._medium_at = self._slow_at = 0.0
        self.revision += 1
        return True

    def _close(self, words: str) -> None:
        """The driver has gone from under us: begin again."""
        self._remembered = [slot.identity for slot in self._gpus if slot.identity.get("uuid")] or self._remembered
        self._nvml = None
        self._gpus = []
        self._absent = []
        self._retry_at = self._machine.monotonic() + self._options.retry
        self._refusal = problem.driver_not_loaded(words)
        self.revision += 1

    def _ask_all(self, until: float) -> None:
        now = self._machine.monotonic()
        level = SLOW if now >= self._slow_at else MEDIUM if now >= self._medium_at else FAST
        if level >= SLOW:
            self._slow_at = now + self._options.slow
        if level >= MEDIUM:
            self._medium_at = now + self._options.medium
            self._processes.forget()
        for slot in self._gpus:
            slot.ask(level)
        changed = [slot.collect(until) for slot in self._gpus]
        if any(changed):
            self.revision += 1
        if (level >= MEDIUM or any(changed)) and all(slot.identity.get("pci_bus_id") for slot in self._gpus):
            self._find_absent(until)

    def _find_absent(self, until: float) -> None:
        """Devices that were there, or that the kernel module has, and that NVML does not list."""
        known = [slot.identity for slot in self._gpus]
        remembered = list(self._remembered)
        self._kernel.ask(lambda: absent_devices(self._machine, known, remembered))
        absent = self._kernel.answer(until)
        if absent is not None and [one.identity for one in absent] != [one.identity for one in self._absent]:
            self._absent = absent
            self.revision += 1

    def _listed(self) -> List[Any]:
        """Devices in the order they are told: those that are gone where they were."""
        slots: List[Any] = list(self._absent) + list(self._gpus)
        return sorted(slots, key=lambda slot: slot.identity["index"])


class _Slot:
    """A device that NVML lists: its lane and what it said last."""

    def __init__(self, machine: Machine, options: Options, processes: ProcessTable, gpu: Gpu) -> None:
        self.identity: Dict[str, Any] = {"index": gpu.index, "vendor": "nvidia"}
        self._machine = machine
        self._options = options
        self._processes = processes
        self._gpu = gpu
        self._lane: Lane[Reading] = Lane(machine)
        self._reading: Optional[Reading] = None
        self._wanted = FAST
        self._trouble_since: Dict[str, float] = {}

    def ask(self, level: int) -> None:
        self._wanted = max(self._wanted, level)
        if self._lane.idle:
            wanted, self._wanted = self._wanted, FAST
            self._lane.ask(lambda: self._gpu.read(wanted))

    def collect(self, until: float) -> bool:
        """Take what has come; whether the device told who it is for the first time."""
        reading = self._lane.answer(until)
        if reading is not None:
            self._reading = reading
        if self._gpu.identity is None or self.identity == self._gpu.identity:
            return False
        self.identity = self._gpu.identity
        return True

    def report(self, sample: Sample, position: int) -> None:
        values, troubles = self._state()
        sample.values.append(values)
        if troubles:
            sample.device_problems[position] = troubles
        reading = self._reading
        if values["state"] != "ok" or reading is None:
            return
        assert sample.partitions is not None
        assert sample.processes is not None
        sample.partitions.extend(dict(row, device_index=position) for row in reading.partitions)
        for row in reading.processes or ():
            who = self._processes.look_up(row["pid"])
            if who or reading.unreliable is None:
                sample.processes.append(dict(row, device_index=position, **(who or {})))

    def _state(self) -> Tuple[Dict[str, Any], List[Problem]]:
        """Values of the device, and what is wrong with it."""
        reading = self._reading
        lane_since = self._lane.since
        waited = 0.0 if lane_since is None else self._machine.monotonic() - lane_since
        troubles: List[Tuple[str, Problem]] = []
        state = "ok"
        if waited >= self._options.deadline:
            state = "error"
            call = self._gpu.calls.current
            troubles.append(("hung", problem.probe_hung(call, waited, self._machine.wall() - waited)))
        elif reading is None:
            state = "error"
        elif reading.failure is not None and reading.failure.code == GPU_IS_LOST:
            state = "lost"
            troubles.append(("lost", problem.device_lost(str(reading.failure), self._since("lost"))))
        elif reading.failure is not None:
            state = "error"
            troubles.append(("reset", problem.requires_reset(str(reading.failure), self._since("reset"))))
        elif reading.errors or not reading.answered:
            state = "ok" if reading.answered else "error"
            lines = ["%s: %s" % error for error in reading.errors]
            summary = lines[0] if lines else "the device answers no question"
            troubles.append(("error", problem.device_error(summary, "\n".join(lines[1:]), self._since("error"))))
        if state == "ok" and reading is not None and reading.unreliable is not None:
            troubles.append(("processes", problem.processes_unreliable(reading.unreliable)))
        kinds = [kind for kind, _ in troubles]
        self._trouble_since = {kind: at for kind, at in self._trouble_since.items() if kind in kinds}
        values: Dict[str, Any] = {"state": state, "processes_known": False}
        if state == "ok" and reading is not None:
            values.update(reading.values)
        return values, [trouble for _, trouble in troubles]

    def _since(self, kind: str) -> float:
        return self._trouble_since.setdefault(kind, self._machine.wall())


class _Absent:
    """A device that NVML does not list although it is known to be there."""

    def __init__(self, identity: Dict[str, Any], state: str, since: float) -> None:
        self.identity = identity
        self.state = state
        self._since = since

    def report(self, sample: Sample, position: int) -> None:
        sample.values.append({"state": self.state, "processes_known": False})
        if self.state == "lost":
            words = "NVML does not list it any more, although it is or was there"
            sample.device_problems[position] = [problem.device_lost(words, self._since)]


def absent_devices(machine: Machine, known: List[Dict[str, Any]], remembered: List[Dict[str, Any]]) -> List[_Absent]:
    """Devices of the kernel module, and of earlier, that are not among the `known` ones. Those that this account (or
    its batch job) is not allowed to open are hidden, not gone."""
    found: List[_Absent] = []
    now = machine.wall()
    for name in machine.names(_KERNEL_GPUS):
        if any(same_bus_id(name, one.get("pci_bus_id")) for one in known):
            continue
        information = parse_information(machine.text("%s/%s/information" % (_KERNEL_GPUS, name)) or "")
        minor = information.get("Device Minor", "")
        if minor.isdigit() and not machine.may_open("/dev/nvidia" + minor):
            continue
        uuid = information.get("GPU UUID")
        identity: Dict[str, Any] = {
            "index": int(minor) if minor.isdigit() else len(known) + len(found),
            "uuid": None if uuid is None or "?" in uuid else uuid,
            "pci_bus_id": name,
            "vendor": "nvidia",
            "model": information.get("Model"),
            "minor_number": int(minor) if minor.isdigit() else None,
        }
        excluded = information.get("GPU Excluded", "No") == "Yes"
        found.append(_Absent(identity, "excluded" if excluded else "lost", now))
    listed = known + [one.identity for one in found]
    for identity in remembered:
        same = [
            one
            for one in listed
            if one.get("uuid") == identity.get("uuid") or same_bus_id(one["pci_bus_id"], identity.get("pci_bus_id"))
        ]
        if not same:
            found.append(_Absent(identity, "lost", now))
    return found


def parse_information(information: str) -> Dict[str, str]:
    """/proc/driver/nvidia/gpus/*/information."""
    pairs = [line.partition(":") for line in information.splitlines()]
    return {key.strip(): value.strip() for key, _, value in pairs if value.strip()}


def _facts(nvml: Any) -> Dict[str, Any]:
    facts = {}
    driver, cuda = _fact(nvml, "nvmlSystemGetDriverVersion"), _fact(nvml, "nvmlSystemGetCudaDriverVersion_v2")
    if driver is not None:
        facts["driver_version"] = text(driver)
    if cuda is not None:
        facts["cuda_version"] = "%d.%d" % (cuda // 1000, cuda % 1000 // 10)
    return facts


def _fact(nvml: Any, name: str) -> Any:
    """What a function without arguments returns; `None` when it fails, whatever the reason: nothing hangs on it."""
    try:
        return getattr(nvml, name)()
    except Exception:
        return None


def _refusal(machine: Machine, nvml: Any, code: Optional[int], words: str) -> Problem:
    if code == VERSION_MISMATCH:
        return problem.driver_mismatch("\n".join([words, *_versions(machine, nvml)]))
    if code == DRIVER_NOT_LOADED:
        return problem.driver_not_loaded(words)
    if code == NO_PERMISSION:
        return problem.permission(words)
    return problem.tool_failed("NVML cannot be initialised: %s" % words, "")


def _versions(machine: Machine, nvml: Any) -> List[str]:
    """What is loaded and what is installed, as far as that can be said."""
    lines = []
    module = (machine.text(_KERNEL_MODULE) or "").partition("\n")[0]
    if module:
        lines.append("kernel module: %s" % module.partition(":")[2].strip())
    library = text(_fact(nvml, "nvmlSystemGetNVMLVersion"))
    if library:
        lines.append("NVML library: %s" % library)
    return lines
