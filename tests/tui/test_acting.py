"""Keys that act: every one opens a plan, and only what is typed into it brings it about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Button, Input

from gputop.actions.journal import journal_of, unfinished
from gputop.actions.lease import leases
from gputop.domain.action import ActionKind, OutcomeState
from gputop.domain.record import PlanOpened
from gputop.tui.commands import COMMANDS
from gputop.tui.dialogs.ask import AskDialog
from gputop.tui.dialogs.base import Dialog
from gputop.tui.dialogs.plan import PlanDialog
from gputop.tui.screens.actions import ActionsScreen
from gputop.tui.screens.fleet import FleetScreen
from tests.fakes.acts import a_plan, a_process, a_request, an_evidence
from tests.fakes.clock import START
from tests.tui.builders import until
from tests.tui.stage import Stage

SIZE = (120, 36)

ACTS = {one.id: one.keys[0] for one in COMMANDS if one.acts and one.keys and one.id != "act.again"}


@pytest.fixture(autouse=True)
def _ann(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.tui.acting.real_user", lambda: "ann")


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Stage]:
    """Inside the test: what waits belongs to its event loop."""
    return lambda **fields: Stage(tmp_path, **fields)


def dialog(stage: Stage) -> PlanDialog:
    screen = stage.app.screen
    assert isinstance(screen, PlanDialog)
    return screen


async def opened(stage: Stage, pilot: Pilot[int], key: str) -> PlanDialog:
    """The plan that `key` opens, once it is there."""
    await pilot.press(key)
    await until(pilot, lambda: isinstance(stage.app.screen, PlanDialog) and dialog(stage).proposal is not None)
    await pilot.pause()
    return dialog(stage)


def go(stage: Stage) -> Button:
    return dialog(stage).query_one("#go", Button)


async def confirm(stage: Stage, pilot: Pilot[int], phrase: str, reason: str = "NIC") -> None:
    plan = dialog(stage)
    plan.query_one("#reason", Input).focus()
    await pilot.press(*reason)
    plan.query_one("#phrase", Input).focus()
    await pilot.press(*phrase)
    await pilot.pause()
    await until(pilot, lambda: not go(stage).disabled)
    await pilot.press("enter")
    await until(pilot, lambda: not isinstance(stage.app.screen, PlanDialog))


async def wait_for_steps(stage: Stage, pilot: Pilot[int], probe: Callable[[], object]) -> None:
    """Let the stage's time pass until `probe` is true."""
    for _ in range(100):
        if probe():
            return
        await stage.clock.advance(1.0)
        await pilot.pause(0.01)
    raise AssertionError("waited in vain")


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("allowed", [True, False], ids=["allowed", "read-only"])
async def test_every_key_that_acts_opens_a_dialog_and_does_nothing(
    make: Callable[..., Stage], act: str, allowed: bool
) -> None:
    stage = make(allowed=allowed)
    stage.machines.busy("gpu-01", a_process())
    stage.app = make(allowed=allowed, view="processes").app if act == "act.signal" else stage.app
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        if act == "act.signal":
            stage.app.newest = stage.fleet
            stage.app.draw_all()
            await pilot.pause()
        await pilot.press(ACTS[act])
        await until(pilot, lambda: isinstance(stage.app.screen, Dialog))
        await pilot.press("enter", "g", "p", "u", "enter", "1", "enter")
        await pilot.pause()
        assert stage.machines.ran == []
        assert [event for event in stage.events() if not event.startswith("refused")] == []


async def test_the_plan_shows_what_is_run_and_who_is_in_the_way(make: Callable[..., Stage]) -> None:
    stage = make()
    stage.machines.busy("gpu-01", a_process(command="python \x1b[31mtrain.py"))
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await opened(stage, pilot, "D")
        text = stage.shown()
        assert "Drain gpu-01" in text
        assert "sudo -n install -D -m 0644 /dev/stdin /run/gputop/drain.json" in text
        assert "of carol (not yours)" in text
        assert "\x1b" not in text


async def test_cancel_has_the_focus_and_enter_leaves(make: Callable[..., Stage]) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        plan = await opened(stage, pilot, "D")
        assert plan.focused is plan.query_one("#cancel", Button)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(stage.app.screen, FleetScreen))
        assert stage.machines.ran == []
        assert stage.desk.works == []


async def test_keys_typed_before_the_plan_could_be_read_count_nowhere(make: Callable[..., Stage]) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        stage.machines.answers.clear()
        await pilot.press("D", "tab", *"NIC", "tab", *"gpu-01")
        assert dialog(stage).proposal is None
        stage.machines.answers.set()
        await until(pilot, lambda: dialog(stage).proposal is not None)
        await pilot.pause()
        assert not any(entry.value for entry in dialog(stage).query(Input))
        assert dialog(stage).focused is dialog(stage).query_one("#cancel", Button)
        assert go(stage).disabled


