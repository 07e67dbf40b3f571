"""The fleet as a table for people: one line a host, trouble on top, a reason under each host in trouble."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

from rich.cells import cell_len

from gputop.catalog import format as show
from gputop.catalog.text import ascii_degrees, clean, cut, pad, short_model
from gputop.domain.host import Host
from gputop.domain.link import SEVERITY, TROUBLE, LinkState
from gputop.domain.plural import counted
from gputop.domain.reading import Frame
from gputop.fleet.fleet import Fleet
from gputop.fleet.occupancy import FRESH
from gputop.fleet.totals import known, totals
from gputop.query.sort import ordered

GAP = "  "
INDENT = "    "

_SIGNS = {LinkState.OK: "●", LinkState.DEGRADED: "▲", LinkState.STALE: "◌", LinkState.THROTTLED: "◌"}
_ASCII = str.maketrans({"●": "*", "▲": "!", "◌": "~", "✕": "x", "○": "o", "–": "-", "…": "~", "°": " ", "·": "."})
_COLORS = {"ok": "32", "warn": "33", "bad": "31", "dim": "2", "strong": "1"}
"""SGR codes by style; the terminal's own palette decides what they look like."""


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    rank: int
    """The higher, the earlier it leaves a narrow terminal; 0: never."""
    right: bool = False


COLUMNS = (
    Column("HOST", 0),
    Column("STATE", 0),
    Column("GPUS", 2),
    Column("UTIL", 0, right=True),
    Column("MEMORY", 1, right=True),
    Column("POWER", 3, right=True),
    Column("TEMP", 4, right=True),
    Column("USERS", 5),
    Column("AGE", 6, right=True),
)
_MOST = {"HOST": 40, "USERS": 24, "GPUS": 30}
"""Cells at most."""


def to_table(
    fleet: Fleet, *, width: int | None, zone: tzinfo | None, color: bool = False, ascii_only: bool = False
) -> str:
    """Lines of at most `width` cells (`None`: as wide as they are); times in `zone` (`None`: this machine's)."""
    hosts = ordered(fleet, lambda host: SEVERITY[host.link.state], descending=True)
    rows = [_cells(host, fleet) for host in hosts]
    columns = list(range(len(COLUMNS)))
    widths = [
        min(_MOST.get(column.title, 40), max(cell_len(text) for text in (column.title, *(row[at] for row in rows))))
        for at, column in enumerate(COLUMNS)
    ]
    while width is not None and 2 + sum(widths[at] + len(GAP) for at in columns) - len(GAP) > width:
        leaving = max(columns, key=lambda at: COLUMNS[at].rank)
        if not COLUMNS[leaving].rank:
            break
        columns.remove(leaving)
    lines = [*_summary(fleet, zone), [], [("  " + _line([c.title for c in COLUMNS], columns, widths), "dim")]]
    for host, row in zip(hosts, rows, strict=True):
        lines += _host_lines(host, _line(row, columns, widths))
    return "".join(_finish(line, width, color=color, ascii_only=ascii_only) for line in lines)


Line = Sequence[tuple[str, str]]
"""Pieces of text, each with its style."""


def _finish(line: Line, width: int | None, *, color: bool, ascii_only: bool) -> str:
    pieces = []
    room = width
    for text, style in line:
        if room is not None:
            text = cut(text, room)
            room -= cell_len(text)
        if ascii_only:
            text = ascii_degrees(text).translate(_ASCII).encode("ascii", "replace").decode()
        code = _COLORS.get(style) if color else None
        pieces.append(f"\x1b[{code}m{text}\x1b[0m" if code and text.strip() else text)
    return "".join(pieces).rstrip(" ") + "\n"


def _line(cells: Sequence[str], columns: Sequence[int], widths: Sequence[int]) -> str:
    return GAP.join(pad(cells[at], widths[at], right=COLUMNS[at].right) for at in columns)


