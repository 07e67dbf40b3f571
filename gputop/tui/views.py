"""The three fleet views: Hosts, GPUs, Processes, each a table of columns over rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gputop.catalog import format as show
from gputop.catalog.text import short_model
from gputop.domain.host import Host
from gputop.domain.link import TROUBLE, LinkState
from gputop.fleet.occupancy import FRESH
from gputop.fleet.series import HOST
from gputop.query.sort import natural
from gputop.tui.columns import Column
from gputop.tui.draw import Span, Spans, meter, remote, trend
from gputop.tui.look import ABSENT, LOST, SHORT_WORDS, SIGNS, TROUBLED, WORDS, Look, why_slow
from gputop.tui.rows import (
    GpuRow,
    HostRow,
    ProcessRow,
    Row,
    gpu_rows,
    host_rows,
    host_sort_key,
    process_command,
    process_label,
    process_rows,
    process_user,
    trouble_rank,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one of the tables shows."""

    id: str
    title: str
    rows: Callable[[Host, int], list[Row]]
    columns: tuple[Column, ...]
    sort: str
    """Column by which it is sorted at first."""
    nouns: tuple[str, str]
    """What one of its rows is called, and several."""

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.id == name)

    def counted(self, count: int) -> str:
        """`1 process`, `2 processes`."""
        return f"{count} {self.nouns[count != 1]}"


def tone(row: Row) -> str:
    """`dim`: the values are old; `bad`: the device is lost; else empty."""
    if isinstance(row, GpuRow) and row.state in ("lost", "error") and row.host.link.state in FRESH:
        return "bad"
    return "" if row.host.link.state in FRESH else "dim"


UNTONED = frozenset({"sign", "state", "age"})
"""Columns that keep their color in dimmed rows."""


def toned(cell: Spans, mood: str, column: str) -> Spans:
    """A cell in the tone of its row."""
    if not mood or column in UNTONED:
        return cell
    return tuple((text, "faint" if name.startswith(("meter", "trend", "faint")) else mood) for text, name in cell)


# --- cells -------------------------------------------------------------------------------------------------


def by_name(text: str | None) -> object:
    """A sort key for text in which numbers count as numbers; `None` for none."""
    return natural(text) if text else None


def _text(value: str | None, style: str = "text") -> Spans:
    return ((value, style),) if value else (ABSENT,)


def _number(text: str, style: str = "text") -> Spans:
    return (ABSENT,) if text == show.ABSENT else ((text, style),)


def percent_meter(value: float | None, look: Look, width: int) -> Spans:
    """`  97 % ███████▊`; without the bar where there is no room."""
    bar = width - 6
    number = show.percent(value, width=5)
    if bar < 3:
        return ((f"{number:>{min(5, width)}}", "text" if value is not None else "faint"),)
    if value is None:
        return ((f"{number:>5}", "faint"), (" " * (width - 5), "text"))
    return ((f"{number:>5} ", "text"), *meter(value, bar, ascii_only=look.ascii_only))


def memory_meter(
    percent: float | None, used: float | None, total: float | None, look: Look, width: int, text_width: int
) -> Spans:
    """`███████▊ 78.1/79.6 GiB`; in narrow columns only the numbers, then only the share."""
    if width < text_width:
        return percent_meter(percent, look, width)
    numbers = show.memory_pair(_whole(used), _whole(total), width=text_width)
    style = "text" if used is not None else "faint"
    bar = width - text_width - 1
    if bar < 3:
        return ((f"{numbers:>{width}}", style),)
    return (*meter(percent, bar, ascii_only=look.ascii_only), (f" {numbers:>{text_width}}", style))


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def host_sign(row: Row, look: Look, width: int) -> Spans:
    return (SIGNS[row.host.link.state],)


def host_name(row: Row, look: Look, width: int) -> Spans:
    return ((remote(row.host.name), "strong" if row.host.link.state in TROUBLE else "text"),)


TONES = {"now": "accent", "closed": "warn", "bad": "bad", "doubt": "dim"}
"""Colors of what a row says of acts."""


def state_word(row: HostRow, look: Look, width: int) -> Spans:
    state = row.host.link.state
    if (mark := look.acts.get(row.host.name)) is not None:
        return ((mark.word, TONES[mark.tone]),)
    word = WORDS[state] if len(WORDS[state]) <= width else SHORT_WORDS[state]
    return ((word, "dim" if state is LinkState.OK else SIGNS[state][1]),)


def host_gpus(row: HostRow, look: Look, width: int) -> Spans:
    return _text(remote(row.gpus, ""), "text")


