"""Gathers what goes into a bundle from one host. Everything here only reads; see `bug_report` for what does not."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import structs

from gputop.actions.acts import Acts
from gputop.actions.inspect import Inspection
from gputop.bundle.items import Data, Gathered, Item, Lines, Progress, Text
from gputop.bundle.tools import HOST_TOOLS, Tool, vendor_tools
from gputop.domain.action import HostActState
from gputop.domain.call import CommandResult
from gputop.domain.host import Host
from gputop.domain.link import NOT_RETRIED, TROUBLE, LinkState
from gputop.domain.plural import counted
from gputop.domain.problem import ProblemKind
from gputop.domain.record import AuditEvent, AuditRecord, Lease
from gputop.export.document import document
from gputop.export.inspect import Inspected, inspect_document
from gputop.fleet.fleet import Fleet
from gputop.fleet.series import BUCKET_SECONDS, BUCKETS, HOST, SeriesStore
from gputop.transport.runner import trouble

FRAMES = 3
"""Readings that are taken, so that a bundle shows what moves."""
FRAME_PAUSE_SECONDS = 1.0
AUDIT_RECORDS = 500
ACTS_SHOWN = 10
NOT_FOUND = 127
SAID_CHARACTERS = 300

Listen = Callable[[Progress], None]

_ANSWERS = frozenset({LinkState.OK, LinkState.DEGRADED, LinkState.STALE, LinkState.PENDING, LinkState.CONNECTING})
"""Links over which it is worth asking for more: the others have just failed."""


async def gather(
    acts: Acts,
    name: str,
    records: Sequence[AuditRecord] | str,
    series: SeriesStore | None,
    listen: Listen,
    held: Sequence[Lease] = (),
) -> Gathered:
    """All of the host `name`. `records`: of the audit log, those about it, or why it cannot be read. `series`: what was
    seen before. `held`: its leases."""

    def tell(doing: str) -> None:
        listen(Progress(host=name, doing=doing))

    tell("asking for a reading")
    known = (await acts.observer.known([name])).get(name)
    inspection = None
    if known is None or known.link.state not in NOT_RETRIED:  # those that are not retried would count as one more try
        told = () if isinstance(records, str) else records
        outcomes = [record for record in told if record.event is AuditEvent.OUTCOME]
        (inspection,) = await acts.inspect([name], outcomes)
    host = await _newest(acts, name, inspection, known)
    is_fresh = inspection is not None and inspection.host.frame is not None
    refusal = None if is_fresh else _refusal(host)
    frames, (runs, items) = await asyncio.gather(
        _frames(acts, name, inspection.host if inspection is not None and is_fresh else None, tell),
        _programs(acts, name, vendor_tools(host), refusal, tell),
    )
    return Gathered(
        host=name,
        answered=is_fresh or runs,
        link=host.link,
        frames=len(frames),
        versions=_versions(host),
        items=(*_own(host, inspection, frames, records, series, held, acts.clock.now()), *items),
    )


async def _newest(acts: Acts, name: str, inspection: Inspection | None, known: Host | None) -> Host:
    """The host with its last reading, however old: a look leaves out one that is not of now."""
    newest = (await acts.observer.known([name])).get(name) or known
    if newest is None:
        assert inspection is not None
        return inspection.host
    return newest


def _refusal(host: Host) -> str | None:
    """Why it makes no sense to run programs on `host`; `None`: it may answer."""
    if host.link.state in _ANSWERS or (host.frame is None and host.link.state not in TROUBLE):
        return None
    problem = host.link.problem
    return f"{host.link.state.value}: {problem.summary}" if problem is not None else host.link.state.value


# --- what gputop knows itself ---------------------------------------------------------------------------------------


def _own(
    host: Host,
    inspection: Inspection | None,
    frames: Sequence[dict[str, Any]],
    records: Sequence[AuditRecord] | str,
    series: SeriesStore | None,
    held: Sequence[Lease],
    now: datetime,
) -> list[Item]:
    inspected = Inspected(host=host, state=HostActState.UNKNOWN, leases=held)
    if inspection is not None:
        inspected = Inspected(
            host=host,
            state=inspection.state,
            node=inspection.node,
            instance=inspection.instance,
            kernel=inspection.kernel,
            history=inspection.history[-ACTS_SHOWN:],
            leases=held,
        )
    found = inspect_document(inspected, now)
    age = host.age_seconds(now)
    old = None if age is None or frames else f"its newest reading is {age:.0f} s old"
    what = "all that gputop knows, as gputop inspect prints it: devices, processes, scheduler, instance, link history"
    items = [
        Item(
            path="host.json",
            what=what,
            body=Data(value=found),
            problem=old if host.frame is not None else "no reading of it is known",
        ),
        Item(
            path="facts.json",
            what="what the inventory and the host itself say that it is",
            body=Data(value=_facts(host)),
            problem=None if host.frame is not None else "only what the inventory says: no reading of it is known",
        ),
        Item(
            path="frames.jsonl",
            what=f"readings taken for this bundle, one a line: {len(frames)} of {FRAMES}",
            body=Lines(values=tuple(frames)) if frames else None,
            problem=None if len(frames) == FRAMES else f"{len(frames)} of {FRAMES} came",
        ),
    ]
    if series is not None:
        rows = _history(host, series, now)
        items.append(
            Item(
                path="history.csv",
                what=f"the last minutes, means of {BUCKET_SECONDS:g} s; a row without gpu is the mean of all",
                body=Text.of(_as_csv(rows)) if rows else None,
                problem=None if rows else "nothing was seen of it in that time",
            )
        )
    return [*items, _audit(records)]


def _audit(records: Sequence[AuditRecord] | str) -> Item:
    what = "what gputop did to it, from the audit log on this machine"
    if isinstance(records, str):
        return Item(path="audit.jsonl", what=what, problem=records)
    lines = tuple(msgspec.to_builtins(record) for record in records)
    return Item(path="audit.jsonl", what=f"{what}: {counted(len(lines), 'record')}", body=Lines(values=lines))


def _facts(host: Host) -> dict[str, Any]:
    spec = host.spec
    return {
        "name": spec.name,
        "groups": list(spec.groups),
        "labels": spec.labels,
        "expect_devices": spec.expect_devices,
        "protected": spec.protected,
        "local": spec.local,
        "reached": msgspec.to_builtins(host.endpoint),
        "facts": msgspec.to_builtins(host.frame.facts) if host.frame is not None else None,
        "events": msgspec.to_builtins(list(host.events)),
    }


def _versions(host: Host) -> dict[str, str | None]:
    facts = host.frame.facts if host.frame is not None else None
    names = ("driver_version", "cuda_version", "kernel_version", "os_name")
    return {name: getattr(facts, name, None) for name in names}


def _history(host: Host, series: SeriesStore, now: datetime) -> list[tuple[str, ...]]:
    """Rows of the buckets in which something was seen, oldest first."""
    devices = host.frame.devices if host.frame is not None else ()
    tracks = [("", HOST), *((str(device.index), device.key) for device in devices)]
    values = {
        key: [series.trend(host.name, key, metric, now) for metric in ("utilization_percent", "memory_percent")]
        for _, key in tracks
    }
    rows = []
    for bucket in range(BUCKETS):
        begin = (now.timestamp() // BUCKET_SECONDS - (BUCKETS - 1 - bucket)) * BUCKET_SECONDS
        at = datetime.fromtimestamp(begin, now.tzinfo).isoformat(timespec="seconds").replace("+00:00", "Z")
        for index, key in tracks:
            seen = [track[bucket] for track in values[key]]
            if any(value is not None for value in seen):
                rows.append((at, index, *("" if value is None else f"{value:.2f}" for value in seen)))
    return rows


def _as_csv(rows: Sequence[tuple[str, ...]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("at", "gpu", "utilization_percent", "memory_percent"))
    writer.writerows(rows)
    return text.getvalue().encode()


async def _frames(acts: Acts, name: str, first: Host | None, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """`first` and those that follow; a host without a first one is not asked again."""
    found = [first] if first is not None else []
    while found and len(found) < FRAMES:
        await acts.clock.sleep(FRAME_PAUSE_SECONDS)
        tell(f"reading {len(found) + 1} of {FRAMES}")
        seen = (await acts.observer.look([name])).get(name)
        if seen is None or seen.frame is None:
            break
        found.append(seen)
    return [_as_line(host) for host in found]


def _as_line(host: Host) -> dict[str, Any]:
    assert host.frame is not None
    at = host.frame.received_at
    one = document(Fleet(as_of=at, hosts={host.name: structs.replace(host, events=())})).hosts[0]
    return {"as_of": msgspec.to_builtins(at), "sampled_at": msgspec.to_builtins(host.frame.sampled_at),
            "host": msgspec.to_builtins(one)}  # fmt: skip


# --- what programs on the host say ----------------------------------------------------------------------------------


async def _programs(
    acts: Acts, name: str, drivers: Sequence[Tool], refusal: str | None, tell: Callable[[str], None]
) -> tuple[bool, list[Item]]:
    """Whether programs on the host can be run, and what they say. `drivers`: those that ask a driver. `refusal`: why
    none is run."""
    first, *others = HOST_TOOLS
    if refusal is None:
        answer = await _ask(acts, name, first, tell)
        if answer.exit_status is not None:
            found = await asyncio.gather(
                _ask_in_turn(acts, name, others, tell), _ask_drivers(acts, name, drivers, tell)
            )
            return True, [answer, *(item for its in found for item in its)]
        refusal = answer.problem or "no program can be run on it"
    return False, [_unasked(tool, refusal) for tool in (*HOST_TOOLS, *drivers)]


async def _ask_in_turn(acts: Acts, name: str, tools: Sequence[Tool], tell: Callable[[str], None]) -> list[Item]:
    return [await _ask(acts, name, tool, tell) for tool in tools]


async def _ask_drivers(acts: Acts, name: str, tools: Sequence[Tool], tell: Callable[[str], None]) -> list[Item]:
    """One after the other, since each holds a lock of the driver. Once a program hangs, its other questions would hang
    beside it."""
    items: list[Item] = []
    hung: dict[str, str] = {}
    for tool in tools:
        program = tool.words[0]
        if program in hung:
            why = f"{hung[program]} did not end: the driver may hang, and nothing more is asked of it"
            items.append(_unasked(tool, why))
            continue
        result = await _run(acts, name, tool, tell)
        items.append(_item(tool, result))
        if _hung(result):
            hung[program] = tool.shown
    return items


async def _ask(acts: Acts, name: str, tool: Tool, tell: Callable[[str], None]) -> Item:
    return _item(tool, await _run(acts, name, tool, tell))


async def _run(acts: Acts, name: str, tool: Tool, tell: Callable[[str], None]) -> CommandResult:
    tell(tool.what if tool.in_words else tool.shown)
    return await acts.runner.run(tool.call(name), deadline_seconds=tool.seconds)


def _hung(result: CommandResult) -> bool:
    is_late = result.lost is not None and result.lost.kind is ProblemKind.TIMED_OUT
    return is_late or result.exit_status in (124, 137)


def _item(tool: Tool, result: CommandResult) -> Item:
    problem = _problem(tool, result)
    has_words = bool(result.stdout) and result.exit_status != NOT_FOUND
    return Item(
        path=tool.path,
        what=tool.what,
        command=tool.shown,
        exit_status=result.exit_status,
        body=Text.of(result.stdout) if has_words else None,
        truncated=result.truncated,
        problem=problem,
    )


def _problem(tool: Tool, result: CommandResult) -> str | None:
    if result.truncated:
        return "printed more than is kept: its end is missing"
    if result.ok:
        return None if result.stdout.strip() else "printed nothing"
    if result.exit_status == NOT_FOUND:
        return f"{tool.words[0]} is not on this host"
    if tool.in_words and result.exit_status is not None and result.stderr:
        reasons = {line.partition(": ")[2]: line for line in reversed(result.error_text.strip().splitlines())}
        return "; ".join(reversed(reasons.values()))[:SAID_CHARACTERS]
    failure = trouble(result)
    assert failure is not None
    return failure.summary


def _unasked(tool: Tool, why: str) -> Item:
    return Item(path=tool.path, what=tool.what, command=tool.shown, problem=f"not asked: {why}")
