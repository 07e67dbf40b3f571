"""Everything that is read about one NVIDIA device through NVML."""

from typing import Any, Dict, List, Optional, Tuple

from gputop.remote.metrics import throttle_reasons
from gputop.remote.nvml_calls import MEMORY_V2, Calls, DeviceFailure

NOT_AVAILABLE_64 = 0xFFFFFFFFFFFFFFFF
NOT_AVAILABLE_32 = 0xFFFFFFFF

_CLOCK_SM, _CLOCK_MEMORY = 1, 2
_SENSOR_GPU = 0
_THRESHOLD_SHUTDOWN, _THRESHOLD_SLOWDOWN = 0, 1
_CORRECTED, _UNCORRECTED = 0, 1
_VOLATILE, _AGGREGATE = 0, 1
_LOCATION_DRAM, _LOCATION_SRAM = 2, 7

# By number: the binding's own constants have changed their meaning between its versions.
_FIELD_MEMORY_TEMPERATURE, _FIELD_POWER_AVERAGE, _FIELD_POWER_INSTANT = 82, 185, 186
_FIELDS = (_FIELD_MEMORY_TEMPERATURE, _FIELD_POWER_AVERAGE, _FIELD_POWER_INSTANT)
_FIELD_VALUE_KINDS = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal"}

_COMPUTE_MODES: Dict[Optional[int], str] = {
    0: "default",
    1: "exclusive-process",
    2: "prohibited",
    3: "exclusive-process",
}
_MODES: Dict[Optional[int], str] = {0: "disabled", 1: "enabled"}

_MAX_CELSIUS = 200
_MAX_MILLIWATTS = 10000000


class Reading:
    """What one look at a device gave."""

    def __init__(self) -> None:
        self.values: Dict[str, Any] = {}
        self.partitions: List[Dict[str, Any]] = []
        self.processes: Optional[List[Dict[str, Any]]] = None
        """Keys of `domain.reading.ProcessReading`, without who they are; `None` when the list cannot be read."""
        self.unreliable: Optional[str] = None
        """Why the list of processes is not to be trusted."""
        self.errors: List[Tuple[str, str]] = []
        self.answered = 0
        self.failure: Optional[DeviceFailure] = None


