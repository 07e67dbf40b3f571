"""The numbered fields of NVML, rates, thresholds, links and what else is read more seldom."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from gputop.remote import nvml_fields
from gputop.remote.metrics import absolute_threshold
from gputop.remote.nvml_calls import DeviceFailure
from gputop.remote.nvml_fields import ALL_LINKS, Fields, Rates
from tests.remote.agents import NvmlFixture, a_gpu_process, nvml_library, talking


async def test_health_and_links_come_in_the_first_frame(nvml: NvmlFixture, library: str) -> None:
    async with talking(nvml_library=library) as talk:
        frame = await talk.next()
    reading = frame.reading(1)
    assert reading.recovery_action == "none"
    assert (reading.remapped_rows_corrected, reading.remapped_rows_uncorrected) == (1, 0)
    assert (reading.remapped_rows_pending, reading.remapped_rows_failed) == (False, False)
    assert (reading.nvlink_links_active, reading.nvlink_links_total, reading.nvlink_error_count) == (18, 18, 3)
    # Rows are remapped from Ampere on: what the field of retired pages says there is not asked.
    assert reading.retired_pages_single_bit is None
    assert reading.pcie_tx_bytes_per_second is None, "one look at a counter is no rate"
    assert not frame.device_problems


async def test_counters_become_rates(nvml: NvmlFixture, library: str) -> None:
    async with talking(nvml_library=library, interval=0.1) as talk:
        await talk.until(lambda frame: frame.value("pcie_tx_bytes_per_second", 2) == 0)
        nvml.set(gpu__2__pcie_tx_bytes=900_000_000, gpu__2__nvlink_rx=900_000)
        frame = await talk.until(lambda frame: frame.value("pcie_tx_bytes_per_second", 2))
        assert 0 < frame.value("pcie_tx_bytes_per_second", 2) <= 899_000_000 / 0.05
        assert frame.value("nvlink_rx_bytes_per_second", 2) > 0
        assert frame.value("pcie_rx_bytes_per_second", 2) == 0
        nvml.set(gpu__2__pcie_tx_bytes=5)
        await talk.until(lambda frame: frame.value("pcie_tx_bytes_per_second", 2) is None)
        await talk.until(lambda frame: frame.value("pcie_tx_bytes_per_second", 2) == 0)


async def test_links_of_the_fifth_generation_count_in_other_fields(nvml: NvmlFixture, library: str) -> None:
    new = {"gpu__nvlink5_tx_bytes": 10, "gpu__nvlink5_rx_bytes": 10, "gpu__nvlink5_malformed": 1}
    nvml.leave_out("nvlink_tx", "nvlink_rx", "nvlink_crc", "nvlink_replay", "nvlink_recovery")
    nvml.set(**new, gpu__nvlink5_symbol=4, gpu__architecture=10)
    async with talking(nvml_library=library, interval=0.1) as talk:
        frame = await talk.next()
        assert frame.value("nvlink_error_count", 0) == 5
        await talk.until(lambda frame: frame.value("nvlink_tx_bytes_per_second", 0) == 0)


async def test_a_device_without_links_has_no_values_of_links_and_inactive_ones_count(
    nvml: NvmlFixture, library: str
) -> None:
    nvml.set(gpu__0__nvlink_count=0, gpu__1__nvlink_active=17, gpu__2__nvlink_active="", gpu__2__nvlink_old_active=4)
    async with talking(nvml_library=library) as talk:
        frame = await talk.next()
    assert (frame.value("nvlink_links_total", 0), frame.value("nvlink_links_active", 0)) == (None, None)
    assert frame.value("nvlink_error_count", 0) is None
    assert frame.value("nvlink_links_active", 1) == 17
    # Drivers before 525 tell the state by a call alone.
    assert (frame.value("nvlink_links_total", 2), frame.value("nvlink_links_active", 2)) == (18, 4)


async def test_pages_are_retired_before_ampere(nvml: NvmlFixture, library: str) -> None:
    nvml.set(gpu__0__architecture=5, gpu__0__retired_double_bit=2, gpu__0__retired_pending=1)
    async with talking(nvml_library=library) as talk:
        reading = (await talk.next()).reading(0)
    assert (reading.retired_pages_single_bit, reading.retired_pages_double_bit) == (7, 2)
    assert reading.retired_pages_pending is True


@pytest.mark.parametrize(("number", "word"), [(1, "gpu-reset"), (4, "drain-and-reset"), (5, "other"), (77, "other")])
async def test_the_drivers_advice_is_a_word_and_a_number_of_changing_meaning_is_other(
    nvml: NvmlFixture, library: str, number: int, word: str
) -> None:
    nvml.set(gpu__0__recovery_action=number)
    async with talking(nvml_library=library) as talk:
        assert (await talk.next()).value("recovery_action", 0) == word


async def test_rows_that_the_fields_do_not_tell_come_from_the_call(nvml: NvmlFixture, library: str) -> None:
    for number in (142, 143, 144, 145):
        nvml.set(**{f"gpu__0__field__{number}__error": 3, f"gpu__1__field__{number}__error": 3})
    nvml.set(gpu__0__remapped_by_call=6)
    async with talking(nvml_library=library) as talk:
        frame = await talk.next()
    assert (frame.value("remapped_rows_corrected", 0), frame.value("remapped_rows_pending", 0)) == (6, True)
    assert frame.value("remapped_rows_corrected", 1) is None
    assert frame.value("remapped_rows_pending", 1) is None


async def test_thresholds_that_are_given_as_distances_are_worked_out(nvml: NvmlFixture, library: str) -> None:
    # 41 degrees, 46 below the limit; slowdown 2 above that limit, shutdown 8.
    nvml.leave_out("temp_slowdown", "temp_shutdown", "mem_temp")
    nvml.set(gpu__temp=41, gpu__margin=46, gpu__slowdown_tlimit=-2, gpu__shutdown_tlimit=-8, gpu__3__margin="")
    nvml.set(gpu__4__field__194__type=1, gpu__2__mem_temp=50)
    async with talking(nvml_library=library, options={"medium": 0.2, "slow": 0.2}) as talk:
        frame = await talk.next()
        for position in (1, 4):
            reading = frame.reading(position)
            assert (reading.temperature_slowdown_celsius, reading.temperature_shutdown_celsius) == (89, 95)
        assert frame.value("temperature_slowdown_celsius", 3) is None
        assert frame.value("temperature_slowdown_celsius", 2) is None, "the distance may be that of its memory"
        nvml.set(gpu__margin=45, gpu__3__margin=None)
        frame = await talk.until(lambda frame: frame.value("temperature_slowdown_celsius", 3) == 88)
        assert frame.value("temperature_slowdown_celsius", 1) == 89, "the distance is rounded, the threshold stays"


async def test_without_a_total_the_errors_of_all_places_are_added(nvml: NvmlFixture, library: str) -> None:
    nvml.set(gpu__nvmlDeviceGetTotalEccErrors__error=3, gpu__0__ecc_dram=5, gpu__0__ecc_l2=3, gpu__1__ecc_l2=3)
    async with talking(nvml_library=library) as talk:
        frame = await talk.next()
    assert frame.value("ecc_uncorrected_volatile", 0) == 8
    assert frame.value("ecc_uncorrected_volatile", 1) is None


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[int]:
    with a_gpu_process(tmp_path) as pid:
        yield pid


async def test_a_process_is_as_active_as_its_newest_sample_and_idle_without_one(
    nvml: NvmlFixture, library: str, sleeper: int
) -> None:
    nvml.set(
        gpu__0__compute=f"{sleeper}:100 {sleeper + 1}:200",
        gpu__0__active=f"{sleeper}:43",
        gpu__1__compute=f"{sleeper}:100",
        gpu__1__active="-",
        gpu__2__compute=f"{sleeper}:100",
        gpu__3__compute=f"{sleeper}:100",
        gpu__3__active=f"{sleeper}:250",
        gpu__5__compute=f"{sleeper}:100:1:0",
        gpu__5__active=f"{sleeper}:43",
    )
    async with talking(nvml_library=library) as talk:
        frame = await talk.next()
    told = [(process.device_index, process.utilization_percent) for process in frame.processes]
    # Not supported, a number that cannot be, and MIG: not known.
    assert told == [(0, 43), (0, 0), (1, 0), (2, None), (3, None), (5, None)]


async def test_programs_that_compute_through_mps_are_listed(nvml: NvmlFixture, library: str, sleeper: int) -> None:
    nvml.set(gpu__0__compute=f"{sleeper + 1}:30", gpu__0__mps=f"{sleeper}:500")
    async with talking(nvml_library=library) as talk:
        frame = await talk.next()
    assert [(process.pid, process.kind) for process in frame.processes] == [
        (sleeper + 1, "compute"),
        (sleeper, "compute"),
    ]


async def test_a_library_without_these_calls_costs_their_values_alone(nvml: NvmlFixture, libraries: Path) -> None:
    nvml.set(gpu__nvmlDeviceGetFieldValues__error=13)
    async with talking(nvml_library=str(nvml_library(libraries, "OLD_LIBRARY"))) as talk:
        frame = await talk.next()
    assert frame.value("recovery_action", 0) is None
    assert frame.value("nvlink_links_total", 0) is None
    assert frame.value("utilization_percent", 0) == 97
    assert not frame.device_problems


def test_the_numbers_are_those_of_the_binding_where_it_is_right() -> None:
    expected = {
        nvml_fields.MEMORY_TEMPERATURE: pynvml.NVML_FI_DEV_MEMORY_TEMP,
        nvml_fields.POWER_AVERAGE: pynvml.NVML_FI_DEV_POWER_AVERAGE,
        nvml_fields.POWER_INSTANT: pynvml.NVML_FI_DEV_POWER_INSTANT,
        nvml_fields.PCIE_TX_BYTES: pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES,
        nvml_fields.PCIE_RX_BYTES: pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES,
        nvml_fields.NVLINK_TX_KIB: pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
        nvml_fields.NVLINK_RX_KIB: pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
        nvml_fields.NVLINK5_TX_BYTES: pynvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES,
        nvml_fields.NVLINK5_RX_BYTES: pynvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES,
        nvml_fields.REMAPPED_CORRECTED: pynvml.NVML_FI_DEV_REMAPPED_COR,
        nvml_fields.REMAPPED_FAILED: pynvml.NVML_FI_DEV_REMAPPED_FAILURE,
        nvml_fields.RECOVERY_ACTION: pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION,
        nvml_fields.RETIRED_SINGLE_BIT: pynvml.NVML_FI_DEV_RETIRED_SBE,
        nvml_fields.RETIRED_PENDING: pynvml.NVML_FI_DEV_RETIRED_PENDING,
        nvml_fields.SHUTDOWN_TLIMIT: pynvml.NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT,
        nvml_fields.SLOWDOWN_TLIMIT: pynvml.NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT,
        nvml_fields.NVLINK_COUNT: pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT,
        (nvml_fields.NVLINK_STATE, 0): pynvml.NVML_FI_DEV_NVLINK_GET_STATE,
    }
    assert {key: key[0] for key in expected} == expected


def answer(number: int, value: Any, kind: int = 1, code: int = 0, scope: int = 0) -> Any:
    names = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
    return SimpleNamespace(
        fieldId=number,
        scopeId=scope,
        valueType=kind,
        nvmlReturn=code,
        value=SimpleNamespace(**{names.get(kind, "none"): value}),
    )


def test_a_value_of_another_type_than_a_whole_number_is_no_value() -> None:
    fields = Fields()
    assert fields.values([answer(82, 40)]) == {(82, 0): 40}
    assert fields.values([answer(82, 40.0, 0), answer(82, 1, 9)]) == {}
    # A counter of bytes in 32 bits has wrapped nobody knows how often.
    assert fields.values([answer(197, 40, 1), answer(138, 40, 3, scope=ALL_LINKS)]) == {(138, ALL_LINKS): 40}


def test_a_field_that_a_device_does_not_have_is_not_asked_for_until_a_retry() -> None:
    fields = Fields()
    wanted = [(82, 0), (185, 0), (186, 0)]
    assert fields.values([answer(82, 0, code=3), answer(185, 0, code=2), answer(186, 0, code=999)]) == {}
    assert fields.wanted(wanted) == [(186, 0)]
    fields.retry()
    assert fields.wanted(wanted) == wanted


def test_a_field_can_say_that_the_device_is_lost() -> None:
    with pytest.raises(DeviceFailure):
        Fields().values([answer(82, 0, code=15)])


def test_a_rate_is_what_was_counted_by_the_time_between_two_looks() -> None:
    rates = Rates()
    assert rates.per_second("a", 1000, 10.0, 1e9) is None
    assert rates.per_second("a", 3000, 12.0, 1e9) == 1000
    assert rates.per_second("a", 3001, 12.01, 1e9) == 1000, "too soon to tell anything new"
    assert rates.per_second("a", 3000, 14.0, 1e9) == 0
    assert rates.per_second("a", 10, 15.0, 1e9) is None, "the counter was reset"
    assert rates.per_second("a", 10**12, 16.0, 1e9) is None, "more than the link can carry"
    assert rates.per_second("a", None, 17.0, 1e9) is None
    assert rates.per_second("a", 10**12, 18.0, 1e9) is None


@pytest.mark.parametrize(
    ("temperature", "margin", "threshold", "value"),
    [(41, 46, -2, 89), (41, 46, -8, 95), (30, 56, 0, 86), (41, None, -2, None), (0, 0, 0, None), (41, 46, 400, None)],
)
def test_a_threshold_in_degrees_is_the_temperature_and_the_way_to_it(
    temperature: int, margin: int | None, threshold: int, value: int | None
) -> None:
    assert absolute_threshold(temperature, margin, threshold) == value
