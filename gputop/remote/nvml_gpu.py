"""Everything that is read about one NVIDIA device through NVML."""

from typing import Any, Dict, List, Optional, Tuple

from gputop.remote import nvml_fields
from gputop.remote.machine import Machine
from gputop.remote.metrics import absolute_threshold, throttle_reasons
from gputop.remote.nvml_calls import MEMORY_V2, Calls, DeviceFailure
from gputop.remote.nvml_fields import Key

NOT_AVAILABLE_64 = 0xFFFFFFFFFFFFFFFF
NOT_AVAILABLE_32 = 0xFFFFFFFF

_CLOCK_SM, _CLOCK_MEMORY = 1, 2
_SENSOR_GPU = 0
_THRESHOLD_SHUTDOWN, _THRESHOLD_SLOWDOWN = 0, 1
_CORRECTED, _UNCORRECTED = 0, 1
_VOLATILE, _AGGREGATE = 0, 1
_LOCATION_DRAM, _LOCATION_SRAM = 2, 7
_OTHER_LOCATIONS = (0, 1, 3, 4, 5, 6)
"""L1, L2, registers, textures, shared memory, CBU: what GPUs before Ampere count besides their memory."""
_AMPERE = 7
_UTILIZATION_WINDOW_SECONDS = 2.0
_LINK_ACTIVE = 1

FAST, MEDIUM, SLOW = 0, 1, 2
"""What a look is to read: each one more than the one before. FAST: what moves, in a few cheap calls. MEDIUM: modes,
limits, and what the driver has to say of its health. SLOW: counters that the device's own processor has to be asked
for, and what hardly ever changes."""

_COMPUTE_MODES: Dict[Optional[int], str] = {
    0: "default",
    1: "exclusive-process",
    2: "prohibited",
    3: "exclusive-process",
}
_MODES: Dict[Optional[int], str] = {0: "disabled", 1: "enabled"}

