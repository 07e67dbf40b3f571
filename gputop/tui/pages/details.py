"""Everything known about one row."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec.structs import asdict

from gputop.fleet.attribution import unattributed_bytes
from gputop.tui.draw import Span, Spans, remote
from gputop.tui.look import Look
from gputop.tui.pages.blocks import hanging
from gputop.tui.rows import GpuRow, ProcessRow, Row


def row_page(row: Row, look: Look, width: int) -> list[Spans]:
    """All values of a row under their names in the JSON output."""
    lines: list[Spans] = []
    for title, values in _sections(row):
        lines += [((" ", "text"),), ((f" {title}", "strong"),)]
        for name, value in values.items():
            lines += hanging(((f"   {remote(name):<32}", "dim"),), _value(value, look), width)
    return [look.plain(line) for line in lines]


def _sections(row: Row) -> list[tuple[str, dict[str, Any]]]:
    host, frame = row.host, row.host.frame
    link = {"state": host.link.state.value, "since": host.link.since}
    if host.link.problem is not None:
        link |= asdict(host.link.problem)
    sections: list[tuple[str, dict[str, Any]]] = [("Link", link)]
    if isinstance(row, ProcessRow):
        sections += [(f"Process on device {reading.device_index}", asdict(reading)) for reading in row.readings]
    elif isinstance(row, GpuRow) and frame is not None:
        sections.append(("Device", asdict(row.device)))
        sections.append(("Values", asdict(frame.reading(row.position))))
        sections.append(("Unattributed", {"memory_used_bytes": unattributed_bytes(frame, row.position)}))
        sections += [(f"Partition {part.index}", asdict(part)) for part in row.partitions]
        sections += [("Problem", asdict(problem)) for problem in host.device_problems.get(row.position, ())]
        sections += [(f"Process {process.pid}", asdict(process)) for process in row.processes]
    elif frame is not None:
        sections += [("Facts", asdict(frame.facts)), ("Values", asdict(frame.host))]
    sections.append(("Inventory", asdict(host.spec)))
    return sections


def number_text(value: float) -> str:
    """In plain digits, with three behind the point at most; what is smaller than that keeps three that count."""
    if value and abs(value) < 0.001:
        return f"{value:.3g}"
    return f"{value:.3f}".rstrip("0").rstrip(".")


def _value(value: Any, look: Look) -> Span:
    match value:
        case None:
            return ("–", "faint")
        case float():
            return (number_text(value), "text")
        case datetime():
            return (value.astimezone(look.zone).isoformat(timespec="seconds"), "text")
        case dict():
            return (remote(" ".join(f"{name}={item}" for name, item in value.items())), "text")
        case list() | tuple():
            return (remote(" ".join(str(item) for item in value)), "text")
    return (remote(str(value)), "text")