async def test_the_name_and_a_reason_are_needed(make: Callable[..., Stage]) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        plan = await opened(stage, pilot, "D")
        plan.query_one("#phrase", Input).focus()
        await pilot.press(*"gpu-02")
        assert go(stage).disabled
        await pilot.press(*["backspace"] * 6, *"gpu-01")
        assert go(stage).disabled, "no reason was given"
        await pilot.press("enter")
        assert stage.machines.ran == []
        plan.query_one("#phrase", Input).value = ""
        await confirm(stage, pilot, "gpu-01")
        await wait_for_steps(stage, pilot, lambda: stage.desk.works[0].is_over)
        assert stage.machines.ran == ["mark gpu-01"]
        assert "NIC" in stage.machines.markers["gpu-01"]


async def test_the_reason_that_was_typed_stands_in_the_command_that_is_shown(make: Callable[..., Stage]) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await opened(stage, pilot, "D")
        dialog(stage).query_one("#reason", Input).focus()
        await pilot.press(*"smoke", "enter")
        await until(pilot, lambda: '"reason":"smoke"' in stage.shown())
        assert dialog(stage).focused is dialog(stage).query_one("#for", Input)


async def test_a_check_is_set_aside_with_a_reason_and_the_plan_is_shown_again(make: Callable[..., Stage]) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        plan = await opened(stage, pilot, "X")
        assert "not drained" in stage.shown()
        assert not go(stage).display
        plan.query_one("#override", Input).focus()
        await pilot.press(*"it burns", "enter")
        await until(pilot, lambda: go(stage).display)
        assert plan.request.override == "it burns"
        assert go(stage).disabled
        assert plan.query_one("#phrase", Input).value == ""


async def test_many_hosts_are_confirmed_by_their_number(make: Callable[..., Stage]) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("asterisk")
        await opened(stage, pilot, "D")
        assert "Drain 3 hosts" in stage.shown()
        await confirm(stage, pilot, "3")
        await wait_for_steps(stage, pilot, lambda: stage.desk.works[0].is_over)
        assert sorted(stage.machines.ran) == ["mark gpu-01", "mark gpu-02", "mark gpu-03"]
        assert {outcome.state for outcome in stage.desk.works[0].outcomes or ()} == {OutcomeState.VERIFIED}


async def test_in_read_only_mode_the_plan_is_shown_and_cannot_be_confirmed(make: Callable[..., Stage]) -> None:
    stage = make(allowed=False)
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert "read-only" in stage.app.screen_lines()[-1]
        await opened(stage, pilot, "D")
        assert "gputop is read-only (read-only)" in stage.shown()
        assert "--allow-actions" in stage.shown()
        assert not go(stage).display
        await pilot.press("escape", "question_mark")
        await pilot.pause()
        await pilot.press(*["j"] * 10)
        await pilot.pause()
        assert "read-only; start with --allow-actions" in stage.shown()


async def test_after_ten_idle_minutes_acts_are_refused_again(make: Callable[..., Stage]) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await stage.clock.advance(599)
        await pilot.press("j")
        await stage.clock.advance(599)
        stage.app.draw_all()
        await pilot.pause()
        assert "acts allowed" in stage.app.screen_lines()[-1]
        await stage.clock.advance(2)
        stage.app.draw_all()
        await pilot.pause()
        assert "read-only" in stage.app.screen_lines()[-1]
        await opened(stage, pilot, "D")
        assert not go(stage).display
        await pilot.press("escape")
        stage.app.do_acts_lock()
        await until(pilot, lambda: isinstance(stage.app.screen, AskDialog))
        stage.app.screen.query_one("#phrase", Input).focus()
        await pilot.press(*"unlock", "enter")
        await until(pilot, lambda: stage.lock.allowed)


async def test_a_lock_that_falls_while_the_dialog_is_open_refuses(make: Callable[..., Stage]) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await opened(stage, pilot, "D")
        dialog(stage).query_one("#reason", Input).focus()
        await pilot.press(*"NIC", "enter", "enter", *"gpu-01")
        await until(pilot, lambda: '"reason":"NIC"' in stage.shown() and not go(stage).disabled)
        stage.lock.relock()
        await pilot.press("enter")
        await until(pilot, lambda: "nothing was done" in stage.shown())
        assert stage.machines.ran == []
        assert stage.events() == ["refused drain"]


