"""Pages of text: the detail of a host, everything about a row, help, the start page. Pure functions to lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import asdict

from gputop.catalog import format as show
from gputop.catalog.text import cut, wrap
from gputop.domain.host import Host
from gputop.domain.link import NOT_RETRIED, TROUBLE, LinkState
from gputop.domain.problem import INFORMATIONAL, Problem
from gputop.fleet.attribution import unattributed_bytes
from gputop.fleet.occupancy import FRESH
from gputop.fleet.series import HOST
from gputop.tui.arrange import partition_cell
from gputop.tui.columns import Column, place
from gputop.tui.commands import Command, Scope, key_sign
from gputop.tui.draw import Span, Spans, chart, fit, remote, width_of
from gputop.tui.log_page import latest
from gputop.tui.look import SIGNS, TROUBLED, WORDS, Look
from gputop.tui.rows import SHOWN, GpuRow, HostRow, ProcessRow, Row, gpu_rows, process_rows, reason
from gputop.tui.summary import table_header
from gputop.tui.views import GPUS, PROCESSES, tone, toned

CHART_LINES = 4
LEAST_CHART_WIDTH = 30
LEAST_TEXT_WIDTH = 16
HISTORY_SHOWN = 8
BURSTS_SHOWN = 3


def panel(title: str, body: Sequence[Spans], width: int, look: Look) -> list[Spans]:
    """`body` in a frame of `width` cells."""
    if width < 24:
        return [((title, "dim"),), *body]
    inner = width - 4
    title = cut(title, width - 8)
    head: Spans = (
        ("╭─ ", "rule"), (title, "strong"), (" " + "─" * (width - 5 - width_of(((title, ""),))) + "╮", "rule"),
    )  # fmt: skip
    lines: list[Spans] = [head]
    lines += [(("│ ", "rule"), *fit(line, inner), (" │", "rule")) for line in body]
    lines.append((("╰" + "─" * (width - 2) + "╯", "rule"),))
    return [look.plain(line) for line in lines]


def hanging(head: Spans, text: Span, width: int) -> list[Spans]:
    """`text` behind `head`, on as many lines of `width` cells as it needs; under it where there is no room."""
    indent = width_of(head)
    words, style = text
    if indent > 6 and width - indent < LEAST_TEXT_WIDTH:
        return [head, *(((" " * 6, "text"), (line, style)) for line in wrap(words, max(2, width - 6)))]
    first, *others = wrap(words, max(2, width - indent))
    return [(*head, (first, style)), *(((" " * indent, "text"), (line, style)) for line in others)]


def beside(left: list[Spans], right: list[Spans], width: int) -> list[Spans]:
    """Two blocks next to each other; `width`: of the left one."""
    count = max(len(left), len(right))
    blank: Spans = ((" " * width, "text"),)
    return [
        (*(left[y] if y < len(left) else blank), (" ", "text"), *(right[y] if y < len(right) else ()))
        for y in range(count)
    ]


# --- the detail of one host --------------------------------------------------------------------------------


def host_head(host: Host, look: Look, width: int) -> Spans:
    """The first line of a host's page."""
    sign, name = SIGNS[host.link.state]
    age = host.age_seconds(look.as_of)
    fresh = "no data yet" if age is None else f"data {'<1 s' if age < 1 else show.duration(age)}"
    zone = look.as_of.astimezone(look.zone)
    left: Spans = ((f" {remote(host.name)} ", "title"), (f"  {sign} {WORDS[host.link.state]}", name))
    right: Spans = ((f"{zone:%H:%M:%S %Z}  ", "dim"), (f"{fresh} ", "dim"))
    room = max(0, width - width_of(right) - 1)
    return look.plain((*fit(left, room), (" ", "text"), *right))


