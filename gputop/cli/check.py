"""`gputop hosts --check`: connects to each host once; says what works, and what to do about what does not."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import msgspec

from gputop.cli import diagnostics, options, table
from gputop.cli.collect import exit_code, fleet_once, has_answered
from gputop.domain.clock import SystemClock
from gputop.domain.host import Host
from gputop.domain.problem import Problem
from gputop.inventory.expand import fold


def run(chosen: options.Selection, *, wait_seconds: float, output: str) -> int:
    """Check the hosts of `chosen`, print in the format `output`; the exit code."""
    progress = sys.stderr is not None and sys.stderr.isatty()
    collector = options.collector(chosen)
    fleet = asyncio.run(fleet_once(collector, SystemClock(), wait_seconds=wait_seconds, progress=progress))
    hosts = [host for spec in chosen.specs if (host := fleet.get(spec.name)) is not None]
    if output == "table":
        print("\n".join(report(hosts)))
    else:
        print(options.formatted(document(hosts), output), end="")
    for problem in fleet.problems:
        diagnostics.say(f"gputop: {problem.summary}")
    unanswered = [host.name for host in hosts if not has_answered(host)]
    if unanswered:
        diagnostics.say(
            f"gputop: no answer within {wait_seconds:g} s from {fold(unanswered)}; --wait TIME waits longer"
        )
    return exit_code(fleet)


def report(hosts: list[Host]) -> list[str]:
    """A line a host; what is wrong and what to do follows it, indented."""
    rows = [(host.name, _state(host), way(host), _reading(host)) for host in hosts]
    head, *aligned = table.lines(("HOST", "STATE", "WAY", "READ"), rows)
    lines = [head]
    for host, line in zip(hosts, aligned, strict=True):
        lines.append(line)
        for problem in troubles(host):
            lines.append(f"    {table.clean(problem.summary)}")
            if problem.hint:
                lines.append(f"      -> {table.clean(problem.hint)}")
    return lines


def way(host: Host) -> str:
    """`user@address:port through hop, hop`, as ssh_config and the inventory have it; empty before it is known."""
    end = host.endpoint
    if host.spec.local:
        return "this machine"
    if end is None:
        return "–"
    address = f"[{end.address}]" if ":" in end.address else end.address
    through = f" through {', '.join(end.jump)}" if end.jump else ""
    return f"{f'{end.user}@' if end.user else ''}{address}:{end.port}{through}"


def troubles(host: Host) -> list[Problem]:
    """Everything that is wrong with the connection, the host and its devices, each once."""
    problems = [host.link.problem] if host.link.problem else []
    if host.frame is not None:
        problems += host.frame.problems
        problems += [
            one for position in sorted(host.frame.device_problems) for one in host.frame.device_problems[position]
        ]
    return list({(one.kind, one.summary): one for one in problems}.values())


def document(hosts: list[Host]) -> list[dict[str, Any]]:
    """The same for programs."""
    return [
        {
            "name": host.name,
            "state": _state(host),
            "endpoint": msgspec.to_builtins(host.endpoint),
            "route": host.frame.route if host.frame else None,
            "driver_version": host.frame.facts.driver_version if host.frame else None,
            "devices": len(host.frame.devices) if host.frame else None,
            "problems": [
                {"kind": one.kind.value, "summary": one.summary, "detail": one.detail, "hint": one.hint}
                for one in troubles(host)
            ],
        }
        for host in hosts
    ]


def _state(host: Host) -> str:
    return host.link.state.value if has_answered(host) else "no answer"


def _reading(host: Host) -> str:
    frame = host.frame
    if frame is None:
        return "–"
    models: dict[str, int] = {}
    for device in frame.devices:
        models[device.model or "unknown model"] = models.get(device.model or "unknown model", 0) + 1
    devices = ", ".join(f"{count} {model}" for model, count in models.items()) or "no device"
    driver = f", driver {frame.facts.driver_version}" if frame.facts.driver_version else ""
    route = f", by {frame.route}" if frame.devices else ""
    return f"{devices}{driver}{route}"
