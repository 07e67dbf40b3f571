"""The dialogs of acts and the view of plans, as text files. Changed on purpose: `make golden`."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs
from syrupy.assertion import SnapshotAssertion
from textual.widgets import Input

from gputop.tui.dialogs.plan import PlanDialog
from tests.fakes.acts import a_process
from tests.golden.test_screens import TextFile
from tests.tui.builders import until
from tests.tui.stage import Stage

SIZES = [(120, 36), (80, 24)]


@pytest.fixture
def screen(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(TextFile)


@pytest.fixture(autouse=True)
def _ann(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.tui.acting.real_user", lambda: "ann")


def has_plan(stage: Stage) -> bool:
    return isinstance(stage.app.screen, PlanDialog) and stage.app.screen.proposal is not None


@pytest.mark.parametrize("case", ["drain", "drain-many", "refused", "stop"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_plan(tmp_path: Path, case: str, size: tuple[int, int], screen: SnapshotAssertion) -> None:
    stage = Stage(tmp_path, allowed=case != "refused")
    stage.machines.busy("gpu-01", a_process(), a_process(4300, user=None, name=None, device_index=1))
    if case == "refused":
        host = stage.machines.hosts["gpu-01"]
        stage.machines.hosts["gpu-01"] = structs.replace(host, frame=None)
    async with stage.app.run_test(size=size) as pilot:
        await pilot.pause()
        if case == "drain-many":
            await pilot.press("asterisk")
        await pilot.press("X" if case == "stop" else "D")
        await until(pilot, lambda: has_plan(stage))
        await pilot.pause()
        text = stage.shown()
    assert all(len(line) <= size[0] for line in text.splitlines())
    assert text == screen


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_actions(tmp_path: Path, size: tuple[int, int], screen: SnapshotAssertion) -> None:
    stage = Stage(tmp_path)
    stage.machines.busy("gpu-02", a_process())
    async with stage.app.run_test(size=size) as pilot:
        await pilot.pause()
        for name, key in (("gpu-01", "g"), ("gpu-02", "j")):
            await pilot.press(key, "D")
            await until(pilot, lambda: has_plan(stage))
            await pilot.pause()
            stage.app.screen.query_one("#reason", Input).value = "replace NIC"
            stage.app.screen.query_one("#phrase", Input).value = name
            await pilot.pause()
            stage.app.screen.query_one("#phrase", Input).focus()
            await pilot.press("enter")
            await until(pilot, lambda: not isinstance(stage.app.screen, PlanDialog))
            for _ in range(6):
                await stage.clock.advance(10.0)
                await pilot.pause(0.01)
        await stage.tick(pilot)
        await pilot.press("9")
        await pilot.pause()
        await pilot.pause()
        text = stage.shown()
    assert text == screen