def host_trend(metric: str) -> Callable[[HostRow, Look, int], Spans]:
    def cell(row: HostRow, look: Look, width: int) -> Spans:
        values = look.series.trend(row.host.name, HOST, metric, look.as_of)
        return trend(values, width, phase=look.phase, ascii_only=look.ascii_only)

    return cell


def gpu_trend(metric: str) -> Callable[[GpuRow, Look, int], Spans]:
    def cell(row: GpuRow, look: Look, width: int) -> Spans:
        values = look.series.trend(row.host.name, row.device.key, metric, look.as_of)
        return trend(values, width, phase=look.phase, ascii_only=look.ascii_only)

    return cell


def names(values: tuple[str, ...], width: int) -> Spans:
    """`alice +2`: the first, and how many more."""
    if not values:
        return (ABSENT,)
    more = f" +{len(values) - 1}" if len(values) > 1 else ""
    first = remote(values[0])
    return ((first, "text"), (more, "dim")) if more else ((first, "text"),)


def temperature(value: float | None, look: Look, width: int, slowdown: float | None = None) -> Spans:
    """Yellow near the temperature at which the device slows down, red from there on."""
    limit = slowdown or USUAL_SLOWDOWN_CELSIUS
    style = "text" if value is None or value < limit - NEAR_CELSIUS else "warn" if value < limit else "bad"
    return _number(show.celsius(value, width=width, ascii_only=look.ascii_only), style)


def gpu_temperature(row: GpuRow, look: Look, width: int) -> Spans:
    return temperature(row.value("temperature_celsius"), look, width, row.value("temperature_slowdown_celsius"))


USUAL_SLOWDOWN_CELSIUS = 90.0
"""Where the device does not say."""

NEAR_CELSIUS = 4.0


def host_age(row: HostRow, look: Look, width: int) -> Spans:
    """Fresh ages in whole seconds: a digit that changes at every look says nothing."""
    seconds = row.host.age_seconds(look.as_of)
    if seconds is not None and row.host.link.state in FRESH:
        return ((f"{seconds:.0f} s" if seconds >= 1 else "<1 s", "dim"),)
    return _number(show.age(seconds, width=width), "warn" if row.host.link.state is LinkState.STALE else "dim")


def gpu_sign(row: GpuRow, look: Look, width: int) -> Spans:
    if row.host.link.state not in FRESH:
        return (SIGNS[row.host.link.state],)
    if row.state in ("lost", "error"):
        return (LOST,)
    return (TROUBLED,) if row.is_problem else (SIGNS[LinkState.OK],)


def gpu_utilization(row: GpuRow, look: Look, width: int) -> Spans:
    if row.state != "ok":
        return ((f"{row.state:>5}" if width > 5 else row.state, "bad" if row.state in ("lost", "error") else "dim"),)
    value = row.value("utilization_percent")
    if row.is_divided:
        return (("    – ", "faint"), ("MIG", "accent")) if width > 8 else (("  MIG", "accent"),)
    return percent_meter(value, look, width)


def gpu_model(row: GpuRow, look: Look, width: int) -> Spans:
    return _text(remote(short_model(row.device.model), ""))


def gpu_slow(row: GpuRow, look: Look, width: int) -> Spans:
    reasons = row.any_value("throttle_reasons")
    return (why_slow(reasons if isinstance(reasons, list) else None),)


def gpu_processes(row: GpuRow, look: Look, width: int) -> Spans:
    """Who uses it. What is known of a host that is silent is dated: it need not be so any more."""
    if not row.readable:
        return (ABSENT,)
    old: tuple[Span, ...] = ()
    if row.host.link.state not in FRESH:
        old = ((f"{show.age(row.host.age_seconds(look.as_of), width=width - 4).strip()} ago  ", "dim"),)
    if row.slices:
        return (*old, (row.slices, "dim"))
    if not row.processes:
        return old or (((row.unused, "dim"),) if row.unused else (ABSENT,))
    first, *others = sorted(row.processes, key=lambda process: -(process.memory_used_bytes or 0))
    more: tuple[Span, ...] = ((f"+{len(others)} ", "dim"),) if others else ()
    return (*old, (process_user(first) + " ", "text"), *more, (process_label(process_command(first)), "dim"))


def process_started(row: ProcessRow, look: Look, width: int) -> Spans:
    return _number(show.clock_time(row.first.started_at, look.as_of, look.zone, width=width), "dim")


def _host_memory(row: HostRow, look: Look, width: int) -> Spans:
    return memory_meter(row.memory_percent, row.memory_used_bytes, row.memory_total_bytes, look, width, 13)


