"""Fatal events of a host since its boot, by its kernel log and by what its agent has told. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

from msgspec import Struct

from gputop.domain.call import CommandResult
from gputop.domain.host import Host
from gputop.domain.reading import DeviceEvent
from gputop.health.xid import Catalog
from gputop.remote.kernel_log import Clock, events

FATAL = frozenset({"reset", "reboot", "rma"})
"""What the catalog asks for after a fatal event: a device that has had it since boot does not get work."""

SAME_SECONDS = 2.0
"""Two sources that tell of one event may disagree by so much about when it was."""
FIRST_SECONDS = 30.0
"""A log whose first line is older, counted from boot, has lost nothing of it."""

LOOK = (
    'keep() { sed -n "1p;/NVRM/p;/SXid/p;/fallen off the bus/p"; }; '
    "ring=$(dmesg 2>/dev/null); case $ring in "
    '"[    "[0-9].*|*"Linux version"*) printf "%s\\n" "$ring" | keep; exit ;; esac; '
    "log=$(journalctl -q -k -b -o short-monotonic --no-pager 2>/dev/null | keep); "
    'if [ -n "$log" ]; then printf "%s\\n" "$log"; else printf "%s\\n" "$ring" | keep; fi'
)
"""The kernel log of this boot as far as it speaks of devices, and its first line. The ring that dmesg prints forgets
its beginning in time; the journal does not, but not everybody may read it. Whoever may read neither gets nothing."""

_STAMP = re.compile(r"^\[\s*(\d+\.\d+)\]")


class Fault(Struct, frozen=True, kw_only=True):
    """A fatal event since boot."""

    words: str
    """`Xid 79 on 0000:3b:00`."""
    uptime_seconds: float | None
    """Since boot, by the kernel's clock; `None`: not known, which no acknowledgment covers."""


class KernelLog(Struct, frozen=True, kw_only=True):
    """What could be read of a kernel log."""

    text: str
    whole: bool
    """It reaches back to the boot."""


def read_log(result: CommandResult) -> KernelLog | None:
    """`None`: it could not be read. An empty log is one that this account may not read: every boot writes to it."""
    first = result.text.strip().partition("\n")[0]
    if not result.ok or not first:
        return None
    stamp = _STAMP.match(first)
    whole = "Linux version" in first or (stamp is not None and float(stamp[1]) <= FIRST_SECONDS)
    return KernelLog(text=result.text, whole=whole)


def faults_of(host: Host, log: KernelLog | None, catalog: Catalog) -> tuple[Fault, ...]:
    """Every fatal event of this boot, oldest first; those without a time last."""
    found: list[Fault] = []
    logged = _from_log(log.text) if log is not None else ()
    for event in (*logged, *_told(host)):
        if catalog.severity(event.kind, event.code, event.message) not in FATAL:
            continue
        fault = Fault(words=_words(event), uptime_seconds=event.uptime_seconds)
        if not any(_is_same(fault, other) for other in found):
            found.append(fault)
    return tuple(sorted(found, key=lambda fault: (fault.uptime_seconds is None, fault.uptime_seconds or 0.0)))


def _from_log(text: str) -> Iterator[DeviceEvent]:
    for event in events(text, Clock(boot_time=0.0)):
        at = event.pop("at")
        yield DeviceEvent(**{**event, "uptime_seconds": at})


def _told(host: Host) -> Iterator[DeviceEvent]:
    """What the agent has told of this boot. It may have been told of earlier boots too, by a screen that goes on."""
    frame = host.frame
    uptime = frame.host.uptime_seconds if frame is not None else None
    booted = frame.sampled_at - timedelta(seconds=uptime) if frame is not None and uptime is not None else None
    for event in host.events:
        since = (event.at - booted).total_seconds() if event.at is not None and booted is not None else None
        if since is not None and since < -SAME_SECONDS:
            continue  # of an earlier boot
        if event.uptime_seconds is None and since is not None:
            yield _at(event, max(0.0, since))
        else:
            yield event


def _at(event: DeviceEvent, uptime_seconds: float) -> DeviceEvent:
    return DeviceEvent(
        kind=event.kind,
        code=event.code,
        pci_bus_id=event.pci_bus_id,
        message=event.message,
        uptime_seconds=uptime_seconds,
    )


def _words(event: DeviceEvent) -> str:
    name = {"xid": "Xid", "sxid": "SXid"}.get(event.kind, event.kind)
    code = f" {event.code}" if event.code is not None else ""
    return f"{name}{code} on {_bus(event.pci_bus_id) or 'a device'}"


def _bus(bus: str | None) -> str | None:
    """One spelling: the log and the tools write the domain with four digits or with eight."""
    if bus is None:
        return None
    parts = bus.lower().split(".")[0].split(":")
    return ":".join([parts[0][-4:], *parts[1:]])


def _is_same(one: Fault, other: Fault) -> bool:
    if one.words != other.words:
        return False
    if one.uptime_seconds is None or other.uptime_seconds is None:
        return one.uptime_seconds == other.uptime_seconds
    return abs(one.uptime_seconds - other.uptime_seconds) <= SAME_SECONDS


def after(faults: Iterable[Fault], uptime_seconds: float) -> tuple[Fault, ...]:
    """Those that came later, and those of which nobody knows when they came."""
    return tuple(f for f in faults if f.uptime_seconds is None or f.uptime_seconds > uptime_seconds)


def told_once(faults: Sequence[Fault]) -> str:
    """`Xid 79 on 0000:3b:00 (3 times), Xid 48 on 0000:86:00`."""
    counts: dict[str, int] = {}
    for fault in faults:
        counts[fault.words] = counts.get(fault.words, 0) + 1
    return ", ".join(f"{words} ({count} times)" if count > 1 else words for words, count in counts.items())
