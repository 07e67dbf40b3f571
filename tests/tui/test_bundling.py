"""`b`: what is asked, how far it is, what is said at the end; and nobody has to wait for it."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Button, Input

from gputop.bundle.items import Progress
from gputop.tui.dialogs.bundle import BundleDialog, BundleProgress, Choice
from gputop.tui.screens.fleet import FleetScreen
from tests.tui.builders import until
from tests.unit.bundle.lab import Lab

SIZE = (120, 36)


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Lab]:
    monkeypatch.chdir(tmp_path)
    return lambda **fields: Lab(tmp_path / "state", **fields)


async def asked(lab: Lab, pilot: Pilot[int], *keys: str) -> BundleDialog:
    await pilot.pause()
    await pilot.press(*keys, "b")
    await until(pilot, lambda: isinstance(lab.stage.app.screen, BundleDialog))
    await pilot.pause()
    screen = lab.stage.app.screen
    assert isinstance(screen, BundleDialog)
    return screen


async def made(lab: Lab, pilot: Pilot[int], folder: Path) -> Path:
    """The file, once the work on it is over; time goes on until then."""
    await until(pilot, lambda: lab.stage.app.making is not None)
    for _ in range(200):
        await lab.clock.advance(1.0)
        await pilot.pause(0.02)
        if lab.stage.app.making is None:
            (found,) = folder.glob("*.tar.gz")
            return found
    raise AssertionError(lab.stage.shown())


async def test_the_marked_hosts_are_gathered_and_the_file_is_told(make: Callable[..., Lab], tmp_path: Path) -> None:
    lab = make()
    async with lab.stage.app.run_test(size=SIZE) as pilot:
        dialog = await asked(lab, pilot, "space", "space")
        assert "Incident bundle of 2 hosts" in lab.stage.shown()
        name = dialog.query_one("#file", Input).value
        assert name == "gputop-bundle-20260102T030405Z.tar.gz"
        await pilot.press("shift+tab", "enter")
        await until(pilot, lambda: isinstance(lab.stage.app.screen, BundleProgress))
        assert await made(lab, pilot, tmp_path) == tmp_path / name
        await until(pilot, lambda: f"{name}(" in re.sub(r"[\s│]+", "", lab.stage.shown()))  # it may be wrapped
        assert not lab.stage.app.screen.query_one("#stop", Button).display
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(lab.stage.app.screen, FleetScreen))
    with tarfile.open(tmp_path / name) as archive:
        index = json.loads(archive.extractfile("gputop-bundle-20260102T030405Z/index.json").read())  # type: ignore[union-attr]
    assert [host["name"] for host in index["hosts"]] == ["gpu-01", "gpu-02"]


async def test_one_may_go_on_working_and_look_again_how_far_it_is(make: Callable[..., Lab], tmp_path: Path) -> None:
    lab = make()
    lab.stage.machines.answers.clear()
    async with lab.stage.app.run_test(size=SIZE) as pilot:
        await asked(lab, pilot)
        await pilot.press("shift+tab", "enter")
        await until(pilot, lambda: "0 of 1 host done" in lab.stage.shown())
        assert "gpu-01" in lab.stage.shown()
        await pilot.press("enter")
        await until(pilot, lambda: "b shows how far it is" in lab.stage.shown())
        await pilot.press("2")
        await until(pilot, lambda: "PROCESSES" in lab.stage.shown())
        await pilot.press("b")
        await until(pilot, lambda: "asking for a reading" in lab.stage.shown())
        await pilot.press("escape")
        lab.stage.machines.answers.set()
        path = await made(lab, pilot, tmp_path)
        await until(pilot, lambda: f"saved {path.name} (" in lab.stage.shown())


@pytest.mark.parametrize("part", ["#dialog-text", "#cancel", "#stop"])
async def test_news_that_comes_while_the_dialog_is_being_built_or_taken_down_does_no_harm(
    part: str, make: Callable[..., Lab]
) -> None:
    lab = make()
    async with lab.stage.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        dialog = BundleProgress(("gpu-01",))
        dialog.take({}, None)
        await lab.stage.app.push_screen(dialog)
        await pilot.pause()
        await dialog.query_one(part).remove()
        dialog.take({"gpu-01": Progress(host="gpu-01", doing="lspci -tv")}, None)
        dialog.on_resize()


async def test_one_that_is_given_up_leaves_no_file(make: Callable[..., Lab], tmp_path: Path) -> None:
    lab = make()
    lab.stage.machines.answers.clear()
    async with lab.stage.app.run_test(size=SIZE) as pilot:
        await asked(lab, pilot)
        await pilot.press("shift+tab", "enter")
        await until(pilot, lambda: isinstance(lab.stage.app.screen, BundleProgress))
        await pilot.pause()
        await pilot.press("tab", "enter")
        await until(pilot, lambda: lab.stage.app.making is None)
        await until(pilot, lambda: "given up: no bundle was written" in lab.stage.shown())
    assert list(tmp_path.glob("*.tar.gz*")) == []


async def test_cancel_has_the_focus_and_enter_on_it_asks_nobody(make: Callable[..., Lab], tmp_path: Path) -> None:
    lab = make()
    async with lab.stage.app.run_test(size=SIZE) as pilot:
        dialog = await asked(lab, pilot)
        assert dialog.query_one("#cancel", Button).has_focus
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(lab.stage.app.screen, FleetScreen))
    assert lab.asked == []


async def test_choices_are_marked_by_a_sign_and_count(make: Callable[..., Lab], tmp_path: Path) -> None:
    lab = make()
    async with lab.stage.app.run_test(size=SIZE) as pilot:
        dialog = await asked(lab, pilot)
        assert "[ ] pseudonyms" in lab.stage.shown()
        dialog.query_one("#redact", Choice).focus()
        await pilot.press("enter")
        await until(pilot, lambda: "[x] pseudonyms" in lab.stage.shown())
        assert not dialog.query_one("#report", Choice).disabled
        await pilot.press("shift+tab", "enter")
        path = await made(lab, pilot, tmp_path)
    assert path.with_name(f"{path.name}.names.json").exists()
    with tarfile.open(path) as archive:
        assert not [name for name in archive.getnames() if "gpu-01" in name]


async def test_in_read_only_mode_all_but_the_vendors_report_may_be_had(
    make: Callable[..., Lab], tmp_path: Path
) -> None:
    lab = make(allowed=False)
    async with lab.stage.app.run_test(size=SIZE) as pilot:
        dialog = await asked(lab, pilot)
        assert dialog.query_one("#report", Choice).disabled
        assert "No vendor's report: read-only; start with --allow-actions." in lab.stage.shown()
        await pilot.press("shift+tab", "enter")
        await made(lab, pilot, tmp_path)


async def test_a_file_that_is_there_or_cannot_be_written_is_said_before_anybody_is_asked(
    make: Callable[..., Lab], tmp_path: Path
) -> None:
    lab = make()
    (tmp_path / "mine").write_text("mine")
    async with lab.stage.app.run_test(size=SIZE) as pilot:
        dialog = await asked(lab, pilot)
        for name, words in (("mine", "mine is there already"), ("no/x", "there is no folder"), ("", "is empty")):
            dialog.query_one("#file", Input).value = name
            dialog.query_one("#go", Button).press()
            await until(pilot, lambda words=words: words in lab.stage.shown())
    assert lab.asked == []
    assert (tmp_path / "mine").read_text() == "mine"


async def test_a_file_that_appears_meanwhile_is_not_written_over(make: Callable[..., Lab], tmp_path: Path) -> None:
    lab = make()
    lab.stage.machines.answers.clear()
    async with lab.stage.app.run_test(size=SIZE) as pilot:
        dialog = await asked(lab, pilot)
        path = tmp_path / dialog.query_one("#file", Input).value
        await pilot.press("shift+tab", "enter")
        await until(pilot, lambda: isinstance(lab.stage.app.screen, BundleProgress))
        path.write_text("mine")
        lab.stage.machines.answers.set()
        await made(lab, pilot, tmp_path)
        await until(pilot, lambda: "cannot write" in lab.stage.shown())
        assert "File exists" in lab.stage.shown()
    assert path.read_text() == "mine"
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == [path.name]


async def test_where_there_is_nothing_to_gather_from_it_says_so(make: Callable[..., Lab]) -> None:
    lab = make()
    async with lab.stage.app.run_test(size=SIZE) as pilot:
        await pilot.press("question_mark", "b")
        await until(pilot, lambda: "no host here: mark some, or go to one" in lab.stage.shown())
