"""How old values in the newest frame may be."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from gputop.catalog.paces import MEDIUM, SLOW, ages_seconds, period_seconds
from gputop.domain.reading import DEVICE_METRICS
from gputop.remote.machine import Machine
from gputop.remote.nvml_gpu import Gpu
from tests.fakes.builders import a_frame


class NothingKnown:
    """NVML as of a driver that supports nothing: every name is there, every call fails."""

    class NVMLError(Exception):
        value = 3

    def __getattr__(self, name: str) -> Any:
        def call(*_: object) -> object:
            raise self.NVMLError

        return call


def test_the_values_that_the_agent_reads_seldom_are_the_ones_that_are_said_to_be_old() -> None:
    gpu = Gpu(NothingKnown(), 0, 4_000_000, Machine())
    assert set(gpu._medium_values({})) == MEDIUM
    links = {"nvlink_links_active", "nvlink_links_total", "nvlink_error_count"}  # only of devices that have some
    assert set(gpu._slow_values({})) | links == SLOW
    assert set(DEVICE_METRICS) >= MEDIUM | SLOW


@pytest.mark.parametrize(
    ("route", "metric", "seconds"),
    [
        ("nvml", "utilization_percent", 0.0),
        ("nvml", "power_limit_watts", 30.0),
        ("nvml", "ecc_corrected_volatile", 300.0),
        ("nvidia-smi", "power_limit_watts", 0.0),
        ("nvidia-smi", "ecc_corrected_volatile", 30.0),
        ("nvidia-smi", "bar1_used_bytes", 300.0),
        ("amd-smi", "utilization_percent", 0.0),
        ("amd-smi", "power_limit_watts", 300.0),
    ],
)
def test_each_way_to_read_has_its_own_periods(route: str, metric: str, seconds: float) -> None:
    assert period_seconds(metric, a_frame(route=route)) == seconds


def test_values_of_a_file_are_as_old_as_the_file() -> None:
    frame = structs.replace(a_frame(), interval_seconds=0.0)
    assert ages_seconds(["utilization_percent", "ecc_corrected_volatile"], frame, 7.0) == (7.0, 7.0)


def test_the_newest_and_the_oldest_of_a_group_are_told() -> None:
    assert ages_seconds(["utilization_percent", "sm_clock_max_mhz"], a_frame(), 1.0) == (1.0, 301.0)
    assert ages_seconds([], a_frame(), 1.0) == (1.0, 1.0)
