"""The pages of hosts and GPUs: their cursor, what is asked for them, and the raw output of a host's own tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from textual.pilot import Pilot

from gputop.domain.action import ProcessTarget
from gputop.domain.call import CommandResult, RunHere, RunOn
from gputop.domain.host import Host
from gputop.domain.job import NodeState
from gputop.fleet.collector import Update
from gputop.fleet.fleet import Fleet
from gputop.tui.app import GputopApp
from gputop.tui.bridge import FleetUpdated
from gputop.tui.dialogs.plan import PlanDialog
from gputop.tui.rows import GpuRow, HostRow, ProcessRow
from gputop.tui.screens.host import GpuScreen, HostScreen
from gputop.tui.screens.page import LogScreen, RowScreen
from gputop.tui.screens.raw import RawScreen, ToolsScreen
from tests.fakes.acts import a_process as lab_process
from tests.tui.builders import NOW, a_gpu_frame, a_host, a_process, an_app, odd_fleet, until
from tests.tui.stage import Stage

SIZE = (120, 36)


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Stage]:
    """Inside the test: what waits belongs to its event loop."""
    return lambda **fields: Stage(tmp_path, **fields)


def shown(app: GputopApp) -> str:
    return "\n".join(app.screen_lines())


def row(app: GputopApp) -> Any:
    screen = app.screen
    assert isinstance(screen, HostScreen | GpuScreen)
    return screen.row


def busy_fleet(**fields: Any) -> Fleet:
    """One host with eight GPUs: a job on four of them, another on GPU 5."""
    processes = (*(a_process(device, 88412) for device in range(4)), a_process(5, 7, user="bob", command="serve.py"))
    frame = a_gpu_frame("gpu-1", [50.0] * 8, processes=processes)
    return Fleet(as_of=NOW, hosts={"gpu-1": a_host("gpu-1", frame, **fields)})


async def update(pilot: Pilot[int], app: GputopApp, fleet: Fleet) -> None:
    app.post_message(FleetUpdated(Update(fleet=fleet, changed=frozenset())))
    await pilot.pause()
    await pilot.pause()


# --- the cursor ---------------------------------------------------------------------------------------------


async def test_the_cursor_goes_from_the_host_over_its_devices_to_its_processes() -> None:
    app = an_app(busy_fleet(), view="host:gpu-1")
    async with app.run_test(size=(120, 50)) as pilot:
        await pilot.pause()
        assert isinstance(row(app), HostRow)
        await pilot.press("j")
        assert (row(app).device.index, app.screen_lines()[-1].endswith("on GPU 0")) == (0, True)
        await pilot.press(*"jjjjjjjj")
        assert isinstance(row(app), ProcessRow)
        assert app.screen_lines()[-1].rstrip().endswith("on pid 88412")
        await pilot.press("k")
        assert row(app).device.index == 7
        await pilot.press("g")
        assert isinstance(row(app), HostRow)


async def test_down_scrolls_on_where_there_is_no_row_and_up_comes_back() -> None:
    app = an_app(busy_fleet(), view="host:gpu-1")
    async with app.run_test(size=(100, 24)) as pilot:
        await pilot.pause()
        page = app.screen.page  # type: ignore[attr-defined]
        bottom = page.virtual_size.height - page.size.height
        for _ in range(bottom + 30):
            await pilot.press("j")
        assert page.scroll_offset.y == bottom
        assert "Ages" in shown(app)
        for _ in range(bottom + 30):
            await pilot.press("k")
        assert page.scroll_offset.y == 0
        assert isinstance(row(app), HostRow)


async def test_page_keys_scroll_and_the_next_step_puts_the_cursor_on_a_row_in_sight() -> None:
    app = an_app(busy_fleet(), view="host:gpu-1")
    async with app.run_test(size=(100, 16)) as pilot:
        await pilot.pause()
        screen = app.screen
        assert isinstance(screen, HostScreen)
        await pilot.press("pagedown")
        top = screen.page.scroll_offset.y
        assert isinstance(row(app), HostRow)
        assert app.screen_lines()[-1].endswith("on gpu-1")
        await pilot.press("j")
        assert screen.cursor_line is not None
        assert 0 < top <= screen.cursor_line < top + screen.page.size.height
        assert screen.page.scroll_offset.y == top
        await pilot.press("G")
        assert "Ages" in shown(app)
        await pilot.press("g")
        assert screen.page.scroll_offset.y == 0


async def test_a_row_that_goes_away_from_under_the_cursor_is_named() -> None:
    fleet = busy_fleet()
    app = an_app(fleet, view="host:gpu-1")
    async with app.run_test(size=(120, 50)) as pilot:
        await pilot.pause()
        await pilot.press(*["j"] * 10)
        assert row(app).pid == 7
        host = fleet.hosts["gpu-1"]
        assert host.frame is not None
        frame = structs.replace(host.frame, processes=host.frame.processes[:4])
        await update(pilot, app, Fleet(as_of=NOW, hosts={"gpu-1": structs.replace(host, frame=frame)}))
        assert row(app).pid == 88412
        assert "gpu-1 7 is gone; the cursor is on pid 88412 now" in shown(app)


async def test_a_click_moves_the_cursor_and_two_open() -> None:
    app = an_app(busy_fleet(), view="host:gpu-1")
    async with app.run_test(size=(120, 50)) as pilot:
        await pilot.pause()
        line = next(number for number, (_, found) in enumerate(app.screen.board.places)  # type: ignore[attr-defined]
                    if isinstance(found, GpuRow) and found.device.index == 3)  # fmt: skip
        y = app.screen.board.places[line][0]  # type: ignore[attr-defined]
        await pilot.click("#page", offset=(10, y))
        assert row(app).device.index == 3
        await pilot.click("#page", offset=(10, y), times=2)
        assert isinstance(app.screen, GpuScreen)


# --- from page to page --------------------------------------------------------------------------------------


async def test_enter_on_a_device_opens_its_page_and_escape_comes_back_to_it() -> None:
    app = an_app(busy_fleet())
    async with app.run_test(size=(120, 50)) as pilot:
        await pilot.press("enter", "j", "j", "j", "enter")
        assert isinstance(app.screen, GpuScreen)
        assert shown(app).startswith(" gpu-1  GPU 2 ")
        await pilot.press("escape")
        assert isinstance(app.screen, HostScreen)
        assert row(app).device.index == 2
        await pilot.press("escape")
        assert app.screen is app.fleet_screen
        await pilot.press("left_square_bracket", "left_square_bracket")
        assert isinstance(app.screen, GpuScreen)


async def test_the_arrows_turn_from_gpu_to_gpu_round_the_end() -> None:
    app = an_app(busy_fleet(), view="gpu:gpu-1:6")
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        for key, index in (("right", 7), ("right", 0), ("left", 7)):
            await pilot.press(key)
            assert row(app).device.index == index


async def test_enter_on_a_process_opens_its_gpu_or_its_host_with_the_cursor_on_it() -> None:
    app = an_app(busy_fleet(), view="processes")
    async with app.run_test(size=(120, 50)) as pilot:
        await pilot.press("g", "enter")
        assert isinstance(app.screen, HostScreen)
        assert row(app).pid == 88412
        await pilot.press("enter")
        assert isinstance(app.screen, RowScreen)
        assert "python train.py" in shown(app)
        await pilot.press("escape", "escape", "j", "enter")
        assert isinstance(app.screen, GpuScreen)
        assert (row(app).pid, app.screen._row().device.index) == (7, 5)  # type: ignore[union-attr]


async def test_keys_mean_the_row_under_the_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    app = an_app(busy_fleet(), view="host:gpu-1")
    monkeypatch.setattr(app, "copy_to_clipboard", copied.append)
    async with app.run_test(size=(120, 50)) as pilot:
        await pilot.press("d")
        assert "Facts" in shown(app)
        await pilot.press("escape", "j", "j", "y")
        assert '"index": 1' in copied[0]
        await pilot.press("d")
        assert "utilization_percent" in shown(app)
        await pilot.press("escape", "L")
        assert isinstance(app.screen, LogScreen)
        assert isinstance(app.screen.row, GpuRow)


async def test_acts_mean_the_row_under_the_cursor(make: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.tui.acting.real_user", lambda: "ann")
    stage = make()
    stage.machines.busy("gpu-01", lab_process(4242), lab_process(4243, device_index=1))
    stage.app.newest = stage.fleet
    async with stage.app.run_test(size=(120, 50)) as pilot:
        await pilot.press("enter", "j", "j", "R")
        await until(pilot, lambda: isinstance(stage.app.screen, PlanDialog))
        assert stage.app.screen.request.devices_of == {"gpu-01": ("GPU-1",)}  # type: ignore[attr-defined]
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(stage.app.screen, HostScreen))
        await pilot.press("j", "K")
        await until(pilot, lambda: "pid 4242 of carol" in stage.shown())
        await pilot.click("#TERM")
        await until(pilot, lambda: isinstance(stage.app.screen, PlanDialog))
        process = stage.app.screen.request.process  # type: ignore[attr-defined]
        assert process == ProcessTarget(pid=4242, started_ticks=0, user="carol", command=process.command)
        await pilot.press("escape", "g", "D")
        await until(pilot, lambda: isinstance(stage.app.screen, PlanDialog))
        assert stage.app.screen.request.hosts == ("gpu-01",)  # type: ignore[attr-defined]


# --- what is asked ------------------------------------------------------------------------------------------


class Slow:
    """Holds the scheduler's answers back until it is let."""

    def __init__(self, stage: Stage) -> None:
        self.calls = 0
        self.given_up = 0
        self.may_answer = asyncio.Event()
        scheduler = stage.desk.acts._back_ends["gpu-01"].scheduler
        self._observe = scheduler.observe
        scheduler.observe = self.observe  # type: ignore[method-assign]

    async def observe(self, hosts: Sequence[Host]) -> Mapping[str, NodeState]:
        self.calls += 1
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        return await self._observe(hosts)


