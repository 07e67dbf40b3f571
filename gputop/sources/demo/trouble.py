"""What is wrong with whom, and when.

The hosts of one role take turns. A turn ends a little after the next one began, so that at no moment, nor while
gputop notices the change, the fleet is without that trouble.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from gputop.sources.demo.hosts import MOST_HOSTS, DemoHost, Role
from gputop.sources.demo.noise import mix, unit

Fault = Literal["probe-hung", "driver-mismatch", "requires-reset"]

FAULTS: tuple[Fault, ...] = ("probe-hung", "driver-mismatch", "requires-reset")


@dataclass(frozen=True, slots=True)
class Turn:
    """How long one host of a role is in trouble, in seconds."""

    period: float
    overlap: float


TURNS: dict[Role, Turn] = {
    Role.UNREACHABLE: Turn(240.0, 40.0),
    Role.STALE: Turn(225.0, 40.0),
    Role.LOST: Turn(1500.0, 120.0),
    Role.FAULTY: Turn(660.0, 60.0),
    Role.HELD: Turn(1200.0, 180.0),
}
"""Link troubles are short, so that a few minutes at the screen show them come and go and leave a history."""

REBOOT_SECONDS = 80.0
"""How long a host is away when it restarts to get its lost device back."""

BOOT_CYCLE_SECONDS = 71 * 86400.0
"""Every host restarts once in so long for its updates."""


@dataclass(frozen=True, slots=True)
class Condition:
    """The trouble of one host at one instant."""

    is_reachable: bool = True
    is_silent: bool = False
    """Connected, but sends nothing."""
    lost_device: int | None = None
    """Position of the device that fell off the bus."""
    fault: Fault | None = None
    faulty_device: int | None = None
    """Position of the device with the fault; `None` when the whole host has it."""
    is_held: bool = False
    """Its memory is full and nothing computes."""
    since: float | None = None
    """Unix time at which the trouble began."""
    turn: int = 0
    """Number of the turn: first part of draws about this one trouble."""


WELL = Condition()


@lru_cache(maxsize=4 * MOST_HOSTS)
def condition(host: DemoHost, t: float) -> Condition:
    """The trouble of `host` at Unix time `t`."""
    found = _turn(host, t)
    if found is None:
        if host.role is Role.LOST and t < _rebooted_at(host, t):
            return Condition(is_reachable=False, since=_rebooted_at(host, t) - REBOOT_SECONDS)
        return WELL
    number, since = found
    match host.role:
        case Role.UNREACHABLE:
            return Condition(is_reachable=False, since=since, turn=number)
        case Role.STALE:
            return Condition(is_silent=True, since=since, turn=number)
        case Role.LOST:
            return Condition(lost_device=mix(host.key, number, 1) % host.devices, since=since, turn=number)
        case Role.HELD:
            return Condition(is_held=True, since=since, turn=number)
        case Role.FAULTY:
            fault = FAULTS[(number + host.seed) % len(FAULTS)]
            device = None if fault == "driver-mismatch" else mix(host.key, number, 2) % host.devices
            return Condition(fault=fault, faulty_device=device, since=since, turn=number)


@lru_cache(maxsize=4 * MOST_HOSTS)
def booted_at(host: DemoHost, t: float) -> float:
    """Unix time of the start of `host` before `t`."""
    phase = unit(host.key, 31) * BOOT_CYCLE_SECONDS
    planned = t - (t + phase) % BOOT_CYCLE_SECONDS
    if host.role is not Role.LOST or host.turns == 1:
        return planned
    rebooted = _rebooted_at(host, t)
    return max(planned, rebooted if rebooted <= t else _rebooted_at(host, t - REBOOT_SECONDS))


def _turn(host: DemoHost, t: float) -> tuple[int, float] | None:
    """Number and start of the turn that `host` is in."""
    turn = TURNS[host.role]
    shift = _shift(host)
    number = int((t - shift) // turn.period)
    start = number * turn.period + shift
    if (number - 1) % host.turns == host.turn and t < start + turn.overlap:
        return number - 1, start - turn.period
    if number % host.turns == host.turn:
        return number, start
    return None


def _rebooted_at(host: DemoHost, t: float) -> float:
    """When the restart after the newest turn of a host that loses devices is, or was, over."""
    turn = TURNS[host.role]
    shift = _shift(host)
    number = int((t - shift - turn.overlap) // turn.period) - 1
    number -= (number - host.turn) % host.turns
    return (number + 1) * turn.period + shift + turn.overlap + REBOOT_SECONDS


def _shift(host: DemoHost) -> float:
    return _role_shift(host.seed, host.role)


@lru_cache(maxsize=64)
def _role_shift(seed: int, role: Role) -> float:
    """Seconds by which the turns of a role are off those of the others."""
    return unit(seed, 17, role) * TURNS[role].period
