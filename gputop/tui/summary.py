"""The lines above and below the tables: pure functions from a Fleet to spans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gputop.catalog import format as show
from gputop.domain.link import SEVERITY, LinkState
from gputop.fleet.fleet import Fleet
from gputop.fleet.occupancy import FRESH
from gputop.fleet.totals import Totals
from gputop.tui.columns import Placed
from gputop.tui.commands import Command, key_sign
from gputop.tui.draw import Span, Spans, fit, remote, shares, spread, width_of
from gputop.tui.look import SHORT_WORDS, SIGNS, WORDS, Look
from gputop.tui.views import VIEWS, View


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What the header says besides the Fleet."""

    title: str = ""
    """The inventory's name."""
    message: str = ""
    """Stands in the footer in place of the key hints."""
    view: str = "hosts"
    sort: str = ""
    descending: bool = False
    filter: str = ""
    shown: int = 0
    """Rows that the filter lets through."""
    marks: int = 0
    hidden: int = 0
    """Marked rows that the filter hides."""
    paused_seconds: float | None = None
    mode: Span = ("read-only", "dim")
    """Whether acts are allowed."""
    is_mode_above: bool = False
    """There is no room for a footer: the mode stands in the header."""
    acts: int = 0
    """Acts that are under way."""
    waiting: str = ""
    """What waits for an answer of the user; empty: nothing does."""
    unfinished: int = 0
    """Plans that somebody has to finish, and that the user has not seen."""
    leases_over: int = 0
    """Hosts that were drained for a time which has passed."""


def header_height(width: int, height: int) -> int:
    """Lines that the header takes in a pane of this size."""
    if width < 60 or height < 14:
        return 1
    return 3 if width >= 100 and height >= 28 else 2


def header(fleet: Fleet, sums: Totals, head: Head, look: Look, width: int, height: int) -> list[Spans]:
    """The header for a pane of this size."""
    match header_height(width, height):
        case 1:
            lines = [_one_line(fleet, sums, head, look, width)]
        case 2:
            lines = [_states_line(fleet, head, look, width, sums), _short_sums(sums, head, width)]
        case _:
            lines = [
                _states_line(fleet, head, look, width),
                _sums_line(sums, look, width),
                _tabs_line(head, width),
            ]
    return [look.plain(line) for line in lines]


def states(fleet: Fleet, words: Mapping[LinkState, str] | None = None) -> Spans:
    """`✕ 1 unreachable  ▲ 2 degraded  ● 20 ok`, worst first; without `words` the signs alone."""
    counts = Counter(host.link.state for host in fleet)
    spans: list[Span] = []
    if words is None:
        signs: dict[Span, int] = {}
        for state in sorted(counts, key=lambda state: -SEVERITY[state]):
            signs[SIGNS[state]] = signs.get(SIGNS[state], 0) + counts[state]
        return tuple((f"{sign}{count} ", name) for (sign, name), count in signs.items())
    for state in sorted(counts, key=lambda state: -SEVERITY[state]):
        sign, name = SIGNS[state]
        spans += [(f"{sign} {counts[state]} ", name), (f"{words[state]}   ", "text" if name == "bad" else "dim")]
    return tuple(spans)


def data_age_seconds(fleet: Fleet) -> float | None:
    """Age of the oldest values that are shown as fresh: nothing on the screen is older without saying so."""
    ages = [host.age_seconds(fleet.as_of) for host in fleet if host.link.state in FRESH]
    return max((age for age in ages if age is not None), default=None)


def data_age(fleet: Fleet, *, words: bool = True) -> Span:
    seconds = data_age_seconds(fleet)
    if seconds is None:
        return ("no data yet" if words else "no data", "dim")
    text = "<1 s" if seconds < 1 else show.duration(seconds)
    return (f"data {text}" if words else text, "dim")


