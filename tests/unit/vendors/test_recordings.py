"""The whole document of each recorded output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from gputop.readers.recognize import recognize
from tests.unit.vendors.recordings import FOLDER, RECORDINGS, VENDORS, document, text_of


@pytest.fixture
def golden(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(JSONSnapshotExtension)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_a_recording_gives_the_same_document_as_ever(path: Path, golden: Any) -> None:
    assert document(path.name, text_of(path)) == golden


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_each_recording_is_recognized(path: Path) -> None:
    assert recognize(text_of(path)) is not None


@pytest.mark.parametrize("vendor", VENDORS)
def test_source_and_license_of_each_recording_are_told(vendor: str) -> None:
    told = (FOLDER / vendor / "SOURCES.md").read_text(encoding="utf-8")
    assert [path.name for path in RECORDINGS if path.parent.name == vendor and f"| {path.name} |" not in told] == []