async def test_the_page_is_there_at_once_and_the_answers_come_in(make: Callable[..., Stage]) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        slow = Slow(stage)
        await pilot.press("enter", "G")
        assert "Scheduler  being asked" in stage.shown()
        assert "Instance" in stage.shown()
        slow.may_answer.set()
        await until(pilot, lambda: "none: a marker on the host" in stage.shown())
        assert "asked <1 s ago" in stage.shown()
        assert "takes work and answers" in stage.shown()


async def test_opening_a_page_again_asks_nobody_and_f5_does(make: Callable[..., Stage]) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        slow = Slow(stage)
        slow.may_answer.set()
        for _ in range(3):
            await pilot.press("enter", "G")
            await until(pilot, lambda: "none: a marker on the host" in stage.shown())
            await pilot.press("escape")
        assert slow.calls == 1
        await pilot.press("enter", "f5")
        await until(pilot, lambda: slow.calls == 2)
        await pilot.press("escape")
        await stage.clock.advance(60)
        await pilot.press("enter")
        await until(pilot, lambda: slow.calls == 3)


async def test_leaving_the_page_gives_up_what_is_asked_for_it(make: Callable[..., Stage]) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        slow = Slow(stage)
        await pilot.press("enter")
        await until(pilot, lambda: slow.calls == 1)
        await pilot.press("escape")
        await until(pilot, lambda: slow.given_up == 1)


