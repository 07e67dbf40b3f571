"""No text breaks a reader: not any bytes, and not recordings that were cut, mixed up or written over."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputop.domain.reading import Frame
from gputop.fleet.files import file_fleet
from gputop.readers.load import load_bytes
from gputop.readers.recognize import FORMATS, NVIDIA, Format, read_text
from gputop.readers.text import plain
from gputop.remote.sample import Sample
from gputop.sources.file import frame

RECORDINGS = Path(__file__).parents[2] / "fixtures" / "recordings"
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LONGEST = 30_000
WORDS = [
    "9" * 30,
    "-1",
    "ERR!",
    "[N/A]",
    "GPU is lost",
    "٣",
    "²",
    "|",
    "<",
    "&x;",
    ":",
    ",",
    "\x00",
    "1e999",
    "NaN",
    "0x",
    "%",
]


def texts(vendor: str) -> list[str]:
    files = sorted(path for path in (RECORDINGS / vendor).iterdir() if path.suffix != ".md")
    return [plain(path.read_bytes())[:LONGEST] for path in files]


VENDORS = sorted(path.name for path in RECORDINGS.iterdir() if path.is_dir())
TEXTS = {vendor: texts(vendor) for vendor in VENDORS}


@st.composite
def damaged(draw: st.DrawFn, originals: list[str]) -> str:
    """A recording that is cut, shuffled, has doubled and lost lines, or has foreign words in it."""
    text = draw(st.sampled_from(originals))
    chance = random.Random(draw(st.integers(0, 2**32)))
    how = draw(st.sampled_from(["cut", "tail", "shuffle", "double", "words"]))
    lines = text.split("\n")
    if how == "cut":
        return text[: chance.randrange(len(text) + 1)]
    if how == "tail":
        return text[chance.randrange(len(text) + 1) :]
    if how == "shuffle":
        chance.shuffle(lines)
        return "\n".join(lines)
    if how == "double":
        return "\n".join(line for line in lines for _ in range(chance.choice((0, 1, 1, 1, 2))))
    for _ in range(chance.randrange(1, 10)):
        at = chance.randrange(len(text) + 1)
        text = text[:at] + chance.choice(WORDS) + text[at:]
    return text


def check(text: str, sample: Sample) -> None:
    """The sample is one that the document can show, and names no device that the text does not name."""
    made = frame(sample, AT)
    assert isinstance(made, Frame)
    assert [problem.summary for problem in made.problems if "wrongly" in problem.summary] == []
    numbers = set(re.findall(r"\d+", text))
    for device in made.devices:
        assert device.uuid is None or device.uuid in text
        assert device.pci_bus_id is None or device.pci_bus_id in text
    for process in made.processes:
        assert str(process.pid) in numbers or any(int(number) == process.pid for number in numbers)


@given(data=st.binary(max_size=3000))
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_a_document(data: bytes) -> None:
    recordings, _ = load_bytes("file", data, None)
    assert file_fleet(recordings, AT).hosts


@pytest.mark.parametrize("known", dict.fromkeys(FORMATS), ids=lambda known: known.name)
@given(text=st.text(max_size=1500))
@settings(max_examples=15, deadline=None)
def test_no_reader_breaks_on_any_text(known: Format, text: str) -> None:
    known.looks_like(text)
    check(text, known.read(text))


@pytest.mark.parametrize("vendor", VENDORS)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_damaged_recording_gives_no_more_than_it_says(vendor: str, data: st.DataObject) -> None:
    text = data.draw(damaged(TEXTS[vendor]))
    check(text, read_text(text))


@pytest.mark.parametrize("known", dict.fromkeys(NVIDIA), ids=lambda known: known.name)
@given(text=damaged(TEXTS["nvidia"]))
@settings(max_examples=15, deadline=None)
def test_a_reader_that_is_forced_upon_another_output_does_not_break(known: Format, text: str) -> None:
    check(text, known.read(text))
