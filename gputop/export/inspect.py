"""All that is known of one host, grouped, as text and as plain data for JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from typing import Any

import msgspec
from msgspec import Struct

from gputop.catalog.paces import ages_seconds
from gputop.catalog.text import clean
from gputop.catalog.words import RECOVERY_ACTIONS, THROTTLE_REASONS
from gputop.domain.action import HostActState
from gputop.domain.call import RawOutput
from gputop.domain.host import Host
from gputop.domain.instance import Instance
from gputop.domain.job import NodeState
from gputop.domain.record import AuditRecord, Lease
from gputop.export.activity_groups import events_group, processes_group
from gputop.export.device_groups import device_groups
from gputop.export.document import document
from gputop.export.groups import Group, Item, not_known
from gputop.export.host_groups import ages, host_identity, host_load, link_group
from gputop.export.raw_text import raw_lines
from gputop.export.told_groups import acts_group, instance_group, scheduler_group
from gputop.fleet.fleet import Fleet
from gputop.fleet.occupancy import FRESH

SCHEMA = "gputop-inspect/1"

LABEL_WIDTH = 20


class Inspected(Struct, frozen=True, kw_only=True):
    """What was found out about one host."""

    host: Host
    state: HostActState
    node: NodeState | None = None
    instance: Instance | None = None
    kernel: Sequence[str] | None = None
    """Lines of the kernel log that speak of devices; `None`: it could not be read."""
    raw: Sequence[RawOutput] = ()
    history: Sequence[AuditRecord] | None = ()
    """Outcomes of acts, oldest first; `None`: the audit log could not be read."""
    leases: Sequence[Lease] = ()


def inspect_document(found: Inspected, as_of: datetime) -> dict[str, Any]:
    host = found.host
    fleet = Fleet(as_of=as_of, hosts={host.name: host})
    return {
        "schema": SCHEMA,
        "as_of": msgspec.to_builtins(as_of),
        "state": found.state.value,
        "host": msgspec.to_builtins(document(fleet).hosts[0]),
        "ages": _ages(found, as_of),
        "words": _words(host),
        "scheduler": msgspec.to_builtins(found.node),
        "leases": msgspec.to_builtins(list(found.leases)),
        "instance": msgspec.to_builtins(found.instance),
        "kernel": None if found.kernel is None else list(found.kernel),
        "raw": [_raw(output) for output in found.raw],
        "link_history": msgspec.to_builtins(list(host.link_history)),
        "acts": None if found.history is None else msgspec.to_builtins(list(found.history)),
    }


def _raw(output: RawOutput) -> dict[str, Any]:
    problem = output.problem.summary if output.problem is not None else None
    return {**msgspec.to_builtins(output), "problem": problem}


def _ages(found: Inspected, as_of: datetime) -> dict[str, float | None]:
    """Of the reading, the most that its rarely read values may be old, and of what others said."""
    host, frame = found.host, found.host.frame
    age = host.age_seconds(as_of)

    def most(*metrics: str) -> float | None:
        return None if frame is None or age is None else round(ages_seconds(metrics, frame, age)[1], 3)

    def since(at: datetime | None) -> float | None:
        return None if at is None else round((as_of - at).total_seconds(), 3)

    return {
        "reading_seconds": None if age is None else round(age, 3),
        "limits_and_modes_seconds_at_most": most("power_limit_watts", "compute_mode", "recovery_action"),
        "counters_and_maxima_seconds_at_most": most("ecc_corrected_volatile", "sm_clock_max_mhz"),
        "scheduler_seconds": since(found.node.observed_at if found.node else None),
        "instance_seconds": since(found.instance.observed_at if found.instance else None),
    }


def _words(host: Host) -> dict[str, dict[str, str]]:
    """What the codes that stand in the document mean."""
    frame = host.frame
    columns = [frame.column(name) or [] for name in ("throttle_reasons", "recovery_action")] if frame else [[], []]
    reasons = {name for column in columns[0] for name in column or ()}
    actions = {name for name in columns[1] if name is not None}
    return {
        "throttle_reasons": {name: THROTTLE_REASONS[name].sentence for name in sorted(reasons & {*THROTTLE_REASONS})},
        "recovery_action": {name: RECOVERY_ACTIONS[name] for name in sorted(actions & {*RECOVERY_ACTIONS})},
    }


def inspect_text(found: Inspected, as_of: datetime, zone: tzinfo | None) -> str:
    """For a person: groups of values in words, as the screen has them."""
    host, state = found.host, found.host.link.state.value
    lines = [f"{clean(host.name)}   {found.state.value}   link {state}   as of {as_of.astimezone(zone):%F %T %Z}"]
    for group in text_groups(found, as_of, zone):
        lines += ["", *group_lines(group)]
    lines += ["", "Kernel log"]
    kernel = found.kernel
    if kernel is None:
        lines.append("  could not be read" if host.link.state in FRESH else f"  {not_known(host)}")
    else:
        lines += [f"  {clean(line)}" for line in kernel] or ["  nothing about devices"]
    for output in found.raw:
        lines += ["", f"$ {clean(output.command)}", *(f"  {line}" for line in raw_lines(output.text))]
        if output.problem is not None:
            lines.append(f"  failed: {clean(output.problem.summary)}")
    return "\n".join(lines) + "\n"


def text_groups(found: Inspected, as_of: datetime, zone: tzinfo | None) -> Iterator[Group]:
    host = found.host
    yield host_identity(host, as_of, zone)
    yield problems_group(host)
    yield host_load(host, as_of)
    for position, device in enumerate(host.frame.devices if host.frame is not None else ()):
        for group in device_groups(host, position, as_of):
            yield group._replace(title=f"GPU {device.index}: {group.title}")
    yield processes_group(host, as_of, zone)
    yield scheduler_group(found.node, found.state, as_of, zone, found.leases)
    yield instance_group(found.instance)
    yield events_group(host, host.events, as_of, zone)
    yield link_group(host, as_of, zone)
    yield acts_group(found.history, as_of, zone)
    yield ages(host, as_of, zone)


def problems_group(host: Host) -> Group:
    """What is wrong, and what to do about it."""
    named = [("host", problem) for problem in host.problems]
    for position, problems in sorted(host.device_problems.items()):
        named += [(host.frame.devices[position].label if host.frame else "GPU", problem) for problem in problems]
    if host.link.problem is not None and all(host.link.problem.summary != problem.summary for _, problem in named):
        named.insert(0, ("link", host.link.problem))
    items = [
        Item(clean(where), clean(problem.summary), clean(f"→ {problem.hint}" if problem.hint else ""), "warn")
        for where, problem in named
    ]
    return Group("Problems", tuple(items), absence="none" if host.frame is not None else not_known(host))


def group_lines(group: Group) -> list[str]:
    """A title with an age, then one line a value; of a group without any, one line alone."""
    if group.is_absent:
        return [f"{group.title}: {group.absence}"]
    age = f"   ({group.age})" if group.age else ""
    lines = [group.title + age]
    for item in group.items:
        note = f"   {item.note}" if item.note else ""
        lines.append(f"  {item.label:<{LABEL_WIDTH}} {item.text}{note}".rstrip())
    return lines
