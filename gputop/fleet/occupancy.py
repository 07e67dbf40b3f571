"""Whether a device is busy, idle, or not known to be either."""

from __future__ import annotations

from typing import Literal

from gputop.domain.host import Host
from gputop.domain.link import LinkState
from gputop.domain.reading import Frame

Occupancy = Literal["busy", "idle", "unknown"]

BUSY_UTILIZATION_PERCENT = 5.0
"""At or above it a device is busy (docs/reference/json.md, totals)."""

FRESH: frozenset[LinkState] = frozenset({LinkState.OK, LinkState.DEGRADED})
"""Link states in which the newest frame tells about now."""

SHOWN: frozenset[LinkState] = FRESH | {LinkState.STALE}
"""Link states in which the newest values may still be shown (`has_values`); else they say nothing about now."""


def has_values(host: Host) -> bool:
    """Whether the newest values of a host are worth showing. Those from before a cut of its connection are not, once it
    is connected again and sends none."""
    if host.link.state is LinkState.STALE and host.frame is not None and host.reported.state is LinkState.OK:
        return host.frame.received_at >= host.reported.since
    return host.link.state in SHOWN


def occupancy(host: Host, position: int) -> Occupancy:
    """Of the device at `position` of the newest frame. `unknown` while the host's values are not fresh."""
    frame = host.frame
    if frame is None or host.link.state not in FRESH:
        return "unknown"
    return _occupancy(frame, position, any(one.kind != "graphics" for one in frame.processes_of(position)))


def occupancies(host: Host) -> list[Occupancy]:
    """One entry a device of the newest frame. All `unknown` while the host's values are not fresh."""
    frame = host.frame
    if frame is None:
        return []
    if host.link.state not in FRESH:
        return ["unknown"] * len(frame.devices)
    computing = {process.device_index for process in frame.processes if process.kind != "graphics"}
    return [_occupancy(frame, position, position in computing) for position in range(len(frame.devices))]


def _occupancy(frame: Frame, position: int, computing: bool) -> Occupancy:
    if frame.value("state", position) != "ok":
        return "unknown"
    utilization = frame.value("utilization_percent", position)
    if computing or (utilization is not None and utilization >= BUSY_UTILIZATION_PERCENT):
        return "busy"
    if utilization is not None and frame.value("processes_known", position):
        return "idle"
    return "unknown"
