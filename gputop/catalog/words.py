"""What the codes of drivers, schedulers and power providers mean, each in words for a person."""

from __future__ import annotations

from typing import NamedTuple

from gputop.domain.action import HostActState
from gputop.domain.instance import PowerState
from gputop.domain.job import AdminState, PodFate
from gputop.domain.reading import DeviceEvent


class Reason(NamedTuple):
    """Why clocks are not at their highest."""

    short: str
    """At most 9 cells; empty: no slowness, so not worth a cell."""
    sentence: str
    is_calm: bool = False
    """It follows from how the device is set or used; nothing is wrong with it."""


THROTTLE_REASONS: dict[str, Reason] = {
    "hw_thermal": Reason("thermal", "too hot: the hardware has halved the clocks, or worse"),
    "sw_thermal": Reason("thermal", "near its temperature limit: the driver lowers the clocks"),
    "hw_power_brake": Reason("brake", "the power supply signals too little power: the hardware has halved the clocks"),
    "hw_slowdown": Reason(
        "slowdown", "the hardware has halved the clocks, for heat or power; short ones also come with a change of state"
    ),
    "sw_power_cap": Reason("power cap", "at its power limit: the driver keeps the clocks below it", is_calm=True),
    "sync_boost": Reason("sync", "waits for the slowest GPU of its group, with which its clocks go", is_calm=True),
    "app_clocks": Reason("app clock", "somebody has set application clocks; it keeps to them", is_calm=True),
    "display_clocks": Reason("display", "keeps to the clocks that its display needs", is_calm=True),
    "idle": Reason("", "nothing runs, so the clocks are down", is_calm=True),
}
"""Worst first."""


def ranked(reasons: list[str]) -> list[str]:
    """`reasons` worst first; those that are not known stand at the end."""
    return sorted(reasons, key=lambda name: list(THROTTLE_REASONS).index(name) if name in THROTTLE_REASONS else 99)


RECOVERY_ACTIONS: dict[str, str] = {
    "none": "nothing to do",
    "gpu-reset": "end its processes and reset the GPU",
    "node-reboot": "reboot the server",
    "drain-p2p": "end all work that exchanges data between GPUs",
    "drain-and-reset": "let what runs end, then reset the GPU: it works with reduced capacity",
    "other": "one that gputop does not know; nvidia-smi -q names it",
}
"""What the driver asks for."""

COMPUTE_MODES: dict[str, str] = {
    "default": "shared by any number of processes",
    "exclusive-process": "one process at a time",
    "prohibited": "no compute processes",
}

EVENT_ADVICE: dict[str | None, str] = {
    "rma": "drain, then call the vendor",
    "reboot": "drain, then reboot",
    "reset": "drain, then reset the GPU",
    "restart": "restart the job",
    "sw": "update driver or firmware",
    "warn": "not in the catalog: look at it",
    "app": "blame the program, not the server",
    "info": "record only",
}
"""What an event of the kernel log asks for, by its severity."""

ADMIN_STATES: dict[AdminState, str] = {
    AdminState.SCHEDULABLE: "takes work",
    AdminState.DRAINING: "no new work; some may be left",
    AdminState.DRAINED: "no new work and none left, as far as the scheduler knows",
    AdminState.DOWN: "down",
    AdminState.UNKNOWN: "not known",
}

ACT_STATES: dict[HostActState, str] = {
    HostActState.ACTIVE: "takes work and answers",
    HostActState.DRAINING: "no new work; its devices are not proven empty",
    HostActState.DRAINED: "no new work, and all devices proven empty",
    HostActState.STOPPED: "off",
    HostActState.REBOOTING: "restarting",
    HostActState.BLOCKED: "blocked",
    HostActState.FAILED: "an act has failed",
    HostActState.UNKNOWN: "not known",
}

POWER_STATES: dict[PowerState, str] = {
    PowerState.RUNNING: "on",
    PowerState.STARTING: "starting",
    PowerState.STOPPING: "stopping",
    PowerState.STOPPED: "off, can be started",
    PowerState.HIBERNATED: "hibernated",
    PowerState.GONE: "terminated: it will not come back",
    PowerState.UNKNOWN: "not known",
}

POD_FATES: dict[PodFate, str] = {
    PodFate.EVICT: "a drain evicts it",
    PodFate.DAEMON_SET: "of a DaemonSet: a drain leaves it",
    PodFate.MIRROR: "static: a drain leaves it",
    PodFate.FINISHED: "finished",
    PodFate.TERMINATING: "leaving",
    PodFate.NEEDS_CONSENT: "a drain needs consent",
}


def event_name(event: DeviceEvent) -> str:
    """`Xid 79`, `SXid 20034`, `fell off the bus`."""
    if event.code is not None:
        return f"{event.kind[:-3].upper()}Xid {event.code}" if event.kind in ("xid", "sxid") else str(event.code)
    return event.kind.replace("-", " ")
