"""Values measured at one instant.

Field names carry the field's own units and are the keys of the JSON output. `None` means "could not be read" and is
never 0. `Frame.columns` keeps the values of all devices as lists, the way they travel; `Frame.reading(i)` gives one
device's values as a struct.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, defstruct
from msgspec.structs import fields

from gputop.domain.problem import Problem

DeviceState = Literal["ok", "lost", "error", "excluded"]
"""`lost`: known to be there, does not answer. `error`: answers only with errors, or a call on it hangs."""

ProcessKind = Literal["compute", "graphics", "both"]


class Device(Struct, frozen=True, kw_only=True):
    """Identity of one accelerator, fixed while it is plugged in."""

    index: int
    """As the vendor's tool numbers it; shifts when a device drops, so never a key across frames."""
    uuid: str | None = None
    pci_bus_id: str | None = None
    """As the tool prints it, domain included when it gives one."""
    vendor: str = "nvidia"
    model: str | None = None
    serial: str | None = None
    minor_number: int | None = None

    @property
    def key(self) -> str:
        """Stable key within a host: uuid, else bus id, else the index."""
        return self.uuid or self.pci_bus_id or f"#{self.index}"

    @property
    def label(self) -> str:
        """`GPU 5 (00000000:9B:00.0)`, as people find it again."""
        return f"GPU {self.index} ({self.pci_bus_id})" if self.pci_bus_id else f"GPU {self.index}"


class DeviceReading(Struct, frozen=True, kw_only=True):
    """Values of one device. Percentages 0 to 100; MiB of tools are converted to bytes (1,048,576)."""

    state: DeviceState = "ok"
    utilization_percent: float | None = None
    memory_utilization_percent: float | None = None
    """Share of time memory was read or written; not its fill level."""
    encoder_utilization_percent: float | None = None
    decoder_utilization_percent: float | None = None
    memory_used_bytes: int | None = None
    """Without the driver's reserved part where the driver splits it out."""
    memory_total_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    bar1_used_bytes: int | None = None
    bar1_total_bytes: int | None = None
    temperature_celsius: float | None = None
    memory_temperature_celsius: float | None = None
    temperature_slowdown_celsius: float | None = None
    temperature_shutdown_celsius: float | None = None
    fan_percent: float | None = None
    power_watts: float | None = None
    """The tool's main figure (`power.draw`); where only instant or average exist: instant, else average."""
    power_average_watts: float | None = None
    power_instant_watts: float | None = None
    power_limit_watts: float | None = None
    power_default_limit_watts: float | None = None
    energy_joules: float | None = None
    """Since the driver was loaded."""
    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    sm_clock_max_mhz: float | None = None
    memory_clock_max_mhz: float | None = None
    performance_state: str | None = None
    """`P0` (fastest) to `P15`."""
    compute_mode: str | None = None
    """`default`, `exclusive-process` or `prohibited`."""
    persistence_mode: bool | None = None
    throttle_reasons: list[str] | None = None
    """Of: idle app_clocks sw_power_cap hw_slowdown sync_boost sw_thermal hw_thermal hw_power_brake display_clocks.
    `[]`: none is active; `None`: not readable."""
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    pcie_tx_bytes_per_second: float | None = None
    pcie_rx_bytes_per_second: float | None = None
    pcie_replay_count: int | None = None
    nvlink_links_active: int | None = None
    nvlink_links_total: int | None = None
    nvlink_tx_bytes_per_second: float | None = None
    nvlink_rx_bytes_per_second: float | None = None
    nvlink_error_count: int | None = None
    ecc_mode: str | None = None
    """`enabled` or `disabled`."""
    ecc_pending_mode: str | None = None
    ecc_corrected_volatile: int | None = None
    ecc_uncorrected_volatile: int | None = None
    ecc_corrected_aggregate: int | None = None
    ecc_uncorrected_aggregate: int | None = None
    remapped_rows_corrected: int | None = None
    remapped_rows_uncorrected: int | None = None
    remapped_rows_pending: bool | None = None
    remapped_rows_failed: bool | None = None
    retired_pages_single_bit: int | None = None
    retired_pages_double_bit: int | None = None
    retired_pages_pending: bool | None = None
    recovery_action: str | None = None
    """`none`, `gpu-reset`, `node-reboot`, `drain-p2p`, `drain-and-reset` or `other`."""
    mig_mode: str | None = None
    """`None`: not capable; `disabled` or `enabled`."""
    processes_known: bool = False
    """`False`: the process list could not be read, so an empty one says nothing."""


DEVICE_METRICS: tuple[str, ...] = tuple(field.name for field in fields(DeviceReading))
"""Names of all per-device values: the possible column names on the wire."""

_COLUMN_DEFAULTS: dict[str, Any] = {"state": "ok", "processes_known": False}


def _column(self: DeviceColumns, name: str) -> list[Any] | None:
    """Values of metric `name`, one a device; `None` when the column was not sent."""
    values: list[Any] | None = getattr(self, name)
    return values


if TYPE_CHECKING:

    class DeviceColumns(Struct, frozen=True, kw_only=True):
        """The fields of `DeviceReading` as lists over the devices of one host; `None`: no device has that value."""

        column = _column