class Gpu:
    """One device. Its methods make NVML calls, any of which may hang: call them from a lane."""

    def __init__(self, nvml: Any, index: int, pid_max: int) -> None:
        self.index = index
        self.calls = Calls(nvml)
        self.identity: Optional[Dict[str, Any]] = None
        """Keys of `domain.reading.Device`; `None` until it has answered once."""
        self._nvml = nvml
        self._pid_max = pid_max
        self._handle: Any = None
        self._slow: Dict[str, Any] = {}
        self._migs: List[Tuple[Any, Dict[str, Any]]] = []

    def read(self, slow: bool) -> Reading:
        """The fast values, and the `slow` ones too when asked for or never read; else those of last time."""
        calls, reading = self.calls, Reading()
        calls.errors = []
        calls.answered = 0
        try:
            if self._handle is None:
                self._handle = self._find()
            if self.identity is None and self._handle is not None:
                self.identity = self._identify()
            if self._handle is not None:
                if slow or not self._slow:
                    calls.retry()
                    self._slow = self._slow_values()
                    self._migs = self._mig_instances()
                reading.values.update(self._slow)
                reading.values.update(self._fast_values())
                reading.partitions = self._partitions()
                self._read_processes(reading)
        except DeviceFailure as failure:
            reading = Reading()
            reading.failure = failure
            self._slow = {}
        reading.errors = calls.errors
        reading.answered = calls.answered
        return reading

    def _find(self) -> Any:
        # Here there is no handle yet: the index takes its place.
        return self.calls.value(self.index, "nvmlDeviceGetHandleByIndex")

    def _get(self, name: str, *arguments: Any) -> Any:
        return self.calls.value(self._handle, name, *arguments)

    def _identify(self) -> Dict[str, Any]:
        pci = self._get("nvmlDeviceGetPciInfo")
        return {
            "index": self.index,
            "uuid": text(self._get("nvmlDeviceGetUUID")),
            "pci_bus_id": bus_id(pci),
            "vendor": "nvidia",
            "model": text(self._get("nvmlDeviceGetName")),
            "serial": text(self._get("nvmlDeviceGetSerial")),
            "minor_number": self._get("nvmlDeviceGetMinorNumber"),
        }

    def _fast_values(self) -> Dict[str, Any]:
        values = self._memory(self._handle)
        utilization = self._get("nvmlDeviceGetUtilizationRates")
        if utilization is not None:
            values["utilization_percent"] = percent(utilization.gpu)
            values["memory_utilization_percent"] = percent(utilization.memory)
        encoder = self._get("nvmlDeviceGetEncoderUtilization")
        decoder = self._get("nvmlDeviceGetDecoderUtilization")
        reasons = self._get("nvmlDeviceGetCurrentClocksEventReasons")
        if reasons is None:
            reasons = self._get("nvmlDeviceGetCurrentClocksThrottleReasons")
        state = self._get("nvmlDeviceGetPerformanceState")
        fields = self._fields()
        energy = known(self._get("nvmlDeviceGetTotalEnergyConsumption"))
        values.update(
            encoder_utilization_percent=percent(encoder[0]) if encoder else None,
            decoder_utilization_percent=percent(decoder[0]) if decoder else None,
            temperature_celsius=celsius(self._get("nvmlDeviceGetTemperature", _SENSOR_GPU)),
            memory_temperature_celsius=celsius(fields.get(_FIELD_MEMORY_TEMPERATURE)),
            fan_percent=known(self._get("nvmlDeviceGetFanSpeed")),
            power_average_watts=watts(fields.get(_FIELD_POWER_AVERAGE)),
            power_instant_watts=watts(fields.get(_FIELD_POWER_INSTANT)),
            power_watts=watts(self._get("nvmlDeviceGetPowerUsage")),
            energy_joules=None if energy is None else energy / 1000.0,
            sm_clock_mhz=known(self._get("nvmlDeviceGetClockInfo", _CLOCK_SM)),
            memory_clock_mhz=known(self._get("nvmlDeviceGetClockInfo", _CLOCK_MEMORY)),
            performance_state="P%d" % state if state is not None and 0 <= state <= 15 else None,
            throttle_reasons=None if reasons is None else throttle_reasons(reasons),
            pcie_generation=known(self._get("nvmlDeviceGetCurrPcieLinkGeneration")),
            pcie_width=known(self._get("nvmlDeviceGetCurrPcieLinkWidth")),
        )
        for other in ("power_instant_watts", "power_average_watts"):
            if values["power_watts"] is None:
                values["power_watts"] = values[other]
        return values

    def _slow_values(self) -> Dict[str, Any]:
        limit = self._get("nvmlDeviceGetPowerManagementLimit")
        if limit is None:
            limit = self._get("nvmlDeviceGetEnforcedPowerLimit")
        bar1 = self._get("nvmlDeviceGetBAR1MemoryInfo")
        ecc = self._get("nvmlDeviceGetEccMode") or (None, None)
        mig = self._get("nvmlDeviceGetMigMode") or (None, None)
        persistence = self._get("nvmlDeviceGetPersistenceMode")
        return {
            "bar1_used_bytes": None if bar1 is None else known(bar1.bar1Used),
            "bar1_total_bytes": None if bar1 is None else known(bar1.bar1Total),
            "temperature_slowdown_celsius": celsius(
                self._get("nvmlDeviceGetTemperatureThreshold", _THRESHOLD_SLOWDOWN)
            ),
            "temperature_shutdown_celsius": celsius(
                self._get("nvmlDeviceGetTemperatureThreshold", _THRESHOLD_SHUTDOWN)
            ),
            "power_limit_watts": watts(limit),
            "power_default_limit_watts": watts(self._get("nvmlDeviceGetPowerManagementDefaultLimit")),
            "sm_clock_max_mhz": known(self._get("nvmlDeviceGetMaxClockInfo", _CLOCK_SM)),
            "memory_clock_max_mhz": known(self._get("nvmlDeviceGetMaxClockInfo", _CLOCK_MEMORY)),
            "compute_mode": _COMPUTE_MODES.get(self._get("nvmlDeviceGetComputeMode")),
            "persistence_mode": None if persistence is None else bool(persistence),
            "pcie_generation_max": known(self._get("nvmlDeviceGetMaxPcieLinkGeneration")),
            "pcie_width_max": known(self._get("nvmlDeviceGetMaxPcieLinkWidth")),
            "pcie_replay_count": known(self._get("nvmlDeviceGetPcieReplayCounter")),
            "ecc_mode": _MODES.get(ecc[0]),
            "ecc_pending_mode": _MODES.get(ecc[1]),
            "ecc_corrected_volatile": self._ecc_errors(_CORRECTED, _VOLATILE),
            "ecc_uncorrected_volatile": self._ecc_errors(_UNCORRECTED, _VOLATILE),
            "ecc_corrected_aggregate": self._ecc_errors(_CORRECTED, _AGGREGATE),
            "ecc_uncorrected_aggregate": self._ecc_errors(_UNCORRECTED, _AGGREGATE),
            "mig_mode": _MODES.get(mig[0]),
        }

    def _ecc_errors(self, kind: int, counter: int) -> Optional[int]:
        total = known(self._get("nvmlDeviceGetTotalEccErrors", kind, counter))
        if total is not None:
            return total
        dram = known(self._get("nvmlDeviceGetMemoryErrorCounter", kind, counter, _LOCATION_DRAM))
        sram = known(self._get("nvmlDeviceGetMemoryErrorCounter", kind, counter, _LOCATION_SRAM))
        return None if dram is None or sram is None else dram + sram

    def _memory(self, handle: Any) -> Dict[str, Any]:
        split = self.calls.value(handle, "nvmlDeviceGetMemoryInfo", MEMORY_V2)
        memory = split or self.calls.value(handle, "nvmlDeviceGetMemoryInfo")
        if memory is None:
            return {}
        return {
            "memory_used_bytes": known(memory.used),
            "memory_total_bytes": known(memory.total),
            "memory_reserved_bytes": None if split is None else known(split.reserved),
        }

    def _fields(self) -> Dict[int, Any]:
        """Values of NVML's numbered fields, those that could be read."""
        found = {}
        for value in self._get("nvmlDeviceGetFieldValues", _FIELDS) or ():
            kind = _FIELD_VALUE_KINDS.get(value.valueType)
            if value.nvmlReturn == 0 and value.fieldId in _FIELDS and kind is not None:
                found[value.fieldId] = getattr(value.value, kind)
        return found

    def _mig_instances(self) -> List[Tuple[Any, Dict[str, Any]]]:
        """Handle and identity of each instance; indexes may have gaps."""
        found = []
        if self._slow.get("mig_mode") == "enabled":
            for index in range(self._get("nvmlDeviceGetMaxMigDeviceCount") or 0):
                handle = self.calls.value(self._handle, "nvmlDeviceGetMigDeviceHandleByIndex", index)
                if handle is not None:
                    found.append((handle, self._mig_identity(handle, index)))
        return found

    def _mig_identity(self, handle: Any, index: int) -> Dict[str, Any]:
        value = self.calls.value
        return {
            "kind": "mig",
            "index": index,
            "uuid": text(value(handle, "nvmlDeviceGetUUID")),
            "profile": mig_profile(
                text(value(handle, "nvmlDeviceGetName")), value(handle, "nvmlDeviceGetAttributes_v2")
            ),
            "gpu_instance_id": value(handle, "nvmlDeviceGetGpuInstanceId"),
            "compute_instance_id": value(handle, "nvmlDeviceGetComputeInstanceId"),
        }

    def _partitions(self) -> List[Dict[str, Any]]:
        found = []
        for handle, identity in self._migs:
            memory = self._memory(handle)
            memory.pop("memory_reserved_bytes", None)
            found.append(dict(identity, **memory))
        return found

    def _read_processes(self, reading: Reading) -> None:
        compute = self._process_list("Compute")
        graphics = self._process_list("Graphics")
        if compute is None and graphics is None:
            reading.values["processes_known"] = False
            return
        total = reading.values.get("memory_total_bytes")
        rows, reading.unreliable = merge_processes(compute or [], graphics or [], self._pid_max, total)
        reading.processes = rows
        reading.values["processes_known"] = compute is not None and reading.unreliable is None

    def _process_list(self, kind: str) -> Any:
        """The newest form of the list that driver and binding both have."""
        name = "nvmlDeviceGet%sRunningProcesses" % kind
        for version in ("_v3", "_v2"):
            rows = self._get(name + version)
            if rows is not None or not self.calls.is_missing(name + version):
                return rows
        return self.calls.processes_v1(self._handle, name)


