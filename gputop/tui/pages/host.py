"""The page of one host: facts, problems, devices, trends, processes, and all that is known of it in groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rich.cells import cell_len

from gputop.catalog import format as show
from gputop.domain.host import Host
from gputop.domain.link import EXPLAINED, NOT_RETRIED
from gputop.domain.problem import INFORMATIONAL, Problem
from gputop.export.groups import Group
from gputop.export.host_groups import ages, hops, host_identity, host_load, link_group, where
from gputop.fleet.attribution import unattributed_bytes
from gputop.fleet.occupancy import FRESH, has_values
from gputop.fleet.series import HOST
from gputop.tui.columns import EXTRA, Column
from gputop.tui.draw import Span, Spans, chart, fit, remote, width_of
from gputop.tui.look import SIGNS, TROUBLED, WORDS, Look
from gputop.tui.pages.blocks import Board, beside, hanging, in_columns, panel
from gputop.tui.pages.log import latest
from gputop.tui.rows import GpuRow, HostRow, ProcessRow, Row, gpu_rows, process_rows, reason
from gputop.tui.views import GPUS, HOSTS, PROCESSES

CHART_LINES = 4
LEAST_CHART_WIDTH = 30
BURSTS_SHOWN = 3
NAME_CELLS = (6, 28)
"""The least and the most that the name of the host gets in its own row."""


def host_head(host: Host, look: Look, width: int) -> Spans:
    """The first line of a host's page."""
    sign, name = SIGNS[host.link.state]
    left: Spans = ((f" {remote(host.name)} ", "title"), (f"  {sign} {WORDS[host.link.state]}", name))
    return page_head(left, host, look, width)


def page_head(left: Spans, host: Host, look: Look, width: int) -> Spans:
    """What a page is about, and at the right the time and the age of the newest reading."""
    age = host.age_seconds(look.as_of)
    fresh = "no data yet" if age is None else f"data {'<1 s' if age < 1 else show.duration(age)}"
    zone = look.as_of.astimezone(look.zone)
    right: Spans = ((f"{zone:%H:%M:%S %Z}  ", "dim"), (f"{fresh} ", "dim"))
    room = max(0, width - width_of(right) - 1)
    return look.plain((*fit(left, room), (" ", "text"), *right))


def host_board(host: Host, told: Sequence[Group], look: Look, width: int) -> Board:
    """Everything known of one host. `told`: what scheduler and power provider say of it, and what was done with it."""
    board = Board()
    board.add_row(HOSTS.columns, HostRow(host, 0), look, width, name_cells(host))
    board.add(_facts(host, look, width))
    problems = problem_lines(host, look, width - 4)
    if problems:
        board.add(panel("Problems", problems, width, look))
    if host.events:
        board.add(panel("Kernel log (L shows all)", latest(host, host.events, look, BURSTS_SHOWN), width, look))
    if host.frame is not None and host.frame.devices:
        columns = [column for column in GPUS.columns if column.id != "host"]
        board.add_table("Devices", columns, gpu_rows(host, 0), look, width, "Enter opens one")
        board.add(_trends(host, look, width))
        add_processes(board, host, process_rows(host, 0), look, width, _unattributed_lines(host, look))
    scheduler, instance, acts = told
    groups = [
        scheduler,
        instance,
        host_load(host, look.as_of),
        host_identity(host, look.as_of, look.zone),
        link_group(host, look.as_of, look.zone),
        acts,
        ages(host, look.as_of, look.zone),
    ]
    board.add(in_columns(groups, _PLACES, look, width))
    return board


_PLACES = ((0, 0), (1, 1), (0, 0), (1, 2), (0, 1), (0, 2), (1, 1))


def name_cells(host: Host) -> int:
    least, most = NAME_CELLS
    return min(max(least, cell_len(remote(host.name))), most)


