"""All that is known of one host, grouped, as text and as plain data for JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from gputop.catalog.text import clean
from gputop.domain.host import Host
from gputop.domain.instance import Instance
from gputop.domain.job import NodeState
from gputop.domain.record import AuditRecord
from gputop.export.document import document
from gputop.fleet.fleet import Fleet

SCHEMA = "gputop-inspect/1"

THROTTLE_WORDS = {
    "idle": "idle",
    "app_clocks": "set to application clocks",
    "sw_power_cap": "at its power limit",
    "hw_slowdown": "slowed down by hardware",
    "sync_boost": "waits for the slowest of its group",
    "sw_thermal": "too hot (driver)",
    "hw_thermal": "too hot (hardware)",
    "hw_power_brake": "slowed down by the power supply",
    "display_clocks": "set to display clocks",
}

IDENTITY = ("address", "port", "user", "jump", "groups", "labels", "boot_id", "machine_id", "kernel_version")
DRIVER = ("driver_version", "cuda_version", "route", "uptime_seconds", "clock_skew_seconds", "age_seconds")


def inspect_document(
    host: Host,
    as_of: datetime,
    *,
    state: str,
    node: NodeState | None,
    instance: Instance | None,
    kernel: Sequence[str] | None,
    raw: Sequence[tuple[str, str, str | None]],
    history: Sequence[AuditRecord],
) -> dict[str, Any]:
    """`raw`: command, what it printed, and why it failed."""
    fleet = Fleet(as_of=as_of, hosts={host.name: host})
    return {
        "schema": SCHEMA,
        "as_of": msgspec.to_builtins(as_of),
        "state": state,
        "host": msgspec.to_builtins(document(fleet).hosts[0]),
        "scheduler": msgspec.to_builtins(node),
        "instance": msgspec.to_builtins(instance),
        "kernel": None if kernel is None else list(kernel),
        "raw": [{"command": command, "text": text, "problem": problem} for command, text, problem in raw],
        "link_history": msgspec.to_builtins(list(host.link_history)),
        "acts": msgspec.to_builtins(list(history)),
    }


def inspect_text(found: Mapping[str, Any]) -> str:
    """The document for a person: sections with what is known; what is not known is left out."""
    host = dict(found["host"])
    devices, processes = host.pop("devices"), host.pop("processes", [])
    problems = host.pop("problems", [])
    lines = [f"{host.pop('name')}   {found['state']}   link {host['link']['state']}   as of {found['as_of']}"]
    sections: list[tuple[str, Any]] = [
        ("identity", {key: host.pop(key, None) for key in IDENTITY}),
        ("driver", {key: host.pop(key, None) for key in DRIVER}),
        ("problems", [problem["summary"] for problem in problems]),
        ("host", host),
        *((f"GPU {device['index']}", _worded(device)) for device in devices),
        ("processes", [_process(process) for process in processes]),
        ("scheduler", found["scheduler"]),
        ("instance", found["instance"]),
        ("kernel log", found["kernel"] if found["kernel"] is not None else ["cannot be read by this account"]),
        ("link history", [f"{one['at']}  {one['state']}  {one['summary'] or ''}" for one in found["link_history"]]),
        ("acts", [f"{one['time']}  {one['act']}  {one['result']}  {one['summary']}" for one in found["acts"]]),
    ]
    for title, body in sections:
        inner = list(_lines(body, "  "))
        if inner:
            lines += ["", title, *inner]
    for output in found["raw"]:
        lines += ["", f"$ {output['command']}", *(f"  {clean(line)}" for line in output["text"].splitlines())]
        if output["problem"]:
            lines.append(f"  failed: {clean(output['problem'])}")
    return "\n".join(lines) + "\n"


def _worded(device: Mapping[str, Any]) -> dict[str, Any]:
    reasons = device.get("throttle_reasons")
    words = None if reasons is None else [THROTTLE_WORDS.get(reason, reason) for reason in reasons] or ["none"]
    return {**device, "throttle_reasons": None if words is None else ", ".join(words)}


def _process(process: Mapping[str, Any]) -> str:
    known = {key: value for key, value in process.items() if value is not None}
    return "  ".join(f"{key} {value}" for key, value in known.items())


def _lines(body: Any, indent: str) -> Iterator[str]:
    match body:
        case Mapping():
            for key, value in body.items():
                inner = list(_lines(value, indent + "  "))
                if isinstance(value, Mapping | list | tuple):
                    if inner:
                        yield f"{indent}{key}"
                        yield from inner
                elif value is not None and value != "":
                    yield f"{indent}{key:<30} {clean(str(value))}"
        case str():
            yield f"{indent}{clean(body)}"
        case Sequence():
            for each in body:
                yield from ([f"{indent}{clean(each)}"] if isinstance(each, str) else _lines(each, indent))