def merge_processes(
    compute: List[Any], graphics: List[Any], pid_max: int, memory_total: Optional[int]
) -> Tuple[List[Dict[str, Any]], Optional[str]]:
    """Both lists as one, without rows that cannot be true; and what such a row looked like. Some drivers write records
    of another size than the binding reads, which shifts everything after the first one."""
    rows: Dict[Tuple[Any, ...], Dict[str, Any]] = {}
    unreliable = None
    for kind, infos in (("compute", compute), ("graphics", graphics)):
        for info in infos:
            used = known(info.usedGpuMemory)
            if not 1 <= info.pid <= pid_max or (used is not None and memory_total and used > memory_total):
                unreliable = "pid %s with %s bytes" % (info.pid, used)
                continue
            instance, compute_instance = known(info.gpuInstanceId), known(info.computeInstanceId)
            row = rows.setdefault(
                (info.pid, instance, compute_instance),
                {
                    "pid": info.pid,
                    "kind": kind,
                    "memory_used_bytes": used,
                    "gpu_instance_id": instance,
                    "compute_instance_id": compute_instance,
                },
            )
            if row["kind"] != kind:
                row["kind"] = "both"
                row["memory_used_bytes"] = max(row["memory_used_bytes"] or 0, used or 0) or used
    return [rows[key] for key in rows], unreliable


