"""The demo in a real terminal: a newcomer makes an incident bundle, and sees that it is a simulated one."""

from __future__ import annotations

import json
import sys
import tarfile

import pytest

from tests.tmux.pane import screen, wait_for

pytestmark = pytest.mark.tmux


def test_a_bundle_of_the_whole_demo_is_made_and_names_what_is_simulated() -> None:
    with screen(100, 30, program=[sys.executable, "-m", "gputop", "demo", "--hosts", "6"]) as pane:
        wait_for(lambda: "● " in pane.text(), "hosts", seconds=40)
        pane.keys("*")
        wait_for(lambda: "6 marked" in pane.text(), "marks")
        pane.keys("b")
        wait_for(lambda: "of simulated hosts" in pane.text(), "the dialog")
        pane.keys("BTab", "Enter")
        wait_for(lambda: "saved " in pane.text(), "the file", seconds=60)
        (path,) = pane.folder.glob("*.tar.gz")
        with tarfile.open(path) as archive:
            members = {entry.name.partition("/")[2]: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]
        pane.keys("Enter")
        wait_for(lambda: "STATE" in pane.text(), "the table")
        pane.keys("q")
        assert pane.exit_code() == 0
        pane.assert_clean()
    index = json.loads(members["index.json"])
    assert index["source"] == "demo"
    assert "of a simulated fleet" in members["index.txt"].decode()
    answered = [host["folder"] for host in index["hosts"] if host["answered"]]
    assert 3 <= len(answered) < 6, "some host of the demo is always in trouble"
    for folder in answered:
        assert b"simulated by the demo of gputop" in members[f"{folder}/tools/nvidia-smi-q.txt"]
    histories = [members[f"{folder}/history.csv"] for folder in answered if f"{folder}/history.csv" in members]
    assert histories  # a host that has only just answered has none yet
    assert all(history.startswith(b"at,gpu,") for history in histories)
