"""What the kernels of the demo fleet log about their devices: faults of today, and a few of the hours before."""

from __future__ import annotations

from bisect import bisect
from typing import Any

from gputop.sources.demo.hosts import DemoHost, bus_of
from gputop.sources.demo.noise import mix, pick, unit
from gputop.sources.demo.trouble import Condition, booted_at, condition

Event = dict[str, Any]
"""Keys of `DeviceEvent`; the time in seconds since the epoch."""

SLOT_SECONDS = 6 * 3600.0
SLOTS = 8
"""The log reaches back so many slots; in each something may have happened."""

TOLD_SECONDS = 300.0
"""A frame tells what was logged in the time before it; the first of a session tells everything."""

_RESET = "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
_REBOOT = "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
_FAULT = "Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f1c_40000000"
_REMAP = "Row Remapper: New row marked for remapping, reset gpu to activate."

_NOW = {
    # seconds after the beginning of the trouble, Xid, words of the driver
    "lost": ((0.0, 79, "GPU has fallen off the bus."), (0.4, 154, _REBOOT)),
    "probe-hung": ((0.0, 119, "Timeout after 45s of waiting for RPC response from GPU GSP! Expected function 76"),),
    "requires-reset": ((0.0, 95, "Uncontained: FBHUB. RST: Yes, D-RST: No"), (0.2, 154, _RESET)),
}
_PAST = (
    ((31, _FAULT),),
    ((13, "Graphics SM Warp Exception on (GPC 2, TPC 1, SM 0): Out Of Range Address"),),
    ((94, "Contained: SM (0x1). RST: No, D-RST: No"), (63, _REMAP)),
    ((63, _REMAP),),
)
_SHARES = (0.5, 0.85, 0.95)
"""Of all slots in which something happened: where the next of `_PAST` begins."""


def events(host: DemoHost, t: float, *, all_since_boot: bool) -> list[Event]:
    """What the log of `host` says at Unix time `t`, oldest first."""
    begin = booted_at(host, t) if all_since_boot else max(booted_at(host, t), t - TOLD_SECONDS)
    found = _past(host, t) + _now(host, t, condition(host, t))
    since = [event for event in found if begin <= event["at"] <= t]
    for event in since:
        event["uptime_seconds"] = round(event["at"] - booted_at(host, t), 3)
    return sorted(since, key=lambda event: float(event["at"]))


def told(event: Event) -> str:
    """What the driver writes of it."""
    process = f"pid={event['pid']}, name={event['process']}, " if "pid" in event else ""
    return f"Xid (PCI:{event['pci_bus_id']}): {event['code']}, {process}{event['message']}"


def _now(host: DemoHost, t: float, trouble: Condition) -> list[Event]:
    kind = "lost" if trouble.lost_device is not None else trouble.fault
    position = trouble.lost_device if trouble.lost_device is not None else trouble.faulty_device
    if kind is None or position is None:
        return []
    since = trouble.since or t
    return [_event(host, position, since + after, code, message) for after, code, message in _NOW[kind]]


def _past(host: DemoHost, t: float) -> list[Event]:
    found = []
    newest = int(t // SLOT_SECONDS)
    for slot in range(newest - SLOTS, newest + 1):
        if unit(host.key, slot, 301) > 0.12:
            continue
        at = (slot + unit(host.key, slot, 302)) * SLOT_SECONDS
        position = mix(host.key, slot, 303) % host.devices
        logged = _PAST[bisect(_SHARES, unit(host.key, slot, 304))]
        for number, (code, message) in enumerate(logged):
            event = _event(host, position, at + number / 8, code, message)
            if code in (13, 31, 94):
                event["pid"] = 4000 + mix(host.key, slot, 305) % 900000
                event["process"] = pick(("python", "python3", "train", "vllm"), host.key, slot, 306)
            found.append(event)
    return found


def _event(host: DemoHost, position: int, at: float, code: int, message: str) -> Event:
    return {
        "at": round(at, 3),
        "kind": "xid",
        "code": code,
        "pci_bus_id": bus_of(host, position)[4:-2].lower(),
        "message": message,
    }
