"""Marked rows: told with how many of them the filter hides, in the header and in the plan, and gone once their act was
confirmed. Whether acts are allowed can be read in every pane."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from textual.widgets import Input

from gputop.tui.dialogs.plan import PlanDialog
from tests.tui.builders import until
from tests.tui.stage import Stage
from tests.tui.test_acting import SIZE, confirm, opened

SIZES = [(200, 50), (120, 36), (80, 24), (40, 12), (40, 10), (30, 7), (20, 5), (20, 2), (20, 1), (16, 3)]


@pytest.fixture(autouse=True)
def _ann(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.tui.acting.real_user", lambda: "ann")


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Stage]:
    """Inside the test: what waits belongs to its event loop."""
    return lambda **fields: Stage(tmp_path, **fields)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("allowed", [True, False], ids=["allowed", "read-only"])
async def test_whether_acts_are_allowed_can_be_read_at_every_size(
    size: tuple[int, int], allowed: bool, make: Callable[..., Stage]
) -> None:
    stage = make(allowed=allowed)
    word = "acts allowed" if allowed else "read-only"
    async with stage.app.run_test(size=size) as pilot:
        await until(pilot, lambda: word in stage.shown())
        for key in ("2", "3", "1"):
            await pilot.press(key)
            await pilot.pause()
            assert word in stage.shown()
        if size[1] > 1:
            await pilot.press("enter")
            await until(pilot, lambda: word in stage.shown())
            await pilot.press("d")
            await until(pilot, lambda: word in stage.shown())
            await pilot.press("L")
            await until(pilot, lambda: word in stage.shown())


@pytest.mark.parametrize("size", [(120, 36), (80, 24), (40, 10)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_marked_rows_that_the_filter_hides_are_counted(size: tuple[int, int], make: Callable[..., Stage]) -> None:
    stage = make()
    async with stage.app.run_test(size=size) as pilot:
        await pilot.pause()
        await pilot.press("space", "slash", *"gpu-02", "enter")
        await until(pilot, lambda: "1 marked, 1 hidden" in stage.shown())
        await pilot.press("space")
        await until(pilot, lambda: "2 marked, 1 hidden" in stage.shown())
        await pilot.press("escape")
        await until(pilot, lambda: "2 marked " in stage.shown() and "hidden" not in stage.shown())


async def test_the_plan_says_that_marked_rows_are_hidden_and_marks_go_when_it_is_confirmed(
    make: Callable[..., Stage],
) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("space", "slash", *"gpu-02", "enter")
        await opened(stage, pilot, "D")
        await until(pilot, lambda: "Drain gpu-01" in stage.shown())
        assert "1 marked row hidden by the filter" in stage.shown()
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(stage.app.screen, PlanDialog))
        assert "1 marked, 1 hidden" in stage.shown()
        await opened(stage, pilot, "D")
        await confirm(stage, pilot, "gpu-01")
        await until(pilot, lambda: "marked" not in stage.shown())
        assert stage.app.fleet_screen.query_one("#filter", Input).value == "gpu-02"
        await opened(stage, pilot, "C")
        assert "hidden" not in stage.shown()