def host_page(host: Host, look: Look, width: int) -> list[Spans]:
    """Facts, problems, devices, trends, processes and the link's history of one host."""
    lines: list[Spans] = [((" ", "text"),)]
    lines += _facts(host, look, width)
    problems = _problem_lines(host, look, width - 4)
    if problems:
        lines += panel("Problems", problems, width, look)
    if host.events:
        lines += panel("Kernel log (L shows all)", latest(host, look, BURSTS_SHOWN), width, look)
    if host.frame is not None and host.frame.devices:
        lines += _trends(host, look, width)
        lines += panel("Devices", _device_lines(host, look, width - 4), width, look)
        lines += panel("Processes", _process_lines(host, look, width - 4), width, look)
    lines += panel("Link", _history_lines(host, look), width, look)
    return lines


def _facts(host: Host, look: Look, width: int) -> list[Spans]:
    spec, frame, endpoint = host.spec, host.frame, host.endpoint
    address = endpoint.address if endpoint else spec.address or spec.name
    port = f":{endpoint.port}" if endpoint and endpoint.port != 22 else ""
    user = endpoint.user if endpoint else spec.user
    hops = endpoint.jump if endpoint else spec.jump or ()
    pairs: list[tuple[str, str | None]] = [
        ("address", "this machine" if spec.local else f"{user + '@' if user else ''}{address}{port}"),
        ("via", " > ".join(hops)),
        ("groups", " ".join(spec.groups)),
        *spec.labels.items(),
    ]
    if frame is not None:
        facts, values = frame.facts, frame.host
        boot = facts.boot_id[:8] if facts.boot_id else None
        pairs += [
            ("driver", facts.driver_version),
            ("CUDA", facts.cuda_version),
            ("read by", frame.route),
            ("log", facts.kernel_log),
            ("system", facts.os_name),
            ("kernel", facts.kernel_version),
            ("up", show.duration(values.uptime_seconds) if values.uptime_seconds is not None else None),
            ("boot", boot),
            ("CPU", _cpu(host)),
            ("memory", _pair(values.memory_used_bytes, values.memory_total_bytes)),
            ("interval", f"{frame.interval_seconds:g} s" if frame.interval_seconds else "read once"),
        ]
        if host.clock_skew_seconds is not None and abs(host.clock_skew_seconds) >= 2:
            pairs.append(("clock", f"{host.clock_skew_seconds:+.0f} s off"))
    return [look.plain(line) for line in _flow(pairs, width)]


def _cpu(host: Host) -> str | None:
    assert host.frame is not None
    facts, values = host.frame.facts, host.frame.host
    parts = []
    if facts.cores is not None:
        parts.append(f"{facts.cores} cores")
    if values.cpu_utilization_percent is not None:
        parts.append(show.percent(values.cpu_utilization_percent))
    if values.load_1m is not None:
        parts.append(f"load {values.load_1m:.1f}")
    return ", ".join(parts) or None


def _pair(used: int | None, total: int | None) -> str | None:
    return show.memory_pair(used, total, width=20) if used is not None or total is not None else None


def _flow(pairs: Iterable[tuple[str, str | None]], width: int) -> list[Spans]:
    """`name value` after `name value`, as many a line as fit."""
    lines: list[Spans] = []
    line: list[Span] = [(" ", "text")]
    for name, value in pairs:
        if not value:
            continue
        piece: Spans = ((f"{remote(name)} ", "dim"), (remote(value), "text"), ("   ", "text"))
        if width_of(line) + width_of(piece) > width and len(line) > 1:
            lines.append(tuple(line))
            line = [(" ", "text")]
        line += piece
    lines.append(tuple(line))
    return lines