async def test_when_things_changed_the_new_plan_is_shown_and_nothing_is_done(make: Callable[..., Stage]) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await opened(stage, pilot, "D")
        stage.machines.busy("gpu-01", a_process(user="dave"))
        await stage.clock.advance(10)
        dialog(stage).query_one("#reason", Input).value = "NIC"
        dialog(stage).query_one("#phrase", Input).value = "gpu-01"
        await pilot.pause()
        await pilot.click("#go")
        await until(pilot, lambda: "things have changed" in stage.shown())
        assert "of dave" in stage.shown()
        assert dialog(stage).query_one("#phrase", Input).value == ""
        assert stage.machines.ran == []


async def test_a_drain_is_seen_live_and_ends_verified(make: Callable[..., Stage]) -> None:
    stage = make()
    stage.machines.busy("gpu-01", a_process())
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await opened(stage, pilot, "D")
        await confirm(stage, pilot, "gpu-01")
        await wait_for_steps(stage, pilot, lambda: "draining" in stage.shown())
        assert "1 act under way" in stage.shown()
        await pilot.press("9")
        await until(pilot, lambda: isinstance(stage.app.screen, ActionsScreen))
        await wait_for_steps(stage, pilot, lambda: "left: GPU 0: python" in stage.shown())
        stage.machines.busy("gpu-01")
        await wait_for_steps(stage, pilot, lambda: "● verified, drained" in stage.shown())
        assert [lease.host for lease in leases(stage.folder)] == ["gpu-01"]
        await pilot.press("escape")
        await until(pilot, lambda: " drained  " in stage.shown())
        assert stage.app.screen is stage.app.fleet_screen


async def test_a_plan_that_is_let_go_of_can_be_resumed_or_rolled_back(make: Callable[..., Stage]) -> None:
    stage = make()
    stage.machines.busy("gpu-01", a_process())
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await opened(stage, pilot, "D")
        await confirm(stage, pilot, "gpu-01")
        await pilot.press("9")
        await wait_for_steps(stage, pilot, lambda: "left: GPU 0" in stage.shown())
        await pilot.press("enter")
        await until(pilot, lambda: "⏎ let go of it" in stage.shown())
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(stage.app.screen, AskDialog))
        await pilot.click("#leave")
        await until(pilot, lambda: unfinished(stage.folder))
        await until(pilot, lambda: "⏎ go on with it, roll it back, or forget it" in stage.shown())
        await pilot.press("escape")
        screen: Any = stage.app.screen
        screen.read_again()
        await until(pilot, lambda: "Unfinished" in stage.shown())
        await pilot.press("enter", "enter")
        await until(pilot, lambda: isinstance(stage.app.screen, AskDialog))
        assert stage.app.screen.query_one("#back", Button).disabled
        stage.app.screen.query_one("#phrase", Input).focus()
        await pilot.press(*"gpu-01")
        await pilot.click("#back")
        await wait_for_steps(stage, pilot, lambda: not unfinished(stage.folder))
        assert stage.machines.ran == ["mark gpu-01", "unmark gpu-01"]
        assert stage.machines.markers == {}


@pytest.mark.parametrize("button", ["#resume", "#back"])
async def test_a_plan_whose_hosts_another_inventory_has_is_left_alone_and_the_screen_says_so(
    button: str, make: Callable[..., Stage]
) -> None:
    stage = make()
    plan = a_plan(a_request(ActionKind.DRAIN, "gpu-99"), an_evidence("gpu-99"))
    journal = journal_of(stage.folder, plan.id)
    journal.write(PlanOpened(time=START, plan=plan))
    before = journal.path.read_text()
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("9")
        await until(pilot, lambda: "Unfinished" in stage.shown())
        await pilot.press("enter")
        await until(pilot, lambda: "go on with it, roll it back" in stage.shown())
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(stage.app.screen, AskDialog))
        stage.app.screen.query_one("#phrase", Input).focus()
        await pilot.press(*"gpu-99")
        await pilot.click(button)
        await until(pilot, lambda: "not in this inventory: gpu-99: nothing was done" in stage.shown())
    assert journal.path.read_text() == before
    assert not (stage.folder / "audit.jsonl").exists()


