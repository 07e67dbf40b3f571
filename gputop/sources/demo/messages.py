"""The demo fleet as messages of the wire protocol (`gputop.remote.wire`): pure functions of host and time."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from gputop.remote import problem
from gputop.remote.wire import PROTOCOL_VERSION
from gputop.sources.demo.hosts import GIB, INTERVAL_SECONDS, MIB, MOST_HOSTS, DemoHost, bus_of
from gputop.sources.demo.jobs import Job, job_at, lane_of
from gputop.sources.demo.log import events
from gputop.sources.demo.noise import between, mix, unit, wave
from gputop.sources.demo.physics import Measured, job_memory, measure, rank, slice_memory, slices, work_at
from gputop.sources.demo.trouble import Condition, booted_at, condition

Message = dict[str, Any]
"""What `json.dumps` takes."""

ROUTE = "nvml"


def hello(host: DemoHost, t: float, trouble: Condition | None = None) -> Message:
    """The static facts of `host` at Unix time `t`. `trouble`: what is wrong with it, where that is not its turn's."""
    trouble = trouble or condition(host, t)
    positions = range(0) if trouble.fault == "driver-mismatch" else range(host.devices)
    return {
        "k": "hello",
        "v": PROTOCOL_VERSION,
        "route": ROUTE,
        "interval": INTERVAL_SECONDS,
        "facts": {
            "hostname": host.name,
            "kernel_version": host.kernel,
            "boot_id": boot_id(host, booted_at(host, t)),
            "machine_id": _uuid(host.key, 1).replace("-", ""),
            "cores": host.cores,
            "driver_version": host.driver,
            "cuda_version": None if trouble.fault == "driver-mismatch" else host.cuda,
            "os_name": host.os_name,
            "python_version": host.python,
            "kernel_log": "/dev/kmsg",
        },
        "devices": {
            "index": list(positions),
            "uuid": [uuids(host)[position] for position in positions],
            "pci_bus_id": [bus_of(host, position) for position in positions],
            "vendor": ["nvidia"] * len(positions),
            "model": [host.model.name] * len(positions),
            "serial": [str(1650000000000 + mix(host.key, 3, position) % 10**10) for position in positions],
            "minor_number": list(positions),
        },
        "problems": _host_problems(host, trouble),
    }


def frame(
    host: DemoHost, t: float, sequence: int, interval: float = INTERVAL_SECONDS, trouble: Condition | None = None
) -> Message:
    """All values of `host` at Unix time `t`. Complete: nothing is left to be carried over from the frame before."""
    trouble = trouble or condition(host, t)
    readable = 0 if trouble.fault == "driver-mismatch" else host.devices
    dead = {trouble.lost_device: "lost", trouble.faulty_device: "error"}
    values = [None if position in dead else measure(host, position, t) for position in range(readable)]
    message: Message = {
        "k": "frame",
        "n": sequence,
        "t": round(t, 3),
        "interval": interval,
        "host": _host_values(host, t, sequence),
        "columns": _columns(host, t, values, [dead.get(position, "ok") for position in range(readable)]),
        "partitions": _partitions(host, t, values),
        "processes": _processes(host, t, values),
    }
    if device_problems := _device_problems(trouble, t):
        message["device_problems"] = device_problems
    if logged := events(host, t, all_since_boot=sequence == 1):
        message["events"] = logged
    return message


@lru_cache(maxsize=MOST_HOSTS)
def uuids(host: DemoHost) -> tuple[str, ...]:
    """Of all its devices, by position."""
    return tuple(f"GPU-{_uuid(host.key, 2, position)}" for position in range(host.devices))


def boot_id(host: DemoHost, booted: float) -> str:
    """Of the start of `host` at Unix time `booted`."""
    return _uuid(host.key, int(booted))


def _host_values(host: DemoHost, t: float, sequence: int) -> Message:
    """The server itself: data loaders work while its devices do."""
    work = sum(work_at(host, position, t) for position in range(host.devices)) / host.devices
    utilization = min(
        100.0, 1.5 + 100.0 * work * between(0.18, 0.4, host.key, 4) * (0.8 + 0.4 * wave(t, 8.0, host.key))
    )
    memory = 14 * GIB + 0.8 * host.memory_bytes * (
        0.1 + 0.5 * work * unit(host.key, 5) + 0.1 * wave(t, 200.0, host.key)
    )
    load = host.cores * utilization / 100.0 * (0.9 + 0.3 * wave(t, 60.0, host.key, 6))
    return {
        "uptime_seconds": round(t - booted_at(host, t), 2),
        "cpu_utilization_percent": round(utilization, 1),
        "load_1m": round(load, 2),
        "memory_used_bytes": int(memory) // 4096 * 4096,
        "memory_total_bytes": host.memory_bytes,
        "agent_cpu_seconds": round(0.08 + 0.0041 * sequence, 3),
        "agent_memory_bytes": 17 * MIB + mix(host.key, 7) % (3 * MIB) // 4096 * 4096,
    }


