"""Every way into an act is one way: keys, the palette, the mouse and the command line all come to the one gate, and the
gate alone starts the one executor. Ways are enumerated, from the registry of commands, from what is drawn on each
screen, and from the table of the command line; none is written down here."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from textual.command import CommandList, CommandPalette
from textual.pilot import OutOfBounds, Pilot
from textual.widget import Widget
from textual.widgets import Button, Input

from gputop.actions.acts import Acts, Proposal
from gputop.actions.executor import Executor
from gputop.cli.main import COMMANDS as CLI_COMMANDS
from gputop.cli.main import main
from gputop.domain.action import ActionKind, ActionRequest, Confirm, Deny, Plan
from gputop.tui.bindings import PaletteCommands, textual_key
from gputop.tui.commands import COMMANDS, Command
from gputop.tui.dialogs.ask import AskDialog
from gputop.tui.dialogs.base import Dialog
from gputop.tui.dialogs.plan import PlanDialog
from tests.fakes.acts import a_process
from tests.tui.builders import until
from tests.tui.stage import Stage

SIZE = (110, 30)

Make = Callable[..., Stage]

ACTING = [command for command in COMMANDS if command.acts]
WAYS = [(command, key) for command in ACTING for key in (*command.keys, "palette", "palette by mouse")]
CLI_ACTS = [command.act for command in CLI_COMMANDS if command.act]


@dataclass
class Gate:
    """What went through the gate, and what the executor was told to do."""

    passed: list[ActionKind] = field(default_factory=list)
    executed: list[ActionKind] = field(default_factory=list)
    inside: int = 0


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Watches both; an executor that is started by anything but the gate fails the test."""
    watch = Gate()
    carry_out, execute = Acts.carry_out, Executor.execute

    async def watched_carry_out(self: Acts, proposal: Proposal, **more: Any) -> Any:
        watch.passed.append(proposal.plan.request.kind)
        watch.inside += 1
        try:
            return await carry_out(self, proposal, **more)
        finally:
            watch.inside -= 1

    async def watched_execute(self: Executor, plan: Plan, **more: Any) -> Any:
        assert watch.inside, "the executor was started around the gate"
        watch.executed.append(plan.request.kind)
        return await execute(self, plan, **more)

    monkeypatch.setattr(Acts, "carry_out", watched_carry_out)
    monkeypatch.setattr(Executor, "execute", watched_execute)
    monkeypatch.setattr("gputop.tui.acting.real_user", lambda: "ann")
    return watch


FATAL_LINE = "[  812.1] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def made(**fields: Any) -> Stage:
        stage = Stage(tmp_path, **fields)
        stage.machines.alive["gpu-01", 4242] = (99, "carol")
        stage.machines.busy("gpu-02", a_process(started_ticks=99))
        stage.machines.kernel_logs["gpu-01"] = FATAL_LINE
        stage.desk.last = ActionRequest(kind=ActionKind.DRAIN, hosts=("gpu-03",), reason="before", by="ann")
        return stage

    return made


def view_of(command: Command) -> str:
    return "processes" if command.id == "act.signal" else "hosts"


async def ready(stage: Stage, pilot: Pilot[int], command: Command) -> None:
    """On a row that `command` can be about."""
    if command.id == "act.signal":
        stage.machines.busy("gpu-01", a_process(started_ticks=99, command="python train.py"))
    await stage.tick(pilot)
    await pilot.press("g")


async def go_in(stage: Stage, pilot: Pilot[int], command: Command, way: str) -> None:
    """Ask for an act, until its dialog is there."""
    if not way.startswith("palette"):
        await pilot.press(textual_key(way) if len(way) > 1 else way)
    else:
        await pilot.press("colon")
        await until(pilot, lambda: isinstance(stage.app.screen, CommandPalette))
        await pilot.press(*(key if key != " " else "space" for key in command.id))
        found = stage.app.screen.query_one(CommandList)
        await until(pilot, lambda: found.option_count and found.highlighted is not None)
        await pilot.pause()
        if way == "palette":
            await pilot.press("enter")
        else:
            await pilot.click(found, offset=(3, 1))
    await until(pilot, lambda: isinstance(stage.app.screen, Dialog))
    await pilot.pause()


