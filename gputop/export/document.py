"""The JSON document, key for key (docs/reference/json.md). A key is never renamed or given another unit within
`gputop/1`; values that could not be read are null."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, TypeVar

from msgspec import Meta, Struct
from msgspec.structs import asdict, fields

from gputop.domain.host import Host
from gputop.domain.link import LinkState
from gputop.domain.problem import Problem, ProblemKind
from gputop.domain.reading import (
    DEVICE_METRICS,
    DeviceEvent,
    DeviceState,
    Frame,
    Partition,
    ProcessKind,
    ProcessReading,
)
from gputop.fleet.fleet import Fleet
from gputop.fleet.occupancy import Occupancy, occupancies
from gputop.fleet.totals import totals

Moment = Annotated[datetime, Meta(tz=True)]
"""RFC 3339, UTC."""

Group = TypeVar("Group", bound=Struct)


class ProblemObject(Struct, frozen=True, kw_only=True):
    """One thing that is wrong. Text from a server in it is untrusted."""

    kind: ProblemKind
    summary: str
    detail: str | None
    hint: str | None
    since: Moment | None


class TotalsObject(Struct, frozen=True, kw_only=True):
    """Counts and sums over the fleet. Sums leave unknown values out; the sum of nothing known is null."""

    hosts: int
    hosts_ok: int
    devices: int
    devices_busy: int
    devices_idle: int
    devices_unknown: int
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    power_watts: float | None


class LinkObject(Struct, frozen=True, kw_only=True):
    """State of the connection to a host."""

    state: LinkState
    since: Moment
    problem: ProblemObject | None


class CpuObject(Struct, frozen=True, kw_only=True):
    cores: int | None
    utilization_percent: float | None
    load_1m: float | None


class AdminObject(Struct, frozen=True, kw_only=True):
    """Why a scheduler keeps jobs off a host."""

    scheduler: str
    reason: str | None
    user: str | None
    since: Moment | None


class PcieObject(Struct, frozen=True, kw_only=True):
    generation: int | None
    generation_max: int | None
    width: int | None
    width_max: int | None
    tx_bytes_per_second: float | None
    rx_bytes_per_second: float | None
    replay_count: int | None


class NvlinkObject(Struct, frozen=True, kw_only=True):
    links_active: int | None
    links_total: int | None
    tx_bytes_per_second: float | None
    rx_bytes_per_second: float | None
    error_count: int | None


class EccObject(Struct, frozen=True, kw_only=True):
    mode: str | None
    pending_mode: str | None
    corrected_volatile: int | None
    uncorrected_volatile: int | None
    corrected_aggregate: int | None
    uncorrected_aggregate: int | None


class RemappedRowsObject(Struct, frozen=True, kw_only=True):
    corrected: int | None
    uncorrected: int | None
    pending: bool | None
    failed: bool | None


class RetiredPagesObject(Struct, frozen=True, kw_only=True):
    single_bit: int | None
    double_bit: int | None
    pending: bool | None


class PartitionObject(Struct, frozen=True, kw_only=True):
    """A slice of a device that can be scheduled alone."""

    kind: str
    index: int
    uuid: str | None
    profile: str | None
    gpu_instance_id: int | None
    compute_instance_id: int | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    utilization_percent: float | None


class ProcessObject(Struct, frozen=True, kw_only=True):
    """A process on a device."""

    pid: int
    name: str | None
    command: str | None
    user: str | None
    kind: ProcessKind | None
    memory_used_bytes: int | None
    utilization_percent: float | None
    gpu_instance_id: int | None
    compute_instance_id: int | None
    container: str | None
    job: str | None
    started_at: Moment | None


class DeviceObject(Struct, frozen=True, kw_only=True):
    """One accelerator and its newest values."""

    index: int
    uuid: str | None
    pci_bus_id: str | None
    vendor: str
    model: str | None
    serial: str | None
    minor_number: int | None
    state: DeviceState
    utilization_percent: float | None
    memory_utilization_percent: float | None
    encoder_utilization_percent: float | None
    decoder_utilization_percent: float | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    memory_reserved_bytes: int | None
    bar1_used_bytes: int | None
    bar1_total_bytes: int | None
    temperature_celsius: float | None
    memory_temperature_celsius: float | None
    temperature_slowdown_celsius: float | None
    temperature_shutdown_celsius: float | None
    fan_percent: float | None
    power_watts: float | None
    power_average_watts: float | None
    power_instant_watts: float | None
    power_limit_watts: float | None
    power_default_limit_watts: float | None
    energy_joules: float | None
    sm_clock_mhz: float | None
    memory_clock_mhz: float | None
    sm_clock_max_mhz: float | None
    memory_clock_max_mhz: float | None
    performance_state: str | None
    compute_mode: str | None
    persistence_mode: bool | None
    throttle_reasons: list[str]
    pcie: PcieObject
    nvlink: NvlinkObject
    ecc: EccObject
    remapped_rows: RemappedRowsObject
    retired_pages: RetiredPagesObject
    recovery_action: str | None
    mig_mode: str | None
    partitions: list[PartitionObject]
    processes: list[ProcessObject]
    processes_known: bool
    occupancy: Literal[
        "free",
        "idle-held",
        "ghost-held",
        "busy-low",
        "busy",
        "hung-suspect",
        "reserved-idle",
        "excluded",
        "unknown",
    ]
    problems: list[ProblemObject]


class EventObject(Struct, frozen=True, kw_only=True):
    """One line of a server's log about a device."""

    at: Moment | None
    kind: str
    code: int | None
    pci_bus_id: str | None
    pid: int | None
    process: str | None
    message: str
    severity: str | None


