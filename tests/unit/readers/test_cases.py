"""The cases met in real fleets, as files of `gputop read`; tests/fixtures/cases/README.md says where they are from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gputop.readers.recognize import read_text
from gputop.readers.text import plain
from gputop.remote.sample import MIB, Sample

CASES = Path(__file__).parents[2] / "fixtures" / "cases"


def read(name: str, tool: str | None = None) -> Sample:
    return read_text(plain((CASES / name).read_bytes()), tool)


def values(sample: Sample, *keys: str) -> list[tuple[Any, ...]]:
    return [tuple(row.get(key) for key in keys) for row in sample["devices"]]


QUERY = (
    "nvidia-smi --query-gpu=index,uuid,name,temperature.gpu,utilization.gpu,memory.used,memory.total,fan.speed,"
    "power.draw --format=csv,noheader,nounits"
)


def test_01_a_query_with_its_columns_named_reads_every_value_and_no_more() -> None:
    sample = read("01-query-gpu-na.csv", QUERY)
    assert values(sample, "index", "temperature_celsius", "utilization_percent", "fan_percent", "power_watts") == [
        (0, 35, 0, None, 42.10),
        (1, 64, None, None, None),
        (2, 51, 97, None, 388.54),
    ]
    assert values(sample, "memory_used_bytes", "memory_total_bytes") == [
        (0, 32510 * MIB),
        (360 * MIB, 2004 * MIB),
        (70212 * MIB, 81920 * MIB),
    ]


def test_01_without_the_columns_only_what_the_cells_tell_is_read() -> None:
    sample = read("01-query-gpu-na.csv")
    assert values(sample, "index", "model") == [
        (0, "Tesla V100-SXM2-32GB"),
        (1, "GeForce GT 740M"),
        (2, "NVIDIA A100-SXM4-80GB"),
    ]
    assert [set(row) - {"index", "uuid", "model", "vendor", "problems"} for row in sample["devices"]] == [set()] * 3


def test_01_a_process_list_that_is_not_supported_is_unknown_and_not_empty() -> None:
    sample = read("01-compute-apps-na.csv")
    first, second = sample["devices"]
    assert [(process["pid"], process["memory_used_bytes"]) for process in first["processes"]] == [(4101, 1012 * MIB)]
    assert (first["processes_known"], second["processes_known"]) == (True, False)
    assert second["processes"] == []


def test_02_a_clock_without_value_stays_unknown() -> None:
    sample = read("02-clock-memory-name.csv", "nvidia-smi --query-gpu=clocks.max.sm,memory.total,gpu_name")
    assert values(sample, "sm_clock_max_mhz", "memory_total_bytes", "model") == [
        (None, 24576 * MIB, "NVIDIA H100L-2-24C"),
        (1980, 81559 * MIB, "NVIDIA H100 80GB HBM3"),
    ]


@pytest.mark.parametrize("name", ["03-power-old.xml", "03-power-new.xml"])
def test_03_power_is_the_card_s_wherever_the_driver_moved_it(name: str) -> None:
    assert values(read(name), "power_watts", "power_limit_watts") == [(37.29, 420.0)]


@pytest.mark.parametrize("name", ["04-pmon-old.txt", "04-pmon-new.txt"])
def test_04_pmon_lists_processes_and_gpus_without_any(name: str) -> None:
    sample = read(name)
    found = [
        [(one["pid"], one["kind"], one["utilization_percent"], one["name"]) for one in row["processes"]]
        for row in sample["devices"]
    ]
    assert found == [
        [(11749, "compute", 88, "python"), (11868, "compute", None, "python3")],
        [(12234, "graphics", 2, "Xorg")],
        [],
    ]
    assert values(sample, "index", "processes_known") == [(0, True), (1, True), (2, True)]


def test_05_a_mismatch_is_a_problem_without_devices() -> None:
    sample = read("05-driver-mismatch.txt")
    assert sample["devices"] == []
    assert [found["kind"] for found in sample["problems"]] == ["driver-mismatch"]
    assert "560.35" in sample["problems"][0]["detail"]


def test_06_instances_belong_to_their_gpu() -> None:
    sample = read("06-list-mig.txt")
    assert [[part["profile"] for part in row["partitions"]] for row in sample["devices"]] == [
        ["3g.40gb", "1g.10gb", "1g.10gb"],
        [],
    ]


def test_07_a_gpu_that_knows_no_mig_has_no_mode() -> None:
    sample = read("07-mig-mode.csv", "nvidia-smi --query-gpu=index,name,mig.mode.current --format=csv,noheader")
    assert values(sample, "index", "mig_mode") == [(0, None), (1, "disabled"), (2, "enabled")]


def test_08_in_a_stream_the_newest_row_of_each_gpu_counts_and_blank_lines_are_nothing() -> None:
    sample = read("08-stream-blank-lines.csv", "nvidia-smi --query-gpu=index,temperature.gpu,utilization.gpu")
    assert values(sample, "index", "temperature_celsius", "utilization_percent") == [(0, 35, 14), (1, 36, 3)]


def test_08_bare_numbers_alone_are_not_guessed_at() -> None:
    sample = read("08-stream-blank-lines.csv")
    assert sample["devices"] == []
    assert [found["kind"] for found in sample["problems"]] == ["unreadable-file"]
    assert "nvidia-smi -q -x" in sample["problems"][0]["detail"]


def test_10_a_tool_that_is_not_there_is_no_server_without_gpus() -> None:
    sample = read("10-not-found.stderr.txt")
    assert [(found["kind"], found["summary"]) for found in sample["problems"]] == [
        ("tool-missing", "nvidia-smi not found")
    ]
