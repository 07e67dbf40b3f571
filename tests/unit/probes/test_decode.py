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
        {"processes": {"device_index": [0], "pid": [-1]}},
        {"processes": {"device_index": [0] * 20_000, "pid": [1] * 20_000}},
        {"processes": {"pid": [1]}},
        {"partitions": {"device_index": [5]}},
        {"device_problems": {"2": []}},
        {"problems": [{"kind": "never heard of", "summary": "x"}]},
        {"t": 1e300},
        {"t": 253402300799.0},
        {"interval": 1e300},
        {"interval": 0},
        {"n": "first"},
    ],
)
def test_a_bad_frame_is_a_value_and_changes_nothing(greeted: Assembler, bad: dict[str, Any]) -> None:
    before = complete(greeted, frame(columns={"utilization_percent": [1, 2]}))
    assert isinstance(take(greeted, frame(**{"n": 2, "columns": {"utilization_percent": [3, 4]}, **bad})), BadLine)
    after = complete(greeted, frame())
    assert after == before


def test_a_value_that_cannot_be_true_is_absent_and_the_others_stand(greeted: Assembler) -> None:
    found = complete(
        greeted,
        frame(
            columns={
                "utilization_percent": [-1, 50],
                "power_watts": [300, 1e300],
                "memory_total_bytes": [10**30, 1],
                "temperature_celsius": [-300, 40],
                "fan_percent": [120, 40],
            },
            host={"memory_used_bytes": -5, "load_1m": 1.5},
            processes={
                "device_index": [0, 0],
                "pid": [1, 2],
                "memory_used_bytes": [-5, 5],
                "started_at": [253402300799.0, 1.7e9],
            },
            partitions={"device_index": [0], "memory_total_bytes": [-1]},
        ),
    )
    assert found.column("utilization_percent") == [None, 50]
    assert found.column("power_watts") == [300, None]
    assert found.column("memory_total_bytes") == [None, 1]
    assert found.column("temperature_celsius") == [None, 40]
    assert found.column("fan_percent") == [120, 40]
    assert (found.host.memory_used_bytes, found.host.load_1m) == (None, 1.5)
    assert [process.memory_used_bytes for process in found.processes] == [None, 5]
    assert [process.started_at for process in found.processes] == [None, datetime.fromtimestamp(1.7e9, UTC)]
    assert found.partitions[0].memory_total_bytes is None


def test_texts_and_problems_are_cut_to_a_size_for_people() -> None:
    assembler = Assembler()
    long = "x" * 100_000
    assert take(assembler, hello(facts={"hostname": long}, devices={"index": [0], "model": [long]})) is None
    far = [{"kind": "tool-failed", "summary": long, "detail": long, "hint": long, "since": "9999-12-31T23:59:59Z"}]
    found = complete(
        assembler,
        frame(
            columns={"throttle_reasons": [[long] * 100]},
            processes={"device_index": [0], "pid": [1], "command": [long]},
            problems=far * 1000,
            device_problems={"0": far},
        ),
    )
    assert len(repr(found)) < 400_000
    assert found.problems[0].since is None
    assert len(found.problems) < 100


def test_a_time_without_a_zone_is_no_time(greeted: Assembler) -> None:
    naive = {"kind": "tool-failed", "summary": "x", "since": "2024-01-01T00:00:00"}
    assert complete(greeted, frame(problems=[naive])).problems[0].since is None


def test_more_devices_than_any_server_has_are_refused() -> None:
    assert isinstance(take(Assembler(), hello(devices={"index": [0] * 5000})), BadLine)


def test_a_frame_before_the_hello_is_bad() -> None:
    assert isinstance(take(Assembler(), frame()), BadLine)


def test_another_version_of_the_protocol_is_refused() -> None:
    refused = take(Assembler(), hello(v=2))
    assert isinstance(refused, BadLine)
    assert "version 2" in refused.reason
