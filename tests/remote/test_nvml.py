"""The agent on the unmodified binding and a fake NVML library, in a process of its own."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.domain.problem import ProblemKind
from tests.remote.agents import NvmlFixture, a_gpu_process, nvml_library, talking

MIB = 1024 * 1024


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[int]:
    """A live process, for lists of processes."""
    with a_gpu_process(tmp_path) as pid:
        yield pid


async def test_every_value_of_eight_devices_comes_in_the_first_frame(nvml: NvmlFixture, library: str) -> None:
    async with talking(nvml_library=library) as talk:
        frame = await talk.next()
    assert frame.route == "nvml"
    assert frame.facts.driver_version == "550.90.07"
    assert frame.facts.cuda_version == "12.4"
    assert frame.facts.python_version
    assert frame.host.memory_total_bytes
    assert frame.host.agent_memory_bytes
    assert [device.index for device in frame.devices] == list(range(8))
    device = frame.devices[3]
    assert device.uuid == "GPU-00000000-0000-4000-8000-000000000003"
    assert device.pci_bus_id == "00000000:30:00.0"
    assert (device.model, device.serial, device.minor_number) == ("NVIDIA H100 80GB HBM3", "1650000000000", 3)
    reading = frame.reading(0)
    assert reading.state == "ok"
    assert (reading.utilization_percent, reading.memory_utilization_percent) == (97, 41)
    assert (reading.encoder_utilization_percent, reading.decoder_utilization_percent) == (0, 0)
    assert reading.memory_used_bytes == 70123 * MIB
    assert reading.memory_total_bytes == 81559 * MIB
    assert reading.memory_reserved_bytes == 479 * MIB
    assert (reading.bar1_used_bytes, reading.bar1_total_bytes) == (5 * MIB, 131072 * MIB)
    assert (reading.temperature_celsius, reading.memory_temperature_celsius) == (71, 40)
    assert (reading.temperature_slowdown_celsius, reading.temperature_shutdown_celsius) == (89, 92)
    assert reading.fan_percent is None
    assert (reading.power_watts, reading.power_average_watts, reading.power_instant_watts) == (655.2, 71.1, 72.5)
    assert (reading.power_limit_watts, reading.power_default_limit_watts) == (700, 700)
    assert reading.energy_joules == 123456.5
    assert (reading.sm_clock_mhz, reading.sm_clock_max_mhz) == (1755, 1980)
    assert (reading.memory_clock_mhz, reading.memory_clock_max_mhz) == (2619, 2619)
    assert (reading.performance_state, reading.compute_mode, reading.persistence_mode) == ("P0", "default", True)
    assert reading.throttle_reasons == ["sw_power_cap", "sw_thermal"]
    assert (reading.pcie_generation, reading.pcie_generation_max) == (5, 5)
    assert (reading.pcie_width, reading.pcie_width_max, reading.pcie_replay_count) == (16, 16, 0)
    assert (reading.ecc_mode, reading.ecc_pending_mode) == ("enabled", "enabled")
    assert (reading.ecc_corrected_volatile, reading.ecc_uncorrected_volatile) == (0, 0)
    assert (reading.ecc_corrected_aggregate, reading.ecc_uncorrected_aggregate) == (2, 0)
    assert (reading.mig_mode, reading.processes_known) == ("disabled", True)
    assert not frame.problems
    assert not frame.device_problems


async def test_values_that_change_arrive_and_those_that_do_not_are_carried_on(nvml: NvmlFixture, library: str) -> None:
    async with talking(nvml_library=library) as talk:
        await talk.next()
        nvml.set(gpu__1__util=55, gpu__2__power=None)
        frame = await talk.until(lambda frame: frame.value("utilization_percent", 1) == 55)
    assert frame.value("temperature_celsius", 1) == 34
    assert frame.value("ecc_corrected_aggregate", 1) == 2


async def test_instances_of_a_device_are_numbered_as_nvidia_smi_numbers_them(nvml: NvmlFixture, library: str) -> None:
    async with talking(nvml_library=library) as talk:
        frame = await talk.next()
    assert frame.value("mig_mode", 5) == "enabled"
    large, small = frame.partitions_of(5)
    assert (large.kind, large.index, large.profile) == ("mig", 0, "3g.40gb")
    assert (large.gpu_instance_id, large.compute_instance_id) == (1, 0)
    assert (large.memory_used_bytes, large.memory_total_bytes) == (20312 * MIB, 40192 * MIB)
    assert (small.index, small.profile, small.uuid) == (1, "1g.10gb", "MIG-00000000-0000-5000-8000-000000000052")
    assert len(frame.partitions) == 2


async def test_processes_are_named_and_dated_from_proc(nvml: NvmlFixture, library: str, sleeper: int) -> None:
    pid = sleeper
    nvml.set(gpu__0__compute=f"{pid}:1012", gpu__0__graphics=f"{pid}:1012", gpu__5__compute=f"{pid}:20:1:0")
    async with talking(nvml_library=library) as talk:
        frame = await talk.next()
    whole, part = frame.processes
    assert (whole.device_index, whole.pid, whole.kind) == (0, pid, "both")
    assert whole.memory_used_bytes == 1012 * MIB
    assert (whole.name, whole.command) == ("sleep", "sleep 600")
    assert whole.user == getpass.getuser()
    assert whole.started_at is not None
    assert abs((frame.sampled_at - whole.started_at).total_seconds()) < 60
    assert (whole.gpu_instance_id, whole.compute_instance_id) == (None, None)
    assert (part.device_index, part.gpu_instance_id, part.compute_instance_id) == (5, 1, 0)


async def test_a_process_that_is_not_in_our_proc_has_no_name_and_a_memory_that_is_not_known_is_none(
    nvml: NvmlFixture, library: str
) -> None:
    pid_max = int(Path("/proc/sys/kernel/pid_max").read_text())
    nvml.set(gpu__0__compute=f"{pid_max - 1}:-")
    async with talking(nvml_library=library) as talk:
        frame = await talk.next()
    (process,) = frame.processes
    assert (process.pid, process.memory_used_bytes) == (pid_max - 1, None)
    assert (process.name, process.command, process.user, process.started_at) == (None, None, None, None)
    assert frame.value("processes_known", 0) is True
    assert not frame.device_problems


async def test_a_lost_device_stays_in_its_place_and_says_so(nvml: NvmlFixture, library: str) -> None:
    async with talking(nvml_library=library) as talk:
        before = await talk.next()
        nvml.set(gpu__3__error=15)
        frame = await talk.until(lambda frame: frame.value("state", 3) == "lost")
        assert frame.devices == before.devices
        assert frame.value("utilization_percent", 3) is None
        assert frame.value("memory_total_bytes", 3) is None
        assert frame.value("processes_known", 3) is False
        (problem,) = frame.device_problems[3]
        assert problem.kind is ProblemKind.DEVICE_LOST
        assert problem.since is not None
        assert frame.value("utilization_percent", 0) == 97
        nvml.set(gpu__3__error=None)
        frame = await talk.until(lambda frame: frame.value("state", 3) == "ok")
        assert frame.value("memory_total_bytes", 3) == 81559 * MIB


async def test_a_device_that_was_lost_before_we_came_is_listed_too(nvml: NvmlFixture, library: str) -> None:
    nvml.set(gpu__3__error=15)
    async with talking(nvml_library=library) as talk:
        frame = await talk.next()
    assert len(frame.devices) == 8
    assert frame.value("state", 3) == "lost"
    assert frame.devices[3].uuid is None
    assert [problem.kind for problem in frame.device_problems[3]] == [ProblemKind.DEVICE_LOST]


async def test_a_device_that_has_to_be_reset_is_in_error(nvml: NvmlFixture, library: str) -> None:
    nvml.set(gpu__2__error=16)
    async with talking(nvml_library=library) as talk:
        frame = await talk.next()
    assert frame.value("state", 2) == "error"
    assert [problem.kind for problem in frame.device_problems[2]] == [ProblemKind.REQUIRES_RESET]


async def test_a_call_that_fails_costs_its_field_alone_and_is_named(nvml: NvmlFixture, library: str) -> None:
    nvml.set(gpu__4__nvmlDeviceGetTemperature__error=999, gpu__4__nvmlDeviceGetPowerUsage__error=3)
    async with talking(nvml_library=library) as talk:
        frame = await talk.next()
    assert frame.value("temperature_celsius", 4) is None
    assert frame.value("utilization_percent", 4) == 0
    assert frame.value("state", 4) == "ok"
    # Not supported is no trouble; where the main figure is missing, the instant one stands in.
    assert frame.value("power_watts", 4) == 72.5
    (problem,) = frame.device_problems[4]
    assert problem.kind is ProblemKind.DEVICE_ERROR
    assert problem.summary == "nvmlDeviceGetTemperature: Unknown Error"


async def test_a_device_of_which_every_call_fails_is_in_error(nvml: NvmlFixture, library: str) -> None:
    nvml.set(gpu__4__error=999)
    async with talking(nvml_library=library) as talk:
        frame = await talk.next()
    assert frame.value("state", 4) == "error"
    assert [problem.kind for problem in frame.device_problems[4]] == [ProblemKind.DEVICE_ERROR]
    assert frame.value("state", 5) == "ok"


async def test_a_call_that_hangs_costs_its_device_alone_until_it_returns(nvml: NvmlFixture, library: str) -> None:
    options: dict[str, object] = {"deadline": 0.4}
    async with talking(nvml_library=library, options=options) as talk:
        before = await talk.next()
        nvml.set(gpu__6__nvmlDeviceGetUtilizationRates__block=600)
        frame = await talk.until(lambda frame: frame.value("state", 6) == "error")
        (problem,) = frame.device_problems[6]
        assert problem.kind is ProblemKind.PROBE_HUNG
        assert "nvmlDeviceGetUtilizationRates" in problem.summary
        assert problem.since is not None
        assert before.sampled_at.timestamp() - 1 < problem.since.timestamp() < frame.sampled_at.timestamp()
        assert frame.value("utilization_percent", 6) is None
        assert frame.devices == before.devices
        nvml.set(gpu__1__util=44)
        frame = await talk.until(lambda frame: frame.value("utilization_percent", 1) == 44)
        assert frame.value("state", 6) == "error"
        nvml.set(gpu__6__nvmlDeviceGetUtilizationRates__block=None, gpu__6__util=11)
        frame = await talk.until(lambda frame: frame.value("state", 6) == "ok")
        assert frame.value("utilization_percent", 6) == 11
        assert not frame.device_problems


async def test_a_device_that_hangs_from_the_start_is_listed_and_told_apart_later(
    nvml: NvmlFixture, library: str
) -> None:
    nvml.set(gpu__7__nvmlDeviceGetName__block=600)
    async with talking(nvml_library=library, options={"deadline": 0.4}) as talk:
        frame = await talk.next()
        assert len(frame.devices) == 8
        assert frame.devices[7].uuid is None
        assert frame.value("state", 7) == "error"
        assert [problem.kind for problem in frame.device_problems[7]] == [ProblemKind.PROBE_HUNG]
        assert frame.value("utilization_percent", 0) == 97
        nvml.set(gpu__7__nvmlDeviceGetName__block=None)
        frame = await talk.until(lambda frame: frame.devices[7].uuid)
        assert frame.value("state", 7) == "ok"


async def test_a_library_that_hangs_while_it_starts_is_named_and_waited_for(nvml: NvmlFixture, library: str) -> None:
    nvml.set(init_block=600)
    async with talking(nvml_library=library, options={"deadline": 0.3}) as talk:
        frame = await talk.next()
        assert not frame.devices
        assert [problem.kind for problem in frame.problems] == [ProblemKind.PROBE_HUNG]
        assert frame.host.memory_total_bytes
        nvml.set(init_block=None)
        frame = await talk.until(lambda frame: frame.devices)
        assert not frame.problems


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (18, ProblemKind.DRIVER_MISMATCH),
        (9, ProblemKind.DRIVER_NOT_LOADED),
        (4, ProblemKind.PERMISSION),
        (999, ProblemKind.TOOL_FAILED),
    ],
)
async def test_a_driver_that_refuses_is_named_and_no_device_is_invented(
    nvml: NvmlFixture, library: str, code: int, kind: ProblemKind
) -> None:
    nvml.set(init_error=code)
    async with talking(nvml_library=library, options={"retry": 0.3}) as talk:
        frame = await talk.next()
        assert frame.route == "nvml"
        assert not frame.devices
        (problem,) = frame.problems
        assert problem.kind is kind
        nvml.set(init_error=0)
        frame = await talk.until(lambda frame: frame.devices)
        assert not frame.problems
        assert frame.value("utilization_percent", 0) == 97


async def test_a_mismatch_is_told_with_what_is_known_of_the_versions(nvml: NvmlFixture, library: str) -> None:
    nvml.set(init_error=18)
    async with talking(nvml_library=library) as talk:
        (problem,) = (await talk.next()).problems
    assert problem.detail is not None
    assert "mismatch" in problem.detail
    assert "12.550.90.07" in problem.detail


async def test_a_driver_that_is_unloaded_and_loaded_again_is_found_again(nvml: NvmlFixture, library: str) -> None:
    async with talking(nvml_library=library, options={"retry": 0.3}) as talk:
        assert len((await talk.next()).devices) == 8
        nvml.set(gpu__error=9, init_error=9)
        frame = await talk.until(lambda frame: frame.problems)
        assert [problem.kind for problem in frame.problems] == [ProblemKind.DRIVER_NOT_LOADED]
        assert not frame.devices
        nvml.set(gpu__error=None, init_error=None, driver="570.10", count=7)
        frame = await talk.until(lambda frame: len(frame.devices) == 8)
    # One came back no more: it stays in its old place.
    assert frame.facts.driver_version == "570.10"
    assert frame.value("state", 7) == "lost"
    assert frame.devices[7].uuid == "GPU-00000000-0000-4000-8000-000000000007"
    assert [problem.kind for problem in frame.device_problems[7]] == [ProblemKind.DEVICE_LOST]


async def test_a_library_without_devices_says_so(nvml: NvmlFixture, library: str) -> None:
    nvml.set(count=0)
    async with talking(nvml_library=library) as talk:
        frame = await talk.next()
    assert [problem.kind for problem in frame.problems] == [ProblemKind.NO_DEVICES]


async def test_an_old_library_is_read_by_its_old_calls(nvml: NvmlFixture, libraries: Path, sleeper: int) -> None:
    nvml.set(gpu__0__compute=f"{sleeper}:1012")
    async with talking(nvml_library=str(nvml_library(libraries, "OLD_LIBRARY"))) as talk:
        frame = await talk.next()
    # The first form of the memory call counts the reserved part as used.
    assert frame.value("memory_used_bytes", 0) == (70123 + 479) * MIB
    assert frame.value("memory_reserved_bytes", 0) is None
    assert frame.value("throttle_reasons", 0) == ["sw_power_cap", "sw_thermal"]
    (process,) = frame.processes
    assert (process.pid, process.memory_used_bytes, process.name) == (sleeper, 1012 * MIB, "sleep")
    assert frame.value("processes_known", 0) is True
    assert not frame.device_problems


async def test_records_of_another_size_are_seen_through(nvml: NvmlFixture, libraries: Path, sleeper: int) -> None:
    nvml.set(gpu__0__compute=f"{sleeper}:1012 4242:300 4343:400 4444:500")
    async with talking(nvml_library=str(nvml_library(libraries, "FIVE_FIELDS"))) as talk:
        frame = await talk.next()
    assert [process.pid for process in frame.processes] == [sleeper]
    assert frame.value("processes_known", 0) is False
    assert [problem.kind for problem in frame.device_problems[0]] == [ProblemKind.PROCESSES_UNRELIABLE]
    assert frame.value("state", 0) == "ok"


async def test_processes_that_may_not_be_listed_are_not_known(nvml: NvmlFixture, library: str) -> None:
    nvml.set(
        gpu__0__nvmlDeviceGetComputeRunningProcesses_v3__error=4,
        gpu__0__nvmlDeviceGetGraphicsRunningProcesses_v3__error=4,
    )
    async with talking(nvml_library=library) as talk:
        frame = await talk.next()
    assert frame.value("processes_known", 0) is False
    assert frame.value("processes_known", 1) is True
    assert not frame.processes_of(0)


async def test_totals_of_ecc_errors_are_added_up_where_the_driver_gives_only_parts(
    nvml: NvmlFixture, library: str
) -> None:
    nvml.set(
        gpu__0__nvmlDeviceGetTotalEccErrors__error=3,
        gpu__0__ecc_dram=5,
        gpu__0__ecc_sram=2,
        gpu__1__nvmlDeviceGetTotalEccErrors__error=3,
        gpu__1__ecc_dram=5,
    )
    async with talking(nvml_library=library) as talk:
        frame = await talk.next()
    assert frame.value("ecc_uncorrected_volatile", 0) == 7
    assert frame.value("ecc_uncorrected_volatile", 1) is None


async def test_slow_values_are_read_again_after_a_while(nvml: NvmlFixture, library: str) -> None:
    async with talking(nvml_library=library, options={"medium": 0.5, "slow": 0.5}) as talk:
        assert (await talk.next()).value("ecc_corrected_volatile", 0) == 0
        nvml.set(gpu__0__ecc_corrected_volatile=9, gpu__1__mig=1)
        frame = await talk.until(lambda frame: frame.value("ecc_corrected_volatile", 0) == 9)
        assert frame.value("mig_mode", 1) == "enabled"


async def test_what_cannot_be_read_any_more_is_none_again(nvml: NvmlFixture, library: str) -> None:
    async with talking(nvml_library=library) as talk:
        assert (await talk.next()).value("energy_joules", 0) == 123456.5
        nvml.set(gpu__nvmlDeviceGetTotalEnergyConsumption__error=3)
        frame = await talk.until(lambda frame: frame.value("energy_joules", 0) is None)
    assert frame.value("temperature_celsius", 0) == 71