def _problem_lines(host: Host, look: Look, width: int) -> list[Spans]:
    lines: list[Spans] = []
    named: list[tuple[str, Problem]] = [("", problem) for problem in host.problems]
    frame = host.frame
    for position, problems in sorted(host.device_problems.items()):
        where = frame.devices[position].label if frame and position < len(frame.devices) else "GPU"
        named += [(where, problem) for problem in problems]
    link = host.link.problem
    if link is not None and host.link.state in TROUBLE and host.link.state not in FRESH:
        named.insert(0, ("", link))  # that of a host with fresh values is one of the others
    in_trouble = SIGNS[host.link.state] if host.link.state in TROUBLE else TROUBLED
    for where, problem in named:
        sign, name = ("·", "dim") if problem.kind in INFORMATIONAL else in_trouble
        since = show.clock_time(problem.since, look.as_of, look.zone) if problem.since else ""
        summary = remote(problem.summary)
        place_name = f"{where}  " if where and where not in summary else ""
        lines += hanging(((f"{sign} ", name),), (place_name + summary, "strong"), width)
        if since:
            dated: Spans = ((f"  since {since}", "dim"),)
            if width_of(lines[-1]) + width_of(dated) < width:
                lines[-1] += ((" ", "text"), *dated)
            else:
                lines.append(dated)
        for text in (problem.detail or "").splitlines()[:6]:
            lines += hanging((("  ", "dim"),), (remote(text, ""), "dim"), width)
        if problem.hint:
            lines += hanging((("  → ", "accent"),), (remote(problem.hint), "text"), width)
    if host.link.retry_at is not None:
        lines.append((("  " + remote(reason(host, look.as_of)).partition("; ")[2], "dim"),))
    elif host.link.state in NOT_RETRIED:
        lines.append((("  not tried again by itself; F5 tries again", "dim"),))
    return lines


def _trends(host: Host, look: Look, width: int) -> list[Spans]:
    half = (width - 1) // 2
    if half < LEAST_CHART_WIDTH:
        return []
    blocks = []
    row = HostRow(host, 0)
    for title, metric, now, cells in (
        ("Utilization", "utilization_percent", row.utilization_percent, half),
        ("Memory", "memory_percent", row.memory_percent, width - 1 - half),
    ):
        values = look.series.trend(host.name, HOST, metric, look.as_of)
        curve = chart(values, cells - 4, CHART_LINES, ascii_only=look.ascii_only)
        body: list[Spans] = [((line, "trend"),) for line in curve]
        said = f"{title} {show.percent(now)}, 5 min"
        mean = f"{said}, mean of the GPUs"
        blocks.append(panel(mean if len(mean) <= cells - 8 else said, body, cells, look))
    return beside(blocks[0], blocks[1], half)


def table(columns: Sequence[Column], rows: Iterable[Row], look: Look, width: int, sort: str = "") -> list[Spans]:
    """A table without cursor: titles, then one line a row (and one a partition)."""
    placed = place(columns, width, natural={})
    lines = [table_header(placed, sort, False, look, width)]
    for row in rows:
        mood = tone(row)
        parts = len(row.partitions) if isinstance(row, GpuRow) else 0
        for part in range(parts + 1):
            spans: list[Span] = []
            for item in placed:
                if part:
                    assert isinstance(row, GpuRow)
                    cell = partition_cell(row, part, item.column.id, look, item.width)
                else:
                    cell = item.column.cell(row, look, item.width)
                cell = toned(cell, mood, item.column.id)
                spans.append((" " * item.column.gap, "text"))
                spans += fit(look.plain(cell), item.width, right=item.column.right)
            lines.append(tuple(spans))
    return lines


def _device_lines(host: Host, look: Look, width: int) -> list[Spans]:
    columns = [column for column in GPUS.columns if column.id != "host"]
    return table(columns, gpu_rows(host, 0), look, width)


def _process_lines(host: Host, look: Look, width: int) -> list[Spans]:
    rows = process_rows(host, 0)
    if host.link.state not in SHOWN:
        return [((f"not known while the host is {WORDS[host.link.state]}", "dim"),)]
    unattributed = _unattributed_lines(host)
    if not rows:
        known = host.frame is not None and any(host.frame.column("processes_known") or ())
        return [(("none" if known else "the list of processes could not be read", "dim"),), *unattributed]
    columns = [column for column in PROCESSES.columns if column.id not in ("host", "sign")]
    rows.sort(key=lambda row: -((row.memory_used_bytes if isinstance(row, ProcessRow) else None) or 0))
    return table(columns, rows, look, width) + unattributed


def _unattributed_lines(host: Host) -> list[Spans]:
    """Memory that no listed process holds: of a process that nobody sees, or that has ended and left it."""
    lines: list[Spans] = []
    for position, device in enumerate(host.frame.devices if host.frame is not None else ()):
        size = unattributed_bytes(host.frame, position) if host.frame is not None else None
        if size:
            words = f"  of GPU {device.index}, held by no process that can be seen"
            lines.append(((f"unattributed {show.memory(size)}", "strong"), (words, "dim")))
    return lines