def mig_profile(name: Optional[str], attributes: Any) -> Optional[str]:
    """`1g.10gb` out of a name such as "NVIDIA H100 MIG 1g.10gb"; older drivers give the sizes alone."""
    if name is not None and "MIG " in name:
        return name.rpartition("MIG ")[2].strip() or None
    if attributes is None or not attributes.gpuInstanceSliceCount:
        return None
    slices, compute = attributes.gpuInstanceSliceCount, attributes.computeInstanceSliceCount
    part = "" if compute in (0, slices) else "%dc." % compute
    return "%s%dg.%dgb" % (part, slices, round(attributes.memorySizeMB / 1024.0))


def bus_id(pci: Any) -> Optional[str]:
    try:
        return None if pci is None else text(pci.busId) or text(pci.busIdLegacy)
    except UnicodeDecodeError:  # the binding decodes when the attribute is read
        return None


def known(value: Optional[int]) -> Optional[int]:
    """`None` in place of NVML's own signs for "not available"."""
    return None if value in (NOT_AVAILABLE_32, NOT_AVAILABLE_64) else value


def percent(value: Optional[int]) -> Optional[int]:
    return value if value is not None and 0 <= value <= 100 else None


def celsius(value: Optional[int]) -> Optional[int]:
    return value if value is not None and 0 < value <= _MAX_CELSIUS else None


def watts(milliwatts: Optional[int]) -> Optional[float]:
    return round(milliwatts / 1000.0, 3) if milliwatts is not None and 0 <= milliwatts <= _MAX_MILLIWATTS else None


def text(value: Any) -> Optional[str]:
    """A name; the binding gives `str` or `bytes` by its version."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return value.strip() or None if isinstance(value, str) else None
