"""nvidia-smi where there is no NVML: read by the agent, and where there is no Python, by a shell script."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.domain.problem import ProblemKind
from gputop.remote.nvidia_smi import PROGRAMS
from tests.remote.agents import FIXTURES, a_gpu_process, descendants, talking, wait_until
from tests.remote.conftest import SmiFixture

MIB = 1024 * 1024
CASES = FIXTURES / "cases"


@pytest.fixture(params=["agent", "shell"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """By the agent, or on a server that has no Python to run it."""
    if request.param == "shell":
        monkeypatch.setattr("gputop.probes.bundle._SCRIPT", _without_python())
    return str(request.param)


def _without_python() -> str:
    """The bootstrap as it goes where no candidate is there."""
    from gputop.probes import bundle

    before, _, after = bundle._SCRIPT.partition('for p in "$@"')
    _, _, after = after.partition("; do ")
    return f"{before}for p in /nowhere/python3; do {after}"


async def test_values_processes_and_host_come_from_nvidia_smi(smi: SmiFixture, way: str, tmp_path: Path) -> None:
    with a_gpu_process(tmp_path) as pid:
        await _check_values_processes_and_host(smi, way, pid)


async def _check_values_processes_and_host(smi: SmiFixture, way: str, pid: int) -> None:
    smi.set(
        apps=[
            f"GPU-00000000-0000-4000-8000-000000000000, {pid}, /usr/bin/python3, 1012",
            "GPU-00000000-0000-4000-8000-000000000001, [Not Supported], [Not Supported], [Not Supported]",
        ]
    )
    async with talking() as talk:
        frame = await talk.until(
            lambda frame: (
                frame.processes and frame.processes[0].user and frame.value("ecc_uncorrected_volatile", 0) is not None
            )
        )
    assert frame.route == "nvidia-smi"
    assert frame.facts.driver_version == "550.90.07"
    assert frame.facts.hostname
    assert frame.facts.kernel_version
    assert frame.facts.boot_id
    assert frame.facts.cores == os.cpu_count()
    assert (frame.facts.python_version is None) == (way == "shell")
    assert frame.host.memory_total_bytes
    assert frame.host.memory_used_bytes
    assert frame.host.uptime_seconds
    assert frame.host.load_1m is not None
    assert [device.index for device in frame.devices] == [0, 1]
    assert frame.devices[1].uuid == "GPU-00000000-0000-4000-8000-000000000001"
    assert frame.devices[1].pci_bus_id == "00000000:02:00.0"
    reading = frame.reading(0)
    assert (reading.state, reading.utilization_percent) == ("ok", 97)
    assert (reading.memory_used_bytes, reading.memory_total_bytes) == (70123 * MIB, 81559 * MIB)
    assert (reading.temperature_celsius, reading.power_watts) == (41, 388.54)
    assert reading.throttle_reasons == ["sw_power_cap"]
    assert (reading.compute_mode, reading.mig_mode, reading.performance_state) == (
        "exclusive-process",
        "disabled",
        "P0",
    )
    assert reading.ecc_uncorrected_volatile == 3
    assert reading.fan_percent is None
    assert reading.processes_known is True
    assert frame.value("utilization_percent", 1) is None
    assert frame.value("processes_known", 1) is False
    (process,) = frame.processes
    assert (process.device_index, process.pid, process.kind) == (0, pid, "compute")
    assert process.memory_used_bytes == 1012 * MIB
    assert process.command == "sleep 600"
    assert not frame.problems
    assert abs((frame.sampled_at - frame.received_at).total_seconds()) < 10


@pytest.mark.parametrize("apps", [[], ["GPU-00000000-0000-4000-8000-000000000000, {pid}, /usr/bin/python3, 1012"]])
async def test_the_first_frame_tells_who_is_on_the_devices(
    smi: SmiFixture, way: str, tmp_path: Path, apps: list[str]
) -> None:
    """Whoever reads but once, as a plan or a snapshot does, would take an idle GPU for one nobody knows about."""
    with a_gpu_process(tmp_path) as pid:
        smi.set(apps=[line.format(pid=pid) for line in apps], apps_sleep=0.3)
        async with talking() as talk:
            frame = await talk.next()
    assert frame.column("processes_known") == [True, True]
    assert [(process.pid, process.command) for process in frame.processes] == [(pid, "sleep 600") for _ in apps]


async def test_a_list_of_processes_that_hangs_does_not_keep_the_devices_back(smi: SmiFixture, way: str) -> None:
    smi.set(apps_sleep=600)
    async with talking(options={"deadline": 1}) as talk:
        frame = await talk.next()
    assert frame.column("temperature_celsius") == [41, 41]
    assert frame.column("processes_known") == [False, False]


async def test_new_values_arrive_and_garbled_lines_cost_only_themselves(smi: SmiFixture, way: str) -> None:
    async with talking() as talk:
        await talk.next()
        gpus = [{**gpu, "temperature.gpu": "55"} for gpu in smi.gpus]
        smi.set(gpus=gpus, print=["", "   ", "Last backup: 2026-01-02, 03:04, ok", "0, 1, 2", "\x1b[31m"])
        frame = await talk.until(lambda frame: frame.column("temperature_celsius") == [55, 55])
    assert len(frame.devices) == 2
    assert not frame.problems


async def test_a_mismatch_of_driver_and_library_is_told_with_its_text(smi: SmiFixture, way: str) -> None:
    text = (CASES / "05-driver-mismatch.txt").read_text()
    smi.set(fail=[18, text.strip()])
    async with talking() as talk:
        frame = await talk.next()
    assert not frame.devices
    (problem,) = frame.problems
    assert problem.kind is ProblemKind.DRIVER_MISMATCH
    assert problem.detail == text.strip()
    assert frame.host.memory_total_bytes


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (
            9,
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest "
            "NVIDIA driver is installed and running.",
            ProblemKind.DRIVER_NOT_LOADED,
        ),
        (6, "No devices were found", ProblemKind.NO_DEVICES),
        (255, "Something else", ProblemKind.TOOL_FAILED),
    ],
)
async def test_a_failure_is_told_by_its_kind(smi: SmiFixture, status: int, text: str, kind: ProblemKind) -> None:
    smi.set(fail=[status, text])
    async with talking() as talk:
        frame = await talk.next()
    assert not frame.devices
    assert [(problem.kind, problem.detail) for problem in frame.problems] == [(kind, text)]


async def test_a_lost_device_is_told_and_the_other_goes_on(smi: SmiFixture, way: str) -> None:
    lost = (
        "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost. Reboot the system to recover this GPU"
    )
    async with talking() as talk:
        await talk.until(lambda frame: len(frame.devices) == 2)
        smi.set(gpus=smi.gpus[:1], print=[lost])
        frame = await talk.until(lambda frame: frame.value("state", 1) == "lost")
    assert [device.index for device in frame.devices] == [0, 1]
    (problem,) = frame.device_problems[1]
    assert problem.kind is ProblemKind.DEVICE_LOST
    assert problem.detail == lost
    assert frame.value("utilization_percent", 0) == 97


async def test_instances_are_read_from_the_list(smi: SmiFixture, way: str) -> None:
    listed = (CASES / "06-list-mig.txt").read_text()
    uuids = ["GPU-00000000-0000-4000-8000-000000000060", "GPU-00000000-0000-4000-8000-000000000064"]
    gpus = [
        {**gpu, "uuid": uuid, "mig.mode.current": mode}
        for gpu, uuid, mode in zip(smi.gpus, uuids, ["Enabled", "Disabled"], strict=True)
    ]
    smi.set(gpus=gpus, list=listed)
    async with talking() as talk:
        frame = await talk.until(lambda frame: frame.partitions)
    assert [partition.profile for partition in frame.partitions_of(0)] == ["3g.40gb", "1g.10gb", "1g.10gb"]
    assert not frame.partitions_of(1)
    assert len(frame.devices) == 2


async def test_without_nvidia_smi_it_is_told_what_was_tried(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    async with talking() as talk:
        frame = await talk.next()
    assert frame.route == "none"
    assert not frame.devices
    (problem,) = frame.problems
    assert problem.kind is ProblemKind.TOOL_MISSING
    assert problem.detail is not None
    for program in PROGRAMS:
        assert program in problem.detail
    assert ("python3" in problem.detail) == (way == "shell")
    assert frame.host.memory_total_bytes


async def test_a_change_of_the_interval_reaches_nvidia_smi(smi: SmiFixture, way: str) -> None:
    def periods() -> list[str]:
        found = []
        for pid in descendants(os.getpid()):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            except OSError:
                continue
            if "-lms" in words:
                found.append(words[words.index("-lms") + 1])
        return found

    async with talking(interval=0.5) as talk:
        await talk.next()
        assert set(periods()) == {"500"}
        talk.session.set_interval(0.3)
        frame = await talk.until(lambda frame: frame.interval_seconds == 0.3 and set(periods()) == {"300"})
        assert not frame.problems
        talk.session.sample_now()
        await talk.next()


@pytest.fixture
def no_descendants() -> Iterator[None]:
    before = descendants(os.getpid())
    yield
    assert wait_until(lambda: not descendants(os.getpid(), but=before), 5), "something outlived the session"


async def test_the_end_of_a_session_leaves_no_process(no_descendants: None, smi: SmiFixture, way: str) -> None:
    async with talking() as talk:
        await talk.next()


def test_the_shell_script_ends_with_its_input_and_takes_nvidia_smi_along(smi: SmiFixture) -> None:
    from gputop.probes.smi_route import SmiDialect

    dialect = SmiDialect("token", 0.1)
    process = subprocess.Popen(
        ["/bin/sh", "-c", dialect.command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(dialect.opening + b"stream stream1 --query-gpu=index --format=csv,noheader -lms 100\n")
        process.stdin.flush()
        while not process.stdout.readline().startswith(b"token stream1 0"):
            pass
        pids = {process.pid, *descendants(process.pid)}
        assert len(pids) > 2
        process.stdin.close()
        assert wait_until(lambda: process.poll() is not None and not descendants(process.pid), 2)
        assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), 2)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
