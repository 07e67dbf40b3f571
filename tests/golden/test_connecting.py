"""The dialogs of connecting, as text files. Changed on purpose: `make golden`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from msgspec import structs
from syrupy.assertion import SnapshotAssertion
from textual.pilot import Pilot
from textual.widgets import Button

from gputop.domain.link import LinkState
from gputop.domain.problem import ProblemKind
from gputop.fleet.fleet import Fleet
from gputop.tui.app import GputopApp
from gputop.tui.dialogs.asked import AskedDialog
from gputop.tui.questions import Asked, Questions
from tests.fakes.questions import CODE, PASSWORD, a_fingerprint, a_key_question, a_login_question, a_passphrase_question
from tests.golden.test_screens import TextFile
from tests.tui.builders import NOW, a_host, a_problem, an_app, odd_fleet, until

SIZES = [(120, 36), (80, 24), (200, 50), (40, 10)]

WORDS = """AUTHORIZED USERS ONLY
\x1b[31mSessions are recorded.\x1b[0m [bold]Press Enter to accept all keys.[/bold] \u202e
Two steps: your password, then the code from your device. It changes every 30 seconds, so wait for a fresh one."""


@pytest.fixture(autouse=True)
def _no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AskedDialog, "GRACE_SECONDS", 0.0)


@pytest.fixture
def screen(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(TextFile)


def some_keys(questions: Questions, count: int) -> None:
    kinds = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa")
    for number in range(count):
        question = a_key_question(
            f"gpu-{number:03}",
            target=f"10.3.0.{number}:22",
            algorithm=kinds[number % 3],
            jump="bastion-1" if number == 1 else None,
            fingerprint=a_fingerprint("image" if number in (2, 5) else str(number)),
        )
        if number == 0:
            question = a_key_question("bastion-1", target="192.0.2.1:2222", hosts=lambda: ("gpu-001", "gpu-007"))
        questions.keys.append(Asked(question, asyncio.get_running_loop().create_future()))


def a_login(questions: Questions, **fields: object) -> None:
    question = a_login_question("bastion-1", *fields.pop("prompts", (PASSWORD, CODE)), **fields)  # type: ignore[misc]
    questions.logins.append(Asked(question, asyncio.get_running_loop().create_future()))


def a_passphrase(questions: Questions) -> None:
    hosts = tuple(f"gpu-{number:03}" for number in range(24))
    question = a_passphrase_question(wrong=1, said="Incorrect passphrase", hosts=lambda: hosts)
    questions.passphrases.append(Asked(question, asyncio.get_running_loop().create_future()))


CASES: dict[str, Callable[[Questions], None]] = {
    "one-key": lambda questions: some_keys(questions, 1),
    "keys": lambda questions: some_keys(questions, 6),
    "many-keys": lambda questions: some_keys(questions, 60),
    "passphrase": a_passphrase,
    "password": lambda questions: a_login(questions, is_kbdint=False, prompts=(PASSWORD,), jump="outer"),
    "login": lambda questions: a_login(questions, text=WORDS, was_refused=True, others=lambda: 3),
    "ended": lambda questions: a_login(questions),
}


async def opened(app: GputopApp, pilot: Pilot[int], case: str) -> None:
    questions = Questions()
    app.take_questions(questions)
    app.quiet_seconds = 0.0
    CASES[case](questions)
    app.look_at_questions()
    await until(pilot, lambda: isinstance(app.screen, AskedDialog))
    await pilot.pause()
    if case == "ended":
        questions.logins[0].future.cancel()
        app.look_at_questions()
        await until(pilot, lambda: "it has ended" in "\n".join(app.screen_lines()))
    if questions.keys:  # what is on the screen has been seen
        await until(pilot, lambda: not app.screen.query_one("#all", Button).disabled)
    await pilot.pause()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_dialog(case: str, size: tuple[int, int], screen: SnapshotAssertion) -> None:
    fleet, series = odd_fleet()
    app = an_app(fleet, series=series)
    async with app.run_test(size=size) as pilot:
        await opened(app, pilot, case)
        text = "\n".join(app.screen_lines())
    assert all(len(line) <= size[0] for line in text.splitlines())
    assert text == screen


@pytest.mark.parametrize("case", ["keys", "login"])
async def test_dialog_in_ascii(case: str, screen: SnapshotAssertion) -> None:
    fleet, series = odd_fleet()
    app = an_app(fleet, series=series, ascii_only=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, case)
        text = "\n".join(app.screen_lines())
    assert text == screen


@pytest.mark.parametrize("view", ["hosts", "host:gpu-1"], ids=["hosts", "host"])
@pytest.mark.parametrize("size", [(120, 36), (80, 24), (40, 10)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_logins_that_wait(view: str, size: tuple[int, int], screen: SnapshotAssertion) -> None:
    """The rows say so, and what is in front says how many."""
    waits = a_problem(ProblemKind.ANSWER_AWAITED, "waits for your answer: the passphrase of /home/ops/.ssh/id_ed25519")
    behind = a_problem(ProblemKind.ANSWER_AWAITED, "jump host bastion-1 waits for your answer: a password or a code")
    hosts = [
        a_host("gpu-1", None, LinkState.CONNECTING, structs.replace(waits, since=None)),
        a_host("gpu-2", None, LinkState.CONNECTING, structs.replace(behind, since=None)),
        a_host("gpu-3", None, LinkState.CONNECTING),
    ]
    app = an_app(Fleet(as_of=NOW, hosts={host.name: host for host in hosts}), view=view)
    async with app.run_test(size=size) as pilot:
        app.take_questions(questions := Questions())
        app.quiet_seconds = 10_000.0
        app.touch()
        a_passphrase(questions)
        a_login(questions)
        await pilot.pause()
        app.draw_all()
        await pilot.pause()
        text = "\n".join(app.screen_lines())
    assert all(len(line) <= size[0] for line in text.splitlines())
    assert text == screen