def _gpu_memory(row: GpuRow, look: Look, width: int) -> Spans:
    used, total = row.value("memory_used_bytes"), row.value("memory_total_bytes")
    return memory_meter(row.memory_percent, used, total, look, width, 13)


def _gpu_power(row: GpuRow, look: Look, width: int) -> Spans:
    return _number(show.watts_pair(row.value("power_watts"), row.value("power_limit_watts"), width=width))


def _slots(row: GpuRow, look: Look, width: int) -> Spans:
    generation, lanes = row.any_value("pcie_generation"), row.any_value("pcie_width")
    return ((f"{generation} x{lanes}", "dim"),) if generation and lanes else (ABSENT,)


SIGN = Column(id="sign", title="", cell=host_sign, width=1, gap=1, pinned=True)
HOST_NAME = Column(id="host", title="HOST", cell=host_name, width=8, gap=1, pinned=True, sort=host_sort_key,
                   letter="h")  # fmt: skip

HOSTS = View(
    id="hosts", title="Hosts", nouns=("host", "hosts"), rows=host_rows, sort="state",
    columns=(
        SIGN,
        HOST_NAME,
        Column(id="state", title="STATE", cell=state_word, width=11, rank=3, sort=trouble_rank,
               descending=True, letter="s"),
        Column(id="gpus", title="GPUS", cell=host_gpus, width=13, most=22, rank=5,
               sort=lambda row: by_name(row.gpus), letter="g"),
        Column(id="utilization", title=" UTIL", cell=lambda row, look, width: percent_meter(
                   row.utilization_percent, look, width), width=5, good=12, most=14, rank=1,
               sort=lambda row: row.utilization_percent, descending=True, letter="u"),
        Column(id="trend", title="5 MIN", cell=host_trend("utilization_percent"), width=8, good=10, most=30, rank=6),
        Column(id="memory", title="MEMORY", cell=_host_memory, width=13, good=21, most=24, rank=2,
               sort=lambda row: row.memory_percent, descending=True, letter="m"),
        Column(id="memory-trend", title="MEMORY 5 MIN", cell=host_trend("memory_percent"), width=12, most=20, rank=22),
        Column(id="power", title="POWER", cell=lambda row, look, width: _number(show.watts(
                   row.power_watts, width=width)), width=6, rank=7, right=True, sort=lambda row: row.power_watts,
               descending=True, letter="p"),
        Column(id="temperature", title="TEMP", cell=lambda row, look, width: temperature(
                   row.temperature_celsius, look, width), width=5, rank=8, right=True,
               sort=lambda row: row.temperature_celsius, descending=True, letter="t"),
        Column(id="users", title="USERS", cell=lambda row, look, width: names(row.users, width), width=9, most=24,
               rank=9, sort=lambda row: by_name(row.users[0] if row.users else None), letter="n"),
        Column(id="age", title="AGE", cell=host_age, width=6, rank=10, right=True,
               sort=lambda row: row.host.frame and -row.host.frame.received_at.timestamp(), letter="a"),
        Column(id="driver", title="DRIVER", cell=lambda row, look, width: _text(remote(
                   row.host.frame.facts.driver_version if row.host.frame else None, ""), "dim"), width=10, most=12,
               rank=20, sort=lambda row: by_name(row.host.frame and row.host.frame.facts.driver_version), letter="d"),
        Column(id="load", title="LOAD", cell=lambda row, look, width: _text(
                   f"{row.frame.host.load_1m:.1f}" if row.frame and row.frame.host.load_1m is not None else None,
                   "dim"), width=6, rank=21, right=True,
               sort=lambda row: row.frame and row.frame.host.load_1m, descending=True, letter="l"),
        Column(id="labels", title="LABELS", cell=lambda row, look, width: _text(remote(" ".join(
                   f"{name}={value}" for name, value in row.host.spec.labels.items()), ""), "dim"), width=14, good=24,
               most=40, rank=23, sort=lambda row: tuple(sorted(row.host.spec.labels.items())) or None),
    ),
)  # fmt: skip