def _history_lines(host: Host, look: Look) -> list[Spans]:
    lines: list[Spans] = []
    sign, name = SIGNS[host.link.state]
    since = show.clock_time(host.link.since, look.as_of, look.zone)
    zone = f"{look.as_of.astimezone(look.zone):%Z}"
    lines.append(((f"{sign} {WORDS[host.link.state]}", name), (f" since {since} {zone}", "text")))
    frame = host.frame
    if frame is not None and host.link.state in SHOWN and frame.host.agent_memory_bytes is not None:
        lines[0] += (("   agent ", "dim"), (_agent(host, look.as_of), "text"))
    for change in reversed(host.link_history[-HISTORY_SHOWN:]):
        mark, style = SIGNS[change.state]
        at = show.clock_time(change.at, look.as_of, look.zone)
        why = f"   {remote(change.summary)}" if change.summary else ""
        lines.append(((f"{at:>16}  ", "dim"), (f"{mark} {WORDS[change.state]}", style), (why, "dim")))
    return lines


def _agent(host: Host, as_of: datetime) -> str:
    assert host.frame is not None
    values = host.frame.host
    parts = []
    seconds = (as_of - host.reported.since).total_seconds()
    if values.agent_cpu_seconds is not None and host.reported.state is LinkState.OK and seconds > 5:
        parts.append(f"{100 * values.agent_cpu_seconds / seconds:.1f} % CPU")
    parts.append(show.memory(values.agent_memory_bytes))
    return ", ".join(parts)


# --- everything about one row ------------------------------------------------------------------------------


def row_page(row: Row, look: Look, width: int) -> list[Spans]:
    """All values of a row under their names in the JSON output."""
    lines: list[Spans] = []
    for title, values in _sections(row):
        lines += [((" ", "text"),), ((f" {title}", "strong"),)]
        for name, value in values.items():
            lines += hanging(((f"   {remote(name):<32}", "dim"),), _value(value, look), width)
    return [look.plain(line) for line in lines]


def _sections(row: Row) -> list[tuple[str, dict[str, Any]]]:
    host, frame = row.host, row.host.frame
    link = {"state": host.link.state.value, "since": host.link.since}
    if host.link.problem is not None:
        link |= asdict(host.link.problem)
    sections: list[tuple[str, dict[str, Any]]] = [("Link", link)]
    if isinstance(row, ProcessRow):
        sections += [(f"Process on device {reading.device_index}", asdict(reading)) for reading in row.readings]
    elif isinstance(row, GpuRow) and frame is not None:
        sections.append(("Device", asdict(row.device)))
        sections.append(("Values", asdict(frame.reading(row.position))))
        sections.append(("Unattributed", {"memory_used_bytes": unattributed_bytes(frame, row.position)}))
        sections += [(f"Partition {part.index}", asdict(part)) for part in row.partitions]
        sections += [("Problem", asdict(problem)) for problem in host.device_problems.get(row.position, ())]
        sections += [(f"Process {process.pid}", asdict(process)) for process in row.processes]
    elif frame is not None:
        sections += [("Facts", asdict(frame.facts)), ("Values", asdict(frame.host))]
    sections.append(("Inventory", asdict(host.spec)))
    return sections


def _value(value: Any, look: Look) -> Span:
    match value:
        case None:
            return ("–", "faint")
        case float():
            return (f"{value:.6g}", "text")
        case datetime():
            return (value.astimezone(look.zone).isoformat(timespec="seconds"), "text")
        case dict():
            return (remote(" ".join(f"{name}={item}" for name, item in value.items())), "text")
        case list() | tuple():
            return (remote(" ".join(str(item) for item in value)), "text")
    return (remote(str(value)), "text")


# --- help and start ----------------------------------------------------------------------------------------

SCOPE_TITLES = {
    Scope.EVERYWHERE: "Everywhere",
    Scope.TABLES: "In the tables",
    Scope.HOST: "In pages",
    Scope.ACTIONS: "In the view of actions",
}

