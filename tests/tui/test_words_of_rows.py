"""What rows say, and what is found of it: ages, occupancy, states, titles; and the mouse on tabs and titles."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from msgspec import structs

from gputop.domain.host import Host
from gputop.domain.link import Link, LinkState
from gputop.domain.problem import ProblemKind
from gputop.fleet.fleet import Fleet
from gputop.fleet.series import SeriesStore
from gputop.fleet.totals import totals
from gputop.query.filter import parse_filter
from gputop.tui.draw import to_ascii
from gputop.tui.look import SHORT_WORDS, Look
from gputop.tui.pages.details import number_text
from gputop.tui.picture import rendered
from gputop.tui.rows import GpuRow, gpu_rows, host_rows
from gputop.tui.views import gpu_processes
from tests.tui.builders import NOW, a_gpu_frame, a_host, a_problem, a_process, an_app, dark, odd_fleet, until

SILENT = a_problem(ProblemKind.AGENT_SILENT, "connected, but no readings come")


def gpus(host: Host) -> list[GpuRow]:
    return [row for row in gpu_rows(host, 0) if isinstance(row, GpuRow)]


def said(row: GpuRow, width: int = 30) -> str:
    return "".join(text for text, _ in gpu_processes(row, Look(as_of=NOW), width))


def fleet_of(*hosts: Host) -> Fleet:
    return Fleet(as_of=NOW, hosts={host.name: host for host in hosts})


# --- stale rows --------------------------------------------------------------------------------------------


def test_a_device_of_a_silent_host_is_dated_and_never_free() -> None:
    frame = a_gpu_frame("gpu-009", [0.0, 41.0], memory=0.01, at=NOW - timedelta(seconds=83), processes=(a_process(1),))
    idle, busy = gpus(a_host("gpu-009", frame, LinkState.STALE, SILENT))
    assert said(idle) == "1 m 23 s ago  "
    assert said(busy).startswith("1 m 23 s ago  alice train.py")
    free, _ = gpus(a_host("gpu-009", frame))
    assert said(free) == "free"


def test_values_from_before_a_cut_do_not_come_back_with_the_connection() -> None:
    frame = a_gpu_frame("gpu-012", [0.0], at=NOW - timedelta(minutes=2))
    host = a_host("gpu-012", frame, LinkState.STALE, SILENT)
    again = structs.replace(host, reported=Link(state=LinkState.OK, since=NOW - timedelta(seconds=20)))
    assert gpus(host)[0].value("utilization_percent") == 0.0
    assert gpus(again)[0].value("utilization_percent") is None
    assert said(gpus(again)[0]) == "–"
    assert totals(fleet_of(again)).devices_unknown == 1


# --- the filter --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "count"), [("free", 1), ("idle", 1), ("busy", 1), ("unknown", 0), ("thermal", 1), ("!busy", 1)]
)
def test_words_of_occupancy_are_found(word: str, count: int) -> None:
    frame = a_gpu_frame("gpu-001", [0.0, 97.0], memory=0.01, processes=(a_process(1),),
                        throttle_reasons=[[], ["hw_thermal"]])  # fmt: skip
    passes = parse_filter(word)
    assert sum(passes(row.texts) for row in gpus(a_host("gpu-001", frame))) == count


def test_what_is_not_known_is_found_as_unknown_and_not_as_free() -> None:
    frame = a_gpu_frame("gpu-009", [0.0], memory=0.01, at=NOW - timedelta(seconds=40))
    (row,) = gpus(a_host("gpu-009", frame, LinkState.STALE, SILENT))
    assert parse_filter("unknown")(row.texts)
    assert not parse_filter("free")(row.texts)
    assert not parse_filter("idle")(row.texts)


async def test_every_row_that_says_free_is_shown_by_that_word() -> None:
    frame = a_gpu_frame("gpu-001", [0.0, 97.0, 0.0], memory=0.01, processes=(a_process(1),))
    text = await rendered(fleet_of(a_host("gpu-001", frame)), SeriesStore(), theme=dark(), view="gpus",
                          keys=("slash", *"free", "enter"), size=(120, 30))  # fmt: skip
    assert "2 shown" in text


# --- words of states ---------------------------------------------------------------------------------------


def test_words_of_states_fit_their_column() -> None:
    assert all(len(word) <= 11 for word in SHORT_WORDS.values())


@pytest.mark.parametrize(("width", "words"), [(200, "host key rejected"), (120, "host key "), (80, "host key ")])
async def test_a_host_whose_key_is_rejected_says_so_in_the_words_of_the_docs(width: int, words: str) -> None:
    text = await rendered(*odd_fleet(), theme=dark(), size=(width, 40))
    line = next(line for line in text.splitlines() if "keys-1" in line)
    assert words in line
    assert "key refused" not in text
    for host in host_rows(odd_fleet()[0].hosts["keys-1"], 0):
        assert parse_filter("host-key-rejected")(host.texts)
        assert parse_filter("key rejected")(host.texts)


# --- edges, titles, numbers --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("view", ["host:gpu-001", "gpu:gpu-001:0"])
async def test_the_row_of_a_page_stays_clear_of_the_edge(view: str, size: tuple[int, int]) -> None:
    text = await rendered(*odd_fleet(), theme=dark(), view=view, size=size)
    titles, row = text.splitlines()[1:3]
    assert len(titles) < size[0]
    assert len(row) < size[0]


@pytest.mark.parametrize("view", ["gpus", "hosts", "processes"])
async def test_the_title_of_the_sorted_column_is_whole(view: str) -> None:
    app = an_app(*odd_fleet(), view=view)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        for _ in range(8):
            await pilot.press("greater_than_sign")
            await pilot.pause()
            state = app.fleet_screen.state
            title = state.view.column(state.sort).title.strip()
            shown = "\n".join(app.screen_lines())
            assert not title or f"{title}▼" in shown or f"{title}▲" in shown


async def test_a_reason_that_is_cut_says_so() -> None:
    fleet, series = odd_fleet()
    long = a_problem(ProblemKind.CONNECTION_REFUSED, "connection refused " * 12)
    hosts = {name: structs.replace(host, link=structs.replace(host.link, problem=long)) if name == "gpu-017" else host
             for name, host in fleet.hosts.items()}  # fmt: skip
    app = an_app(structs.replace(fleet, hosts=hosts, problems=(long,)), series)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        line = next(line for line in app.screen_lines() if line.startswith(" ✕ connection refused"))
        assert line.endswith("…")


@pytest.mark.parametrize("key", ["d", "L"])
async def test_pages_about_a_gpu_name_it_as_people_do(key: str) -> None:
    app = an_app(*odd_fleet(), view="gpus")
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        await pilot.press(key)
        await until(pilot, lambda: app.screen is not app.fleet_screen)
        await pilot.pause()
        assert " gpu-003 GPU 5 " in app.screen_lines()[0]


@pytest.mark.parametrize(
    ("value", "text"),
    [(4505510.0, "4505510"), (97.0, "97"), (97.33333, "97.333"), (0.0, "0"), (0.00001234, "1.23e-05"), (-0.5, "-0.5")],
)
def test_numbers_of_details_are_plain(value: float, text: str) -> None:
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("text", "plain"),
    [(" 66 °C", "  66 C"), ("66 °C", " 66 C"), ("°C", " C"), ("97 %", "97 %"), ("limit –", "limit -")],
)
def test_degrees_in_ascii_have_one_blank(text: str, plain: str) -> None:
    assert to_ascii(text) == plain


async def test_pages_in_ascii_have_one_blank_before_the_unit() -> None:
    text = await rendered(*odd_fleet(), theme=dark(), view="gpu:gpu-001:0", size=(120, 60), ascii_only=True)
    assert "60 C" in text
    assert not re.search("[0-9]  C", text)


# --- the mouse ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(120, 36), (80, 24)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_tabs_and_titles_of_columns_can_be_clicked(size: tuple[int, int]) -> None:
    app = an_app(*odd_fleet())
    async with app.run_test(size=size) as pilot:
        await pilot.pause()

        async def click(words: str) -> None:
            y, line = next((y, line) for y, line in enumerate(app.screen_lines()) if words in line)
            await pilot.click(offset=(line.index(words) + 1, y))
            await pilot.pause()

        await click("2 GPUs")
        assert app.fleet_screen.view == "gpus"
        state = app.fleet_screen.state
        await click("TEMP")
        assert (state.sort, state.descending) == ("temperature", True)
        await click("TEMP")
        assert (state.sort, state.descending) == ("temperature", False)
        if size[0] >= 120:
            await click("WHY SLOW")
        assert state.sort == "temperature"
        await click("9 Actions")
        assert app.screen is not app.fleet_screen
