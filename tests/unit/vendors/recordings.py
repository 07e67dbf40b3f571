"""Recorded outputs of other vendors' tools, and readings of texts as documents."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gputop.domain.reading import Frame
from gputop.export.to_json import to_json
from gputop.fleet.files import file_fleet
from gputop.readers.load import Recording
from gputop.readers.recognize import read_text
from gputop.readers.text import plain
from gputop.remote.sample import Sample
from gputop.sources.file import frame

FOLDER = Path(__file__).parents[2] / "fixtures" / "recordings"
VENDORS = ("amd", "gaudi", "iluvatar", "kernel", "tpu", "xpu")
RECORDINGS = sorted(
    path
    for vendor in VENDORS
    for path in (FOLDER / vendor).iterdir()
    if path.suffix in (".txt", ".json", ".csv", ".log")
)
AT = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


def text_of(path: Path) -> str:
    return plain(path.read_bytes())


def frame_of(sample: Sample) -> Frame:
    """What gputop makes of a sample; fails when the sample is not in the form that the wire protocol asks for."""
    made = frame(sample, AT)
    assert not any("read this file wrongly" in problem.summary for problem in made.problems), made.problems
    return made


def document(name: str, text: str) -> Any:
    """The host of the document for `text`, without keys that hold nothing."""
    made = json.loads(to_json(file_fleet([Recording(name, read_text(text))], AT)))
    return _told(made["hosts"][0])


def _told(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _told(inner) for key, inner in value.items()}
        return {key: inner for key, inner in kept.items() if inner not in (None, [], {})}
    return [_told(inner) for inner in value] if isinstance(value, list) else value
