"""The fleet as CSV: one row a device, units in the names, an empty field where a value could not be read.

A host without any device gets one row that says why, so that no trouble is left out. Lists are joined by `;`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from io import StringIO
from typing import Any

from msgspec.structs import fields

from gputop.catalog.text import clean
from gputop.domain.host import Host
from gputop.domain.reading import DEVICE_METRICS, Device, Frame
from gputop.fleet.fleet import Fleet
from gputop.fleet.occupancy import occupancies

HOST_COLUMNS = (
    "as_of",
    "host",
    "address",
    "groups",
    "link_state",
    "link_problem",
    "age_seconds",
    "route",
    "driver_version",
    "cuda_version",
)
IDENTITY_COLUMNS = tuple(field.name for field in fields(Device))
LAST_COLUMNS = ("occupancy", "partitions", "processes", "users", "jobs", "problems")
COLUMNS = (*HOST_COLUMNS, *IDENTITY_COLUMNS, *DEVICE_METRICS, *LAST_COLUMNS)

_FORMULA = ("=", "+", "-", "@")
"""A spreadsheet would compute a text that begins so."""


def to_csv(fleet: Fleet) -> str:
    """Header and rows, ended by line feeds."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for host in fleet:
        writer.writerows([_field(value) for value in row] for row in _rows(host, fleet.as_of))
    return text.getvalue()


def _rows(host: Host, as_of: datetime) -> Iterator[list[Any]]:
    own = _host(host, as_of)
    frame = host.frame
    if frame is None or not frame.devices:
        problems = "; ".join(problem.summary for problem in host.problems)
        yield [*own, *[None] * (len(COLUMNS) - len(own) - 1), problems or None]
        return
    words = occupancies(host)
    for position, device in enumerate(frame.devices):
        yield [
            *own,
            *(getattr(device, name) for name in IDENTITY_COLUMNS),
            *(frame.value(name, position) for name in DEVICE_METRICS),
            "free" if words[position] == "idle" else words[position],
            *_last(host, frame, position),
        ]


def _host(host: Host, as_of: datetime) -> list[Any]:
    frame, age, reached = host.frame, host.age_seconds(as_of), host.endpoint or host.spec
    return [
        as_of,
        host.name,
        reached.address,
        list(host.spec.groups),
        host.link.state.value,
        host.link.problem.summary if host.link.problem else None,
        None if age is None else round(age, 3),
        frame.route if frame else None,
        frame.facts.driver_version if frame else None,
        frame.facts.cuda_version if frame else None,
    ]


def _last(host: Host, frame: Frame, position: int) -> list[Any]:
    processes = frame.processes_of(position)
    known = frame.value("processes_known", position)
    return [
        len(frame.partitions_of(position)),
        len(processes) if known or processes else None,
        _distinct(process.user for process in processes),
        _distinct(process.job for process in processes),
        "; ".join(problem.summary for problem in host.device_problems.get(position, ())) or None,
    ]


def _distinct(texts: Iterable[str | None]) -> list[str]:
    return sorted({text for text in texts if text})


def _field(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case list():
            return _field(";".join(value))
        case str():
            text = clean(value)
            return f"'{text}" if text.startswith(_FORMULA) else text
        case _:
            return str(value)