async def test_quitting_asks_while_an_act_is_under_way(make: Callable[..., Stage]) -> None:
    stage = make()
    stage.machines.busy("gpu-01", a_process())
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await opened(stage, pilot, "D")
        await confirm(stage, pilot, "gpu-01")
        await wait_for_steps(stage, pilot, lambda: stage.desk.running)
        await pilot.press("q")
        await until(pilot, lambda: isinstance(stage.app.screen, AskDialog))
        assert "1 act under way" in stage.shown()
        await pilot.press("enter")
        await until(pilot, lambda: stage.app.screen is stage.app.fleet_screen)
        await pilot.press("q")
        await until(pilot, lambda: isinstance(stage.app.screen, AskDialog))
        await pilot.click("#quit")
        await until(pilot, lambda: not stage.app.is_running)
    assert stage.closed
    assert [story.plan.request.kind for story in unfinished(stage.folder)] == [ActionKind.DRAIN]


async def test_ctrl_c_asks_as_q_does_and_a_second_one_quits_with_a_word(make: Callable[..., Stage]) -> None:
    stage = make()
    stage.machines.busy("gpu-01", a_process())
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await opened(stage, pilot, "D")
        await confirm(stage, pilot, "gpu-01")
        await wait_for_steps(stage, pilot, lambda: stage.desk.running)
        await pilot.press("9", "ctrl+c")
        await until(pilot, lambda: isinstance(stage.app.screen, AskDialog))
        assert "1 act under way" in stage.shown()
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(stage.app.screen, ActionsScreen))
        await pilot.press("ctrl+c")
        await until(pilot, lambda: isinstance(stage.app.screen, AskDialog))
        await pilot.press("ctrl+c")
        await until(pilot, lambda: not stage.app.is_running)
    plan = stage.desk.works[0].plan.id
    assert stage.app.last_words() == (f"drain of gpu-01 is unfinished: gputop actions --resume {plan}",)


async def test_ctrl_c_quits_at_once_where_nothing_is_under_way(make: Callable[..., Stage]) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("ctrl+c")
        await until(pilot, lambda: not stage.app.is_running)
    assert stage.app.last_words() == ()


@pytest.mark.parametrize("size", [(120, 36), (80, 24), (40, 10)])
async def test_plans_that_somebody_left_unfinished_are_told_until_they_were_looked_at(
    size: tuple[int, int], make: Callable[..., Stage]
) -> None:
    stage = make()
    plan = a_plan(a_request(ActionKind.DRAIN, "gpu-01"), an_evidence("gpu-01"))
    journal_of(stage.folder, plan.id).write(PlanOpened(time=START, plan=plan))
    async with stage.app.run_test(size=size) as pilot:
        await until(pilot, lambda: "1 unfinished: 9" in stage.shown())
        await pilot.press("9")
        await until(pilot, lambda: isinstance(stage.app.screen, ActionsScreen))
        await pilot.press("escape")
        await until(pilot, lambda: stage.app.screen is stage.app.fleet_screen)
        assert "unfinished" not in stage.shown()


async def test_the_last_act_again_on_new_marks(make: Callable[..., Stage]) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("full_stop")
        await until(pilot, lambda: "nothing was done yet" in stage.shown())
        await opened(stage, pilot, "D")
        await confirm(stage, pilot, "gpu-01")
        await wait_for_steps(stage, pilot, lambda: stage.desk.works[0].is_over)
        await pilot.press("j", "space")
        plan = await opened(stage, pilot, "full_stop")
        assert plan.request.hosts == ("gpu-02",)
        assert (plan.request.kind, plan.request.reason) == (ActionKind.DRAIN, "NIC")


async def test_a_message_is_typed_first_and_told_after_its_plan_was_seen(make: Callable[..., Stage]) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("M")
        await until(pilot, lambda: isinstance(stage.app.screen, AskDialog))
        stage.app.screen.query_one("#phrase", Input).focus()
        await pilot.press(*"bye", "enter")
        await until(pilot, lambda: isinstance(stage.app.screen, PlanDialog) and dialog(stage).proposal is not None)
        await pilot.pause()
        assert stage.machines.ran == []
        await pilot.click("#go")
        await until(pilot, lambda: stage.machines.ran == ["tell gpu-01"])


async def test_without_anything_to_act_on_keys_say_so() -> None:
    from tests.tui.builders import an_app, odd_fleet

    app = an_app(*odd_fleet())
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("D")
        await pilot.pause()
        assert "there is nothing to act on here" in "\n".join(app.screen_lines())


async def test_a_reason_is_of_bounded_length_and_what_hides_in_it_does_not_keep_a_plan_from_being_confirmed(
    make: Callable[..., Stage],
) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        plan = await opened(stage, pilot, "D")
        entry = plan.query_one("#reason", Input)
        assert entry.max_length == 500
        entry.value = "NIC\u202e\u200b"
        await confirm(stage, pilot, "gpu-01", reason="")
        [work] = stage.desk.works
        assert work.plan.request.reason == "NIC"
