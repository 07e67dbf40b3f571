"""Rows and view 9 tell where hosts stand whoever brought them there, and claim nothing that cannot be seen."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from gputop.actions.journal import journal_of, locked
from gputop.actions.lease import leases, remember
from gputop.domain.action import ActionKind, HostActState, Outcome, OutcomeState, StepResult, StepState
from gputop.domain.record import PlanOpened, StepBegan, StepEnded
from gputop.tui.dialogs.plan import PlanDialog
from gputop.tui.screens.host import HostScreen
from tests.fakes.acts import a_host, a_plan, a_process, a_request, an_evidence
from tests.tui.builders import until
from tests.tui.stage import Stage, boot_of

SIZE = (140, 36)

Make = Callable[..., Stage]

MARKER = '{"by":"bob","reason":"RMA","since":"2026-01-02T02:00:00Z","until":null}'


@pytest.fixture(autouse=True)
def _ann(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.tui.acting.real_user", lambda: "ann")


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return lambda **fields: Stage(tmp_path, **fields)


def drained_elsewhere(stage: Stage, name: str = "gpu-01", **fields: Any) -> None:
    """Another gputop of this account, the command line say, has drained a host."""
    request = a_request(ActionKind.DRAIN, name, **fields)
    plan = a_plan(request, an_evidence(name, host=a_host(name)))
    outcome = Outcome(host=name, state=OutcomeState.VERIFIED, host_state=HostActState.DRAINED)
    remember(stage.folder, plan, [outcome], stage.clock.now(), {name})
    stage.machines.markers[name] = MARKER.replace("bob", "ann")


async def pass_time(stage: Stage, pilot: Pilot[int], seconds: float) -> None:
    await stage.clock.advance(seconds)
    await stage.tick(pilot)


def row(stage: Stage, name: str = "gpu-01") -> str:
    return next(line for line in stage.shown().splitlines() if f"● {name}" in line)


async def test_a_host_that_the_command_line_drained_is_drained_in_its_row(make: Make) -> None:
    stage = make()
    drained_elsewhere(stage)
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pass_time(stage, pilot, 20)
        assert " drained " in row(stage)
        assert "drained by ann: RMA; since 02:00:00; its marker says so, read now; 2 devices empty" in stage.shown()
        assert " ok " in row(stage, "gpu-02")


async def test_a_host_that_somebody_else_marked_is_known_by_its_readings_alone(make: Make) -> None:
    stage = make()
    stage.machines.markers["gpu-02"] = MARKER
    stage.machines.busy("gpu-02", a_process())
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pass_time(stage, pilot, 20)
        assert " draining " in row(stage, "gpu-02")
        await pilot.press("9")
        await until(pilot, lambda: "Hosts that take no new work" in stage.shown())
        assert "gpu-02" in stage.shown()
        assert "by bob, no end  RMA" in stage.shown()
        stage.machines.busy("gpu-02")
        await pass_time(stage, pilot, 2)
        assert "● gpu-02           drained" in stage.shown()


async def test_a_drain_that_was_ended_elsewhere_is_not_claimed_from_memory(make: Make) -> None:
    stage = make()
    drained_elsewhere(stage)
    stage.machines.markers.clear()
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pass_time(stage, pilot, 20)
        assert "drained" not in row(stage)
        await pilot.press("9")
        await until(pilot, lambda: "takes work" in stage.shown())
        assert "somebody let it work again, or it has rebooted, by its marker" in stage.shown()


async def test_a_drain_of_which_nothing_can_be_seen_is_in_doubt(make: Make) -> None:
    stage = make()
    drained_elsewhere(stage)
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await stage.clock.advance(3600)
        await pilot.pause()
        stage.app.draw_all()
        await until(pilot, lambda: " drained? " in row(stage))


async def test_a_lease_that_is_over_is_told_in_the_header_and_in_view_9(make: Make) -> None:
    stage = make()
    drained_elsewhere(stage, until=stage.clock.now() + timedelta(hours=2))
    stage.machines.markers["gpu-01"] = MARKER.replace("null", '"2026-01-02T05:04:05Z"')
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pass_time(stage, pilot, 7100)
        assert "lease over" not in stage.shown()
        await pilot.press("9")
        await until(pilot, lambda: "until 05:04:05 (1 m 40 s left)" in stage.shown())
        await pass_time(stage, pilot, 160)
        await until(pilot, lambda: "until 05:04:05: over for 1 m 00 s, resume it (U) or drain it anew" in stage.shown())
        await pilot.press("escape")
        await until(pilot, lambda: "1 lease over: 9" in stage.app.screen_lines()[0])
        await pilot.resize_terminal(50, 12)
        await until(pilot, lambda: "1 over" in stage.app.screen_lines()[0])


async def test_in_view_9_acts_are_about_the_host_that_the_cursor_is_on(make: Make) -> None:
    stage = make()
    for name in ("gpu-01", "gpu-03"):
        drained_elsewhere(stage, name)
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pass_time(stage, pilot, 20)
        await pilot.press("9", "j", "U")
        await until(pilot, lambda: isinstance(stage.app.screen, PlanDialog))
        screen: Any = stage.app.screen
        assert (screen.request.kind, screen.request.hosts) == (ActionKind.RESUME, ("gpu-03",))
        await pilot.press("escape", "enter")
        await until(pilot, lambda: isinstance(stage.app.screen, HostScreen))


async def test_a_plan_that_another_gputop_carries_out_is_seen_live_and_its_hosts_are_marked(make: Make) -> None:
    stage = make()
    plan = a_plan(a_request(ActionKind.DRAIN, "gpu-02"), an_evidence("gpu-02", host=a_host("gpu-02")))
    [host] = plan.hosts
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        with locked(stage.folder, plan):
            journal = journal_of(stage.folder, plan.id)
            now = stage.clock.now()
            journal.write(PlanOpened(time=now, plan=plan))
            journal.write(StepBegan(time=now, host="gpu-02", step=host.steps[0].id))
            ended = StepResult(step=host.steps[0].id, state=StepState.VERIFIED, output="done\x1b[31m\nwell")
            journal.write(StepEnded(time=now, host="gpu-02", result=ended))
            await pass_time(stage, pilot, 6)
            await until(pilot, lambda: " draining " in row(stage, "gpu-02"))
            await pilot.press("9")
            await until(pilot, lambda: "by another gputop" in stage.shown())
            assert "● write the drain marker verified" in " ".join(stage.shown().split())
            assert "○ " in stage.shown()
            await pilot.press("enter")
            await until(pilot, lambda: "said  done" in stage.shown())
            assert "\x1b" not in stage.shown()
            await pilot.press("enter")
            await until(pilot, lambda: "nothing is left to be done about it" in stage.shown())


async def test_what_was_done_is_opened_from_the_audit_log_with_commands_and_outputs(make: Make) -> None:
    from tests.tui.test_acting import confirm, opened, wait_for_steps

    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await opened(stage, pilot, "D")
        await confirm(stage, pilot, "gpu-01")
        await wait_for_steps(stage, pilot, lambda: stage.desk.works[0].is_over)
        stage.desk.works.clear()  # as the next gputop would see it
        await pilot.press("9", "G", "enter")
        await until(pilot, lambda: "run  gpu-01: sudo -n install -D -m 0644 /dev/stdin" in stage.shown())
        assert re.search(r"reason +NIC", stage.shown())
        assert [lease.boot_id for lease in leases(stage.folder)] == [boot_of("gpu-01")]