async def test_without_anybody_to_ask_the_page_says_so() -> None:
    app = an_app(busy_fleet(), view="host:gpu-1")
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("G", "v")
        assert "Scheduler  not asked: nothing to ask" in shown(app)
        assert "not asked: nothing to ask" in app.screen_lines()[-1]


async def test_a_drained_host_says_who_drained_it(make: Callable[..., Stage]) -> None:
    stage = make()
    stage.machines.markers["gpu-01"] = '{"by":"bob","reason":"replace NIC","since":"2026-01-01T00:00:00Z"}'
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.press("enter", "G")
        await until(pilot, lambda: "replace NIC" in stage.shown())
        assert "bob" in stage.shown()
        assert "no new work, and all devices proven empty" in stage.shown()


async def test_a_scheduler_in_trouble_is_a_line_of_the_page(make: Callable[..., Stage]) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        scheduler = stage.desk.acts._back_ends["gpu-01"].scheduler

        async def broken(hosts: Sequence[Host]) -> Mapping[str, NodeState]:
            raise ValueError("no [node]")

        scheduler.observe = broken  # type: ignore[method-assign]
        await pilot.press("enter", "G")
        await until(pilot, lambda: "ValueError: no [node]" in stage.shown())
        assert "F5 asks again" in stage.shown()


