"""A row as JSON, under the names of the JSON output."""

from __future__ import annotations

from msgspec import json, to_builtins

from gputop.export.document import document
from gputop.fleet.fleet import Fleet
from gputop.tui.rows import GpuRow, HostRow, ProcessRow, Row


def row_json(row: Row, fleet: Fleet) -> str:
    """The row as JSON, under the names of the JSON output."""
    found = to_builtins(document(Fleet(as_of=fleet.as_of, source=fleet.source, hosts={row.host.name: row.host})))
    host = found["hosts"][0]
    value: object = host
    match row:
        case HostRow():
            value = host
        case GpuRow():
            value = {"host": row.host.name, **host["devices"][row.position]}
        case ProcessRow():
            value = {
                "host": row.host.name,
                "devices": sorted({reading.device_index for reading in row.readings}),
                "processes": [to_builtins(reading) for reading in row.readings],
            }
    return json.format(json.encode(value), indent=2).decode()
