"""Sums over a Fleet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from gputop.domain.host import Host
from gputop.domain.link import LinkState
from gputop.fleet.fleet import Fleet
from gputop.fleet.occupancy import FRESH, occupancies


class Totals(Struct, frozen=True, kw_only=True):
    """Counts and sums; unknown values are left out of sums, and a sum of nothing known is `None`."""

    hosts: int = 0
    hosts_ok: int = 0
    devices: int = 0
    devices_busy: int = 0
    devices_idle: int = 0
    devices_unknown: int = 0
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_watts: float | None = None


def totals(fleet: Fleet) -> Totals:
    """Of the whole fleet. Values of hosts that are not fresh count as unknown."""
    return totals_of(fleet.hosts.values())


def totals_of(hosts: Iterable[Host]) -> Totals:
    count = ok = devices = busy = idle = 0
    memory_used: list[int] = []
    memory_total: list[int] = []
    power: list[float] = []
    for host in hosts:
        count += 1
        ok += host.link.state is LinkState.OK
        frame = host.frame
        if frame is None:
            continue
        states = occupancies(host)
        devices += len(states)
        busy += states.count("busy")
        idle += states.count("idle")
        if host.link.state in FRESH:
            alive = [state == "ok" for state in frame.column("state") or ["ok"] * len(frame.devices)]
            used = known(frame.column("memory_used_bytes"), alive)
            total = known(frame.column("memory_total_bytes"), alive)
            memory_used += used
            memory_total += total
            power += known(frame.column("power_watts"), alive)
    return Totals(
        hosts=count,
        hosts_ok=ok,
        devices=devices,
        devices_busy=busy,
        devices_idle=idle,
        devices_unknown=devices - busy - idle,
        memory_used_bytes=sum(memory_used) if memory_used else None,
        memory_total_bytes=sum(memory_total) if memory_total else None,
        power_watts=round(sum(power), 2) if power else None,
    )


def known(column: list[Any] | None, alive: list[bool]) -> list[Any]:
    """The values of a column that could be read, of devices that answer."""
    return [value for value, is_alive in zip(column or [], alive, strict=False) if is_alive and value is not None]
