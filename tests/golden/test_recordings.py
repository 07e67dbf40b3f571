"""What gputop reads in every recording, as documents that a person can read; what has no value is left out of them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from gputop.export.document import document
from gputop.fleet.files import file_fleet
from gputop.readers.load import load

RECORDINGS = Path(__file__).parents[1] / "fixtures" / "recordings"
FILES = sorted(
    path
    for path in RECORDINGS.glob("*/*")
    if path.is_file() and path.name not in ("SOURCES.md", "LICENSE.txt", "NOTICE")
)
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Json(SingleFileSnapshotExtension):
    _write_mode = WriteMode.TEXT
    file_extension = "json"


def told(value: Any) -> Any:
    """`value` without what holds nothing."""
    if isinstance(value, dict):
        return {key: kept for key, item in value.items() if (kept := told(item)) not in (None, [], {})}
    return [told(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_recording_says_what_it_said(path: Path, snapshot: SnapshotAssertion) -> None:
    recordings, left_out = load(path, None)
    assert (len(recordings), left_out) == (1, 0)
    whole = msgspec.to_builtins(document(file_fleet(recordings, AT)))
    text = msgspec.json.format(msgspec.json.encode(told(whole["hosts"][0])), indent=1).decode() + "\n"
    assert text == snapshot(extension_class=Json)


def test_there_is_a_document_for_each_recording() -> None:
    assert len(FILES) > 70