# --- raw output ---------------------------------------------------------------------------------------------


class Tool:
    """Answers to `nvidia-smi` on the machines of a stage."""

    def __init__(self, stage: Stage) -> None:
        self.result = CommandResult(exit_status=0, stdout=b"".join(b"line %d\t|\x1b[1mx\n" % n for n in range(8000)))
        self.ran: list[tuple[str, ...]] = []
        self.given_up = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self._run = stage.machines.run
        stage.machines.run = self.run  # type: ignore[method-assign]

    async def run(self, call: RunHere | RunOn, *, deadline_seconds: float) -> CommandResult:
        if "nvidia-smi" not in call.argv:
            return await self._run(call, deadline_seconds=deadline_seconds)
        self.ran.append(call.argv[4:])
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        return self.result


async def test_raw_output_is_chosen_asked_and_scrolled(make: Callable[..., Stage]) -> None:
    stage = make()
    async with stage.app.run_test(size=(80, 24)) as pilot:
        tool = Tool(stage)
        await pilot.press("v")
        assert isinstance(stage.app.screen, ToolsScreen)
        assert "nvidia-smi topo -m" in stage.shown()
        assert tool.ran == []
        await pilot.press("j", "k", "enter")
        await until(pilot, lambda: "line 0  |x" in stage.shown())
        assert tool.ran == [("nvidia-smi", "-q")]
        assert "exit status 0, asked <1 s ago, 8,000 lines" in stage.shown()
        page = stage.app.screen.page  # type: ignore[attr-defined]
        page.lines_painted = 0
        await pilot.press("G")
        await pilot.pause()
        assert "line 7999" in stage.shown()
        await pilot.press("k")
        await pilot.pause()
        assert page.lines_painted < 100
        await pilot.press("escape", "escape")
        assert stage.app.screen is stage.app.fleet_screen


async def test_raw_output_of_a_gpu_begins_with_its_own(make: Callable[..., Stage]) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        tool = Tool(stage)
        await pilot.press("2", "j", "enter", "v", "enter")
        await until(pilot, lambda: "line 0" in stage.shown())
        assert tool.ran == [("nvidia-smi", "-q", "-i", "1")]


async def test_text_is_found_in_a_page(make: Callable[..., Stage]) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        Tool(stage)
        await pilot.press("v", "enter")
        await until(pilot, lambda: "line 0" in stage.shown())
        await pilot.press("slash", *"LINE 77", "enter")
        await pilot.pause()
        assert stage.app.screen_lines()[1].startswith("line 77 ")
        assert "LINE 77: 1 of 111 lines" in stage.shown()
        await pilot.press("n")
        await pilot.pause()
        assert stage.app.screen_lines()[1].startswith("line 770")
        await pilot.press("N", "N")
        await pilot.pause()
        assert "line 7799" in stage.shown()
        await pilot.press("escape")
        assert isinstance(stage.app.screen, RawScreen)
        await pilot.press("n")
        assert "nothing is looked for" in stage.shown()
        await pilot.press("slash", *"nowhere", "enter")
        assert "nowhere is nowhere on this page" in stage.shown()


async def test_the_next_match_is_gone_to_also_where_the_page_cannot_scroll_to_it() -> None:
    app = an_app(busy_fleet(), view="host:gpu-1")
    async with app.run_test(size=(120, 100)) as pilot:
        await pilot.press("slash", *"h100", "enter")
        await pilot.pause()
        for number, key in ((1, "n"), (2, "n"), (3, "N"), (2, "N"), (1, "N"), (10, "n")):
            assert f"h100: {number} of 10 lines" in shown(app)
            await pilot.press(key)
            await pilot.pause()