_MAX_CELSIUS = 200
_MAX_MILLIWATTS = 10000000
_MAX_PCIE_BYTES_PER_SECOND = 260e9
_MAX_NVLINK_BYTES_PER_SECOND = 8e12
"""Twice what the fastest links of today can do."""


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

    def __init__(self, nvml: Any, index: int, pid_max: int, machine: Machine) -> None:
        self.index = index
        self.calls = Calls(nvml)
        self.identity: Optional[Dict[str, Any]] = None
        """Keys of `domain.reading.Device`; `None` until it has answered once."""
        self._nvml = nvml
        self._pid_max = pid_max
        self._machine = machine
        self._handle: Any = None
        self._architecture: Optional[int] = None
        self._fields = nvml_fields.Fields()
        self._rates = nvml_fields.Rates()
        self._links: List[Key] = []
        self._medium: Dict[str, Any] = {}
        self._slow: Dict[str, Any] = {}
        self._thresholds: Dict[str, Any] = {}
        self._migs: List[Tuple[Any, Dict[str, Any]]] = []

    def read(self, level: int) -> Reading:
        """The values of `level`, and those that were never read; else those of last time."""
        calls, reading = self.calls, Reading()
        calls.errors = []
        calls.answered = 0
        try:
            if self._handle is None:
                self._handle = self._find()
            if self.identity is None and self._handle is not None:
                self.identity = self._identify()
            if self._handle is not None:
                if not self._slow:
                    level = SLOW
                self._read_values(level, reading)
                reading.partitions = self._partitions()
                self._read_processes(reading)
        except DeviceFailure as failure:
            reading = Reading()
            reading.failure = failure
            self._slow = {}
        reading.errors = calls.errors
        reading.answered = calls.answered
        return reading

    def _read_values(self, level: int, reading: Reading) -> None:
        if level >= MEDIUM:
            self.calls.retry()
            self._fields.retry()
        fields = self._read_fields(level)
        if level >= SLOW:
            self._slow = self._slow_values(fields)
        if level >= MEDIUM:
            self._medium = self._medium_values(fields)
            self._migs = self._mig_instances()
        reading.values.update(self._slow)
        reading.values.update(self._medium)
        reading.values.update(self._fast_values(fields))

    def _find(self) -> Any:
        # Here there is no handle yet: the index takes its place.
        return self.calls.value(self.index, "nvmlDeviceGetHandleByIndex")

    def _get(self, name: str, *arguments: Any) -> Any:
        return self.calls.value(self._handle, name, *arguments)

    def _identify(self) -> Dict[str, Any]:
        self._architecture = known(self._get("nvmlDeviceGetArchitecture"))
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

    def _read_fields(self, level: int) -> Dict[Key, int]:
        """The numbered fields of `level`, in one call."""
        keys: List[Key] = list(nvml_fields.FAST)
        if level >= MEDIUM:
            keys += nvml_fields.MEDIUM
        if level >= SLOW:
            keys += [*nvml_fields.SLOW, *self._links]
            if self._architecture is None or self._architecture < _AMPERE:  # rows are remapped since
                keys += nvml_fields.RETIRED
        return self._ask_fields(keys)

    def _ask_fields(self, keys: List[Key]) -> Dict[Key, int]:
        keys = self._fields.wanted(keys)
        answers = self._get("nvmlDeviceGetFieldValues", tuple(keys)) if keys else None
        return self._fields.values(answers or ())

    def _fast_values(self, fields: Dict[Key, int]) -> Dict[str, Any]:
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
        energy = known(self._get("nvmlDeviceGetTotalEnergyConsumption"))
        values.update(
            encoder_utilization_percent=percent(encoder[0]) if encoder else None,
            decoder_utilization_percent=percent(decoder[0]) if decoder else None,
            temperature_celsius=celsius(self._temperature()),
            memory_temperature_celsius=celsius(fields.get(nvml_fields.MEMORY_TEMPERATURE)),
            fan_percent=known(self._get("nvmlDeviceGetFanSpeed")),
            power_average_watts=watts(fields.get(nvml_fields.POWER_AVERAGE)),
            power_instant_watts=watts(fields.get(nvml_fields.POWER_INSTANT)),
            power_watts=watts(self._get("nvmlDeviceGetPowerUsage")),
            energy_joules=None if energy is None else energy / 1000.0,
            sm_clock_mhz=known(self._get("nvmlDeviceGetClockInfo", _CLOCK_SM)),
            memory_clock_mhz=known(self._get("nvmlDeviceGetClockInfo", _CLOCK_MEMORY)),
            performance_state="P%d" % state if state is not None and 0 <= state <= 15 else None,
            throttle_reasons=None if reasons is None else throttle_reasons(reasons),
            **self._link_rates(fields),
        )
        for other in ("power_instant_watts", "power_average_watts"):
            if values["power_watts"] is None:
                values["power_watts"] = values[other]
        return values

    def _link_rates(self, fields: Dict[Key, int]) -> Dict[str, Any]:
        now = self._machine.monotonic()
        found = {}
        for way, pcie, nvlink, nvlink5 in (
            ("tx", nvml_fields.PCIE_TX_BYTES, nvml_fields.NVLINK_TX_KIB, nvml_fields.NVLINK5_TX_BYTES),
            ("rx", nvml_fields.PCIE_RX_BYTES, nvml_fields.NVLINK_RX_KIB, nvml_fields.NVLINK5_RX_BYTES),
        ):
            kibibytes = fields.get(nvlink)
            moved = fields.get(nvlink5) if kibibytes is None else kibibytes * 1024
            for name, counter, most in (
                ("pcie", fields.get(pcie), _MAX_PCIE_BYTES_PER_SECOND),
                ("nvlink", moved, _MAX_NVLINK_BYTES_PER_SECOND),
            ):
                key = "%s_%s_bytes_per_second" % (name, way)
                found[key] = self._rates.per_second(key, counter, now, most)
        return found

    def _medium_values(self, fields: Dict[Key, int]) -> Dict[str, Any]:
        limit = self._get("nvmlDeviceGetPowerManagementLimit")
        if limit is None:
            limit = self._get("nvmlDeviceGetEnforcedPowerLimit")
        bar1 = self._get("nvmlDeviceGetBAR1MemoryInfo")
        ecc = self._get("nvmlDeviceGetEccMode") or (None, None)
        mig = self._get("nvmlDeviceGetMigMode") or (None, None)
        persistence = self._get("nvmlDeviceGetPersistenceMode")
        action = fields.get(nvml_fields.RECOVERY_ACTION)
        return dict(
            self._remapped_rows(fields),
            bar1_used_bytes=None if bar1 is None else known(bar1.bar1Used),
            bar1_total_bytes=None if bar1 is None else known(bar1.bar1Total),
            power_limit_watts=watts(limit),
            compute_mode=_COMPUTE_MODES.get(self._get("nvmlDeviceGetComputeMode")),
            persistence_mode=None if persistence is None else bool(persistence),
            pcie_generation=known(self._get("nvmlDeviceGetCurrPcieLinkGeneration")),
            pcie_width=known(self._get("nvmlDeviceGetCurrPcieLinkWidth")),
            pcie_replay_count=known(self._get("nvmlDeviceGetPcieReplayCounter")),
            ecc_mode=_MODES.get(ecc[0]),
            ecc_pending_mode=_MODES.get(ecc[1]),
            recovery_action=None if action is None else nvml_fields.RECOVERY_ACTIONS.get(action, "other"),
            mig_mode=_MODES.get(mig[0]),
        )

    def _slow_values(self, fields: Dict[Key, int]) -> Dict[str, Any]:
        pending = fields.get(nvml_fields.RETIRED_PENDING)
        return dict(
            self._links_and_errors(fields),
            **self._read_thresholds(fields),
            power_default_limit_watts=watts(self._get("nvmlDeviceGetPowerManagementDefaultLimit")),
            sm_clock_max_mhz=known(self._get("nvmlDeviceGetMaxClockInfo", _CLOCK_SM)),
            memory_clock_max_mhz=known(self._get("nvmlDeviceGetMaxClockInfo", _CLOCK_MEMORY)),
            pcie_generation_max=known(self._get("nvmlDeviceGetMaxPcieLinkGeneration")),
            pcie_width_max=known(self._get("nvmlDeviceGetMaxPcieLinkWidth")),
            ecc_corrected_volatile=self._ecc_errors(_CORRECTED, _VOLATILE),
            ecc_uncorrected_volatile=self._ecc_errors(_UNCORRECTED, _VOLATILE),
            ecc_corrected_aggregate=self._ecc_errors(_CORRECTED, _AGGREGATE),
            ecc_uncorrected_aggregate=self._ecc_errors(_UNCORRECTED, _AGGREGATE),
            retired_pages_single_bit=fields.get(nvml_fields.RETIRED_SINGLE_BIT),
            retired_pages_double_bit=fields.get(nvml_fields.RETIRED_DOUBLE_BIT),
            retired_pages_pending=None if pending is None else bool(pending),
        )

    def _temperature(self) -> Optional[int]:
        value: Optional[int] = self._get("nvmlDeviceGetTemperature", _SENSOR_GPU)
        return self._get("nvmlDeviceGetTemperatureV", _SENSOR_GPU) if value is None else value

    def _read_thresholds(self, fields: Dict[Key, int]) -> Dict[str, Any]:
        """In degrees, as they were given before Ada. Since then the driver tells how far away they are from another
        one; from that they are worked out, once: the distance is rounded, and a threshold does not move."""
        wanted = (
            ("temperature_slowdown_celsius", _THRESHOLD_SLOWDOWN, nvml_fields.SLOWDOWN_TLIMIT),
            ("temperature_shutdown_celsius", _THRESHOLD_SHUTDOWN, nvml_fields.SHUTDOWN_TLIMIT),
        )
        found = {key: celsius(self._get("nvmlDeviceGetTemperatureThreshold", which)) for key, which, _ in wanted}
        missing = [(key, field) for key, _, field in wanted if found[key] is None and key not in self._thresholds]
        is_derivable = fields.get(nvml_fields.MEMORY_TEMPERATURE) is None
        distances = self._ask_fields([field for _, field in missing]) if missing and is_derivable else {}
        if distances:
            now, margin = self._temperature(), self._get("nvmlDeviceGetMarginTemperature")
            for key, field in missing:
                value = absolute_threshold(now, margin, nvml_fields.signed(distances.get(field)))
                if value is not None:
                    self._thresholds[key] = value
        return {key: self._thresholds.get(key) if value is None else value for key, value in found.items()}

    def _remapped_rows(self, fields: Dict[Key, int]) -> Dict[str, Any]:
        keys = (
            nvml_fields.REMAPPED_CORRECTED,
            nvml_fields.REMAPPED_UNCORRECTED,
            nvml_fields.REMAPPED_PENDING,
            nvml_fields.REMAPPED_FAILED,
        )
        rows = [fields.get(key) for key in keys]
        if all(value is None for value in rows):
            rows = list(self._get("nvmlDeviceGetRemappedRows") or rows)
        corrected, uncorrected, pending, failed = rows
        return {
            "remapped_rows_corrected": corrected,
            "remapped_rows_uncorrected": uncorrected,
            "remapped_rows_pending": None if pending is None else bool(pending),
            "remapped_rows_failed": None if failed is None else bool(failed),
        }

    def _links_and_errors(self, fields: Dict[Key, int]) -> Dict[str, Any]:
        """Nothing of a device that has no NVLink."""
        count = fields.get(nvml_fields.NVLINK_COUNT)
        if not count:
            self._links = []
            return {}
        if not self._links:  # from the next time on they are asked for together with the rest
            self._links = nvml_fields.link_states(count)
            fields = dict(fields)
            fields.update(self._ask_fields(self._links))
        states = [fields[key] for key in self._links if key in fields]
        if not states:  # drivers before 525
            asked = [self._get("nvmlDeviceGetNvLinkState", link) for _, link in self._links]
            states = [state for state in asked if state is not None]
        errors = nvml_fields.total(fields, nvml_fields.NVLINK5_ERRORS)
        return {
            "nvlink_links_total": count if states else None,
            "nvlink_links_active": sum(state == _LINK_ACTIVE for state in states) if states else None,
            "nvlink_error_count": nvml_fields.total(fields, nvml_fields.NVLINK_ERRORS) if errors is None else errors,
        }

    def _ecc_errors(self, kind: int, counter: int) -> Optional[int]:
        total = known(self._get("nvmlDeviceGetTotalEccErrors", kind, counter))
        if total is not None:
            return total
        dram = self._ecc_errors_at(kind, counter, _LOCATION_DRAM)
        sram = self._ecc_errors_at(kind, counter, _LOCATION_SRAM)
        if dram is not None and sram is not None:
            return dram + sram
        others = [self._ecc_errors_at(kind, counter, location) for location in _OTHER_LOCATIONS]
        known_ones = [count for count in others if count is not None]
        # One number of several would pass for all of them.
        return dram + sum(known_ones) if dram is not None and known_ones else None

    def _ecc_errors_at(self, kind: int, counter: int, location: int) -> Optional[int]:
        return known(self._get("nvmlDeviceGetMemoryErrorCounter", kind, counter, location))

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

    def _mig_instances(self) -> List[Tuple[Any, Dict[str, Any]]]:
        """Handle and identity of each instance, numbered as nvidia-smi numbers them: NVML's own indexes may have
        gaps."""
        found: List[Tuple[Any, Dict[str, Any]]] = []
        if self._medium.get("mig_mode") == "enabled":
            for index in range(self._get("nvmlDeviceGetMaxMigDeviceCount") or 0):
                handle = self.calls.value(self._handle, "nvmlDeviceGetMigDeviceHandleByIndex", index)
                if handle is not None:
                    found.append((handle, self._mig_identity(handle, len(found))))
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
        # Programs that compute through a server of MPS stand in a list of their own.
        shared = self._get("nvmlDeviceGetMPSComputeRunningProcesses_v3") or []
        total = reading.values.get("memory_total_bytes")
        rows, reading.unreliable = merge_processes([*(compute or []), *shared], graphics or [], self._pid_max, total)
        if rows and reading.values.get("mig_mode") != "enabled":
            self._add_utilization(rows)
        reading.processes = rows
        reading.values["processes_known"] = compute is not None and reading.unreliable is None

    def _add_utilization(self, rows: List[Dict[str, Any]]) -> None:
        """The driver samples the processes about once a second, and tells of those that were active."""
        since = int((self._machine.wall() - _UTILIZATION_WINDOW_SECONDS) * 1e6)
        samples = self.calls.process_utilization(self._handle, since)
        if samples is None:
            return
        newest: Dict[int, Any] = {}
        for sample in sorted(samples, key=lambda sample: sample.timeStamp):
            newest[sample.pid] = sample
        for row in rows:
            sample = newest.get(row["pid"])
            row["utilization_percent"] = 0 if sample is None else percent(sample.smUtil)

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