def _facts(host: Host, look: Look, width: int) -> list[Spans]:
    spec, frame = host.spec, host.frame
    pairs: list[tuple[str, str | None]] = [
        ("address", where(host)),
        ("via", hops(host)),
        ("groups", " ".join(spec.groups)),
        *spec.labels.items(),
    ]
    if frame is not None:
        facts, values = frame.facts, frame.host
        pairs += [
            ("driver", facts.driver_version),
            ("CUDA", facts.cuda_version),
            ("read by", frame.route),
            ("kernel", facts.kernel_version),
            ("up", show.duration(values.uptime_seconds) if values.uptime_seconds is not None else None),
            ("CPU", _cpu(host)),
            ("memory", _pair(values.memory_used_bytes, values.memory_total_bytes)),
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


def problem_lines(host: Host, look: Look, width: int, position: int | None = None) -> list[Spans]:
    """What is wrong with the host and its devices, or with the device at `position` alone, and what to do about it."""
    named: list[tuple[str, Problem]] = [] if position is not None else [("", problem) for problem in host.problems]
    frame = host.frame
    for at, problems in sorted(host.device_problems.items()):
        if position in (None, at):
            label = frame.devices[at].label if frame and at < len(frame.devices) else "GPU"
            named += [(label if position is None else "", problem) for problem in problems]
    link = host.link.problem
    if link is not None and host.link.state in EXPLAINED and host.link.state not in FRESH:
        named.insert(0, ("", link))  # that of a host with fresh values is one of the others
    in_trouble = SIGNS[host.link.state] if host.link.state in EXPLAINED else TROUBLED
    lines: list[Spans] = []
    for where_, problem in named:
        lines += _problem(where_, problem, in_trouble, look, width)
    if host.link.retry_at is not None:
        lines.append((("  " + remote(reason(host, look.as_of)).partition("; ")[2], "dim"),))
    elif host.link.state in NOT_RETRIED:
        lines.append((("  not tried again by itself; F5 tries again", "dim"),))
    return lines


def _problem(place: str, problem: Problem, in_trouble: Span, look: Look, width: int) -> list[Spans]:
    sign, name = ("·", "dim") if problem.kind in INFORMATIONAL else in_trouble
    since = show.clock_time(problem.since, look.as_of, look.zone) if problem.since else ""
    summary = remote(problem.summary)
    place_name = f"{place}  " if place and place not in summary else ""
    lines = hanging(((f"{sign} ", name),), (place_name + summary, "strong"), width)
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
    return lines


def _trends(host: Host, look: Look, width: int) -> list[Spans]:
    row = HostRow(host, 0)
    now = (row.utilization_percent, row.memory_percent)
    return trends(host.name, HOST, now, ", mean of the GPUs", look, width)


def trends(
    host: str, device: str, now: tuple[float | None, float | None], what: str, look: Look, width: int
) -> list[Spans]:
    """Curves of the last five minutes, utilization and memory side by side; nothing where there is no room, or nothing
    was seen."""
    half = (width - 1) // 2
    seen = [look.series.trend(host, device, metric, look.as_of) for metric in ("utilization_percent", "memory_percent")]
    if half < LEAST_CHART_WIDTH or all(value is None for values in seen for value in values):
        return []
    blocks = []
    for title, values, value, cells in (
        ("Utilization", seen[0], now[0], half),
        ("Memory", seen[1], now[1], width - 1 - half),
    ):
        curve = chart(values, cells - 4, CHART_LINES, ascii_only=look.ascii_only)
        body: list[Spans] = [((line, "trend"),) for line in curve]
        said = f"{title} {show.percent(value)}, 5 min"
        longer = f"{said}{what}"
        blocks.append(panel(longer if len(longer) <= cells - 8 else said, body, cells, look))
    return beside(blocks[0], blocks[1], half)


def add_processes(
    board: Board, host: Host, rows: Sequence[Row], look: Look, width: int, after: Sequence[Spans],
    positions: Sequence[int] | None = None,
) -> None:  # fmt: skip
    """A table of processes with their owners; `positions`: the devices that they are of, else all."""
    if not has_values(host) or not rows:
        words = _no_processes(host, positions)
        board.add(panel("Processes", [((words, "dim"),), *after], width, look))
        return
    processes = sorted(
        (row for row in rows if isinstance(row, ProcessRow)), key=lambda row: -(row.memory_used_bytes or 0)
    )
    unknown = _unread(host, positions)
    note: list[Spans] = [((unknown, "warn"),)] if unknown else []
    board.add_table("Processes", _process_columns(processes), processes, look, width, after=[*note, *after])


def _no_processes(host: Host, positions: Sequence[int] | None) -> str:
    if not has_values(host):
        return f"not known while the host is {WORDS[host.link.state]}"
    return _unread(host, positions) or "none"


def _unread(host: Host, positions: Sequence[int] | None) -> str:
    """Of which devices the list of processes could not be read; empty: of none."""
    frame = host.frame
    if frame is None:
        return "the list of processes could not be read"
    asked = range(len(frame.devices)) if positions is None else positions
    unknown = [position for position in asked if not frame.value("processes_known", position)]
    if not unknown:
        return ""
    if len(unknown) == len(asked):
        return "the list of processes could not be read"
    return f"the list of processes of GPU {show.numbers([frame.devices[at].index for at in unknown])} could not be read"


def _process_columns(rows: Sequence[ProcessRow]) -> list[Column]:
    """Those of the view, and the container among the first where there is one."""
    has_containers = any(row.first.container for row in rows)
    return [
        replace(column, rank=EXTRA - 1) if column.id == "container" and has_containers else column
        for column in PROCESSES.columns
        if column.id not in ("host", "sign")
    ]


def _unattributed_lines(host: Host, look: Look) -> list[Spans]:
    """Memory that no listed process holds: of a process that nobody sees, or that has ended and left it."""
    lines: list[Spans] = []
    for row in gpu_rows(host, 0):
        assert isinstance(row, GpuRow)
        lines += unattributed_lines(row)
    return lines


def unattributed_lines(row: GpuRow) -> list[Spans]:
    frame = row.host.frame
    size = unattributed_bytes(frame, row.position) if frame is not None and has_values(row.host) else None
    if not size:
        return []
    words = f"  of GPU {row.device.index}, held by no process that can be seen"
    return [((f"unattributed {show.memory(size)}", "strong"), (words, "dim"))]
