"""Dialogs that open because a host needs an answer: what they take, what they leave alone, and when they open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from rich.cells import cell_len
from textual.command import CommandPalette
from textual.pilot import Pilot
from textual.widgets import Button

from gputop.bundle.write import NotWritten
from gputop.domain.question import Declined, Prompt
from gputop.tui.app import GputopApp
from gputop.tui.dialogs.answer import LoginDialog, PassphraseDialog
from gputop.tui.dialogs.ask import AskDialog
from gputop.tui.dialogs.asked import AskedDialog
from gputop.tui.dialogs.base import Entry
from gputop.tui.dialogs.bundle import BundleProgress
from gputop.tui.dialogs.hostkeys import HostKeysDialog
from gputop.tui.dialogs.plan import PlanDialog
from gputop.tui.questions import Questions
from gputop.tui.screens.fleet import FleetScreen
from tests.fakes.questions import (
    CODE,
    PASSWORD,
    a_fingerprint,
    a_key_question,
    a_login_question,
    a_passphrase_question,
)
from tests.tui.builders import an_app, odd_fleet, until
from tests.tui.stage import Stage

Value = TypeVar("Value")
SIZE = (120, 36)
FOREVER = 10_000.0


class Asking:
    """The app, with hosts that ask."""

    def __init__(self) -> None:
        fleet, series = odd_fleet()
        self.app: GputopApp = an_app(fleet, series=series)
        self.app.quiet_seconds = 0.0
        self.questions = Questions()
        self.tasks: list[asyncio.Task[Any]] = []
        self.pilot: Pilot[int]

    def ask(self, question: Coroutine[Any, Any, Value]) -> asyncio.Task[Value]:
        task = asyncio.create_task(question)
        self.tasks.append(task)
        return task

    def ask_key(self, host: str, **fields: Any) -> asyncio.Task[bool]:
        return self.ask(self.questions.accepts(a_key_question(host, **fields)))

    def ask_login(self, *prompts: Prompt, **fields: Any) -> asyncio.Task[list[str] | Declined]:
        return self.ask(self.questions.answers(a_login_question("gpu-1", *prompts, **fields)))

    def ask_passphrase(self, **fields: Any) -> asyncio.Task[str | None]:
        return self.ask(self.questions.passphrase(a_passphrase_question(**fields)))

    async def opened(self, kind: type[Value]) -> Value:
        await until(self.pilot, lambda: isinstance(self.app.screen, kind))
        await self.pilot.pause()
        screen: Any = self.app.screen
        return screen

    async def closed(self) -> None:
        await until(self.pilot, lambda: not isinstance(self.app.screen, AskedDialog))

    def shown(self) -> str:
        return "\n".join(self.app.screen_lines())

    def button(self, name: str) -> Button:
        return self.app.screen.query_one(f"#{name}", Button)

    async def press(self, name: str) -> None:
        """Press a button as people do: with the focus on it."""
        await until(self.pilot, lambda: not self.button(name).disabled)
        self.button(name).focus()
        await self.pilot.press("enter")
        await self.pilot.pause()


@asynccontextmanager
async def asking(size: tuple[int, int] = SIZE) -> AsyncIterator[Asking]:
    stage = Asking()
    async with stage.app.run_test(size=size) as stage.pilot:
        stage.app.take_questions(stage.questions)
        await stage.pilot.pause()
        try:
            yield stage
        finally:
            for task in stage.tasks:
                task.cancel()
            await asyncio.gather(*stage.tasks, return_exceptions=True)


@pytest.fixture(autouse=True)
def _no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AskedDialog, "GRACE_SECONDS", 0.0)


# --- host keys --------------------------------------------------------------------------------------------------------


async def test_all_keys_stand_in_one_dialog_and_are_accepted_together() -> None:
    async with asking() as stage:
        answers = [stage.ask_key(f"gpu-{number}") for number in range(3)]
        await stage.opened(HostKeysDialog)
        for number in range(3):
            assert f"gpu-{number}" in stage.shown()
            assert a_fingerprint(f"gpu-{number}") in stage.shown()
        await until(stage.pilot, lambda: str(stage.button("all").label) == "Accept all 3")
        await stage.press("all")
        assert await asyncio.gather(*answers) == [True, True, True]
        await stage.closed()


async def test_not_now_refuses_what_is_listed_and_has_the_focus() -> None:
    async with asking() as stage:
        answers = [stage.ask_key("a"), stage.ask_key("b")]
        dialog = await stage.opened(HostKeysDialog)
        assert dialog.focused is stage.button("cancel")
        await stage.pilot.press("enter")
        assert await asyncio.gather(*answers) == [False, False]
        await stage.closed()


async def test_only_marked_keys_are_accepted_and_the_others_wait_on() -> None:
    async with asking() as stage:
        first, second, third = (stage.ask_key(name) for name in "abc")
        await stage.opened(HostKeysDialog)
        await until(stage.pilot, lambda: len(stage.questions.keys) == 3)
        await stage.pilot.press("down", "space")
        await stage.press("marked")
        assert await second
        await until(stage.pilot, lambda: "Accept 2 host keys?" in stage.shown())
        assert not first.done()
        assert not third.done()


async def test_a_host_that_came_after_the_last_draw_is_not_accepted() -> None:
    async with asking() as stage:
        first = stage.ask_key("a")
        await stage.opened(HostKeysDialog)
        await until(stage.pilot, lambda: not stage.button("all").disabled)
        stage.questions.changed = lambda: None  # nothing is drawn
        late = stage.ask_key("late")
        await until(stage.pilot, lambda: len(stage.questions.keys) == 2)
        await stage.press("all")
        assert await first
        await until(stage.pilot, lambda: "late" in stage.shown())
        assert not late.done()


async def test_a_key_that_came_on_the_screen_a_moment_ago_is_not_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with asking() as stage:
        first = stage.ask_key("a")
        dialog = await stage.opened(HostKeysDialog)
        await until(stage.pilot, lambda: not stage.button("all").disabled)
        monkeypatch.setattr(AskedDialog, "GRACE_SECONDS", FOREVER)
        dialog.counts_from = 0.0
        await stage.press("all")
        assert not first.done()
        assert isinstance(stage.app.screen, HostKeysDialog)


async def test_keys_that_were_never_on_the_screen_are_not_accepted() -> None:
    async with asking((80, 16)) as stage:
        answers = [stage.ask_key(f"gpu-{number:02}") for number in range(40)]
        await stage.opened(HostKeysDialog)
        await until(stage.pilot, lambda: "seen" in str(stage.button("all").label))
        await stage.press("all")
        accepted = [answer.done() for answer in answers]
        assert 0 < sum(accepted) < 40
        assert accepted == sorted(accepted, reverse=True)
        await until(stage.pilot, lambda: f"Accept {40 - sum(accepted)} host keys?" in stage.shown())
        for _ in range(40):
            await stage.pilot.press("down")
        await until(stage.pilot, lambda: str(stage.button("all").label) == f"Accept all {40 - sum(accepted)}")
        await stage.press("all")
        assert all(await asyncio.gather(*answers))


async def test_hosts_join_and_leave_while_it_is_open() -> None:
    async with asking() as stage:
        first = stage.ask_key("a")
        await stage.opened(HostKeysDialog)
        second = stage.ask_key("b")
        await until(stage.pilot, lambda: "Accept 2 host keys?" in stage.shown())
        first.cancel()
        await until(stage.pilot, lambda: "Accept 1 host key?" in stage.shown())
        second.cancel()
        await stage.closed()


async def test_two_names_of_one_server_are_one_row_and_the_same_key_elsewhere_is_counted() -> None:
    async with asking() as stage:
        cloned = {"fingerprint": a_fingerprint("image")}
        answers = [
            stage.ask_key("a", server="[10.0.0.1]:22", **cloned),
            stage.ask_key("alias", server="[10.0.0.1]:22", **cloned),
            stage.ask_key("b", **cloned),
            stage.ask_key("c", **cloned),
        ]
        await stage.opened(HostKeysDialog)
        await until(stage.pilot, lambda: "Accept 3 host keys?" in stage.shown())
        assert stage.shown().count("2 more") == 3
        await stage.press("all")
        assert all(await asyncio.gather(*answers))


# --- what is typed ----------------------------------------------------------------------------------------------------


async def test_a_passphrase_is_sent_once_and_a_wrong_one_is_said_to_be_wrong() -> None:
    async with asking() as stage:
        answer = stage.ask_passphrase()
        dialog = await stage.opened(PassphraseDialog)
        await stage.pilot.press(*"secret")
        assert "secret" not in stage.shown()
        await stage.pilot.press("enter")
        assert await answer == "secret"
        await until(stage.pilot, lambda: "sent" in stage.shown())
        assert dialog.query_one(Entry).value == ""
        again = stage.ask_passphrase(wrong=1, said="Incorrect passphrase")
        await until(stage.pilot, lambda: "wrong" in stage.shown())
        assert "2 more tries" in stage.shown()
        await stage.press("cancel")
        assert await again is None
        await stage.closed()


async def test_what_may_not_be_seen_does_not_go_to_the_clipboard() -> None:
    async with asking() as stage:
        stage.ask_login(PASSWORD, CODE)
        dialog = await stage.opened(LoginDialog)
        secret, code = dialog.query(Entry)
        for entry, text in ((secret, "pass"), (code, "123")):
            entry.focus()
            await stage.pilot.press(*text, "home", "shift+end", "ctrl+x")
            await stage.pilot.pause()
            assert entry.value == ""
        assert stage.app.clipboard == "123"


async def test_each_prompt_has_its_line_and_enter_goes_from_one_to_the_next() -> None:
    async with asking() as stage:
        answer = stage.ask_login(PASSWORD, CODE)
        await stage.opened(LoginDialog)
        await stage.pilot.press(*"pass", "enter")
        assert not answer.done()
        await stage.pilot.press(*"123")
        assert "123" in stage.shown()
        assert "pass " not in stage.shown()
        await stage.pilot.press("enter")
        assert await answer == ["pass", "123"]


async def test_it_stays_until_the_login_is_over_and_keys_typed_ahead_do_nothing() -> None:
    async with asking() as stage:
        is_over = False
        answer = stage.ask_login(is_over=lambda: is_over)
        await stage.opened(LoginDialog)
        await stage.pilot.press(*"pass", "enter")
        assert await answer == ["pass"]
        await stage.pilot.press("q", "D", "enter", "j")
        assert isinstance(stage.app.screen, LoginDialog)
        is_over = True
        await stage.closed()
        assert stage.app.is_running
        assert isinstance(stage.app.screen, FleetScreen)


async def test_the_next_round_of_a_login_takes_the_place_of_the_first() -> None:
    async with asking() as stage:
        first = stage.ask_login(PASSWORD)
        await stage.opened(LoginDialog)
        await stage.pilot.press(*"pass", "enter")
        await first
        second = stage.ask_login(CODE, was_refused=True)
        await until(stage.pilot, lambda: "Code:" in stage.shown())
        assert "did not take the last answer" in stage.shown()
        await stage.pilot.press(*"123", "enter")
        assert await second == ["123"]


async def test_a_login_that_ends_while_somebody_types_says_so_and_takes_no_more_keys() -> None:
    async with asking() as stage:
        answer = stage.ask_login()
        await stage.opened(LoginDialog)
        await stage.pilot.press(*"pas")
        answer.cancel()
        await until(stage.pilot, lambda: "it has ended; nothing was sent" in stage.shown())
        await stage.pilot.press("q", "D", "s")
        assert isinstance(stage.app.screen, LoginDialog)
        await stage.pilot.press("enter")
        await stage.closed()
        assert isinstance(stage.app.screen, FleetScreen)


async def test_one_login_or_all_of_them_can_be_skipped() -> None:
    async with asking() as stage:
        answer = stage.ask_login(others=lambda: 3)
        await stage.opened(LoginDialog)
        assert "3 more to come" in stage.shown()
        await stage.press("every")
        assert await answer is Declined.ALL
        await stage.closed()
        answer = stage.ask_login()
        await stage.opened(LoginDialog)
        assert not stage.button("every").display
        await stage.pilot.press("escape")
        assert await answer is Declined.THIS


EVIL = "Welcome\x1b[2J\u202e to [bold red]gputop[/]\r\n │ Accept 3 host keys?\n\x1b]0;title\x07 └\nPassword: "


async def test_the_words_of_a_server_stay_behind_their_bar() -> None:
    async with asking() as stage:
        stage.ask_login(Prompt(words=EVIL, is_shown=False), text=EVIL)
        await stage.opened(LoginDialog)
        shown = stage.shown()
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        box = shown[shown.index("words of the server") :].splitlines()
        for words in ("Welcome", "Accept 3 host keys?", "Password:"):
            lines = [line for line in box if words in line]
            assert lines
            assert all("│ │ " in line for line in lines), lines
        assert "[bold red]gputop[/]" in shown


# --- when they open ---------------------------------------------------------------------------------------------------


async def test_keys_typed_before_it_can_have_been_read_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AskedDialog, "GRACE_SECONDS", FOREVER)
    async with asking() as stage:
        answers = [stage.ask_key("a"), stage.ask_login()]
        await stage.opened(HostKeysDialog)
        await stage.pilot.press("enter", "escape", "space")
        assert isinstance(stage.app.screen, HostKeysDialog)
        stage.tasks[0].cancel()
        dialog = await stage.opened(LoginDialog)
        await stage.pilot.press(*"pass", "enter", "escape")
        assert isinstance(stage.app.screen, LoginDialog)
        assert dialog.query_one(Entry).value == ""
        assert not answers[1].done()


@pytest.mark.parametrize(
    ("keys", "end"),
    [(("slash", *"gpu"), ("enter",)), (("colon",), ("escape",)), (("o",), ("h",))],
    ids=["filter", "palette", "sort letter"],
)
async def test_it_waits_until_nothing_else_is_typed_into(keys: tuple[str, ...], end: tuple[str, ...]) -> None:
    async with asking() as stage:
        await stage.pilot.press(*keys)
        await stage.pilot.pause()
        before = stage.app.screen
        stage.ask_login()
        stage.ask_login(others=lambda: 1)
        await stage.pilot.pause()
        stage.app.look_at_questions()
        await stage.pilot.pause()
        assert stage.app.screen is before
        stage.app.draw_all()
        await stage.pilot.pause()
        if not isinstance(before, CommandPalette):
            assert "3 logins wait for an answer" in stage.shown()
        await stage.pilot.press(*end)
        stage.app.look_at_questions()
        await stage.opened(LoginDialog)


async def test_it_waits_until_another_dialog_is_closed() -> None:
    async with asking() as stage:
        stage.app.push_screen(AskDialog("Another", [], [("yes", "Yes")]))
        await stage.pilot.pause()
        stage.ask_key("a")
        await stage.pilot.pause()
        stage.app.look_at_questions()
        assert isinstance(stage.app.screen, AskDialog)
        await stage.pilot.press("escape")
        stage.app.look_at_questions()
        await stage.opened(HostKeysDialog)


async def test_a_plan_that_is_still_being_made_may_be_what_it_waits_for(tmp_path: Path) -> None:
    """A host that the plan needs may want a password: else each would wait for the other."""
    stage = Stage(tmp_path)
    stage.machines.answers.clear()
    async with stage.app.run_test(size=SIZE) as pilot:
        stage.app.quiet_seconds = 0.0
        questions = Questions()
        stage.app.take_questions(questions)
        await pilot.pause()
        await pilot.press("D")
        await until(pilot, lambda: isinstance(stage.app.screen, PlanDialog))
        task = asyncio.create_task(questions.answers(a_login_question()))
        await until(pilot, lambda: isinstance(stage.app.screen, LoginDialog))
        await pilot.press(*"pass", "enter")
        assert await task == ["pass"]
        stage.machines.answers.set()
        await until(pilot, lambda: isinstance(stage.app.screen, LoginDialog))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(stage.app.screen, PlanDialog) and stage.app.screen.proposal is not None)
        later = asyncio.create_task(questions.answers(a_login_question()))
        await pilot.pause()
        stage.app.look_at_questions()
        await pilot.pause()
        assert isinstance(stage.app.screen, PlanDialog)  # there is something to read and to type in it now
        later.cancel()


async def test_a_bundle_that_is_being_made_may_be_what_it_waits_for() -> None:
    async with asking() as stage:
        progress = BundleProgress(["gpu-1"])
        stage.app.push_screen(progress)
        await stage.opened(BundleProgress)
        answer = stage.ask_login()
        await stage.opened(LoginDialog)
        await stage.pilot.press("escape")
        assert await answer is Declined.THIS
        await stage.opened(BundleProgress)
        progress.take({}, NotWritten(summary="no room"))
        stage.ask_login()
        await stage.pilot.pause()
        stage.app.look_at_questions()
        await stage.pilot.pause()
        assert isinstance(stage.app.screen, BundleProgress)


async def test_it_waits_until_no_key_was_pressed_for_a_moment() -> None:
    async with asking() as stage:
        stage.app.quiet_seconds = FOREVER
        await stage.pilot.press("j")
        stage.ask_key("a")
        await stage.pilot.pause()
        stage.app.look_at_questions()
        await stage.pilot.pause()
        assert isinstance(stage.app.screen, FleetScreen)
        stage.app.draw_all()
        await stage.pilot.pause()
        assert "1 login waits for an answer" in stage.shown()
        stage.app.quiet_seconds = 0.0
        stage.app.look_at_questions()
        await stage.opened(HostKeysDialog)


async def test_on_a_page_the_last_line_says_what_waits() -> None:
    async with asking() as stage:
        await stage.pilot.press("enter")
        await stage.pilot.pause()
        stage.app.quiet_seconds = FOREVER
        stage.ask_key("a")
        await stage.pilot.pause()
        stage.app.draw_all()
        await stage.pilot.pause()
        assert "1 login waits for an answer" in stage.app.screen_lines()[-1]
        stage.app.quiet_seconds = 0.0
        stage.app.look_at_questions()
        await stage.opened(HostKeysDialog)


async def test_one_after_the_other_host_keys_first() -> None:
    async with asking() as stage:
        login, passphrase, key = stage.ask_login(), stage.ask_passphrase(), stage.ask_key("a")
        await stage.opened(HostKeysDialog)
        await stage.press("all")
        assert await key
        await stage.opened(PassphraseDialog)
        await stage.press("cancel")
        assert await passphrase is None
        await stage.opened(LoginDialog)
        await stage.press("cancel")
        assert await login is Declined.THIS
        await stage.closed()


# --- sizes ------------------------------------------------------------------------------------------------------------

SIZES = [(80, 24), (120, 36), (200, 50), (40, 10), (30, 7), (20, 5), (5, 2), (1, 1)]


@pytest.mark.parametrize("kind", ["keys", "passphrase", "login"])
async def test_every_size_can_be_drawn_and_resized_to(kind: str) -> None:
    async with asking() as stage:
        if kind == "keys":
            for number in range(20):
                stage.ask_key(f"gpu-{number}", jump="bastion" if number % 2 else None)
        elif kind == "passphrase":
            stage.ask_passphrase(wrong=2, said="Incorrect passphrase")
        else:
            stage.ask_login(PASSWORD, CODE, text="words of the house\n" * 30, was_refused=True, others=lambda: 4)
        await stage.opened(AskedDialog)
        for size in SIZES:
            await stage.pilot.resize_terminal(*size)
            await stage.pilot.pause()
            lines = stage.app.screen_lines()
            assert len(lines) <= size[1]
            assert all(cell_len(line) <= size[0] for line in lines)


async def test_in_a_small_pane_a_password_can_be_typed_and_a_fingerprint_is_read_whole() -> None:
    async with asking((40, 10)) as stage:
        answer = stage.ask_login(text="words of the house\n" * 30)
        dialog = await stage.opened(LoginDialog)
        assert dialog.query_one(Entry).region.height == 1
        assert "Password:" in stage.shown()
        await stage.pilot.press(*"pass", "enter")
        assert await answer == ["pass"]
    async with asking((40, 10)) as stage:
        key = stage.ask_key("gpu-1")
        await stage.opened(HostKeysDialog)
        text = "".join(line.strip("│ ") for line in stage.app.screen_lines())
        assert a_fingerprint("gpu-1") in text
        await stage.press("all")
        assert await key
