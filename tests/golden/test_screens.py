"""The screens as a person sees them, as text files and a few pictures. Changed on purpose: `make golden`."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from gputop.tui import theme
from gputop.tui.app import GputopApp, ScreenOptions
from gputop.tui.picture import rendered
from tests.tui.builders import dark, odd_fleet, wide_fleet

SIZES = [(120, 36), (80, 24), (200, 50), (40, 10), (20, 5)]
VIEWS = ["hosts", "gpus", "processes", "host:gpu-003"]

NAMES = {view: view.partition(":")[0] for view in VIEWS}


class TextFile(SingleFileSnapshotExtension):
    _write_mode = WriteMode.TEXT
    file_extension = "txt"


class SvgFile(TextFile):
    file_extension = "svg"


@pytest.fixture
def screen(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(TextFile)


@pytest.mark.parametrize("view", VIEWS, ids=NAMES.get)
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_view(view: str, size: tuple[int, int], screen: SnapshotAssertion) -> None:
    fleet, series = odd_fleet()
    text = await rendered(fleet, series, theme=dark(), view=view, size=size, title="prod-eu")
    assert all(len(line) <= size[0] for line in text.splitlines())
    assert text == screen


@pytest.mark.parametrize("view", ["hosts", "gpus", "host:gpu-003"], ids=NAMES.get)
async def test_ascii(view: str, screen: SnapshotAssertion) -> None:
    fleet, series = odd_fleet()
    text = await rendered(fleet, series, theme=dark(), view=view, ascii_only=True)
    assert text.isascii()
    assert text == screen


KEYS = {
    "help": ("question_mark",),
    "details": ("d",),
    "filter": ("slash", *"alice"),
    "sort-letters": ("o",),
    "marks": ("j", "space", "space"),
    "wide-columns": ("w", "l", "l", "l"),
    "palette": ("colon", *"inter"),
}


@pytest.mark.parametrize("name", KEYS)
async def test_keys(name: str, screen: SnapshotAssertion) -> None:
    fleet, series = odd_fleet()
    assert await rendered(fleet, series, theme=dark(), keys=KEYS[name]) == screen


async def test_a_wide_fleet_names_the_reason_at_the_bottom(screen: SnapshotAssertion) -> None:
    fleet = wide_fleet(60)
    text = await rendered(fleet, odd_fleet()[1], theme=dark(), size=(120, 30))
    assert text.count("connection refused") == 1
    assert text == screen


async def test_start_page(screen: SnapshotAssertion) -> None:
    app = GputopApp(ScreenOptions(theme=dark()), watches=False)
    async with app.run_test(size=(100, 24)) as pilot:
        await pilot.pause()
        assert "\n".join(app.screen_lines()) == screen


PICTURES = [("hosts", "gputop-dark"), ("hosts", "gputop-light"), ("gpus", "gputop-dark")]


@pytest.mark.parametrize(("view", "name"), PICTURES)
async def test_picture(view: str, name: str, snapshot: SnapshotAssertion) -> None:
    fleet, series = odd_fleet()
    chosen: Any = theme.named(name)
    first = await rendered(fleet, series, theme=chosen, view=view, size=(100, 24), output="svg")
    assert first == await rendered(fleet, series, theme=chosen, view=view, size=(100, 24), output="svg")
    assert first == snapshot.use_extension(SvgFile)
