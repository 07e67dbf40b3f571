"""From lines of the wire protocol to complete, typed Frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import UNSET, DecodeError, Struct, UnsetType, convert, defstruct
from msgspec.json import Decoder
from msgspec.structs import asdict, fields

from gputop.domain.problem import Problem
from gputop.domain.reading import (
    Device,
    DeviceColumns,
    DeviceEvent,
    DeviceReading,
    Frame,
    HostFacts,
    HostReading,
    Partition,
    ProcessReading,
)
from gputop.remote.wire import PROTOCOL_VERSION


def _columns(
    name: str, row: type[Struct], required: Iterable[str], types: dict[str, Any] | None = None
) -> type[Struct]:
    """A struct with the fields of `row` as lists: the columns of a table."""
    return defstruct(
        name,
        [
            (field.name, list[kind]) if field.name in required else (field.name, list[kind] | None, None)  # type: ignore[valid-type]
            for field in fields(row)
            for kind in [(types or {}).get(field.name, field.type)]
        ],
        kw_only=True,
        module=__name__,
    )


def _optional(name: str, base: type[Struct], *, listed: bool) -> type[Struct]:
    """The fields of `base`, each of which may be left out (keep the last value) or `null` (not readable any more)."""
    return defstruct(
        name,
        [
            (field.name, (list[field.type] if listed else field.type) | UnsetType | None, UNSET)  # type: ignore[name-defined]
            for field in fields(base)
        ],
        module=__name__,
    )


if TYPE_CHECKING:
    _DeviceTable: TypeAlias = Any
    _PartitionTable: TypeAlias = Any
    _ProcessTable: TypeAlias = Any
    _MetricColumns: TypeAlias = Any
    _HostValues: TypeAlias = Any
else:
    _DeviceTable = _columns("_DeviceTable", Device, ("index",))
    _PartitionTable = _columns("_PartitionTable", Partition, ("device_index",))
    _ProcessTable = _columns("_ProcessTable", ProcessReading, ("device_index", "pid"), {"started_at": float | None})
    _MetricColumns = _optional("_MetricColumns", DeviceReading, listed=True)
    _HostValues = _optional("_HostValues", HostReading, listed=False)


class EventRow(Struct):
    """`DeviceEvent` with its time in seconds since the epoch, UTC."""

    kind: str
    message: str
    at: float | None = None
    code: int | None = None
    pci_bus_id: str | None = None
    pid: int | None = None
    process: str | None = None
    severity: str | None = None
    uptime_seconds: float | None = None


class HelloLine(Struct, tag_field="k", tag="hello"):
    v: int
    route: str
    interval: float
    facts: HostFacts
    devices: _DeviceTable
    problems: tuple[Problem, ...] = ()


class FrameLine(Struct, tag_field="k", tag="frame"):
    n: int
    t: float
    interval: float
    host: _HostValues
    columns: _MetricColumns
    partitions: _PartitionTable | UnsetType | None = UNSET
    processes: _ProcessTable | UnsetType | None = UNSET
    problems: tuple[Problem, ...] = ()
    device_problems: dict[int, tuple[Problem, ...]] = {}
    events: tuple[EventRow, ...] = ()


class ByeLine(Struct, tag_field="k", tag="bye"):
    reason: str = ""


class BadLine(Struct, frozen=True):
    """A line of ours that makes no sense. It is dropped."""

    reason: str


Line = HelloLine | FrameLine | ByeLine

_decoder = Decoder(Line)


def decode(body: bytes) -> Line | BadLine:
    """One line of the wire protocol, types checked."""
    try:
        line: Line = _decoder.decode(body)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        return BadLine(str(error))
    return line


def line_of(message: dict[str, Any]) -> Line | BadLine:
    """The same from a message that never was bytes."""
    try:
        line: Line = convert(message, Line, str_keys=True)
    except DecodeError as error:
        return BadLine(str(error))
    return line


class Assembler:
    """Turns hello and frame lines of one session into complete Frames: carries what a line leaves out."""

    def __init__(self) -> None:
        self._hello: HelloLine | None = None
        self._devices: tuple[Device, ...] = ()
        self._columns: dict[str, Any] = {}
        self._host: dict[str, Any] = {}
        self._partitions: tuple[Partition, ...] = ()
        self._processes: tuple[ProcessReading, ...] = ()

    @property
    def greeted(self) -> bool:
        """A hello has come."""
        return self._hello is not None

    def hello(self, line: HelloLine) -> BadLine | None:
        if line.v != PROTOCOL_VERSION:
            return BadLine(f"the agent speaks version {line.v} of the protocol, not {PROTOCOL_VERSION}")
        try:
            devices = tuple(_rows(Device, line.devices))
        except ValueError as error:
            return BadLine(f"hello: devices: {error}")
        self._hello, self._devices = line, devices
        self._columns, self._host = {}, {}
        self._partitions, self._processes = (), ()
        return None

    def frame(self, line: FrameLine, received_at: datetime) -> Frame | BadLine:
        """The complete Frame; a bad line leaves all carried values as they were."""
        if self._hello is None:
            return BadLine("a frame came before the hello")
        try:
            sampled_at = datetime.fromtimestamp(line.t, UTC)
        except (ValueError, OverflowError, OSError) as error:
            return BadLine(f"frame {line.n}: time: {error}")
        columns = {name: getattr(line.columns, name) for name in line.columns.__struct_fields__}
        columns = {name: values for name, values in columns.items() if values is not UNSET}
        for name, values in columns.items():
            if values is not None and len(values) != len(self._devices):
                return BadLine(f"frame {line.n}: {name}: {len(values)} values for {len(self._devices)} devices")
        try:
            partitions = self._table(Partition, line.partitions, self._partitions)
            processes = self._table(ProcessReading, line.processes, self._processes)
            events = tuple(DeviceEvent(**{**asdict(row), "at": _time(row.at)}) for row in line.events)
        except ValueError as error:
            return BadLine(f"frame {line.n}: {error}")
        if any(not 0 <= position < len(self._devices) for position in line.device_problems):
            return BadLine(f"frame {line.n}: a problem of a device that is not there")
        self._partitions, self._processes = partitions, processes
        self._columns.update(columns)
        self._host.update(
            (name, value) for name in line.host.__struct_fields__ if (value := getattr(line.host, name)) is not UNSET
        )
        return Frame(
            sequence=line.n,
            sampled_at=sampled_at,
            received_at=received_at,
            interval_seconds=line.interval,
            route=self._hello.route,
            facts=self._hello.facts,
            host=HostReading(**self._host),
            devices=self._devices,
            columns=DeviceColumns(**self._columns),
            partitions=partitions,
            processes=processes,
            problems=self._hello.problems + line.problems,
            device_problems=line.device_problems,
            events=events,
        )

    def _table(self, row: Any, table: Any, carried: tuple[Any, ...]) -> tuple[Any, ...]:
        if table is UNSET:
            return carried
        if table is None:
            return ()
        rows = tuple(_rows(row, table))
        for one in rows:
            if not 0 <= one.device_index < len(self._devices):
                raise ValueError(f"{row.__name__} of device {one.device_index}, which is not there")
        return rows


def _rows(row: Any, table: Struct) -> Iterator[Any]:
    """Columns as structs of type `row`. Raises `ValueError` when they differ in length."""
    present = {name: values for name in table.__struct_fields__ if (values := getattr(table, name)) is not None}
    if "started_at" in present:
        present["started_at"] = [_time(seconds) for seconds in present["started_at"]]
    names = tuple(present)
    for values in zip(*present.values(), strict=True):
        yield row(**dict(zip(names, values, strict=True)))


def _time(seconds: float | None) -> datetime | None:
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError) as error:
        raise ValueError(f"no time: {seconds}") from error
