"""What keys do, on the app itself without a terminal."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec import structs
from textual.events import MouseScrollDown
from textual.pilot import Pilot

from gputop.domain.link import LinkState
from gputop.domain.problem import ProblemKind
from gputop.fleet.collector import Update
from gputop.fleet.fleet import Fleet
from gputop.fleet.series import SeriesStore
from gputop.tui.app import GputopApp, ScreenOptions
from gputop.tui.bridge import FleetUpdated
from gputop.tui.commands import COMMANDS
from gputop.tui.screens.host import GpuScreen, HostScreen
from gputop.tui.screens.page import HelpScreen, RowScreen
from gputop.tui.widgets.fleet_table import FleetTable
from tests.tui.builders import (
    NOW,
    a_gpu_frame,
    a_host,
    a_problem,
    a_process,
    an_app,
    dark,
    odd_fleet,
    until,
    wide_fleet,
)


def table(app: GputopApp) -> FleetTable:
    return app.fleet_screen.table


def under_cursor(app: GputopApp) -> str:
    row = table(app).cursor_row
    assert row is not None
    return " ".join(row.key)


def names(app: GputopApp) -> list[str]:
    return [row.host.name for row in table(app).rows]


async def update(pilot: Pilot[int], app: GputopApp, fleet: Fleet) -> None:
    app.post_message(FleetUpdated(Update(fleet=fleet, changed=frozenset())))
    await pilot.pause()
    await pilot.pause()


def shown(app: GputopApp) -> str:
    return "\n".join(app.screen_lines())


async def test_trouble_is_on_top_and_n_goes_from_problem_to_problem() -> None:
    app = an_app(*odd_fleet())
    async with app.run_test(size=(120, 36)) as pilot:
        assert names(app)[0] == "gpu-017"
        visited = []
        for _ in range(8):
            await pilot.press("n")
            visited.append(under_cursor(app))
        assert set(visited) == {"gpu-017", "gpu-003", "gpu-009", "auth-1", "keys-1", "shell-1", "busy-1"}
        await pilot.press("N")
        assert under_cursor(app) == visited[-2]


async def test_the_cursor_stays_on_its_host_when_the_order_changes() -> None:
    fleet = wide_fleet(30)
    app = an_app(fleet)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("o", "u", "j", "j", "j")
        host = under_cursor(app)
        line = table(app).cursor_line
        for shift in (40, 80, 10):
            await update(pilot, app, wide_fleet(30, at=NOW + timedelta(seconds=shift), shift=shift))
            assert under_cursor(app) == host
        assert table(app).cursor_line != line


async def test_a_host_that_leaves_from_under_the_cursor_is_named() -> None:
    fleet = wide_fleet(10)
    app = an_app(fleet)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("j", "j")
        gone = under_cursor(app)
        left = {name: host for name, host in fleet.hosts.items() if name != gone}
        await update(pilot, app, structs.replace(fleet, hosts=left))
        assert under_cursor(app) != gone
        await until(pilot, lambda: f"{gone} left the table" in shown(app))


async def test_until_a_key_is_pressed_the_cursor_is_on_the_first_row() -> None:
    fleet = wide_fleet(10)
    well = structs.replace(fleet.hosts["node-0007"], link=fleet.hosts["node-0001"].link)
    app = an_app(structs.replace(fleet, hosts=fleet.hosts | {"node-0007": well}))
    async with app.run_test(size=(120, 36)) as pilot:
        assert under_cursor(app) == "node-0000"
        await update(pilot, app, fleet)
        assert under_cursor(app) == "node-0007"


async def test_the_filter_looks_in_names_models_users_labels_and_states() -> None:
    app = an_app(*odd_fleet())
    async with app.run_test(size=(120, 36)) as pilot:
        for words, expected in (
            ("carol", {"gpu-002"}),
            ("a100", {"mig-01"}),
            ("stale", {"gpu-009"}),
            ("rack=r12 gpu-00", {"gpu-001", "gpu-002", "gpu-003", "gpu-009"}),
            ("gpu-00 !stale", {"gpu-001", "gpu-002", "gpu-003"}),
            ("美咲", {"odd-1"}),
        ):
            await pilot.press("slash")
            app.fleet_screen.query_one("#filter").value = words  # type: ignore[attr-defined]
            await pilot.press("enter")
            assert set(names(app)) == expected, words
        assert "shown" in shown(app)
        await pilot.press("escape")
        assert len(names(app)) == 13


async def test_numbers_within_texts_sort_as_numbers() -> None:
    processes = tuple(a_process(0, pid, user=f"user{pid}") for pid in (10, 9, 100))
    host = a_host("h", a_gpu_frame("h", [50.0], processes=processes))
    app = an_app(Fleet(as_of=NOW, hosts={"h": host}), view="processes")
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("o", "n")
        assert [row.key[1] for row in table(app).rows] == ["9", "10", "100"]


async def test_every_column_sorts_both_ways_with_unknown_values_last() -> None:
    app = an_app(*odd_fleet())
    async with app.run_test(size=(120, 36)) as pilot:
        for view, state in app.fleet_screen.states.items():
            app.go(view)
            for column in state.view.columns:
                for descending in (False, True):
                    if column.sort is not None:
                        state.sort, state.descending = column.id, descending
                        app.fleet_screen.draw()
                        absent = [column.sort(row) is None for row in table(app).rows]
                        assert absent == sorted(absent), (view, column.id, descending)
            await pilot.pause()


async def test_wide_columns_scroll_to_the_end_of_a_command() -> None:
    command = " ".join(f"word{number}" for number in range(18))
    host = a_host("h", a_gpu_frame("h", [50.0], processes=(a_process(0, command=command),)))
    app = an_app(Fleet(as_of=NOW, hosts={"h": host}), view="processes")
    async with app.run_test(size=(160, 20)) as pilot:
        await pilot.press("w", *["l"] * 20)
        assert command in shown(app)


async def test_arrows_and_page_keys_move_the_cursor_also_where_not_all_rows_fit() -> None:
    app = an_app(wide_fleet(100))
    async with app.run_test(size=(120, 36)) as pilot:
        lines = []
        for key in ("down", "down", "up", "pagedown", "pageup", "end", "home"):
            await pilot.press(key)
            lines.append(table(app).cursor_line)
        page = table(app).size.height - 1
        assert lines == [1, 2, 1, 1 + page, 1, 99, 0]
        await pilot.press("right")
        assert app.fleet_screen.state.skip == 1


async def test_the_wheel_takes_the_cursor_along() -> None:
    app = an_app(wide_fleet(100))
    async with app.run_test(size=(120, 36)) as pilot:
        event = MouseScrollDown(table(app), 5, 5, 0, 1, 0, False, False, False)
        table(app).post_message(event)
        await until(pilot, lambda: table(app).cursor_line == 3)


async def test_no_key_does_anything_that_is_not_in_the_registry() -> None:
    app = an_app(*odd_fleet())
    async with app.run_test(size=(120, 36)) as pilot:
        for keys in ((), ("enter",)):
            await pilot.press(*keys)
            actions = [bound.binding.action for bound in app.screen.active_bindings.values()]
            assert all(action.startswith("run(") for action in actions), actions


async def test_letters_typed_into_the_filter_are_no_commands() -> None:
    app = an_app(*odd_fleet())
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("slash", "q", "2", "n")
        assert app.fleet_screen.filter_text == "q2n"
        assert app.fleet_screen.view == "hosts"


async def test_while_a_filter_is_typed_the_footer_tells_its_own_keys() -> None:
    app = an_app(*odd_fleet())
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("slash")
        assert app.screen_lines()[-1].startswith(" ⏎ keep   Esc clear")
        for key in ("enter", "slash", "escape"):
            await pilot.press(key)
        assert app.screen_lines()[-1].startswith(" ? help")


async def test_enter_opens_the_host_or_the_gpu_and_escape_comes_back_to_the_same_row() -> None:
    app = an_app(*odd_fleet())
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("j", "enter")
        assert isinstance(app.screen, HostScreen)
        here = app.screen.host
        await pilot.press("escape")
        assert under_cursor(app) == here
        await pilot.press("2", "j", "enter")
        assert isinstance(app.screen, GpuScreen)
        assert app.screen.host == "gpu-017"
        await pilot.press("escape")
        assert app.fleet_screen.view == "gpus"
        assert under_cursor(app).startswith("gpu-017")


async def test_escape_never_quits_and_q_goes_to_the_first_view_before_it_quits() -> None:
    app = an_app(*odd_fleet())
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("3", "question_mark")
        assert isinstance(app.screen, HelpScreen)
        await pilot.press("escape", "escape", "escape", "escape")
        assert app.fleet_screen.view == "hosts"
        assert app.return_value is None
        await pilot.press("2", "q")
        assert app.fleet_screen.view == "hosts"
        assert app.return_value is None
        await pilot.press("q")
        assert app.return_value == 0


async def test_minus_and_brackets_walk_through_the_places_visited() -> None:
    app = an_app(*odd_fleet())
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("2", "3")
        await pilot.press("left_square_bracket")
        assert app.fleet_screen.view == "gpus"
        await pilot.press("left_square_bracket")
        assert app.fleet_screen.view == "hosts"
        await pilot.press("right_square_bracket")
        assert app.fleet_screen.view == "gpus"
        await pilot.press("minus")
        assert app.fleet_screen.view == "hosts"


async def test_sorting_by_keys_puts_unknown_values_last_in_both_directions() -> None:
    app = an_app(*odd_fleet())
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("o", "u")
        assert names(app)[0] in ("gpu-001", "gpu-003")
        unknown = set(names(app)[5:])
        await pilot.press("I")
        assert names(app)[0] == "gpu-002"
        assert set(names(app)[5:]) == unknown
        await pilot.press("greater_than_sign")
        assert app.fleet_screen.state.sort == "memory"
        await pilot.press("less_than_sign", "less_than_sign")
        assert app.fleet_screen.state.sort == "gpus"


async def test_marks_belong_to_rows_and_choose_the_hosts_of_a_retry() -> None:
    fleet, series = odd_fleet()
    feed = FakeFeed(fleet, series)
    app = GputopApp(ScreenOptions(theme=dark()), make_feed=lambda: feed)
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: len(names(app)) == 13)
        await pilot.press("space", "j", "V", "f5")
        assert feed.retried == [("gpu-017", "auth-1", "keys-1")]
        await pilot.press("o", "h")
        assert table(app).state.marks == {("auth-1",), ("gpu-017",), ("keys-1",)}
        await pilot.press("ctrl+backslash", "f5")
        assert feed.retried[1:] == [("auth-1",)]
        await pilot.press("asterisk")
        assert len(table(app).state.marks) == 13


async def test_pause_keeps_the_picture_while_the_fleet_goes_on() -> None:
    fleet = wide_fleet(5)
    app = an_app(fleet)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("p")
        await update(pilot, app, wide_fleet(5, at=NOW + timedelta(seconds=12), shift=50))
        assert app.fleet is fleet
        assert "PAUSED 12 s" in shown(app)
        await pilot.press("p")
        assert app.fleet is not fleet
        assert "PAUSED" not in shown(app)


async def test_the_interval_goes_up_and_down() -> None:
    feed = FakeFeed(*odd_fleet())
    app = GputopApp(ScreenOptions(theme=dark()), make_feed=lambda: feed)
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: len(names(app)) == 13)
        await pilot.press("plus", "equals_sign", "underscore")
        assert feed.intervals == [5.0, 10.0, 5.0]


async def test_a_row_is_copied_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    app = an_app(*odd_fleet())
    copied: list[str] = []
    monkeypatch.setattr(app, "copy_to_clipboard", copied.append)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("j", "j", "j", "j", "y", "2", "y", "3", "y")
    host, device, process = (json.loads(text) for text in copied)
    assert host["name"] == "gpu-003"
    assert host["link"]["state"] == "degraded"
    assert (device["host"], device["index"], device["state"]) == ("gpu-003", 5, "lost")
    assert process["devices"] == [0, 1, 2, 3, 4]


async def test_everything_known_about_a_row_is_a_page() -> None:
    app = an_app(*odd_fleet())
    async with app.run_test(size=(120, 60)) as pilot:
        await pilot.press("2", "d")
        assert isinstance(app.screen, RowScreen)
        text = shown(app)
        assert "GPU-gpu-003-5" in text
        assert "utilization_percent" in text


async def test_a_snapshot_is_written_where_gputop_was_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = an_app(*odd_fleet())
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("S")
    (written,) = tmp_path.iterdir()
    assert written.name == "gputop-20261201-140322.svg"
    assert "unreachable" in written.read_text()
    assert written.stat().st_mode & 0o777 == 0o600


async def test_a_snapshot_never_replaces_another_and_says_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = an_app(*odd_fleet())
    async with app.run_test(size=(160, 36)) as pilot:
        await pilot.press("p", "S", "2", "S")
        assert str(tmp_path / "gputop-20261201-140322-2.svg") in app.message
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "gputop-20261201-140322-2.svg",
        "gputop-20261201-140322.svg",
    ]


async def test_a_snapshot_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    app = an_app(*odd_fleet())
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("S")
        assert app.message.startswith("cannot write gputop-20261201-140322.svg: ")


async def test_what_is_done_with_a_row_holds_the_cursor_on_it() -> None:
    fleet = wide_fleet(10)
    well = structs.replace(fleet.hosts["node-0007"], link=fleet.hosts["node-0001"].link)
    app = an_app(structs.replace(fleet, hosts=fleet.hosts | {"node-0007": well}))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("d", "escape")
        assert under_cursor(app) == "node-0000"
        await update(pilot, app, fleet)
        assert names(app)[0] == "node-0007"
        assert under_cursor(app) == "node-0000"


async def test_a_filter_that_is_given_up_leaves_the_cursor_where_it_was() -> None:
    app = an_app(*odd_fleet())
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("n", "n", "n")
        before = under_cursor(app)
        await pilot.press("slash", *"zzz", "escape")
        assert under_cursor(app) == before
        await pilot.press("slash", "exclamation_mark", *before[:1], "x", "x", "enter")
        assert under_cursor(app) == before
        await pilot.press("j")
        after = under_cursor(app)
        await pilot.press("escape")
        assert under_cursor(app) == after != before


async def test_asking_again_from_a_page_asks_the_host_of_the_page() -> None:
    fleet, series = odd_fleet()
    feed = FakeFeed(fleet, series)
    app = GputopApp(ScreenOptions(theme=dark()), make_feed=lambda: feed)
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: len(names(app)) == 13)
        await pilot.press("space", "n", "d", "f5")
        assert under_cursor(app) != "gpu-017"
        assert feed.retried == [(under_cursor(app),)]
        await pilot.press("question_mark", "f5")
        assert len(feed.retried) == 1


NOT_RUN = ("quit", "quit.now", "suspend", "palette")


@pytest.mark.parametrize("size", [(1, 1), (40, 10), (120, 36)])
@pytest.mark.parametrize("view", ["hosts", "gpus", "processes", "host:gpu-003", "gpu:gpu-003:5"])
async def test_every_command_may_be_run_twice_in_every_view_and_size(
    view: str, size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = an_app(*odd_fleet(), view=view)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        for command in app.commands:
            app.go(view)
            await pilot.pause()
            for _ in range(2):
                if command.id not in NOT_RUN and command in app.screen.commands:  # type: ignore[attr-defined]
                    app.action_run(command.id)
                    await pilot.pause()
            assert app.return_value is None, command.id


async def test_the_palette_offers_every_command_of_the_screen_and_runs_it() -> None:
    app = an_app(*odd_fleet())
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("colon", *"gpus")
        await until(pilot, lambda: "One row a GPU" in shown(app))
        await pilot.press("enter")
        await until(pilot, lambda: app.fleet_screen.view == "gpus")


async def test_every_command_has_a_handler_on_each_screen_that_offers_it() -> None:
    app = an_app(*odd_fleet())
    async with app.run_test(size=(120, 36)) as pilot:
        screens = [app.screen]
        for keys in (("enter",), ("question_mark",), ("2", "enter")):
            await pilot.press(*keys)
            screens.append(app.screen)
        for screen in screens:
            for command in screen.commands:  # type: ignore[attr-defined]
                assert hasattr(screen, command.handler) or hasattr(app, command.handler), (screen, command.id)


async def test_the_users_keys_replace_the_commands_own() -> None:
    app = an_app(*odd_fleet(), keymap={"view.gpus": "x, ctrl-g", "help": "H"})
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("2")
        assert app.fleet_screen.view == "hosts"
        await pilot.press("ctrl+g")
        assert app.fleet_screen.view == "gpus"
        assert "H help" in shown(app)
        await pilot.press("H")
        assert isinstance(app.screen, HelpScreen)


async def test_nothing_is_drawn_of_a_fleet_before_there_is_one() -> None:
    feed = FakeFeed(Fleet(as_of=NOW), SeriesStore())
    app = GputopApp(ScreenOptions(theme=dark()), make_feed=lambda: feed)
    async with app.run_test(size=(120, 36)) as pilot:
        text = shown(app)
        assert "1970" not in text
        assert "connecting" in text
        await pilot.press("j", "k", "G", "enter", "n", "space", "y", "d", "V", "pagedown", "f5", "2", "n")
        assert app.return_value is None


async def test_the_start_page_stays_whatever_is_pressed_and_d_asks_for_the_demo() -> None:
    app = GputopApp(ScreenOptions(theme=dark()), watches=False)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("2", "f5", "minus", "y", "p", "escape", "plus", "j", "slash")
        assert "Nothing to watch yet" in shown(app)
        await pilot.press("question_mark", "escape", "d")
        assert app.wants_demo
        assert app.return_value == 0


async def test_a_feed_is_made_only_after_the_first_paint() -> None:
    painted: list[str] = []

    def make() -> FakeFeed:
        painted.append(shown(app))
        return FakeFeed(*odd_fleet())

    app = GputopApp(ScreenOptions(theme=dark()), make_feed=make)
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: bool(painted))
        assert "gputop" in painted[0]


async def test_a_lost_gpu_comes_before_the_gpus_of_hosts_that_are_away() -> None:
    app = an_app(*odd_fleet(), view="gpus")
    async with app.run_test(size=(120, 36)):
        first = table(app).rows[0]
        assert first.key == ("gpu-003", "GPU-gpu-003-5")


async def test_what_is_wrong_with_a_source_stands_above_the_footer() -> None:
    fleet, series = odd_fleet()
    broken = a_problem(ProblemKind.INTERNAL, "the source ssh broke", hint="it is started again in 5 s")
    app = an_app(structs.replace(fleet, problems=(broken,)), series)
    async with app.run_test(size=(120, 36)):
        assert "✕ the source ssh broke; it is started again in 5 s" in app.screen_lines()[-2]


async def test_what_is_merely_worth_knowing_makes_no_row_a_problem() -> None:
    note = a_problem(ProblemKind.PROCESSES_UNRELIABLE, "processes of other containers are not seen")
    host = a_host("gpu-1", a_gpu_frame("gpu-1", [10.0] * 2), device_problems={0: (note,)})
    app = an_app(Fleet(as_of=NOW, hosts={"gpu-1": host}), view="gpus")
    async with app.run_test(size=(120, 36)):
        assert not any(row.is_problem for row in table(app).rows)
        assert "▲ gpu-1" not in shown(app)


async def test_old_values_of_a_host_that_is_away_are_not_shown_as_its_present() -> None:
    frame = a_gpu_frame("old", [77.0], at=NOW - timedelta(minutes=9))
    fleet = Fleet(as_of=NOW, hosts={"old": a_host("old", frame, LinkState.UNREACHABLE)})
    for view in ("hosts", "gpus", "processes", "host:old"):
        app = an_app(fleet, view=view)
        async with app.run_test(size=(120, 36)) as pilot:
            await pilot.pause()
            assert "77 %" not in shown(app), view


def test_the_ids_of_commands_are_unique() -> None:
    ids = [command.id for command in COMMANDS]
    assert len(ids) == len(set(ids))


@dataclass
class FakeFeed:
    """One Fleet, and a record of what was asked."""

    fleet: Fleet
    series: SeriesStore
    retried: list[tuple[str, ...]] = field(default_factory=list)
    intervals: list[float] = field(default_factory=list)

    def retry(self, hosts: Collection[str]) -> None:
        self.retried.append(tuple(hosts))

    def set_interval(self, seconds: float) -> None:
        self.intervals.append(seconds)

    async def updates(self) -> AsyncIterator[Update]:
        yield Update(fleet=self.fleet, changed=frozenset(self.fleet.hosts))
