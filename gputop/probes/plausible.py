"""What a server says, brought within reason: it is untrusted, and a driver may answer nonsense as well.

A value that cannot be true costs that value alone, so that it never reaches a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from types import NoneType
from typing import Any, get_args, get_type_hints

from msgspec import Struct
from msgspec.structs import replace

from gputop.domain.problem import Problem
from gputop.domain.reading import (
    Device,
    DeviceEvent,
    DeviceReading,
    HostFacts,
    HostReading,
    Partition,
    ProcessReading,
)

DEVICES_MAX = 1024
"""Of one host; the inventory expects no more either."""
ROWS_MAX = 16_384
"""Processes, or partitions, of one host."""
TEXT_CHARACTERS = 4096
"""Of one text; the agent cuts command lines there."""
LISTED_MAX = 32
"""Texts in one value that is a list."""
PROBLEMS_MAX = 64
SUMMARY_CHARACTERS = 400
DETAIL_CHARACTERS = 2000

_EARLIEST = 0.0
_LATEST = datetime(2200, 1, 1, tzinfo=UTC).timestamp()
_EPOCH = datetime.fromtimestamp(0, UTC)

_COUNTER = (0, 2**63)
_OF_FIELD = {"fan_percent": (0, 200)}  # a fan may turn faster than its rated speed
_OF_UNIT = {
    "_percent": (0, 100),
    "_celsius": (-100, 1000),
    "_watts": (0, 100_000),
    "_mhz": (0, 100_000),
    "_bytes": (0, 2**60),
    "_bytes_per_second": (0, 2**60),
}
"""Lowest and highest value by the last words of a field's name."""

Column = list[Any]


def _rule(name: str, kind: Any) -> Callable[[Column], Column] | None:
    """What brings a column of values within reason: numbers that may be absent, texts, lists of texts."""
    kinds = {kind, *get_args(kind)}
    if str in kinds:
        return _short
    if list[str] in kinds:
        return _short_lists
    if kinds & {int, float} and NoneType in kinds:
        low, high = _OF_FIELD.get(name) or next((_OF_UNIT[unit] for unit in _OF_UNIT if name.endswith(unit)), _COUNTER)
        return partial(_within, low=low, high=high)
    return None


def _within(column: Column, low: int, high: int) -> Column:
    return [value if value is not None and low <= value <= high else None for value in column]


def _short(column: Column) -> Column:
    return [value and value[:TEXT_CHARACTERS] for value in column]


def _short_lists(column: Column) -> Column:
    return [value and _short(value[:LISTED_MAX]) for value in column]


_RULES: dict[type[Struct], dict[str, Callable[[Column], Column]]] = {
    struct: {name: rule for name, kind in get_type_hints(struct).items() if (rule := _rule(name, kind)) is not None}
    for struct in (Device, DeviceEvent, DeviceReading, HostFacts, HostReading, Partition, ProcessReading)
}


def columns(struct: type[Struct], found: Mapping[str, Column | None]) -> dict[str, Any]:
    """`found`, lists of values of `struct` by field name, without values that cannot be true."""
    rules = _RULES[struct]
    return {
        name: rules[name](column) if column is not None and name in rules else column for name, column in found.items()
    }


def values(struct: type[Struct], found: Mapping[str, Any]) -> dict[str, Any]:
    """The same for single values."""
    one = columns(struct, {name: [value] for name, value in found.items()})
    return {name: column[0] for name, column in one.items()}


def moment(seconds: float | None) -> datetime | None:
    """Seconds since the epoch as a time; `None` for one that nobody means: far times break time zones."""
    return datetime.fromtimestamp(seconds, UTC) if seconds is not None and _EARLIEST <= seconds < _LATEST else None


def problems(found: Sequence[Problem]) -> tuple[Problem, ...]:
    """`found` with texts and number of a size for people."""
    return tuple(
        replace(
            problem,
            summary=problem.summary[:SUMMARY_CHARACTERS],
            detail=problem.detail and problem.detail[:DETAIL_CHARACTERS],
            hint=problem.hint and problem.hint[:SUMMARY_CHARACTERS],
            since=_near(problem.since),
        )
        for problem in found[:PROBLEMS_MAX]
    )


def _near(at: datetime | None) -> datetime | None:
    if at is None or at.tzinfo is None:
        return None
    return moment((at - _EPOCH) / timedelta(seconds=1))