def _columns(host: DemoHost, t: float, values: list[Measured | None], states: list[str]) -> Message:
    """The columns of `DeviceReading`; a device that does not answer has `None` in each."""
    model = host.model
    new_driver = int(host.driver.split(".")[0]) >= 570
    rows = [None if value is None else _row(host, position, t, value) for position, value in enumerate(values)]
    names = list(next((row for row in rows if row is not None), {}))
    columns: Message = {"state": states}
    for name in names:
        columns[name] = [None if row is None else row[name] for row in rows]
    columns["processes_known"] = [row is not None for row in rows]
    if new_driver and names:
        columns["recovery_action"] = [
            "none" if row is not None else _recovery_action(state) for row, state in zip(rows, states, strict=True)
        ]
    if not model.has_encoder:
        columns.pop("encoder_utilization_percent", None)
    return columns


def _recovery_action(state: str) -> str | None:
    """What the driver advises for a device that answers nothing else."""
    return "gpu-reset" if state == "error" else None


def _row(host: DemoHost, position: int, t: float, value: Measured) -> Message:
    """One device, keyed like `DeviceReading`."""
    model = host.model
    up = t - booted_at(host, t)
    links = model.nvlinks
    generation = model.pcie_generation if value.performance_state == "P0" else 1
    return {
        "utilization_percent": None if host.is_mig else value.utilization_percent,
        "memory_utilization_percent": None if host.is_mig else value.memory_utilization_percent,
        "encoder_utilization_percent": value.decoder_percent * 0.4,
        "decoder_utilization_percent": None if host.is_mig else value.decoder_percent,
        "memory_used_bytes": value.memory_used_bytes,
        "memory_total_bytes": model.memory_bytes,
        "memory_reserved_bytes": model.reserved_bytes,
        "bar1_used_bytes": MIB if value.memory_used_bytes == 0 else (3 + mix(host.key, position) % 30) * MIB,
        "bar1_total_bytes": model.bar1_bytes,
        "temperature_celsius": value.temperature_celsius,
        "memory_temperature_celsius": value.memory_temperature_celsius,
        "temperature_slowdown_celsius": model.slowdown_celsius,
        "temperature_shutdown_celsius": model.shutdown_celsius,
        "power_watts": value.power_watts,
        "power_average_watts": value.power_average_watts,
        "power_instant_watts": value.power_watts,
        "power_limit_watts": value.power_limit_watts,
        "power_default_limit_watts": model.limit_watts,
        "energy_joules": round(up * model.limit_watts * between(0.45, 0.62, host.key, position, 8), 1),
        "sm_clock_mhz": value.sm_clock_mhz,
        "memory_clock_mhz": value.memory_clock_mhz,
        "sm_clock_max_mhz": model.sm_clock_max_mhz,
        "memory_clock_max_mhz": model.memory_clock_max_mhz,
        "performance_state": value.performance_state,
        "compute_mode": "default",
        "persistence_mode": True,
        "throttle_reasons": list(value.throttle_reasons),
        "pcie_generation": generation,
        "pcie_generation_max": model.pcie_generation,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "pcie_tx_bytes_per_second": round(value.transfer * 2.1e9),
        "pcie_rx_bytes_per_second": round(value.transfer * 3.4e9),
        "pcie_replay_count": mix(host.key, position, 9) % 5 if unit(host.key, position, 10) < 0.1 else 0,
        "nvlink_links_active": links if not host.is_mig else None,
        "nvlink_links_total": links,
        "nvlink_tx_bytes_per_second": _nvlink(host, value),
        "nvlink_rx_bytes_per_second": _nvlink(host, value),
        "nvlink_error_count": None if links is None else 0,
        "ecc_mode": "enabled",
        "ecc_pending_mode": "enabled",
        "ecc_corrected_volatile": _rare(host, position, 11),
        "ecc_uncorrected_volatile": 0,
        "ecc_corrected_aggregate": _rare(host, position, 11) * 7,
        "ecc_uncorrected_aggregate": _rare(host, position, 12),
        "remapped_rows_corrected": 0,
        "remapped_rows_uncorrected": _rare(host, position, 12),
        "remapped_rows_pending": None if host.is_mig else False,
        "remapped_rows_failed": None if host.is_mig else False,
        "mig_mode": None if model.has_encoder else "enabled" if host.is_mig else "disabled",
    }