def _badges(head: Head) -> Spans:
    spans: list[Span] = []
    if head.paused_seconds is not None:
        spans += [(f" PAUSED {show.duration(head.paused_seconds)} ", "badge"), (" ", "text")]
    if head.acts:
        spans += [(f" {head.acts} {'act' if head.acts == 1 else 'acts'} under way ", "badge"), (" ", "text")]
    if head.waiting:
        spans += [(f" {head.waiting} ", "badge"), (" ", "text")]
    if head.leases_over:
        word = "lease" if head.leases_over == 1 else "leases"
        spans += [(f" {head.leases_over} {word} over: 9 ", "badge"), (" ", "text")]
    if head.unfinished:
        spans += [(f" {head.unfinished} unfinished: 9 ", "badge"), (" ", "text")]
    if head.marks:
        spans += [(_marked(head), "badge"), (" ", "text")]
    return tuple(spans)


def _marked(head: Head) -> str:
    return f" {head.marks} marked, {head.hidden} hidden " if head.hidden else f" {head.marks} marked "


def _states_line(fleet: Fleet, head: Head, look: Look, width: int, sums: Totals | None = None) -> Spans:
    """Who, how the hosts are, when. `sums`: memory and power stand here too, as far as there is room."""
    zone = fleet.as_of.astimezone(look.zone)
    brand: Spans = ((" gputop ", "title"),)
    title = remote(head.title, "")
    if title and width >= 100:
        brand += ((f" {title}", "dim"),)
    right: Spans = (*_badges(head), (f"{zone:%H:%M:%S %Z}  ", "dim"), data_age(fleet), (" ", "text"))
    if not fleet.hosts:
        right = (("connecting ", "dim"),)
    more: Spans = ()
    if sums is not None and fleet.hosts:
        known = (show.memory_pair(sums.memory_used_bytes, sums.memory_total_bytes), show.watts(sums.power_watts))
        more = tuple((f"{text}   ", "strong") for text in known if text != show.ABSENT)
    for words in (WORDS, SHORT_WORDS):
        left: Spans = (*brand, ("   ", "text"), *states(fleet, words))
        if width_of(left) + width_of(more) + width_of(right) < width:
            break
    else:
        left = (*brand, ("  ", "text"), *states(fleet))
    while more and width_of(left) + width_of(more) + width_of(right) >= width:
        more = more[1:]
    right = (*more, *right)
    return spread(left, right, width)


def _sums_line(sums: Totals, look: Look, width: int) -> Spans:
    bar = 12 if width < 116 else 24 if width < 160 else 36
    used, total = sums.memory_used_bytes, sums.memory_total_bytes
    parts: list[Span] = [(" GPUs ", "dim"), (f"{sums.devices} ", "strong")]
    parts += shares(
        ((sums.devices_busy, "busy"), (sums.devices_idle, "idle"), (sums.devices_unknown, "faint")),
        bar,
        ascii_only=look.ascii_only,
    )
    parts += [
        (f" {sums.devices_busy}", "strong"), (" busy  ", "dim"),
        (f" {sums.devices_idle}", "strong"), (" idle  ", "dim"),
        (f" {sums.devices_unknown}", "strong" if sums.devices_unknown else "dim"), (" unknown  ", "dim"),
        ("  memory ", "dim"), (_of(used, total), "strong"),
        ("    power ", "dim"), (show.watts(sums.power_watts), "strong"),
    ]  # fmt: skip
    return fit(tuple(parts), width)


def _of(used: int | None, total: int | None) -> str:
    return show.memory_pair(used, total, width=20).replace("/", " of ")


def _tabs(head: Head) -> Spans:
    spans: list[Span] = [(" ", "text")]
    for number, view in enumerate(VIEWS.values(), 1):
        spans.append((f" {number} {view.title} ", "tab-on" if view.id == head.view else "tab"))
    return (*spans, (" 9 Actions ", "tab"))


def tab_at(head: Head, x: int) -> str | None:
    """The view whose tab is at cell `x` of the line with tabs."""
    end = 0
    for (text, _), place in zip(_tabs(head), (None, *VIEWS, "actions"), strict=True):
        end += len(text)
        if x < end:
            return place
    return None


