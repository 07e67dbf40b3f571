"""The detail of one host: facts, problems, trends, devices, processes, log, link history."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from gputop.catalog import format as show
from gputop.domain.host import Host
from gputop.domain.link import NOT_RETRIED, TROUBLE, LinkState
from gputop.domain.problem import INFORMATIONAL, Problem
from gputop.fleet.attribution import unattributed_bytes
from gputop.fleet.occupancy import FRESH, SHOWN
from gputop.fleet.series import HOST
from gputop.tui.draw import Span, Spans, chart, fit, remote, width_of
from gputop.tui.look import SIGNS, TROUBLED, WORDS, Look
from gputop.tui.pages.blocks import beside, hanging, panel, table
from gputop.tui.pages.log import latest
from gputop.tui.rows import HostRow, ProcessRow, gpu_rows, process_rows, reason
from gputop.tui.views import GPUS, PROCESSES

CHART_LINES = 4
LEAST_CHART_WIDTH = 30
HISTORY_SHOWN = 8
BURSTS_SHOWN = 3


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
