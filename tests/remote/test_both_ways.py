"""One machine, read through NVML and through nvidia-smi: the same values, field by field."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

from gputop.domain.reading import Frame
from tests.remote.agents import FIXTURES, NvmlFixture, a_gpu_process, talking

NOT_OFFERED = {
    "energy_joules",
    "pcie_tx_bytes_per_second",
    "pcie_rx_bytes_per_second",
    "nvlink_tx_bytes_per_second",
    "nvlink_rx_bytes_per_second",
}
"""nvidia-smi has no such value, or one of minutes ago."""


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The nvidia-smi that answers from the file of the fake library, first in PATH."""
    monkeypatch.setenv("PATH", f"{FIXTURES / 'nvml' / 'bin'}:{os.environ['PATH']}")


@pytest.fixture
def sleepers(tmp_path: Path) -> Iterator[list[int]]:
    with a_gpu_process(tmp_path) as one, a_gpu_process(tmp_path) as two, a_gpu_process(tmp_path) as three:
        yield [one, two, three]


async def through_nvml(library: str) -> Frame:
    async with talking(nvml_library=library) as talk:
        await talk.next()
        return await talk.until(lambda frame: frame.value("pcie_tx_bytes_per_second", 0) is not None)


async def through_nvidia_smi() -> Frame:
    async with talking() as talk:
        return await talk.until(
            lambda frame: frame.value("nvlink_error_count", 0) is not None and frame.partitions and frame.processes
        )


def rows(items: Any, *without: str) -> list[dict[str, Any]]:
    return [{key: value for key, value in asdict(item).items() if key not in without} for item in items]


async def test_both_ways_give_the_same_values(
    nvml: NvmlFixture, library: str, program: None, sleepers: list[int]
) -> None:
    compute, graphics, sliced = sleepers
    nvml.set(
        gpu__0__compute=f"{compute}:1012",
        gpu__0__graphics=f"{compute}:1012 {graphics}:33",
        gpu__1__compute=f"{compute}:-",
        gpu__5__compute=f"{sliced}:20:1:0",
        gpu__5__util="",
        gpu__5__memutil="",
        gpu__5__remapped_pending="",
        gpu__5__remapped_failed="",
        gpu__5__nvlink_count="",
        gpu__1__nvlink_active=17,
        gpu__2__architecture=5,
        gpu__2__retired_double_bit=2,
        gpu__2__retired_pending=1,
        gpu__2__nvlink_count="",
        gpu__2__remapped_corrected="",
        gpu__2__remapped_uncorrected="",
        gpu__2__remapped_pending="",
        gpu__2__remapped_failed="",
        gpu__3__recovery_action=5,
        gpu__3__compute_mode=3,
        gpu__3__persistence=0,
        gpu__3__nvmlDeviceGetTotalEccErrors__error=3,
        gpu__3__ecc_dram=5,
        gpu__3__ecc_sram=2,
        gpu__4__ecc="",
        gpu__4__mig="",
        gpu__4__fan=30,
        gpu__4__mem_temp="",
        gpu__4__temp_slowdown="",
        gpu__4__temp_shutdown="",
        gpu__4__margin=53,
        gpu__4__slowdown_tlimit=-2,
        gpu__4__shutdown_tlimit=-7,
        gpu__6__recovery_action=4,
        gpu__6__ecc_pending=0,
        gpu__6__reasons=0,
        gpu__7__error=15,
    )
    one, other = await through_nvml(library), await through_nvidia_smi()
    assert (one.route, other.route) == ("nvml", "nvidia-smi")
    for name in ("driver_version", "cuda_version", "hostname", "cores"):
        assert getattr(one.facts, name) == getattr(other.facts, name), name
    assert rows(one.devices[:7]) == rows(other.devices[:7])
    assert (one.devices[7].index, other.devices[7].index) == (7, 7)
    for position in range(8):
        left, right = asdict(one.reading(position)), asdict(other.reading(position))
        for name, value in left.items():
            expected = None if name in NOT_OFFERED else value
            assert right[name] == expected, f"{name} of device {position}: {value} by NVML, {right[name]} by nvidia-smi"
    unread = {name for name in left if all(one.value(name, position) is None for position in range(8))}
    assert unread == set(), "no device of the fixture has it"
    assert rows(one.partitions) == rows(other.partitions)
    key = ("device_index", "pid")
    told = [
        sorted(rows(frame.processes, "utilization_percent"), key=lambda row: [row[name] for name in key])
        for frame in (one, other)
    ]
    assert told[0] == told[1]
    assert len(told[0]) == 4