async def test_raw_output_is_asked_again_copied_and_given_up(
    make: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[str] = []
    stage = make()
    monkeypatch.setattr(stage.app, "copy_to_clipboard", copied.append)
    async with stage.app.run_test(size=SIZE) as pilot:
        tool = Tool(stage)
        await pilot.press("v", "enter")
        await until(pilot, lambda: "line 0" in stage.shown())
        await pilot.press("y")
        assert copied[0].startswith("line 0  |x\nline 1  |x\n")
        tool.may_answer.clear()
        await pilot.press("f5", "f5")
        await until(pilot, lambda: len(tool.ran) == 2)
        assert "being asked" in stage.shown()
        assert "line 0" in stage.shown()
        await pilot.press("escape")
        await until(pilot, lambda: tool.given_up == 1)


async def test_a_tool_that_fails_says_how_above_what_it_printed(make: Callable[..., Stage]) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        tool = Tool(stage)
        tool.result = CommandResult(exit_status=15, stdout=b"GPU is lost\n", stderr=b"[red]careful\x1b[2J\n")
        await pilot.press("v", "enter")
        await until(pilot, lambda: "exit status 15" in stage.shown())
        text = stage.shown()
        assert "✕ exit status 15: [red]careful" in text
        assert "GPU is lost" in text
        tool.result = CommandResult(exit_status=0)
        await pilot.press("f5")
        await until(pilot, lambda: "it printed nothing" in stage.shown())


async def test_wide_output_is_scrolled_to_the_side(make: Callable[..., Stage]) -> None:
    stage = make()
    async with stage.app.run_test(size=(80, 24)) as pilot:
        tool = Tool(stage)
        tool.result = CommandResult(exit_status=0, stdout=b"GPU0\t" + b"x" * 100 + "山END\n".encode())
        await pilot.press("v", "enter")
        await until(pilot, lambda: "GPU0" in stage.shown())
        assert "END" not in stage.shown()
        await pilot.press(*["right"] * 5)
        await pilot.pause()
        assert stage.app.screen_lines()[1].endswith("x山END")
        await pilot.press(*["left"] * 5)
        await pilot.pause()
        assert "GPU0" in stage.shown()


# --- odd devices --------------------------------------------------------------------------------------------


async def test_a_lost_gpu_a_sliced_one_and_one_without_values_have_their_pages() -> None:
    fleet, series = odd_fleet()
    bare = structs.replace(a_gpu_frame("bare", [None] * 8), columns=a_gpu_frame("x", []).columns)
    bare = structs.replace(bare, columns=type(bare.columns)())
    fleet = structs.replace(fleet, hosts=fleet.hosts | {"bare": a_host("bare", bare)})
    app = an_app(fleet, series)
    async with app.run_test(size=(120, 60)) as pilot:
        for place, words in (
            ("gpu:gpu-003:5", ("✕ lost", "GPU 5 (00000000:15:00.0) is lost", "Memory  not known: the device is lost")),
            ("gpu:mig-01:0", ("3g.40gb", "20.0/40.0 GiB", "1g.10gb", "python serve.py")),
            ("gpu:bare:7", ("Power  not reported by this device", "the list of processes could not be read")),
            ("gpu:gpu-017:0", ("✕ unreachable", "Load  not known while the host is unreachable")),
            ("gpu:gpu-001:99", ("This GPU is not there any more",)),
            ("gpu:nobody:0", ("This GPU is not there any more",)),
        ):
            app.go(place)
            await pilot.pause()
            await pilot.pause()
            for wanted in words:
                assert wanted in shown(app), (place, wanted)


@pytest.mark.parametrize("allowed", [True, False])
async def test_every_page_from_which_an_act_can_be_asked_for_says_whether_acts_are_allowed(
    allowed: bool, make: Callable[..., Stage]
) -> None:
    stage = make(allowed=allowed)
    badge = "acts allowed" if allowed else "read-only"
    async with stage.app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        for keys in (("enter",), ("v",), ("L",), ("d",), ("2", "enter"), ("9",)):
            for key in keys:
                await pilot.press(key)
                await pilot.pause()
            shown_lines = stage.shown().splitlines()
            assert badge in (shown_lines[0] if keys == ("9",) else shown_lines[-1]), keys
            await pilot.press("escape")
            await pilot.pause()
        assert badge in stage.shown().splitlines()[-1]
