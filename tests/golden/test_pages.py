"""The pages of hosts and GPUs, and raw output, as text files. Changed on purpose: `make golden`."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from gputop.domain.call import CommandResult
from gputop.fleet.demo import demo_fleet
from gputop.fleet.fleet import Fleet
from gputop.fleet.series import SeriesStore
from gputop.health.catalog import default_catalog
from gputop.tui.picture import rendered
from tests.fakes.acts import a_process
from tests.golden.test_screens import TextFile
from tests.tui.builders import dark, until
from tests.tui.stage import Stage
from tests.tui.test_pages import Tool

AT = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
SIZES = [(120, 60), (80, 24), (200, 50)]

PAGES = {"slow": "gpu:gpu-001:1", "lost": "gpu:gpu-001:6", "sliced": "gpu:a100-06:0", "host": "host:gpu-001"}


@pytest.fixture
def screen(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(TextFile)


@cache
def demo() -> tuple[Fleet, SeriesStore]:
    return demo_fleet(7, 24, AT, default_catalog())


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_page(name: str, size: tuple[int, int], screen: SnapshotAssertion) -> None:
    text = await rendered(*demo(), theme=dark(), view=PAGES[name], size=size)
    assert all(len(line) <= size[0] for line in text.splitlines())
    assert text == screen


async def test_page_in_ascii(screen: SnapshotAssertion) -> None:
    text = await rendered(*demo(), theme=dark(), view=PAGES["slow"], size=(120, 60), ascii_only=True)
    assert text.isascii()
    assert text == screen


@pytest.mark.parametrize("size", [(120, 60), (80, 70)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_answers(tmp_path: Path, size: tuple[int, int], screen: SnapshotAssertion) -> None:
    stage = Stage(tmp_path)
    stage.machines.busy("gpu-01", a_process(), a_process(4300, user=None, name=None, device_index=1))
    stage.machines.markers["gpu-01"] = (
        '{"by":"bob","reason":"replace NIC","since":"2026-01-02T01:00:00Z","until":"2026-01-02T05:00:00Z"}'
    )
    stage.app.newest = stage.fleet
    async with stage.app.run_test(size=size) as pilot:
        await pilot.press("enter", "j", "j")
        await until(pilot, lambda: "bob" in stage.shown() and "i-gpu-01" in stage.shown())
        assert stage.shown() == screen


@pytest.mark.parametrize("name", ["tools", "output", "failed"])
async def test_raw(tmp_path: Path, name: str, screen: SnapshotAssertion) -> None:
    stage = Stage(tmp_path)
    async with stage.app.run_test(size=(100, 24)) as pilot:
        tool = Tool(stage)
        if name == "failed":
            tool.result = CommandResult(exit_status=9, stderr=b"NVIDIA-SMI has failed\n")
        await pilot.press("v")
        if name != "tools":
            await pilot.press("j", "enter")
            await until(pilot, lambda: "exit status" in stage.shown())
        await pilot.pause()
        assert stage.shown() == screen
