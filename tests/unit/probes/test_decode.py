"""Lines of the wire protocol as Frames: what is carried on, what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gputop.domain.problem import Problem, ProblemKind
from gputop.domain.reading import Frame
from gputop.probes.decode import Assembler, BadLine, FrameLine, HelloLine, line_of

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def hello(**changed: Any) -> dict[str, Any]:
    return {
        "k": "hello",
        "v": 1,
        "route": "nvml",
        "interval": 2.0,
        "facts": {"hostname": "gpu-a"},
        "devices": {"index": [0, 1], "uuid": ["GPU-a", None], "model": ["H100", "H100"]},
        **changed,
    }


def frame(**changed: Any) -> dict[str, Any]:
    return {"k": "frame", "n": 1, "t": 1764550000.5, "interval": 2.0, "host": {}, "columns": {}, **changed}


def take(assembler: Assembler, message: dict[str, Any]) -> Frame | BadLine | None:
    line = line_of(message)
    if isinstance(line, HelloLine):
        return assembler.hello(line)
    return assembler.frame(line, NOW) if isinstance(line, FrameLine) else BadLine(str(line))


def complete(assembler: Assembler, message: dict[str, Any]) -> Frame:
    taken = take(assembler, message)
    assert isinstance(taken, Frame), taken
    return taken


@pytest.fixture
def greeted() -> Assembler:
    assembler = Assembler()
    assert take(assembler, hello()) is None
    return assembler


def test_a_frame_has_the_facts_and_devices_of_the_hello(greeted: Assembler) -> None:
    found = complete(greeted, frame())
    assert found.sequence == 1
    assert found.sampled_at == datetime.fromtimestamp(1764550000.5, UTC)
    assert found.received_at == NOW
    assert found.route == "nvml"
    assert found.facts.hostname == "gpu-a"
    assert [(device.index, device.uuid, device.model) for device in found.devices] == [
        (0, "GPU-a", "H100"),
        (1, None, "H100"),
    ]


def test_what_a_frame_leaves_out_is_carried_and_null_takes_it_away(greeted: Assembler) -> None:
    processes = {"device_index": [1], "pid": [7], "started_at": [1764540000.0]}
    complete(
        greeted,
        frame(
            host={"load_1m": 1.5, "uptime_seconds": 9},
            columns={"utilization_percent": [5, None], "fan_percent": [30, 31]},
            processes=processes,
            partitions={"device_index": [0], "profile": ["1g.10gb"]},
        ),
    )
    found = complete(greeted, frame(n=2, host={"load_1m": None}, columns={"fan_percent": None}))
    assert found.column("utilization_percent") == [5, None]
    assert found.column("fan_percent") is None
    assert found.host.load_1m is None
    assert found.host.uptime_seconds == 9
    assert [process.pid for process in found.processes] == [7]
    assert found.processes[0].started_at == datetime.fromtimestamp(1764540000, UTC)
    assert [partition.profile for partition in found.partitions] == ["1g.10gb"]
    found = complete(greeted, frame(n=3, processes=None, partitions=None))
    assert not found.processes
    assert not found.partitions


def test_problems_are_never_carried(greeted: Assembler) -> None:
    problem = {"kind": "device-lost", "summary": "gone", "since": "2026-01-02T03:04:05Z"}
    found = complete(greeted, frame(problems=[problem], device_problems={"1": [problem]}))
    expected = Problem(kind=ProblemKind.DEVICE_LOST, summary="gone", since=NOW)
    assert found.problems == (expected,)
    assert found.device_problems == {1: (expected,)}
    found = complete(greeted, frame(n=2))
    assert not found.problems
    assert not found.device_problems


def test_after_a_hello_everything_carried_is_forgotten(greeted: Assembler) -> None:
    complete(greeted, frame(columns={"fan_percent": [1, 2]}, host={"load_1m": 1}))
    take(greeted, hello(devices={"index": [0]}))
    found = complete(greeted, frame(n=2))
    assert found.column("fan_percent") is None
    assert found.host.load_1m is None
    assert len(found.devices) == 1


@pytest.mark.parametrize(
    "bad",
    [
        {"columns": {"fan_percent": [1]}},
        {"columns": {"fan_percent": [1, 2, 3]}},
        {"columns": {"fan_percent": ["1", 2]}},
        {"processes": {"device_index": [0, 1], "pid": [1]}},
        {"processes": {"device_index": [2], "pid": [1]}},
        {"processes": {"device_index": [-1], "pid": [1]}},
        {"processes": {"device_index": [0], "pid": [1], "started_at": [1e30]}},
        {"processes": {"pid": [1]}},
        {"partitions": {"device_index": [5]}},
        {"device_problems": {"2": []}},
        {"problems": [{"kind": "never heard of", "summary": "x"}]},
        {"t": 1e300},
        {"n": "first"},
    ],
)
def test_a_bad_frame_is_a_value_and_changes_nothing(greeted: Assembler, bad: dict[str, Any]) -> None:
    before = complete(greeted, frame(columns={"utilization_percent": [1, 2]}))
    assert isinstance(take(greeted, frame(**{"n": 2, "columns": {"utilization_percent": [3, 4]}, **bad})), BadLine)
    after = complete(greeted, frame())
    assert after == before


def test_a_frame_before_the_hello_is_bad() -> None:
    assert isinstance(take(Assembler(), frame()), BadLine)


def test_another_version_of_the_protocol_is_refused() -> None:
    refused = take(Assembler(), hello(v=2))
    assert isinstance(refused, BadLine)
    assert "version 2" in refused.reason
