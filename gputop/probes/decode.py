"""From lines of the wire protocol to complete, typed Frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from msgspec import UNSET, DecodeError, Meta, Struct, UnsetType, convert, defstruct, structs
from msgspec.json import Decoder
from msgspec.structs import fields

from gputop.domain.host import INTERVAL_SECONDS
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
from gputop.probes import plausible
from gputop.remote.wire import PROTOCOL_VERSION

_Interval = Annotated[float, Meta(ge=INTERVAL_SECONDS[0], le=INTERVAL_SECONDS[1])]
_Number = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_TYPES: dict[str, Any] = {"index": _Number, "device_index": _Number, "pid": _Number, "started_at": float | None}
"""Types on the wire of fields of rows, where they differ: a row means nothing without a good number, so that a bad one
costs the line."""


def _columns(name: str, row: type[Struct], required: Iterable[str], most: int) -> type[Struct]:
    """A struct with the fields of `row` as lists: the columns of a table of at most so many rows."""
    return defstruct(
        name,
        [
            (field.name, Annotated[list[kind], Meta(max_length=most)])  # type: ignore[valid-type]
            if field.name in required
            else (field.name, list[kind] | None, None)  # type: ignore[valid-type]
            for field in fields(row)
            for kind in [_TYPES.get(field.name, field.type)]
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
    _DeviceTable = _columns("_DeviceTable", Device, ("index",), plausible.DEVICES_MAX)
    _PartitionTable = _columns("_PartitionTable", Partition, ("device_index",), plausible.ROWS_MAX)
    _ProcessTable = _columns("_ProcessTable", ProcessReading, ("device_index", "pid"), plausible.ROWS_MAX)
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
    n: _Number
    t: float
    interval: _Interval
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
        self._route = ""
        self._facts = HostFacts()
        self._problems: tuple[Problem, ...] = ()
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
        self._route = line.route[: plausible.TEXT_CHARACTERS]
        self._facts = HostFacts(**plausible.values(HostFacts, structs.asdict(line.facts)))
        self._problems = plausible.problems(line.problems)
        self._columns, self._host = {}, {}
        self._partitions, self._processes = (), ()
        return None

    def frame(self, line: FrameLine, received_at: datetime) -> Frame | BadLine:
        """The complete Frame; a bad line leaves all carried values as they were."""
        if self._hello is None:
            return BadLine("a frame came before the hello")
        sampled_at = plausible.moment(line.t)
        if sampled_at is None:
            return BadLine(f"frame {line.n}: no time: {line.t:g}")
        columns = {name: getattr(line.columns, name) for name in line.columns.__struct_fields__}
        columns = {name: values for name, values in columns.items() if values is not UNSET}
        for name, values in columns.items():
            if values is not None and len(values) != len(self._devices):
                return BadLine(f"frame {line.n}: {name}: {len(values)} values for {len(self._devices)} devices")
        try:
            partitions = self._table(Partition, line.partitions, self._partitions)
            processes = self._table(ProcessReading, line.processes, self._processes)
        except ValueError as error:
            return BadLine(f"frame {line.n}: {error}")
        if any(not 0 <= position < len(self._devices) for position in line.device_problems):
            return BadLine(f"frame {line.n}: a problem of a device that is not there")
        self._partitions, self._processes = partitions, processes
        self._columns.update(plausible.columns(DeviceReading, columns))
        host = {name: getattr(line.host, name) for name in line.host.__struct_fields__}
        host = {name: value for name, value in host.items() if value is not UNSET}
        self._host.update(plausible.values(HostReading, host))
        return Frame(
            sequence=line.n,
            sampled_at=sampled_at,
            received_at=received_at,
            interval_seconds=line.interval,
            route=self._route,
            facts=self._facts,
            host=HostReading(**self._host),
            devices=self._devices,
            columns=DeviceColumns(**self._columns),
            partitions=partitions,
            processes=processes,
            problems=self._problems + plausible.problems(line.problems),
            device_problems={
                position: plausible.problems(problems) for position, problems in line.device_problems.items()
            },
            events=tuple(_event(row) for row in line.events[-plausible.ROWS_MAX :]),
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


def _event(row: EventRow) -> DeviceEvent:
    told = plausible.values(DeviceEvent, structs.asdict(row))
    return DeviceEvent(**{**told, "at": plausible.moment(row.at)})


def _rows(row: Any, table: Struct) -> Iterator[Any]:
    """Columns as structs of type `row`. Raises `ValueError` when they differ in length."""
    sent = {name: values for name in table.__struct_fields__ if (values := getattr(table, name)) is not None}
    present = plausible.columns(row, sent)
    if "started_at" in present:
        present["started_at"] = [plausible.moment(seconds) for seconds in present["started_at"]]
    names = tuple(present)
    for values in zip(*present.values(), strict=True):
        yield row(**dict(zip(names, values, strict=True)))