GPUS = View(
    id="gpus", title="GPUs", nouns=("GPU", "GPUs"), rows=gpu_rows, sort="sign",
    columns=(
        Column(id="sign", title="", cell=gpu_sign, width=1, gap=1, pinned=True, sort=trouble_rank, descending=True,
               letter="s"),
        HOST_NAME,
        Column(id="gpu", title="GPU", cell=lambda row, look, width: ((str(row.device.index), "text"),), width=3,
               right=True, pinned=True, gap=1, sort=lambda row: row.device.index, letter="g"),
        Column(id="model", title="MODEL", cell=gpu_model, width=9, most=12, rank=5,
               sort=lambda row: by_name(short_model(row.device.model)), letter="d"),
        Column(id="utilization", title=" UTIL", cell=gpu_utilization, width=5, good=12, most=14, rank=1,
               sort=lambda row: row.value("utilization_percent"), descending=True, letter="u"),
        Column(id="trend", title="5 MIN", cell=gpu_trend("utilization_percent"), width=10, most=30, rank=7),
        Column(id="memory", title="MEMORY", cell=_gpu_memory, width=13, good=20, most=22, rank=2,
               sort=lambda row: row.memory_percent, descending=True, letter="m"),
        Column(id="power", title="POWER", cell=_gpu_power, width=9, rank=4, right=True,
               sort=lambda row: row.value("power_watts"), descending=True, letter="p"),
        Column(id="temperature", title="TEMP", cell=gpu_temperature, width=5, rank=3, right=True,
               sort=lambda row: row.value("temperature_celsius"), descending=True, letter="t"),
        Column(id="clock", title="CLOCK", cell=lambda row, look, width: _number(show.gigahertz(
                   row.value("sm_clock_mhz"), width=width)), width=8, rank=20, right=True,
               sort=lambda row: row.value("sm_clock_mhz"), descending=True, letter="c"),
        Column(id="slow", title="WHY SLOW", cell=gpu_slow, width=9, most=11, rank=8),
        Column(id="processes", title="PROCESSES", cell=gpu_processes, width=10, good=30, most=60, rank=6,
               sort=lambda row: len(row.processes) or None, descending=True, letter="n"),
        Column(id="memory-trend", title="MEMORY 5 MIN", cell=gpu_trend("memory_percent"), width=12, most=20, rank=21),
        Column(id="fan", title="FAN", cell=lambda row, look, width: _number(show.percent(
                   row.value("fan_percent"), width=width), "dim"), width=5, rank=22, right=True),
        Column(id="pcie", title="PCIE", cell=_slots, width=6, rank=23),
        Column(id="bus", title="BUS", cell=lambda row, look, width: _text(remote(row.device.pci_bus_id, ""), "dim"),
               width=16, rank=24, sort=lambda row: row.device.pci_bus_id),
    ),
)  # fmt: skip

PROCESSES = View(
    id="processes", title="Processes", nouns=("process", "processes"), rows=process_rows, sort="memory",
    columns=(
        SIGN,
        HOST_NAME,
        Column(id="pid", title="PID", cell=lambda row, look, width: ((str(row.pid), "text"),), width=7, rank=4,
               right=True, sort=lambda row: row.pid, letter="p"),
        Column(id="user", title="USER", cell=lambda row, look, width: _text(process_user(row.first, "")), width=8,
               most=16, rank=1, sort=lambda row: by_name(row.first.user), letter="n"),
        Column(id="gpus", title="GPU", cell=lambda row, look, width: _text(row.gpus), width=5, rank=5,
               sort=lambda row: by_name(row.gpus), letter="g"),
        Column(id="memory", title="MEMORY", cell=lambda row, look, width: _number(show.memory(
                   row.memory_used_bytes, width=width)), width=8, good=9, rank=2, right=True,
               sort=lambda row: row.memory_used_bytes, descending=True, letter="m"),
        Column(id="utilization", title=" UTIL", cell=lambda row, look, width: percent_meter(
                   row.utilization_percent, look, width), width=5, rank=6,
               sort=lambda row: row.utilization_percent, descending=True, letter="u"),
        Column(id="started", title="STARTED", cell=process_started, width=9, most=16, rank=7,
               sort=lambda row: row.first.started_at, letter="s"),
        Column(id="job", title="JOB", cell=lambda row, look, width: _text(remote(row.first.job, "")), width=11, most=16,
               rank=8, sort=lambda row: by_name(row.first.job), letter="j"),
        Column(id="container", title="CONTAINER", cell=lambda row, look, width: _text(remote(row.first.container, "")),
               width=10, most=16, rank=20, sort=lambda row: by_name(row.first.container), letter="c"),
        Column(id="command", title="COMMAND", cell=lambda row, look, width: ((process_command(row.first), "dim"),),
               width=18, good=30, most=400, rank=3, sort=lambda row: row.first.command or row.first.name, letter="d"),
    ),
)  # fmt: skip

VIEWS: dict[str, View] = {view.id: view for view in (HOSTS, GPUS, PROCESSES)}
