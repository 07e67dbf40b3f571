"""Any text at all: no exception, no device that it does not name, no 0 that it does not say."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gputop.domain.reading import DEVICE_METRICS
from gputop.readers.recognize import VENDORS, Format
from gputop.remote import kernel_log, lenient_json
from gputop.remote.sample import Sample
from tests.unit.vendors import test_amd, test_ascend, test_neuron_and_tpu, test_rocm_smi, test_smi_tables, test_xpu
from tests.unit.vendors.recordings import RECORDINGS, frame_of, text_of

TEXTS = [text_of(path) for path in RECORDINGS] + [
    test_amd.DEFAULT,
    test_ascend.DUAL,
    test_ascend.DUO,
    test_rocm_smi.CONCISE,
    test_rocm_smi.TWO_LINES,
    test_rocm_smi.HYGON,
    test_smi_tables.GAUDI,
    test_smi_tables.CNMON_4,
    test_smi_tables.METAX,
    test_smi_tables.MTHREADS,
    test_xpu.STATS,
    test_xpu.DISCOVERY,
    test_neuron_and_tpu.TABLE,
    json.dumps(test_neuron_and_tpu.REPORT, indent=1),
    json.dumps([test_amd.STATIC, test_amd.METRIC], indent=1),
    json.dumps({"gpu_data": [test_amd.card(number, "0000:C8:00.0", number) for number in range(4)]}, indent=1),
    '[\n{"engines":{"Render/3D/0":{"busy":1.6}},\n"power":{"GPU":3.0,"unit":"W"}},\n',
]
READERS = [known for known in VENDORS if known.read.__module__.startswith("gputop.remote")]
NUMBERED_BY_ORDER = {"intel_gpu_top"}
"""Routes whose tools print no numbers, so the order of the entries is the number."""
CHARACTERS = st.sampled_from([*"|+-=:,{}[]\"'/%° \t\n0123456789NA.", "N/A", "\x00", "é", "│", "9" * 400, "-1", "1e999"])
SEVERAL = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def own(known: Format) -> list[str]:
    """Texts of the format, and one of another."""
    texts = [text for text in TEXTS if known.looks_like(text)]
    assert texts, known.name
    return [*texts, next(text for text in TEXTS if text not in texts)]


@st.composite
def damaged(draw: Any, texts: Sequence[str]) -> str:
    """A text with lines left out, doubled and exchanged, cut, and with characters put in."""
    lines = draw(st.sampled_from(texts)).split("\n")[:120]
    order = random.Random(draw(st.integers(0, 1 << 20)))
    for _ in range(draw(st.integers(0, 6))):
        at, other = order.randrange(len(lines)), order.randrange(len(lines))
        what = order.randrange(4)
        if what == 0:
            lines.insert(other, lines[at])
        elif what == 1 and len(lines) > 1:
            del lines[at]
        elif what == 2:
            lines[at], lines[other] = lines[other], lines[at]
        else:
            lines[at] = lines[at][: order.randrange(len(lines[at]) + 1)]
    text = "\n".join(lines)
    for _ in range(draw(st.integers(0, 4))):
        at = order.randrange(len(text) + 1)
        text = text[:at] + draw(CHARACTERS) + text[at + order.randrange(3) :]
    return text[: draw(st.integers(0, len(text)))] if draw(st.booleans()) else text


def check(sample: Sample, text: str) -> None:
    frame = frame_of(sample)
    numbers = {number.lstrip("0") or "0" for number in re.findall(r"\d+", text)}
    for device in frame.devices:
        named = any(value and value in text for value in (device.uuid, device.pci_bus_id, device.model))
        assert named or str(device.index) in numbers or sample["route"] in NUMBERED_BY_ORDER, device
    if "0" not in text:
        for position in range(len(frame.devices)):
            values = [frame.value(metric, position) for metric in DEVICE_METRICS]
            assert not any(value == 0 and value is not False for value in values)
        assert not any(process.memory_used_bytes == 0 for process in frame.processes)
    if not frame.devices and not frame.events and sample["route"] != kernel_log.ROUTE:
        assert frame.problems


@pytest.mark.parametrize("known", READERS, ids=lambda known: known.name)
@SEVERAL
@given(data=st.data())
def test_damaged_recordings(known: Format, data: st.DataObject) -> None:
    text = data.draw(damaged(own(known)))
    known.looks_like(text)
    check(known.read(text), text)


@pytest.mark.parametrize("known", READERS, ids=lambda known: known.name)
@SEVERAL
@given(text=st.text(max_size=400) | st.lists(CHARACTERS, max_size=60).map("".join))
def test_any_text(known: Format, text: str) -> None:
    known.looks_like(text)
    check(known.read(text), text)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_without_a_zero_in_the_text_there_is_none_in_the_values(path: Path) -> None:
    text = text_of(path).replace("0", "1")
    for known in READERS:
        if known.looks_like(text):
            check(known.read(text), text)


@pytest.mark.parametrize("read", [known.read for known in READERS], ids=[known.name for known in READERS])
@pytest.mark.parametrize("cut", [0.2, 0.5, 0.9])
def test_cut_recordings(read: Callable[[str], Sample], cut: float) -> None:
    for text in TEXTS:
        part = text[: int(len(text) * cut)]
        check(read(part), part)


@SEVERAL
@given(text=st.text(alphabet='[]{}",:0aé\\ \n', max_size=200))
def test_any_json_like_text(text: str) -> None:
    lenient_json.documents(text)


def test_lines_that_no_csv_may_have_are_no_trouble() -> None:
    for head in ("device,GPU use (%)", "gpu,power_usage", "Timestamp, DeviceId, GPU Power (W)"):
        for cell in ("9" * 200_000, "\0", '"', "\r"):
            text = f"{head}\n0,{cell}\ncard0,0,{cell}\n"
            for known in READERS:
                check(known.read(text), text)


def test_json_nested_without_end_is_no_trouble() -> None:
    for text in ("[" * 20_000, '{"a":' * 20_000, '[{"gpu":0,"usage":' + "[" * 10_000):
        lenient_json.documents(text)
        for known in READERS:
            check(known.read(text), text)