def _nvlink(host: DemoHost, value: Measured) -> int | None:
    if host.model.nvlinks is None or host.is_mig:
        return None
    return round(value.transfer * host.model.nvlinks * 9.0e9)


@lru_cache(maxsize=16 * MOST_HOSTS)
def _rare(host: DemoHost, position: int, salt: int) -> int:
    """A small count on one device in twelve, else 0."""
    return 1 + mix(host.key, position, salt) % 3 if unit(host.key, position, salt, 13) < 0.08 else 0


def _partitions(host: DemoHost, t: float, values: list[Measured | None]) -> Message:
    rows = []
    for position, value in enumerate(values):
        if value is None:
            continue
        for index, part in enumerate(slices(host, position)):
            used = slice_memory(host, position, index, t)[1]
            rows.append(
                {
                    "device_index": position,
                    "kind": "mig",
                    "index": index,
                    "uuid": f"MIG-{_uuid(host.key, 14, position, index)}",
                    "profile": part.profile,
                    "gpu_instance_id": part.gpu_instance,
                    "compute_instance_id": 0,
                    "memory_used_bytes": used,
                    "memory_total_bytes": part.memory_bytes,
                    "utilization_percent": None,
                }
            )
    return _by_column(rows, "device_index")


def _processes(host: DemoHost, t: float, values: list[Measured | None]) -> Message:
    rows = []
    for position, value in enumerate(values):
        if value is None:
            continue
        if host.is_mig:
            for index, part in enumerate(slices(host, position)):
                job, used = slice_memory(host, position, index, t)
                if job is not None:
                    rows.append(_process(host, job, position, used - 25 * MIB, position * 8 + index, part.gpu_instance))
            continue
        lane = lane_of(host, position)
        job = job_at(host, lane, t)
        if job is not None:
            number = rank(host, lane.first, position)
            rows.append(_process(host, job, position, job_memory(host, job, number, t), position, None, value))
    return _by_column(rows, "device_index", "pid")


def _process(
    host: DemoHost,
    job: Job,
    position: int,
    memory_bytes: int,
    number: int,
    gpu_instance: int | None,
    value: Measured | None = None,
) -> Message:
    return {
        "device_index": position,
        "pid": 4000 + mix(host.key, job.key) % 900000 + 3 * number,
        "name": job.kind.name,
        "command": job.kind.command,
        "user": job.user,
        "kind": "compute",
        "memory_used_bytes": memory_bytes,
        "utilization_percent": None if value is None else max(0.0, value.utilization_percent - 1.0),
        "gpu_instance_id": gpu_instance,
        "compute_instance_id": None if gpu_instance is None else 0,
        "container": job.kind.container,
        "job": None if job.kind.job is None else f"{job.kind.job} {job.number}",
        "started_at": round(job.start, 2),
        "started_ticks": int(job.start * 100),
    }


def _by_column(rows: list[Message], *keys: str) -> Message:
    """`rows` as columns; `keys` are the columns that a table has even without rows."""
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else keys)}


def _host_problems(host: DemoHost, trouble: Condition) -> list[problem.Problem]:
    if trouble.fault != "driver-mismatch":
        return []
    library = host.driver.rsplit(".", 1)[0] + ".127"
    detail = f"Failed to initialize NVML: Driver/library version mismatch\nNVML library version: {library}"
    return [problem.driver_mismatch(detail, f"driver {host.driver} is loaded, but its library is {library}")]


def _device_problems(trouble: Condition, t: float) -> Message:
    """By position, in the agent's own words."""
    found: Message = {}
    since = trouble.since or t
    if trouble.lost_device is not None:
        found[str(trouble.lost_device)] = [problem.device_lost("GPU is lost", since)]
    match trouble.fault:
        case "probe-hung":
            hung = problem.probe_hung("nvmlDeviceGetTotalEccErrors", t - since, since)
            found[str(trouble.faulty_device)] = [hung]
        case "requires-reset":
            found[str(trouble.faulty_device)] = [problem.requires_reset("GPU requires reset", since)]
    return found


@lru_cache(maxsize=16 * MOST_HOSTS)
def _uuid(*parts: int) -> str:
    text = f"{mix(*parts, 21):016x}{mix(*parts, 22):016x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