LEGEND: tuple[tuple[LinkState, str], ...] = (
    (LinkState.OK, "fresh values"),
    (LinkState.DEGRADED, "values come, but a device or a part of the host fails"),
    (LinkState.STALE, "connected, but no new values for 3 intervals; old ones stand dimmed"),
    (LinkState.THROTTLED, "the server or a jump host drops new connections; gputop backs off"),
    (LinkState.UNREACHABLE, "no connection; tried again by itself"),
    (LinkState.AUTH_FAILED, "the server refused the login; F5 tries again"),
    (LinkState.HOST_KEY_REJECTED, "the host's key is not the known one; F5 tries again"),
    (LinkState.UNSUPPORTED, "connected, but nothing can be run there"),
    (LinkState.CONNECTING, "on its way"),
)


NUMBERS: tuple[tuple[str, str], ...] = (
    ("–", "could not be read; it is never 0 and never counts as idle"),
    ("data", "age of the oldest value that is shown as fresh"),
    ("busy", "utilization of 5 % or more, or a compute process"),
    ("unknown", "neither busy nor idle: old values, no values, or no list of processes"),
)


def help_page(commands: Iterable[Command], look: Look, width: int, why_locked: str = "") -> list[Spans]:
    """What every key does, and what the signs mean. `why_locked`: why acts are refused now; empty: they are not."""
    commands = tuple(commands)
    lines: list[Spans] = []
    groups = [(title, [one for one in commands if one.scope is scope and not one.acts], "")
              for scope, title in SCOPE_TITLES.items()]  # fmt: skip
    groups.insert(1, ("Acts on the marked rows, or the row under the cursor", [one for one in commands if one.acts],
                      why_locked))  # fmt: skip
    for title, members, why_off in groups:
        if members:
            lines += [((" ", "text"),), ((f" {title}", "strong"), (f"   {why_off}", "warn"))]
        for command in members:
            keys = " ".join(key_sign(key, ascii_only=look.ascii_only) for key in command.keys)
            styles = ("faint", "faint", "faint") if why_off else ("key", "text", "dim")
            head: Spans = ((f"   {keys:<14} ", styles[0]), (f"{command.title:<22} ", styles[1]))
            lines += hanging(head, (command.help, styles[2]), width)
    lines += [((" ", "text"),), ((" States of a host", "strong"),)]
    for state, words in LEGEND:
        sign, style = SIGNS[state]
        lines += hanging(((f"   {sign} {WORDS[state]:<16}", style),), (words, "dim"), width)
    lines += [((" ", "text"),), ((" Numbers", "strong"),)]
    for name, words in NUMBERS:
        lines += hanging(((f"   {name:<18}", "text"),), (words, "dim"), width)
    return [look.plain(line) for line in lines]


START_LINES: tuple[tuple[str, str], ...] = (
    ("gputop gpu1 gpu2", "watch hosts of your ~/.ssh/config"),
    ("gputop ops@10.0.0.7:2222", "or any other, as ssh would reach it"),
    ("gputop --inventory fleet.yaml", "or a whole fleet from a file"),
    ("gputop hosts --check", "see what works on each host, and what to do where it does not"),
)


def start_page(look: Look, width: int) -> list[Spans]:
    """What to do when there is nothing to watch."""
    lines: list[Spans] = [
        ((" ", "text"),),
        (("  Nothing to watch yet.", "strong"),),
        (("  This machine has no GPU that gputop can read, and no inventory was found.", "dim"),),
        ((" ", "text"),),
        (("  Try one of these:", "text"),),
    ]
    for command, words in START_LINES:
        lines.append(((f"    {command:<32}", "accent"), (words, "dim")))
    lines += [
        ((" ", "text"),),
        (("  d", "key"), ("  see the demo: a simulated fleet over real SSH on this machine", "text")),
        (("  q", "key"), ("  quit", "text")),
        ((" ", "text"),),
        (("  Inventories are looked for in ./inventory.yaml, ~/.config/gputop/inventory.yaml and", "dim"),),
        (("  /etc/gputop/inventory.yaml; $GPUTOP_INVENTORY names others.", "dim"),),
    ]
    return [look.plain(line) for line in lines]