async def read_on(stage: Stage, pilot: Pilot[int]) -> PlanDialog:
    """Answer what is asked before the plan; the plan, once it is there."""
    screen = stage.app.screen
    if isinstance(screen, AskDialog):
        if entries := screen.query("#phrase"):
            entries.first(Input).focus()
            await pilot.press(*"500", "enter")
        else:
            await pilot.click("#TERM")
    await until(pilot, lambda: isinstance(stage.app.screen, PlanDialog) and stage.app.screen.proposal is not None)
    await pilot.pause()
    plan = stage.app.screen
    assert isinstance(plan, PlanDialog)
    return plan


async def confirm(stage: Stage, pilot: Pilot[int], plan: PlanDialog) -> None:
    """As a person does who has read it: with the mouse at last."""
    assert plan.proposal is not None
    if isinstance(plan.proposal.verdict, Deny):  # a host that is not drained
        plan.query_one("#override", Input).focus()
        await pilot.press(*"fire", "enter")
        await until(pilot, lambda: plan.query_one("#go", Button).display)
    if isinstance(plan.proposal.verdict, Confirm):
        for name, text in (("reason", "test"), ("phrase", plan.proposal.verdict.phrase)):
            plan.query_one(f"#{name}", Input).focus()
            await pilot.press(*["backspace"] * 8, *text)
    await until(pilot, lambda: not plan.query_one("#go", Button).disabled)
    await pilot.click("#go")


@pytest.mark.parametrize(("command", "way"), WAYS, ids=[f"{command.id}-{way}" for command, way in WAYS])
async def test_every_way_on_the_screen_opens_a_plan_and_leads_through_the_gate_once(
    make: Make, gate: Gate, command: Command, way: str
) -> None:
    stage = make(view=view_of(command))
    async with stage.app.run_test(size=SIZE) as pilot:
        await ready(stage, pilot, command)
        await go_in(stage, pilot, command, way)
        plan = await read_on(stage, pilot)
        assert (gate.passed, gate.executed, stage.machines.ran) == ([], [], []), "something was done before it was read"
        await confirm(stage, pilot, plan)
        await until(pilot, lambda: gate.executed)
        assert gate.passed == gate.executed == [plan.request.kind]


@pytest.mark.parametrize("command", ACTING, ids=lambda command: command.id)
async def test_while_read_only_every_way_shows_the_plan_and_why_it_is_not_done(
    make: Make, gate: Gate, command: Command
) -> None:
    for way in (*command.keys, "palette"):
        stage = make(view=view_of(command), allowed=False)
        async with stage.app.run_test(size=SIZE) as pilot:
            await ready(stage, pilot, command)
            await go_in(stage, pilot, command, way)
            plan = await read_on(stage, pilot)
            assert "gputop is read-only" in stage.shown()
            assert not plan.query_one("#go", Button).display
            await everything_clicked(stage, pilot)
            assert gate.executed == []
            assert stage.machines.ran == []


async def test_the_palette_offers_every_act_and_says_while_read_only_why_it_is_not_done(make: Make) -> None:
    for allowed in (True, False):
        stage = make(allowed=allowed)
        async with stage.app.run_test(size=SIZE) as pilot:
            await pilot.pause()
            provider = PaletteCommands(stage.app.screen)
            offered = {str(hit.text): hit.help or "" async for hit in provider.discover()}
            for command in ACTING:
                [help_text] = [text for label, text in offered.items() if label.split("   ")[0] == command.title]
                assert ("read-only" in help_text) is not allowed


# --- the mouse ------------------------------------------------------------------------------------------------------

PLACES: dict[str, Sequence[str]] = {
    "hosts": ("1",),
    "gpus": ("2",),
    "processes": ("3",),
    "actions": ("9",),
    "host": ("1", "enter"),
    "gpu": ("2", "enter"),
    "details": ("1", "d"),
    "log": ("1", "L"),
    "help": ("question_mark",),
    "palette": ("colon",),
    "filter": ("slash",),
}
"""Keys that lead to each screen; those of acts come from the registry."""


def widgets(stage: Stage) -> Iterator[Widget]:
    """All that is drawn on the screen in front."""
    for widget in stage.app.screen.walk_children(Widget):
        if widget.is_on_screen and widget.region.area:
            yield widget


