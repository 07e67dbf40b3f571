"""The wire reader: any cutting into pieces, any garbage, the same lines, and never an exception."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from gputop.probes.decode import Assembler, BadLine, FrameLine, HelloLine, decode
from gputop.probes.reader import WireReader
from gputop.remote.wire import pack

TOKEN = "3f0c9d5e7a1b4c2d8e6f00112233aabb"

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
messages = st.lists(st.dictionaries(st.text(max_size=8), values, max_size=4), max_size=6)
garbage = st.binary(max_size=60).filter(lambda data: TOKEN.encode() not in data)


@st.composite
def pieces(draw: st.DrawFn, data: bytes) -> list[bytes]:
    cuts = sorted(draw(st.sets(st.integers(0, len(data)), max_size=12)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@given(messages, st.data())
def test_whatever_comes_between_and_however_it_is_cut_the_same_messages_are_read(
    sent: list[dict[str, object]], data: st.DataObject
) -> None:
    stream = b""
    for message in sent:
        # A greeting without a line end may stand right before a line of ours.
        stream += data.draw(garbage) + pack(TOKEN, message)
    stream += data.draw(garbage)
    reader = WireReader(TOKEN)
    bodies = [body for piece in data.draw(pieces(stream)) for body in reader.feed(piece)]
    reader.close()
    assert [json.loads(body) for body in bodies] == sent


@given(st.lists(st.binary(max_size=40) | st.just(TOKEN.encode()) | st.just(b"\n"), max_size=30), st.data())
def test_the_same_bytes_give_the_same_bodies_however_they_are_cut(parts: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(parts)
    whole = WireReader(TOKEN, line_limit=64)
    expected = whole.feed(stream)
    whole.close()
    cut = WireReader(TOKEN, line_limit=64)
    assert [body for piece in data.draw(pieces(stream)) for body in cut.feed(piece)] == expected
    cut.close()
    assert (cut.noise_lines, cut.long_lines, cut.noise) == (whole.noise_lines, whole.long_lines, whole.noise)


@given(st.binary(max_size=200) | values.map(lambda value: json.dumps(value).encode()))
def test_any_body_is_a_line_or_a_bad_line(body: bytes) -> None:
    assert decode(body) is not None


columns = st.dictionaries(
    st.sampled_from(["state", "utilization_percent", "throttle_reasons", "mig_mode", "nothing"]),
    st.none() | st.lists(values, max_size=3),
    max_size=3,
)


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "k": st.sampled_from(["hello", "frame", "bye"]),
                "v": st.integers(0, 2),
                "route": st.just("nvml"),
                "interval": st.floats(allow_nan=False, allow_infinity=False),
                "facts": st.just({}),
                "devices": st.fixed_dictionaries({"index": st.lists(st.integers(0, 9), max_size=3)}),
                "n": st.integers(),
                "t": st.floats(allow_nan=False, allow_infinity=False),
                "host": st.just({}),
                "columns": columns,
            },
            optional={
                "processes": st.none()
                | st.fixed_dictionaries(
                    {
                        "device_index": st.lists(st.integers(-1, 3), max_size=3),
                        "pid": st.lists(st.integers(), max_size=3),
                    },
                    optional={"started_at": st.lists(st.floats(allow_nan=False), max_size=3)},
                ),
                "device_problems": st.dictionaries(st.integers(-2, 4).map(str), st.just([]), max_size=2),
            },
        ),
        max_size=6,
    )
)
def test_any_sequence_of_lines_gives_complete_frames_or_bad_lines(lines: list[dict[str, object]]) -> None:
    assembler = Assembler()
    devices = 0
    for message in lines:
        line = decode(json.dumps(message).encode())
        if isinstance(line, HelloLine) and assembler.hello(line) is None:
            devices = len(line.devices.index)
        elif isinstance(line, FrameLine):
            frame = assembler.frame(line, datetime(2026, 1, 1, tzinfo=UTC))
            if not isinstance(frame, BadLine):
                assert len(frame.devices) == devices
                assert all(len(frame.reading(position).state) > 0 for position in range(devices))
                assert all(0 <= process.device_index < devices for process in frame.processes)
