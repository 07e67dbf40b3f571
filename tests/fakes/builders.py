"""Small values for tests; what a test does not name is ordinary."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from gputop.domain.host import HostSpec
from gputop.domain.link import Link, LinkState
from gputop.domain.problem import Problem, ProblemKind
from gputop.domain.reading import Device, DeviceColumns, Frame

from .clock import START


def a_spec(name: str = "gpu-01", **fields: Any) -> HostSpec:
    return HostSpec(name=name, **fields)


def a_problem(kind: ProblemKind = ProblemKind.DEVICE_LOST, summary: str = "GPU 1 is lost", **fields: Any) -> Problem:
    return Problem(kind=kind, summary=summary, **fields)


def a_link(state: LinkState = LinkState.OK, since: datetime = START, **fields: Any) -> Link:
    return Link(state=state, since=since, **fields)


def a_frame(at: datetime = START, *, utilization: tuple[float | None, ...] = (50.0,), **fields: Any) -> Frame:
    """A frame of as many devices as `utilization` has values, `columns` merged over ordinary ones."""
    count = len(utilization)
    columns: dict[str, Any] = {
        "state": ["ok"] * count,
        "utilization_percent": list(utilization),
        "memory_used_bytes": [10 * 1024**3] * count,
        "memory_total_bytes": [80 * 1024**3] * count,
        "power_watts": [300.0] * count,
        "processes_known": [True] * count,
    } | fields.pop("columns", {})
    defaults: dict[str, Any] = {
        "sequence": 1,
        "sampled_at": at,
        "received_at": at,
        "interval_seconds": 2.0,
        "route": "nvml",
        "devices": tuple(Device(index=i, uuid=f"GPU-{i}", model="NVIDIA H100 80GB HBM3") for i in range(count)),
    }
    return Frame(columns=DeviceColumns(**columns), **(defaults | fields))
