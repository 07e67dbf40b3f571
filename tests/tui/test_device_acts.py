"""Acts on single devices and processes, from the key to the outcome: what was chosen is what is reached."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from textual.pilot import Pilot
from textual.widgets import Button, Input

from gputop.domain.action import OutcomeState
from gputop.domain.reading import ProcessReading
from gputop.tui.dialogs.ask import AskDialog
from gputop.tui.dialogs.plan import PlanDialog
from gputop.tui.screens.host import GpuScreen
from tests.fakes.acts import a_process
from tests.tui.builders import until
from tests.tui.stage import Stage

SIZE = (120, 36)

Make = Callable[..., Stage]


@pytest.fixture(autouse=True)
def _ann(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.tui.acting.real_user", lambda: "ann")


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return lambda **fields: Stage(tmp_path, **fields)


def dialog(stage: Stage) -> PlanDialog:
    screen = stage.app.screen
    assert isinstance(screen, PlanDialog)
    return screen


async def plan_is_there(stage: Stage, pilot: Pilot[int]) -> PlanDialog:
    await until(pilot, lambda: isinstance(stage.app.screen, PlanDialog) and dialog(stage).proposal is not None)
    await pilot.pause()
    return dialog(stage)


async def confirm(stage: Stage, pilot: Pilot[int], phrase: str = "gpu-01", reason: str = "test") -> None:
    plan = await plan_is_there(stage, pilot)
    plan.query_one("#reason", Input).focus()
    await pilot.press(*reason)
    plan.query_one("#phrase", Input).focus()
    await pilot.press(*phrase)
    await until(pilot, lambda: not plan.query_one("#go", Button).disabled)
    await pilot.press("enter")
    await until(pilot, lambda: not isinstance(stage.app.screen, PlanDialog))


async def ended(stage: Stage, pilot: Pilot[int], number: int = 0) -> OutcomeState:
    """How the work ended, on the one host it was about."""
    for _ in range(200):
        if len(stage.desk.works) > number and stage.desk.works[number].is_over:
            [outcome] = stage.desk.works[number].outcomes or ()
            return outcome.state
        await stage.clock.advance(1.0)
        await pilot.pause(0.01)
    raise AssertionError("waited in vain")


async def show(stage: Stage, pilot: Pilot[int]) -> None:
    """Draw the machines as they are now."""
    stage.app.newest = stage.fleet
    stage.app.draw_all()
    await pilot.pause()


def renumber(stage: Stage, name: str) -> None:
    """A device dropped and came back: the numbers of the devices of a host are others now."""
    host = stage.machines.hosts[name]
    assert host.frame is not None
    devices = tuple(structs.replace(device, index=1 - device.index) for device in host.frame.devices)
    stage.machines.hosts[name] = structs.replace(host, frame=structs.replace(host.frame, devices=devices))


async def ask_watts(stage: Stage, pilot: Pilot[int], watts: str) -> None:
    await pilot.press("P")
    await until(pilot, lambda: isinstance(stage.app.screen, AskDialog))
    stage.app.screen.query_one("#phrase", Input).focus()
    await pilot.press(*watts, "enter")


async def test_the_gpu_of_the_row_is_capped_and_no_other_although_the_numbers_change_meanwhile(make: Make) -> None:
    stage = make(view="gpus")
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("P")
        await until(pilot, lambda: isinstance(stage.app.screen, AskDialog))
        assert "GPU 0: 700 W now" in stage.shown()
        renumber(stage, "gpu-01")
        stage.app.screen.query_one("#phrase", Input).focus()
        await pilot.press(*"500", "enter")
        await confirm(stage, pilot)
        assert await ended(stage, pilot) is OutcomeState.VERIFIED
        assert stage.machines.ran == ["cap gpu-01 GPU-0 500"]


async def test_a_power_cap_is_undone_from_the_view_of_actions_to_what_it_was_before(make: Make) -> None:
    stage = make(view="gpus")
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await ask_watts(stage, pilot, "500")
        await confirm(stage, pilot)
        await ended(stage, pilot)
        await until(pilot, lambda: stage.machines.looked[-1] == 1)  # the table shows the new limit at once
        await pilot.press("9")
        await pilot.press("enter")
        await until(pilot, lambda: "undo  GPU 0 to 700 W: gpu-01: sudo -n nvidia-smi -i GPU-0 -pl 700" in stage.shown())
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(stage.app.screen, AskDialog))
        assert stage.app.screen.query_one("#back", Button).disabled
        stage.app.screen.query_one("#phrase", Input).focus()
        await pilot.press(*"gpu-01")
        await pilot.click("#back")
        await until(pilot, lambda: len(stage.machines.ran) == 2)
        assert await ended(stage, pilot) is OutcomeState.VERIFIED
        assert stage.machines.ran == ["cap gpu-01 GPU-0 500", "cap gpu-01 GPU-0 700"]
        await until(pilot, lambda: "undone" in stage.shown() or "700 W" in stage.shown())
        await pilot.press("enter")
        await until(pilot, lambda: "nothing is left to be done about it" in stage.shown())


async def test_gpus_of_several_hosts_are_each_reached_on_their_own_host(make: Make) -> None:
    stage = make(view="gpus")
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("space", "j", "j", "space")
        await pilot.press("R")
        await confirm(stage, pilot, "2")
        for _ in range(100):
            if stage.desk.works and stage.desk.works[0].is_over:
                break
            await stage.clock.advance(1.0)
            await pilot.pause(0.01)
        assert sorted(stage.machines.ran) == ["reset gpu-01 GPU-0", "reset gpu-02 GPU-1"]


async def test_a_marked_gpu_that_is_gone_stands_for_no_other(make: Make) -> None:
    stage = make(view="gpus")
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("space")
        host = stage.machines.hosts["gpu-01"]
        assert host.frame is not None
        left = structs.replace(host.frame.devices[1], index=0)
        frame = structs.replace(
            host.frame, devices=(left,), columns=structs.replace(host.frame.columns, **_first(host.frame.columns))
        )
        stage.machines.hosts["gpu-01"] = structs.replace(host, frame=frame)
        await show(stage, pilot)
        for key in ("R", "P"):
            await pilot.press(key)
            await pilot.pause()
            assert "1 row that you chose left the table: choose again" in stage.shown()
        assert stage.machines.ran == []


def _first(columns: Any) -> dict[str, Any]:
    return {name: values[:1] for name in columns.__struct_fields__ if (values := getattr(columns, name)) is not None}


@pytest.mark.parametrize("is_busy", [False, True])
async def test_on_the_page_of_a_gpu_acts_are_about_that_gpu_whatever_the_cursor_is_on(
    make: Make, is_busy: bool
) -> None:
    stage = make(view="gpus")
    if is_busy:
        stage.machines.busy("gpu-01", running(device_index=0), running(device_index=1))
    async with stage.app.run_test(size=SIZE) as pilot:
        await show(stage, pilot)
        await pilot.press("g", "j", "enter")
        await until(pilot, lambda: isinstance(stage.app.screen, GpuScreen))
        await ask_watts(stage, pilot, "500")
        plan = await plan_is_there(stage, pilot)
        assert plan.request.devices_of == {"gpu-01": ("GPU-1",)}


async def test_a_reset_ends_verified_by_a_fresh_reading(make: Make) -> None:
    stage = make(view="gpus")
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("R")
        await confirm(stage, pilot)
        assert await ended(stage, pilot) is OutcomeState.VERIFIED
        assert stage.machines.ran == ["reset gpu-01 GPU-0"]
        await pilot.press("9")
        await until(pilot, lambda: "verified" in stage.shown())


async def test_a_gpu_in_use_is_not_reset_and_the_dialog_names_the_holder(make: Make) -> None:
    stage = make(view="gpus")
    stage.machines.busy("gpu-01", a_process())
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("R")
        plan = await plan_is_there(stage, pilot)
        assert "python (pid 4242) of carol holds it (device-busy)" in stage.shown()
        assert not plan.query_one("#go", Button).display


def running(ticks: int | None = 99, **fields: Any) -> ProcessReading:
    return a_process(**{"started_ticks": ticks, "command": "python train.py", **fields})


async def opened_signal(stage: Stage, pilot: Pilot[int], name: str = "TERM") -> PlanDialog:
    await pilot.press("K")
    await until(pilot, lambda: isinstance(stage.app.screen, AskDialog))
    await pilot.click(f"#{name}")
    return await plan_is_there(stage, pilot)


@pytest.mark.parametrize("name", ["INT", "TERM", "KILL"])
async def test_a_signal_reaches_the_process_of_the_row_and_its_end_is_verified(make: Make, name: str) -> None:
    stage = make(view="processes")
    stage.machines.busy("gpu-01", running())
    stage.machines.alive["gpu-01", 4242] = (99, "carol")
    async with stage.app.run_test(size=SIZE) as pilot:
        await show(stage, pilot)
        await opened_signal(stage, pilot, name)
        assert "python train.py (pid 4242) of carol (not yours)" in stage.shown()
        await confirm(stage, pilot)
        assert await ended(stage, pilot) is OutcomeState.VERIFIED
        assert stage.machines.ran == [f"signal gpu-01 4242 {name}"]


async def test_a_number_that_the_same_user_has_given_to_another_process_is_refused(make: Make) -> None:
    """The list on the screen is older than the look that the plan is made of."""
    stage = make(view="processes")
    stage.machines.busy("gpu-01", running())
    async with stage.app.run_test(size=SIZE) as pilot:
        await show(stage, pilot)
        stage.machines.busy("gpu-01")
        stage.machines.alive["gpu-01", 4242] = (12345, "carol")
        plan = await opened_signal(stage, pilot)
        assert "another process has the number 4242 now" in stage.shown()
        assert not plan.query_one("#go", Button).display


async def test_a_process_of_which_only_the_number_is_known_is_not_signaled(make: Make) -> None:
    stage = make(view="processes")
    stage.machines.busy("gpu-01", a_process(user=None, name=None))
    stage.machines.alive["gpu-01", 4242] = (7, "root")
    async with stage.app.run_test(size=SIZE) as pilot:
        await show(stage, pilot)
        plan = await opened_signal(stage, pilot)
        assert "(other-namespace)" in stage.shown()
        assert not plan.query_one("#go", Button).display


async def test_the_last_power_cap_again_on_other_rows_has_the_same_watts_and_the_new_devices(make: Make) -> None:
    stage = make(view="gpus")
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await ask_watts(stage, pilot, "500")
        await confirm(stage, pilot)
        await ended(stage, pilot)
        await pilot.press("j", "full_stop")
        plan = await plan_is_there(stage, pilot)
        assert (plan.request.watts, plan.request.devices_of) == (500.0, {"gpu-01": ("GPU-1",)})


async def test_a_cap_in_the_view_of_processes_is_of_the_devices_that_the_process_uses(make: Make) -> None:
    stage = make(view="processes")
    stage.machines.busy("gpu-01", running(device_index=1))
    async with stage.app.run_test(size=SIZE) as pilot:
        await show(stage, pilot)
        await ask_watts(stage, pilot, "500")
        plan = await plan_is_there(stage, pilot)
        assert plan.request.devices_of == {"gpu-01": ("GPU-1",)}
