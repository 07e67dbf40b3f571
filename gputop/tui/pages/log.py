"""The kernel log of a server, or of one row: events in bursts, each under its root. Pure functions to lines."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.catalog import format as show
from gputop.catalog.words import EVENT_ADVICE, event_name
from gputop.domain.host import Host
from gputop.domain.reading import DeviceEvent
from gputop.export.activity_groups import device_name
from gputop.fleet.reduce import EVENTS_LENGTH
from gputop.health.bursts import Burst, Folded, bursts, same_device
from gputop.tui.draw import Span, Spans, remote
from gputop.tui.look import Look
from gputop.tui.rows import GpuRow, ProcessRow, Row, devices_of

SIGNS: dict[str | None, Span] = {
    "rma": ("✕", "bad"),
    "reboot": ("✕", "bad"),
    "reset": ("✕", "bad"),
    "restart": ("▲", "warn"),
    "sw": ("▲", "warn"),
    "warn": ("▲", "warn"),
    "app": ("·", "dim"),
    "info": ("·", "dim"),
}


def events_of(row: Row, host: Host) -> tuple[DeviceEvent, ...]:
    """Events of `host` about the row: of a host all, of a GPU its own, of a process its own and those of its GPUs."""
    if isinstance(row, GpuRow):
        return tuple(event for event in host.events if same_device(event.pci_bus_id, row.device.pci_bus_id))
    if isinstance(row, ProcessRow):
        buses = [devices_of(row.host)[reading.device_index].pci_bus_id for reading in row.readings]
        return tuple(
            event
            for event in host.events
            if event.pid == row.pid or any(same_device(event.pci_bus_id, bus) for bus in buses)
        )
    return host.events


def log_page(host: Host, events: Sequence[DeviceEvent], look: Look) -> list[Spans]:
    """Bursts, newest first; each with its root, what it asks for, and what else was logged with it."""
    lines: list[Spans] = [((" ", "text"),), _source(host)]
    for burst in reversed(bursts(events)):
        lines.append(((" ", "text"),))
        lines += _burst(host, burst, look)
    if not events:
        lines += [((" ", "text"),), (("  nothing was logged", "dim"),)]
    if len(host.events) >= EVENTS_LENGTH:
        lines += [((" ", "text"),), ((f"  older events are not kept: only the newest {EVENTS_LENGTH:,}", "dim"),)]
    return [look.plain(line) for line in lines]


def latest(host: Host, events: Sequence[DeviceEvent], look: Look, most: int) -> list[Spans]:
    """The roots of the newest bursts, one line each."""
    lines: list[Spans] = []
    for burst in list(reversed(bursts(events)))[:most]:
        others = len(burst.events) - 1
        beside = f"   and {others} more" if others else ""
        lines.append((*_head(host, Folded(burst.root, 1), look), (beside, "dim")))
    return [look.plain(line) for line in lines]


def _source(host: Host) -> Spans:
    facts = host.frame.facts if host.frame else None
    if facts is not None and facts.kernel_log is not None:
        words = f"  read from {facts.kernel_log}, since the server started; a burst ends with 3 minutes of silence"
    elif host.frame is not None and not host.frame.interval_seconds:
        words = "  as far as the file goes"
    else:
        words = "  the kernel log is not followed here"
    return ((remote(words), "dim"),)


def _burst(host: Host, burst: Burst, look: Look) -> list[Spans]:
    root, *others = burst.folded
    lines: list[Spans] = [_head(host, root, look)]
    event = burst.root
    if event.meaning and event.meaning.lower() not in event.message.lower():
        lines.append((("     " + remote(event.meaning), "text"),))
    if event.severity in EVENT_ADVICE:
        lines.append((("     → ", "accent"), (EVENT_ADVICE[event.severity], "text")))
    if event.pid is not None or event.process:
        who = " ".join(part for part in (event.process, f"pid {event.pid}" if event.pid is not None else None) if part)
        lines.append((("     " + remote(who), "dim"),))
    lines += [(("   ", "text"), *_head(host, line, look)) for line in others]
    return lines


def _head(host: Host, line: Folded, look: Look) -> Spans:
    """`  ✕ 13:05  Xid 79  GPU 5  GPU has fallen off the bus   3 times`."""
    event = line.first
    sign, style = SIGNS.get(event.severity, ("·", "dim"))
    at = show.clock_time(event.at, look.as_of, look.zone) if event.at else ""
    times = f"   {line.times:,} times" if line.times > 1 else ""
    return (
        (f"  {sign} ", style),
        (f"{at:>16}  ", "dim"),
        (f"{remote(event_name(event))}  ", "strong"),
        (f"{remote(device_name(host, event))}  ", "text"),
        (remote(event.message), "text"),
        (times, "accent"),
    )