async def everything_clicked(stage: Stage, pilot: Pilot[int]) -> int:
    """Click on every widget of the screen in front that is not made of others: at its ends and in its middle, once and
    twice, and with every button."""
    front = stage.app.screen
    clicks = 0
    for widget in [one for one in widgets(stage) if not list(one.children)]:
        width, height = widget.region.width, widget.region.height
        if isinstance(widget, Button) and widget.id == "cancel":
            continue
        for y in sorted({0, height // 2, height - 1}):
            for times, button, x in ((1, 1, 0), (2, 1, width // 2), (1, 3, max(0, width - 2))):
                if stage.app.screen is not front or not widget.is_on_screen:
                    return clicks
                with contextlib.suppress(OutOfBounds):  # another widget has taken its room
                    await pilot.click(widget, offset=(x, y), times=times, button=button)
                clicks += 1
    return clicks


@pytest.mark.parametrize("place", PLACES)
async def test_no_click_on_anything_that_is_drawn_acts(make: Make, gate: Gate, place: str) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await stage.tick(pilot)
        clicks = 0
        for _ in range(3):  # a click may lead elsewhere
            for key in PLACES[place]:
                await pilot.press(key)
                await pilot.pause()
            clicks += await everything_clicked(stage, pilot)
            while len(stage.app.screen_stack) > 2:
                stage.app.pop_screen()
                await pilot.pause()
        assert clicks > 3, "nothing was clicked on"
        assert (gate.passed, gate.executed, stage.machines.ran) == ([], [], [])


@pytest.mark.parametrize("command", ACTING, ids=lambda command: command.id)
async def test_no_click_in_a_dialog_acts_before_the_phrase_was_typed(make: Make, gate: Gate, command: Command) -> None:
    stage = make(view=view_of(command))
    async with stage.app.run_test(size=SIZE) as pilot:
        await ready(stage, pilot, command)
        await go_in(stage, pilot, command, "palette")
        plan = await read_on(stage, pilot)
        if not isinstance(plan.proposal and plan.proposal.verdict, Confirm | Deny):
            assert command.id == "act.message", "an act without a phrase"
            return
        await everything_clicked(stage, pilot)
        assert (gate.passed, gate.executed, stage.machines.ran) == ([], [], [])


# --- the command line -----------------------------------------------------------------------------------------------

CLI_WORDS: dict[str, Sequence[str]] = {
    "signal": ("--pid", "4242"),
    "power-cap": ("--watts", "500"),
    "message": ("--text", "bye"),
    "cancel": ("--job", "7"),
    "requeue": ("--job", "7"),
}
"""What an act needs beside a reason."""


@pytest.mark.parametrize("act", CLI_ACTS)
@pytest.mark.parametrize("yes", [True, False], ids=["yes", "plan-only"])
def test_every_command_that_acts_leads_through_the_same_gate(
    make: Make, gate: Gate, act: str, yes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text("hosts: [gpu-01, gpu-02, gpu-03]\n")
    stages: list[Stage] = []

    @contextlib.asynccontextmanager
    async def opened(*_: Any, allowed: bool) -> AsyncIterator[Acts]:
        stage = make(allowed=allowed)
        stages.append(stage)

        async def pass_time() -> None:
            while True:
                await stage.clock.advance(1.0)
                await asyncio.sleep(0)

        ticking = asyncio.create_task(pass_time())
        try:
            yield stage.desk.acts
        finally:
            ticking.cancel()

    monkeypatch.setattr("gputop.cli.act.opened", opened)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    words = [act, "-f", str(inventory), "gpu-01", "--reason", "test", "--override", "fire", *CLI_WORDS.get(act, ())]
    code = main([*words, *(["--yes", "--allow-actions"] if yes else [])])
    [stage] = stages
    if not yes:
        assert code == 0
        assert (gate.passed, gate.executed, stage.machines.ran) == ([], [], [])
        return
    assert [kind.value for kind in gate.passed] == [act]
    can = act not in ("cancel", "requeue")  # nothing schedules these hosts
    assert [kind.value for kind in gate.executed] == ([act] if can else [])


JOB_ACTS = {"cancel", "requeue"}
"""They are about one job of a scheduler, which no row stands for."""


def test_what_the_command_line_does_to_rows_the_screen_does_too() -> None:
    on_screen = {command.id.removeprefix("act.") for command in ACTING}
    assert set(CLI_ACTS) - JOB_ACTS == on_screen - {"again"}