class HostObject(Struct, frozen=True, kw_only=True):
    """One server."""

    name: str
    address: str | None
    user: str | None
    port: int | None
    jump: list[str]
    groups: list[str]
    labels: dict[str, str]
    link: LinkObject
    age_seconds: float | None
    clock_skew_seconds: float | None
    route: str | None
    driver_version: str | None
    cuda_version: str | None
    kernel_version: str | None
    boot_id: str | None
    machine_id: str | None
    uptime_seconds: float | None
    cpu: CpuObject
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    admin_state: Literal["schedulable", "draining", "drained", "down"] | None
    admin: AdminObject | None
    devices: list[DeviceObject]
    problems: list[ProblemObject]
    events: list[EventObject]


class Document(Struct, frozen=True, kw_only=True):
    """A fleet at one moment."""

    schema: Literal["gputop/1"]
    as_of: Moment
    source: Literal["ssh", "local", "file", "demo", "replay", "prometheus"]
    totals: TotalsObject
    hosts: list[HostObject]


_IDENTITY = ("index", "uuid", "pci_bus_id", "vendor", "model", "serial", "minor_number")
_VALUES = tuple(
    name for name in DEVICE_METRICS if name in DeviceObject.__struct_fields__ and name != "throttle_reasons"
)
_PARTITION = PartitionObject.__struct_fields__
_PROCESS = ProcessObject.__struct_fields__
_WORDS: dict[Occupancy, Literal["busy", "free", "unknown"]] = {"busy": "busy", "idle": "free", "unknown": "unknown"}


def document(fleet: Fleet) -> Document:
    """The whole fleet. A host that is not heard any more keeps its last values; `age_seconds` says how old they are."""
    return Document(
        schema="gputop/1",
        as_of=fleet.as_of,
        source=fleet.source,  # type: ignore[arg-type]
        totals=TotalsObject(**asdict(totals(fleet))),
        hosts=[_host(host, fleet.as_of) for host in fleet],
    )


def _host(host: Host, as_of: datetime) -> HostObject:
    spec, endpoint, frame = host.spec, host.endpoint, host.frame
    age = host.age_seconds(as_of)
    facts = frame.facts if frame else None
    values = frame.host if frame else None
    reached = endpoint or spec
    return HostObject(
        name=spec.name,
        address=reached.address,
        user=reached.user,
        port=None if spec.local else reached.port,
        jump=list(reached.jump or ()),
        groups=list(spec.groups),
        labels=spec.labels,
        link=LinkObject(
            state=host.link.state,
            since=host.link.since,
            problem=_problem(host.link.problem) if host.link.problem else None,
        ),
        age_seconds=None if age is None else round(age, 3),
        clock_skew_seconds=None if host.clock_skew_seconds is None else round(host.clock_skew_seconds, 3),
        route=frame.route if frame else None,
        driver_version=facts.driver_version if facts else None,
        cuda_version=facts.cuda_version if facts else None,
        kernel_version=facts.kernel_version if facts else None,
        boot_id=facts.boot_id if facts else None,
        machine_id=facts.machine_id if facts else None,
        uptime_seconds=values.uptime_seconds if values else None,
        cpu=CpuObject(
            cores=facts.cores if facts else None,
            utilization_percent=values.cpu_utilization_percent if values else None,
            load_1m=values.load_1m if values else None,
        ),
        memory_used_bytes=values.memory_used_bytes if values else None,
        memory_total_bytes=values.memory_total_bytes if values else None,
        admin_state=None,
        admin=None,
        devices=_devices(host, frame) if frame else [],
        problems=[_problem(problem) for problem in host.problems],
        events=[_event(event) for event in host.events],
    )


def _event(event: DeviceEvent) -> EventObject:
    return EventObject(**{name: getattr(event, name) for name in EventObject.__struct_fields__})


def _devices(host: Host, frame: Frame) -> list[DeviceObject]:
    partitions: list[list[PartitionObject]] = [[] for _ in frame.devices]
    for partition in frame.partitions:
        partitions[partition.device_index].append(_partition(partition))
    processes: list[list[ProcessObject]] = [[] for _ in frame.devices]
    for process in frame.processes:
        processes[process.device_index].append(_process(process))
    occupied = occupancies(host)
    return [
        DeviceObject(
            **{name: getattr(device, name) for name in _IDENTITY},
            **{name: frame.value(name, position) for name in _VALUES},
            pcie=_grouped(PcieObject, "pcie", frame, position),
            nvlink=_grouped(NvlinkObject, "nvlink", frame, position),
            ecc=_grouped(EccObject, "ecc", frame, position),
            remapped_rows=_grouped(RemappedRowsObject, "remapped_rows", frame, position),
            retired_pages=_grouped(RetiredPagesObject, "retired_pages", frame, position),
            throttle_reasons=frame.value("throttle_reasons", position) or [],
            partitions=partitions[position],
            processes=processes[position],
            occupancy=_WORDS[occupied[position]],
            problems=[_problem(problem) for problem in host.device_problems.get(position, ())],
        )
        for position, device in enumerate(frame.devices)
    ]


def _grouped(kind: type[Group], group: str, frame: Frame, position: int) -> Group:
    """The values of `DeviceReading` whose names begin with that of the object."""
    return kind(**{field.name: frame.value(f"{group}_{field.name}", position) for field in fields(kind)})


def _problem(problem: Problem) -> ProblemObject:
    return ProblemObject(**asdict(problem))


def _partition(partition: Partition) -> PartitionObject:
    return PartitionObject(**{name: getattr(partition, name) for name in _PARTITION})


def _process(process: ProcessReading) -> ProcessObject:
    return ProcessObject(**{name: getattr(process, name) for name in _PROCESS})
