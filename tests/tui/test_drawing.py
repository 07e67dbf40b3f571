"""Meters, trends, charts, columns: pure functions, exact widths."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gputop.catalog.format import numbers
from gputop.tui.columns import place
from gputop.tui.draw import chart, fit, meter, shares, spread, squeeze, to_ascii, trend, width_of
from gputop.tui.rows import process_label
from gputop.tui.views import GPUS, HOSTS, PROCESSES, VIEWS, View

VALUES = st.lists(st.none() | st.floats(0, 100), max_size=80)
PRINTABLE = st.text(max_size=12).map(lambda text: "".join(filter(str.isprintable, text)))
SPANS = st.lists(st.tuples(PRINTABLE, st.just("text")), min_size=1, max_size=5).map(tuple)


@given(st.none() | st.floats(-10, 200), st.integers(1, 40), st.booleans())
def test_a_meter_is_as_wide_as_asked(percent: float | None, width: int, ascii_only: bool) -> None:
    assert width_of(meter(percent, width, ascii_only=ascii_only)) == width


@pytest.mark.parametrize(
    ("percent", "bar"), [(0, "    "), (0.1, "▏   "), (50, "██  "), (53.2, "██▏ "), (99.9, "████"), (100, "████")]
)
def test_a_meter_shows_eighths_and_never_hides_a_little(percent: float, bar: str) -> None:
    assert "".join(text for text, _ in meter(percent, 4)) == bar


@given(VALUES, st.integers(1, 40), st.integers(0, 10**9), st.booleans())
def test_a_trend_is_as_wide_as_asked(values: list[float | None], width: int, phase: int, ascii_only: bool) -> None:
    assert width_of(trend(values, width, phase=phase, ascii_only=ascii_only)) == width


def test_a_finished_group_of_a_trend_keeps_its_picture_while_time_goes_on() -> None:
    history = [float(number % 37) for number in range(200)]
    before = squeeze(history[40:100], 10, phase=99)
    after = squeeze(history[41:101], 10, phase=100)
    assert before[1:-1] == after[1:-1]
    rolled = squeeze(history[43:103], 10, phase=102)
    assert rolled[1:-2] == before[2:-1]


def test_a_trend_shows_no_gap_where_it_merely_has_fewer_groups_than_cells() -> None:
    assert "".join(text for text, _ in trend([50.0] * 60, 14, phase=59)) == "  " + "▄" * 12


def test_a_trend_tells_zero_from_nothing_seen() -> None:
    assert "".join(text for text, _ in trend([0.0, None], 2)) == "▁·"


@given(VALUES, st.integers(1, 30), st.integers(1, 6), st.booleans())
def test_a_chart_fills_its_box(values: list[float | None], width: int, height: int, ascii_only: bool) -> None:
    lines = chart(values, width, height, ascii_only=ascii_only)
    assert [cell_len(line) for line in lines] == [width] * height


@given(SPANS, st.integers(0, 30), st.booleans())
def test_spans_are_cut_and_filled_to_their_cells(spans: tuple[tuple[str, str], ...], width: int, right: bool) -> None:
    assert width_of(fit(spans, width, right=right)) == width


@given(SPANS, SPANS, st.integers(0, 60))
def test_left_and_right_share_a_line(
    left: tuple[tuple[str, str], ...], right: tuple[tuple[str, str], ...], width: int
) -> None:
    assert width_of(spread(left, right, width)) == width


@given(st.lists(st.integers(0, 5000), min_size=3, max_size=3), st.integers(3, 60))
def test_a_bar_of_shares_shows_every_count_above_zero(counts: list[int], width: int) -> None:
    names = ("busy", "idle", "faint")
    bar = shares(tuple(zip(counts, names, strict=True)), width)
    assert width_of(bar) == width
    if any(counts):
        assert {name for _, name in bar} == {name for count, name in zip(counts, names, strict=True) if count}


@given(PRINTABLE)
def test_ascii_is_as_wide_as_what_it_stands_for(text: str) -> None:
    assert to_ascii(text).isascii()
    assert len(to_ascii(text)) == cell_len(text)


@pytest.mark.parametrize("view", [HOSTS, GPUS, PROCESSES], ids=lambda view: view.id)
@given(st.integers(0, 320), st.integers(0, 20), st.booleans(), st.integers(6, 28))
def test_columns_never_leave_the_line_nor_overlap(view: View, width: int, skip: int, wide: bool, name: int) -> None:
    placed = place(view.columns, width, natural={"host": name}, skip=skip, wide=wide)
    end = 0
    for item in placed:
        assert item.x >= end
        assert item.width > 0
        end = item.x + item.width
    assert end <= width


def test_a_wider_pane_never_shows_fewer_columns_of_the_first_rank() -> None:
    before: set[str] = set()
    for width in range(40, 320):
        now = {item.column.id for item in place(HOSTS.columns, width, natural={"host": 8}) if item.column.rank <= 3}
        assert before <= now
        before = now


def test_40_columns_show_name_utilization_and_memory() -> None:
    ids = [item.column.id for item in place(HOSTS.columns, 39, natural={"host": 8})]
    assert {"sign", "host", "utilization", "memory"} <= set(ids)


@pytest.mark.parametrize(
    ("command", "label"),
    [
        ("python train.py --lr 1", "train.py --lr 1"),
        ("/usr/bin/python3.11 /opt/app/serve.py", "serve.py"),
        ("python -m vllm.server --port 1", "vllm.server --port 1"),
        ('python -c "x[/bad]"', 'python -c "x[/bad]"'),
        ("/usr/bin/ffmpeg -i x", "ffmpeg -i x"),
        ("python", "python"),
        ("", ""),
    ],
)
def test_a_process_is_named_by_its_script(command: str, label: str) -> None:
    assert process_label(command) == label


@pytest.mark.parametrize(
    ("found", "text"), [([], ""), ([3], "3"), ([0, 1, 2, 3], "0-3"), ([0, 1, 5], "0-1,5"), ([1, 3], "1,3")]
)
def test_gpu_numbers_are_folded(found: list[int], text: str) -> None:
    assert numbers(found) == text


@pytest.mark.parametrize(("view", "one"), [("hosts", "1 host"), ("gpus", "1 GPU"), ("processes", "1 process")])
def test_a_count_of_one_is_said_in_the_singular(view: str, one: str) -> None:
    assert VIEWS[view].counted(1) == one
    assert VIEWS[view].counted(2).startswith("2 ")
    assert VIEWS[view].counted(2) != f"2 {one[2:]}"
