"""The dialog of a plan: what can be typed into it, agreed to and changed, and how much room it needs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from textual import events
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Button, Input

from gputop.actions.lease import leases
from gputop.domain.action import ActionKind, Consent, LossKind
from gputop.tui.dialogs.plan import AGREES, PlanDialog
from gputop.tui.widgets.painted import Page
from tests.fakes.acts import a_process
from tests.tui.builders import until
from tests.tui.stage import Stage, WithPods

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


async def opened(stage: Stage, pilot: Pilot[int], key: str) -> PlanDialog:
    await pilot.press(key)
    await until(pilot, lambda: isinstance(stage.app.screen, PlanDialog) and dialog(stage).proposal is not None)
    await pilot.pause()
    return dialog(stage)


async def go_to(pilot: Pilot[int], plan: PlanDialog, field: str) -> None:
    plan.query_one(f"#{field}").focus()
    await pilot.pause()


def is_shown(plan: PlanDialog, field: str) -> bool:
    return bool(plan.query_one(f"#{field}").is_on_screen and plan.query_one(f"#{field}").region.height)


# --- for how long -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["D", "C"])
async def test_a_drain_and_a_cordon_can_be_for_a_time_which_the_lease_keeps(make: Make, key: str) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        plan = await opened(stage, pilot, key)
        await go_to(pilot, plan, "reason")
        await pilot.press(*"NIC", "enter", *"2h", "enter")
        await until(pilot, lambda: "until 2026-01-02 05:04 UTC" in stage.shown())
        assert '"until":"2026-01-02T05:04:05Z"' in stage.shown().replace("\n", "")
        await pilot.press(*"gpu-01")
        await until(pilot, lambda: not plan.query_one("#go", Button).disabled)
        await pilot.press("enter")
        await until(pilot, lambda: stage.desk.works)
        for _ in range(50):
            await stage.clock.advance(1.0)
            await pilot.pause(0.01)
            if stage.desk.works[0].is_over:
                break
        [lease] = leases(stage.folder)
        assert lease.until is not None
        assert lease.until - stage.clock.now() < timedelta(hours=2)


async def test_a_time_that_is_none_is_said_in_one_line_and_nothing_can_be_confirmed_with_it(make: Make) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        plan = await opened(stage, pilot, "D")
        plan.query_one("#reason", Input).value = "NIC"
        await go_to(pilot, plan, "for")
        for wrong in ("2 moons", "0s", "90d"):
            plan.query_one("#for", Input).value = wrong
            await go_to(pilot, plan, "phrase")
            plan.query_one("#phrase", Input).value = "gpu-01"
            await until(pilot, lambda wrong=wrong: f'"{wrong}" is no time' in stage.shown())
            assert plan.query_one("#go", Button).disabled
            assert plan.request.until is None
        plan.query_one("#for", Input).value = ""
        await pilot.pause()
        await until(pilot, lambda: not plan.query_one("#go", Button).disabled)


async def test_other_acts_are_not_for_a_time(make: Make) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        plan = await opened(stage, pilot, "U")
        assert not is_shown(plan, "for")


# --- what is agreed to --------------------------------------------------------------------------------------------


async def test_each_loss_that_needs_a_consent_is_agreed_to_by_a_button_that_names_it(make: Make) -> None:
    stage = make(scheduler_class=WithPods)
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        plan = await opened(stage, pilot, "D")
        assert "lab/notebook: has no controller and will not come back (needs-consent)" in stage.shown()
        assert not plan.query_one("#go", Button).display
        for concern, words in (
            (LossKind.UNMANAGED_POD, "Agree: pods without a controller end"),
            (LossKind.EMPTY_DIR, "Agree: emptyDir data is lost"),
        ):
            assert words in stage.shown()
            await pilot.click(f"#agree-{concern.value}")
            await until(pilot, lambda concern=concern: concern.value in plan.request.consents)
            await until(pilot, lambda words=words: words not in stage.shown())
            assert plan.focused is plan.query_one("#cancel", Button), "a plan that is new is not confirmed by reflex"
        await until(pilot, lambda: plan.query_one("#go", Button).display)
        assert "something is lost for certain: say why" in stage.shown()
        assert plan.query_one("#phrase", Input).value == ""
        assert stage.machines.ran == []


async def test_a_drain_of_somebody_else_is_undone_after_it_was_agreed_to(make: Make) -> None:
    stage = make()
    stage.machines.markers["gpu-01"] = '{"by":"bob","reason":"RMA","since":"2026-01-01T00:00:00Z"}'
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        plan = await opened(stage, pilot, "U")
        assert "drained by bob since 2026-01-01 00:00 UTC: RMA" in stage.shown()
        assert "ask them first" in stage.shown()
        await pilot.click("#agree-drained-by-other")
        await until(pilot, lambda: plan.query_one("#go", Button).display)


def test_everything_that_can_be_agreed_to_has_words_for_its_button() -> None:
    assert set(AGREES) == set(Consent)


# --- not drained --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["X", "B"])
async def test_a_host_at_work_is_drained_instead_by_a_button(make: Make, key: str) -> None:
    stage = make()
    stage.machines.busy("gpu-01", a_process())
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        plan = await opened(stage, pilot, key)
        text = stage.shown()
        assert "it is active, not drained; 1 left (not-drained)" in text
        assert 'drain it first ("Drain instead" below)' in text
        assert "--override" not in text, "a word of the command line"
        await pilot.click("#drain")
        await until(pilot, lambda: plan.request.kind is ActionKind.DRAIN and plan.proposal is not None)
        await pilot.pause()
        assert "Drain gpu-01" in stage.shown()
        assert str(plan.query_one("#go", Button).label) == "Drain"
        assert is_shown(plan, "for")
        assert not is_shown(plan, "override")
        assert not is_shown(plan, "drain")
        assert stage.machines.ran == []


# --- hosts at work ------------------------------------------------------------------------------------------------


async def test_a_host_whose_processes_come_and_go_is_drained_without_the_plan_expiring(make: Make) -> None:
    stage = make()
    stage.machines.busy("gpu-01", a_process(1), a_process(2, "dave"))
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        plan = await opened(stage, pilot, "D")
        await go_to(pilot, plan, "reason")
        for number, letter in enumerate("NIC"):
            stage.machines.busy("gpu-01", a_process(10 + number), a_process(20 + number, "dave"))
            await stage.clock.advance(5.0)
            await pilot.press(letter)
        await go_to(pilot, plan, "phrase")
        await pilot.press(*"gpu-01")
        stage.machines.busy("gpu-01", a_process(99))
        await stage.clock.advance(20.0)
        await until(pilot, lambda: not plan.query_one("#go", Button).disabled)
        await pilot.press("enter")
        await until(pilot, lambda: stage.machines.ran == ["mark gpu-01"])


async def test_what_is_new_since_the_plan_was_seen_is_named_above_the_fields(make: Make) -> None:
    stage = make()
    stage.machines.busy("gpu-01", a_process(1))
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        plan = await opened(stage, pilot, "D")
        plan.query_one("#reason", Input).value = "NIC"
        plan.query_one("#phrase", Input).value = "gpu-01"
        stage.machines.busy("gpu-01", a_process(1), a_process(2, "dave"))
        await stage.clock.advance(20.0)
        await pilot.pause()
        await pilot.click("#go")
        await until(pilot, lambda: "gpu-01: python (pid 2) of dave is new. This is the plan now" in stage.shown())
        assert plan.query_one("#phrase", Input).value == ""
        assert stage.machines.ran == []


async def test_a_plan_grows_old_before_the_eyes_and_is_made_again_by_a_key(make: Make) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        plan = await opened(stage, pilot, "D")
        assert "data 0.0 s old" in stage.shown()
        await stage.clock.advance(301.0)
        plan._draw()
        await pilot.pause()
        assert "data 5 m 1 s old" in stage.shown() or "data 301 s old" in stage.shown() or "data 5 m" in stage.shown()
        assert "this plan is older than 5 minutes: F5 looks again" in stage.shown()
        await pilot.press("f5")
        await until(pilot, lambda: "data 0.0 s old" in stage.shown())
        assert "older than" not in stage.shown()


# --- keys that come fast ------------------------------------------------------------------------------------------


def burst(app: App[int], *keys: str) -> None:
    """Keys as a terminal sends those that were typed ahead: all at once."""
    for key in keys:
        app.post_message(events.Key(key, key if len(key) == 1 else None))


async def test_what_is_typed_right_behind_tab_or_enter_lands_in_the_next_field(make: Make) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        plan = await opened(stage, pilot, "D")
        burst(stage.app, "tab", *"NIC", "tab", *"2h", "shift+tab", *"!", "enter", "enter", *"gpu-01")
        await until(pilot, lambda: plan.query_one("#phrase", Input).value == "gpu-01")
        assert (plan.query_one("#reason", Input).value, plan.query_one("#for", Input).value) == ("!", "2h")


async def test_a_phrase_that_comes_before_the_plan_with_what_was_typed_is_enough(make: Make) -> None:
    """The plan is made again for the time that was typed; whoever is faster need not type again."""
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await opened(stage, pilot, "D")
        stage.machines.answers.clear()
        burst(stage.app, "tab", *"NIC", "enter", *"2h", "enter", *"gpu-01", "enter")
        await until(pilot, lambda: "the plan is being made again with what was typed" in stage.shown())
        assert stage.machines.ran == []
        stage.machines.answers.set()
        await until(pilot, lambda: stage.machines.ran == ["mark gpu-01"])
        assert '"until":"2026-01-02T05:04:05Z"' in stage.machines.markers["gpu-01"]


async def test_a_phrase_that_comes_before_a_plan_that_says_more_is_not(make: Make) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        plan = await opened(stage, pilot, "D")
        stage.machines.answers.clear()
        burst(stage.app, "tab", *"NIC", "enter", *"2h", "enter", *"gpu-01", "enter")
        await until(pilot, lambda: "the plan is being made again with what was typed" in stage.shown())
        stage.machines.busy("gpu-01", a_process(user="dave"))
        stage.machines.answers.set()
        await until(pilot, lambda: "of dave is new. This is the plan now" in stage.shown())
        assert plan.query_one("#phrase", Input).value == ""
        assert stage.machines.ran == []


async def test_text_pasted_before_the_plan_could_be_read_counts_nowhere(make: Make) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        early = events.Paste("gpu-01")
        plan = await opened(stage, pilot, "D")
        await go_to(pilot, plan, "phrase")
        plan.query_one("#phrase", Input).post_message(early)
        await pilot.pause()
        assert plan.query_one("#phrase", Input).value == ""
        plan.query_one("#phrase", Input).post_message(events.Paste("gpu-01"))
        await until(pilot, lambda: plan.query_one("#phrase", Input).value == "gpu-01")


async def test_enter_behind_a_phrase_that_is_not_enough_says_what_is_missing(make: Make) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        plan = await opened(stage, pilot, "D")
        await go_to(pilot, plan, "phrase")
        await pilot.press(*"gpu-02", "enter")
        await until(pilot, lambda: "▲ to confirm, type gpu-01" in stage.shown())
        await pilot.press(*["backspace"] * 2, *"01", "enter")
        await until(pilot, lambda: "▲ a reason must be given" in stage.shown())
        assert stage.machines.ran == []


# --- room ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(200, 50), (120, 36), (80, 24), (60, 16), (40, 10)], ids=str)
@pytest.mark.parametrize("key", ["D", "X", "U"])
async def test_a_plan_can_be_read_and_all_that_is_asked_for_is_in_sight(
    make: Make, key: str, size: tuple[int, int]
) -> None:
    stage = make(scheduler_class=WithPods if key == "D" else WithPods.__base__)
    stage.machines.busy("gpu-01", *(a_process(number, f"user{number}") for number in range(9)))
    async with stage.app.run_test(size=size) as pilot:
        await pilot.pause()
        await pilot.press("asterisk")
        plan = await opened(stage, pilot, key)
        lines = stage.shown().splitlines()
        assert all(len(line) <= size[0] for line in lines)
        wanted = {"D": ("agree-unmanaged-pods", "agree-empty-dir-data"), "X": ("override", "drain")}.get(
            key, ("phrase",)
        )
        for name in (*wanted, "cancel"):
            assert is_shown(plan, name), f"{name} cannot be seen\n{stage.shown()}"
        page = plan.query_one("#dialog-text", Page)
        seen = set()
        while True:
            top = page.scroll_offset.y
            seen |= set(range(top, top + page.size.height))
            if top + page.size.height >= page.virtual_size.height:
                break
            await pilot.press("pagedown")
        assert seen == set(range(page.virtual_size.height)), "lines that no key brings into sight"


async def test_a_pane_that_is_too_small_says_so_and_nothing_can_be_confirmed_in_it(make: Make) -> None:
    stage = make()
    async with stage.app.run_test(size=(40, 7)) as pilot:
        await pilot.pause()
        plan = await opened(stage, pilot, "D")
        assert "The pane is too small" in stage.shown()
        assert is_shown(plan, "cancel")
        assert not is_shown(plan, "phrase")
        assert not is_shown(plan, "go")
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: is_shown(plan, "phrase") and is_shown(plan, "go"))


# --- between the confirmation and the first step ------------------------------------------------------------------


async def confirmed_while_hosts_are_silent(stage: Stage, pilot: Pilot[int]) -> PlanDialog:
    """The gate has a plan that was confirmed, and looks at the host once more: it is no longer of right now."""
    await pilot.pause()
    plan = await opened(stage, pilot, "C")
    await stage.clock.advance(60.0)
    await go_to(pilot, plan, "phrase")
    await pilot.press(*"gpu-01")
    await until(pilot, lambda: not plan.query_one("#go", Button).disabled)
    stage.machines.answers.clear()
    await pilot.press("enter")
    await until(pilot, lambda: plan.query_one("#go", Button).disabled)
    return plan


async def test_while_the_gate_looks_once_more_the_dialog_says_so(make: Make) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await confirmed_while_hosts_are_silent(stage, pilot)
        await until(pilot, lambda: "looking at it once more before anything is done" in stage.shown())
        stage.machines.answers.set()
        await until(pilot, lambda: stage.machines.ran == ["mark gpu-01"])
        await until(pilot, lambda: not isinstance(stage.app.screen, PlanDialog))


@pytest.mark.parametrize("how", ["escape", "button"])
async def test_a_plan_that_is_cancelled_while_the_gate_looks_once_more_is_not_begun(make: Make, how: str) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await confirmed_while_hosts_are_silent(stage, pilot)
        await (pilot.press("escape") if how == "escape" else pilot.click("#cancel"))
        await until(pilot, lambda: not isinstance(stage.app.screen, PlanDialog))
        stage.machines.answers.set()
        for _ in range(30):
            await stage.clock.advance(1.0)
            await pilot.pause(0.01)
        assert (stage.machines.ran, stage.desk.works, stage.events()) == ([], [], [])


# --- where typing goes --------------------------------------------------------------------------------------------


async def test_a_resume_is_confirmed_as_every_other_act_without_coming_by_what_is_set_aside(make: Make) -> None:
    stage = make()
    stage.machines.markers["gpu-01"] = '{"by":"ann","reason":"RMA","since":"2026-01-01T00:00:00Z"}'
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        plan = await opened(stage, pilot, "U")
        assert is_shown(plan, "override-line")
        await pilot.press("tab", *"NIC", "tab", *"gpu-01")
        assert plan.query_one("#override", Input).value == ""
        assert plan.query_one("#phrase", Input).value == "gpu-01"


async def test_who_sets_checks_aside_sees_the_plan_without_them_and_types_on(make: Make) -> None:
    stage = make()
    stage.machines.markers["gpu-01"] = '{"by":"ann","reason":"RMA","since":"2026-01-01T00:00:00Z"}'
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        plan = await opened(stage, pilot, "U")
        assert "check that it is fit for work" in stage.shown()
        await go_to(pilot, plan, "override")
        await pilot.press(*"it burns", "enter")
        await until(pilot, lambda: "whether it is fit for work is not checked" in stage.shown())
        assert "check that it is fit for work" not in stage.shown()
        await pilot.press(*"gpu-01")
        assert plan.query_one("#phrase", Input).value == "gpu-01"
        assert stage.app.screen is plan


async def test_tab_leads_from_cancel_into_the_first_field_whatever_buttons_there_are(make: Make) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        plan = await opened(stage, pilot, "X")
        assert is_shown(plan, "drain")
        await pilot.press("tab", *"why")
        assert plan.query_one("#override", Input).value == "why"
