"""Processes and kernel events of a host as labeled lines. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo

from gputop.catalog import format as show
from gputop.catalog.text import clean
from gputop.catalog.words import EVENT_ADVICE, event_name
from gputop.domain.host import Host
from gputop.domain.reading import DeviceEvent, Frame, ProcessReading
from gputop.export.groups import Group, Item, Tone, age_words, memory, moment, not_known
from gputop.fleet.attribution import unattributed_bytes
from gputop.fleet.occupancy import FRESH, has_values
from gputop.health.bursts import Folded, bursts, same_device

SEVERE = frozenset({"rma", "reboot", "reset"})
CALM = frozenset({"app", "info"})


def processes_group(host: Host, as_of: datetime, zone: tzinfo | None) -> Group:
    """Each process on devices with its owner, most memory first, and memory that no process holds."""
    frame = host.frame
    if frame is None or not has_values(host):
        return Group("Processes", (), absence=not_known(host))
    found: dict[int, list[ProcessReading]] = {}
    for process in frame.processes:
        found.setdefault(process.pid, []).append(process)
    items = [_process(frame, readings, as_of, zone) for readings in sorted(found.values(), key=_held, reverse=True)]
    unseen = [device.index for position, device in enumerate(frame.devices)
              if not frame.value("processes_known", position)]  # fmt: skip
    if unseen:
        which = "" if len(unseen) == len(frame.devices) else f" of GPU {show.numbers(unseen)}"
        items.append(Item("not known", f"the list of processes{which} could not be read", tone="warn"))
    for position, device in enumerate(frame.devices):
        size = unattributed_bytes(frame, position)
        if size:
            words = f"{memory(size)} of GPU {device.index}, held by no process that can be seen"
            items.append(Item("unattributed", words, tone="warn"))
    return Group("Processes", tuple(items), age_words(host, as_of), "none")


def _held(readings: list[ProcessReading]) -> int:
    return sum(reading.memory_used_bytes or 0 for reading in readings)


def _process(frame: Frame, readings: list[ProcessReading], as_of: datetime, zone: tzinfo | None) -> Item:
    """`pid 88412   alice  GPU 0-3  156 GiB  since Mon 09:12, 5 h 02 m ago  slurm 57381  python train.py`."""
    one = readings[0]
    sizes = [reading.memory_used_bytes for reading in readings if reading.memory_used_bytes is not None]
    words = [
        one.user or "owner not known",
        f"GPU {show.numbers(sorted({frame.devices[reading.device_index].index for reading in readings}))}",
        memory(sum(sizes)) if sizes else "memory not known",
        f"since {started}" if (started := moment(one.started_at, as_of, zone)) else None,
        one.job,
        one.container and f"container {one.container}",
    ]
    command = one.command or one.name or "what it is cannot be seen"
    return Item(f"pid {one.pid}", clean("  ".join(filter(None, words))), clean(command))


def events_of_device(host: Host, address: str | None) -> tuple[DeviceEvent, ...]:
    return tuple(event for event in host.events if same_device(event.pci_bus_id, address))


def events_group(host: Host, events: Sequence[DeviceEvent], as_of: datetime, zone: tzinfo | None) -> Group:
    """Bursts, newest first; each with its root, what that asks for, and what else was logged with it."""
    items = []
    for burst in reversed(bursts(events)):
        for number, line in enumerate(burst.folded):
            items.append(_event(host, line, as_of, zone, is_root=not number))
    return Group("Kernel events", tuple(items), absence=_no_events(host))


def _no_events(host: Host) -> str:
    """Why there are none: only a log that was read is known to be silent."""
    if host.frame is None:
        return not_known(host)
    if host.frame.facts.kernel_log is None and host.frame.interval_seconds:
        return "not known: the kernel log is not followed"
    return "nothing was logged" if host.link.state in FRESH else "nothing was logged until the last reading"


def _event(host: Host, line: Folded, as_of: datetime, zone: tzinfo | None, *, is_root: bool) -> Item:
    event = line.first
    at = show.clock_time(event.at, as_of, zone) if event.at else "no time"
    times = f"{line.times:,} times" if line.times > 1 else None
    words = [event_name(event), device_name(host, event), event.message, times]
    advice = EVENT_ADVICE.get(event.severity) if is_root else None
    notes = [event.meaning if is_root else None, advice and f"→ {advice}"]
    tone: Tone = "bad" if event.severity in SEVERE else "" if event.severity in CALM else "warn"
    text = clean("  ".join(filter(None, words)))
    return Item(at if is_root else "", text, clean("; ".join(filter(None, notes))), tone)


def device_name(host: Host, event: DeviceEvent) -> str:
    """The device by its number where it is known, else by its address."""
    for device in host.frame.devices if host.frame is not None else ():
        if same_device(event.pci_bus_id, device.pci_bus_id):
            return f"GPU {device.index}"
    return event.pci_bus_id or ""