def _summary(fleet: Fleet, zone: tzinfo | None) -> list[list[tuple[str, str]]]:
    counts = Counter(host.link.state for host in fleet)
    worst_first = sorted(counts, key=lambda state: -SEVERITY[state])
    when = fleet.as_of.astimezone(zone)
    sums = totals(fleet)
    first = [(f"{counted(len(fleet.hosts), 'host')} ", "strong")]
    for state in worst_first:
        first += [(f"  {_sign(state)}", _style(state)), (f" {counts[state]} {state.value}", "")]
    first.append((f"   {when:%Y-%m-%d %H:%M:%S %Z}", "dim"))
    unit = show.memory_pair(sums.memory_used_bytes, sums.memory_total_bytes, width=24)
    second = [
        (f"{counted(sums.devices, 'GPU')} ", "strong"),
        (f"  {sums.devices_busy} busy  {sums.devices_idle} idle  {sums.devices_unknown} unknown", ""),
        (f"   memory {unit}   power {show.watts(sums.power_watts)}", ""),
    ]
    problems = [[(clean(problem.summary), "bad")] for problem in fleet.problems]
    return [first, second, *problems]


def _host_lines(host: Host, text: str) -> list[list[tuple[str, str]]]:
    state = host.link.state
    style = {LinkState.STALE: "dim"}.get(state, "bad" if _style(state) == "bad" else "")
    lines = [[(_sign(state), _style(state)), (" " + text, style)]]
    problem = host.link.problem
    if problem is None or state not in TROUBLE:
        return lines
    said = clean(problem.summary)
    if problem.hint:
        said += f"; {clean(problem.hint)}"
    return [*lines, [(INDENT + said, "dim")]]


def _cells(host: Host, fleet: Fleet) -> list[str]:
    """One text a column. A host that cannot be reached shows what it is, not what it once measured."""
    frame = host.frame
    shown = frame if host.link.state in FRESH | {LinkState.STALE} else None
    alive = [state == "ok" for state in frame.column("state") or ["ok"] * len(frame.devices)] if frame else []
    utilization = _known(shown, "utilization_percent", alive)
    temperature = _known(shown, "temperature_celsius", alive)
    power = _known(shown, "power_watts", alive)
    used, total = _known(shown, "memory_used_bytes", alive), _known(shown, "memory_total_bytes", alive)
    return [
        clean(host.name),
        host.link.state.value,
        _gpus(frame, alive),
        show.percent(sum(utilization) / len(utilization) if utilization else None),
        show.memory_pair(sum(used) if used else None, sum(total) if total else None),
        show.watts(sum(power) if power else None),
        show.celsius(max(temperature) if temperature else None),
        _users(shown),
        show.age(host.age_seconds(fleet.as_of)),
    ]


def _known(frame: Frame | None, metric: str, alive: list[bool]) -> list[Any]:
    return known(frame.column(metric), alive) if frame else []


def _gpus(frame: Frame | None, alive: list[bool]) -> str:
    """`8 H100 80GB`; `7/8 H100 80GB` when not all answer."""
    if frame is None or not frame.devices:
        return show.ABSENT
    models = Counter(short_model(device.model) for device in frame.devices)
    count = str(len(alive)) if all(alive) else f"{sum(alive)}/{len(alive)}"
    if len(models) == 1:
        return f"{count} {next(iter(models))}".rstrip()
    return f"{count} GPUs: " + ", ".join(f"{number} {model}".rstrip() for model, number in models.most_common())


def _users(frame: Frame | None) -> str:
    held: Counter[str] = Counter()
    for process in frame.processes if frame else ():
        if process.user:
            held[clean(process.user)] += 1 + (process.memory_used_bytes or 0)
    if not held:
        return show.ABSENT
    names = [user for user, _ in held.most_common()]
    return names[0] if len(names) == 1 else f"{names[0]} +{len(names) - 1}"


def _sign(state: LinkState) -> str:
    return _SIGNS.get(state, "✕" if state in TROUBLE else "○")


def _style(state: LinkState) -> str:
    if state is LinkState.OK:
        return "ok"
    if state in (LinkState.DEGRADED, LinkState.STALE, LinkState.THROTTLED):
        return "warn"
    return "bad" if state in TROUBLE else "dim"
