"""The dialogs and the index of incident bundles, as text files. Changed on purpose: `make golden`."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from gputop.bundle.items import Order
from gputop.bundle.make import Bundler
from gputop.bundle.write import Made
from gputop.domain.link import LinkState
from gputop.tui.dialogs.bundle import BundleDialog, BundleProgress
from tests.golden.test_screens import TextFile
from tests.tui.builders import until
from tests.unit.bundle.lab import LATE, Lab, said

SIZES = [(120, 36), (80, 24)]


@pytest.fixture
def screen(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(TextFile)


@pytest.fixture(autouse=True)
def _somewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gputop.bundle.write.real_user", lambda: "ann")
    monkeypatch.setattr("platform.node", lambda: "bastion-1")
    monkeypatch.setattr("gputop.__version__", "1.2.3")


@pytest.mark.parametrize("allowed", [True, False], ids=["may-act", "read-only"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_ask(tmp_path: Path, size: tuple[int, int], allowed: bool, screen: SnapshotAssertion) -> None:
    lab = Lab(tmp_path / "state", allowed=allowed)
    lab.silence("gpu-02")
    lab.stage.app.newest = lab.stage.fleet
    async with lab.stage.app.run_test(size=size) as pilot:
        await pilot.pause()
        await pilot.press("asterisk", "b")
        await until(pilot, lambda: isinstance(lab.stage.app.screen, BundleDialog))
        await pilot.pause()
        text = lab.stage.shown()
    assert all(len(line) <= size[0] for line in text.splitlines())
    assert text == screen


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_progress(tmp_path: Path, size: tuple[int, int], screen: SnapshotAssertion) -> None:
    lab = Lab(tmp_path / "state")
    lab.silence("gpu-02", LinkState.AUTH_FAILED)
    lab.stage.app.newest = lab.stage.fleet
    lab.stage.machines.answers.clear()
    async with lab.stage.app.run_test(size=size) as pilot:
        await pilot.pause()
        await pilot.press("asterisk", "b")
        await until(pilot, lambda: isinstance(lab.stage.app.screen, BundleDialog))
        await pilot.pause()
        await pilot.press("shift+tab", "enter")
        await until(pilot, lambda: isinstance(lab.stage.app.screen, BundleProgress))
        await until(pilot, lambda: "1 of 3 hosts done" in lab.stage.shown())
        await until(pilot, lambda: lab.stage.shown().count("asking for a reading") == 2)
        await until(pilot, lambda: "Give it up" in lab.stage.shown())
        await pilot.pause()
        await pilot.pause()
        text = lab.stage.shown()
    assert all(len(line) <= size[0] for line in text.splitlines())
    assert text == screen


@pytest.mark.parametrize("redact", [False, True], ids=["plain", "redacted"])
async def test_index(tmp_path: Path, redact: bool, screen: SnapshotAssertion) -> None:
    lab = Lab(tmp_path / "state")
    lab.silence("gpu-02")
    lab.answers["nvidia-smi topo"] = LATE
    lab.answers["lspci"] = said("", 127)
    bundler = Bundler(lab.acts, state_folder=tmp_path, audit_path=tmp_path / "audit.jsonl", series=None, source="ssh")
    order = Order(hosts=("gpu-01", "gpu-02"), redact=redact)
    made = await lab.wait(bundler.make(order, tmp_path / "x.tar.gz", lambda _: None))
    assert isinstance(made, Made)
    with tarfile.open(made.path) as archive:
        file = archive.extractfile("gputop-bundle-20260102T030405Z/index.txt")
        assert file is not None
        text = file.read().decode()
    assert re.sub(r"[\d,]+ bytes", "N bytes", text) == screen