def _sorting(head: Head) -> Spans:
    shown = VIEWS[head.view].column(head.sort).title.strip().lower() if head.sort else ""
    mark = "▼" if head.descending else "▲"
    spans: Spans = (("sort ", "dim"), (f"{shown or 'state'} {mark}", "text"), ("   filter ", "dim"))
    if head.filter:
        return (*spans, (f" {remote(head.filter)} ", "badge"), (f" {head.shown} shown ", "dim"))
    return (*spans, ("– ", "dim"))


def _tabs_line(head: Head, width: int) -> Spans:
    return spread(_tabs(head), _sorting(head), width)


def _short_sums(sums: Totals, head: Head, width: int) -> Spans:
    counts: Spans = (
        ("GPUs ", "dim"), (f"{sums.devices_busy}", "strong"), (" busy ", "dim"), (f"{sums.devices_idle}", "strong"),
        (" idle ", "dim"), (f"{sums.devices_unknown}", "strong"), (" unknown ", "dim"),
    )  # fmt: skip
    tabs = _tabs(head)
    if width_of(tabs) + width_of(counts) >= width:
        counts = counts[1:]
    if head.filter:
        counts = ((f" {remote(head.filter)} ", "badge"), (f" {head.shown} shown ", "dim"))
    return spread(tabs, counts, width)


def _one_line(fleet: Fleet, sums: Totals, head: Head, look: Look, width: int) -> Spans:
    """What keys would act on, and whether they may, stays longest."""
    gap: Span = (" ", "text")
    busy: Spans = ((f"{sums.devices_busy}/{sums.devices}", "strong"), (" busy  ", "dim"))
    waiting = f" {head.waiting.split()[0]}? " if head.waiting else ""
    parts: list[tuple[int, Spans]] = [
        (1, ((" PAUSED ", "badge"), gap) if head.paused_seconds is not None else ()),
        (3, ((waiting, "badge"), gap) if waiting else ()),
        (5, ((f" {head.leases_over} over ", "badge"), gap) if head.leases_over else ()),
        (4, ((f" {head.unfinished} unfinished: 9 ", "badge"), gap) if head.unfinished else ()),
        (0, ((_marked(head), "badge"), gap) if head.marks else ()),
        (0, (head.mode, gap) if head.is_mode_above else ()),
        (7, busy),
        (6, (data_age(fleet, words=False),)),
    ]
    left = states(fleet)
    for rank in range(7, 1, -1):
        if width_of(left) + sum(width_of(part) for _, part in parts) < width:
            break
        parts = [(own, part) for own, part in parts if own < rank]
    return spread(left, tuple(span for _, part in parts for span in part), width)


def table_header(placed: Iterable[Placed], sort: str, descending: bool, look: Look, width: int) -> Spans:
    """Titles over their columns; the sorted one carries its direction, where there is no room in the gap behind it."""
    spans: list[Span] = []
    x = 0
    for item in placed:
        column, cells = item.column, item.width
        sorted_by = column.id == sort and bool(column.title)
        title = column.title
        if sorted_by:
            title += "▼" if descending else "▲"
            cells += int(len(title) == cells + 1)
        spans.append((" " * (item.x - x), "dim"))
        spans += fit(((title, "accent" if sorted_by else "dim"),), cells, right=column.right)
        x = item.x + cells
    return look.plain(fit(tuple(spans), width))


def footer(commands: Iterable[Command], view: View | None, head: Head, fleet: Fleet, look: Look, width: int) -> Spans:
    """Keys from the registry, and at the right what the session is."""
    hints: list[Span] = [(" ", "text")]
    shown = sorted((command for command in commands if command.footer and command.keys), key=lambda item: item.footer)
    right: Spans = ((f" {head.waiting} ", "badge"), (" ", "text")) if head.waiting and view is None else ()
    if view is not None:
        right = (head.mode, (f"  {view.counted(head.shown)} ", "dim"))
    if head.message:
        return look.plain(spread(((f" {head.message}", "strong"),), right, width))
    room = width - width_of(right) - 1
    for command in shown:
        piece: Spans = (
            (key_sign(command.keys[0], ascii_only=look.ascii_only), "key"),
            (f" {command.title}   ", "dim"),
        )
        if width_of(hints) + width_of(piece) > room:
            break
        hints += piece
    return look.plain(spread(tuple(hints), right, width))