else:
    DeviceColumns = defstruct(
        "DeviceColumns",
        [(field.name, list[field.type] | None, None) for field in fields(DeviceReading)],
        namespace={
            "column": _column,
            "__doc__": "The fields of `DeviceReading` as lists over the devices of one host.",
        },
        module=__name__,
        frozen=True,
        kw_only=True,
    )


class Partition(Struct, frozen=True, kw_only=True):
    """A slice of a device that can be scheduled alone."""

    device_index: int
    """Position of the parent in `Frame.devices`."""
    kind: str = "mig"
    index: int = 0
    uuid: str | None = None
    profile: str | None = None
    """As the vendor names it, such as `3g.40gb`."""
    gpu_instance_id: int | None = None
    compute_instance_id: int | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    utilization_percent: float | None = None


class ProcessReading(Struct, frozen=True, kw_only=True):
    """A process on a device. Names, commands and users are untrusted text."""

    device_index: int
    """Position of the device in `Frame.devices`."""
    pid: int
    name: str | None = None
    command: str | None = None
    """The whole command line, arguments joined by blanks."""
    user: str | None = None
    kind: ProcessKind | None = None
    memory_used_bytes: int | None = None
    utilization_percent: float | None = None
    gpu_instance_id: int | None = None
    compute_instance_id: int | None = None
    container: str | None = None
    job: str | None = None
    started_at: datetime | None = None
    started_ticks: int | None = None
    """Field 22 of /proc/PID/stat, clock ticks after boot: with it no other process that has the number by then is taken
    for this one."""


class HostFacts(Struct, frozen=True, kw_only=True):
    """What does not change while the server is up."""

    hostname: str | None = None
    kernel_version: str | None = None
    boot_id: str | None = None
    machine_id: str | None = None
    cores: int | None = None
    driver_version: str | None = None
    cuda_version: str | None = None
    """The highest CUDA version that the driver supports; not the toolkit's."""
    os_name: str | None = None
    python_version: str | None = None
    kernel_log: str | None = None
    """How the kernel log is followed: `/dev/kmsg`, `dmesg` or `journalctl`; `None`: it is not."""


class HostReading(Struct, frozen=True, kw_only=True):
    """Values of the server itself."""

    uptime_seconds: float | None = None
    cpu_utilization_percent: float | None = None
    load_1m: float | None = None
    memory_used_bytes: int | None = None
    """MemTotal minus MemAvailable."""
    memory_total_bytes: int | None = None
    agent_cpu_seconds: float | None = None
    """CPU time that the agent has used since it started."""
    agent_memory_bytes: int | None = None
    drain_marker: str | None = None
    """What /run/gputop/drain.json holds: somebody wants no new work there. Empty: there is none. Untrusted text."""


class DeviceEvent(Struct, frozen=True, kw_only=True):
    """One line of a server's log about a device: an Xid, an SXid, a device that fell off the bus."""

    at: datetime | None = None
    """UTC; `None` where the log has no date, such as seconds since boot."""
    kind: str
    """`xid`, `sxid`, `fell-off-bus`, …"""
    code: int | None = None
    pci_bus_id: str | None = None
    pid: int | None = None
    process: str | None = None
    message: str
    """The line without its time stamp. Untrusted text."""
    severity: str | None = None
    """What it asks for, of `health.xid.SEVERITIES`; `None`: the catalog does not say."""
    meaning: str | None = None
    """What the catalog says of its kind and code."""
    uptime_seconds: float | None = None
    """Seconds since the start of the server, as the kernel stamped it; `None` where the log has other times."""


class Frame(Struct, frozen=True, kw_only=True):
    """All readings of one host at one instant. Complete in itself: what one wire line leaves out is carried on."""

    sequence: int
    sampled_at: datetime
    """The server's clock, UTC."""
    received_at: datetime
    """Our clock, UTC."""
    interval_seconds: float
    """Until the next frame; 0: read once from a file, no newer one will come."""
    route: str
    """How the values were read: `nvml`, `nvidia-smi`, …"""
    facts: HostFacts = HostFacts()
    host: HostReading = HostReading()
    devices: tuple[Device, ...] = ()
    columns: DeviceColumns = DeviceColumns()
    partitions: tuple[Partition, ...] = ()
    processes: tuple[ProcessReading, ...] = ()
    problems: tuple[Problem, ...] = ()
    """Of the host; those of one device are in `device_problems`."""
    device_problems: dict[int, tuple[Problem, ...]] = {}
    """By position in `devices`."""
    events: tuple[DeviceEvent, ...] = ()
    """Of the server's log, those that no earlier frame told of, oldest first."""

    def column(self, name: str) -> list[Any] | None:
        """Values of metric `name`, one a device, in the order of `devices`."""
        return self.columns.column(name)

    def value(self, name: str, position: int) -> Any:
        """Metric `name` of the device at `position`; `None` when it could not be read."""
        values = self.columns.column(name)
        return _COLUMN_DEFAULTS.get(name) if values is None else values[position]

    def reading(self, position: int) -> DeviceReading:
        """All values of the device at `position` of `devices`."""
        values = {}
        for name in DEVICE_METRICS:
            column = self.columns.column(name)
            if column is not None:
                values[name] = column[position]
        return DeviceReading(**values)

    def processes_of(self, position: int) -> tuple[ProcessReading, ...]:
        return tuple(process for process in self.processes if process.device_index == position)

    def partitions_of(self, position: int) -> tuple[Partition, ...]:
        return tuple(partition for partition in self.partitions if partition.device_index == position)
