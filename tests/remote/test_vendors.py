"""The agent on recorded servers of every vendor: what it tells, what it asks, and what a sick tool costs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gputop.domain.problem import ProblemKind
from gputop.remote.vendors import VENDORS
from tests.fakes.recorded_machine import REPLAY
from tests.remote.agents import NvmlFixture, alive, descendants, talking, wait_until
from tests.remote.recorded import MACHINES, Recorded, talking_to

GIB = 1 << 30


@pytest.fixture
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Recorded:
    return Recorded(request.param, tmp_path)


def on(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("machine", [name], indirect=True)


@pytest.mark.parametrize(
    ("machine", "route", "vendor", "model", "busy", "used"),
    [
        ("amd-mi300x", "amd-smi", "amd", "AMD Instinct MI300X", [97, 40], [188743680000, 1048576000]),
        ("amd-rocm-5", "rocm-smi", "amd", "Navi 22 [Radeon RX 6700/6700 XT / 6800M]", [0], [1564491776]),
        ("ascend-910b", "npu-smi", "huawei", "910B3", [60, 0], [3402 << 20, 3398 << 20]),
        ("gaudi3", "hl-smi", "habana", "HL-325L", [83, None], [101376 << 20, 672 << 20]),
        ("intel-max", "xpu-smi", "intel", "Intel(R) Data Center GPU Max 1550", [71.2, None], [40 * GIB, 28 << 20]),
        ("aws-inf2", "neuron", "aws", "inferentia2", [60, None], [5000000, None]),
        ("tpu-v6e", "tpu-info", "google", "TPU v6e chip", [100] * 4, [19810536653] + [11166914970] * 3),
        ("mthreads-s4000", "mthreads-gmi", "mthreads", "MTT S80", [7, None], [2 << 20, None]),
        ("cambricon-mlu370", "cnmon", "cambricon", "MLU370-X4", [0, None], [0, 7 << 20]),
        ("hygon-z100", "hy-smi", "hygon", None, [55], [1 << 20]),
        ("iluvatar-bi-v100", "ixsmi", "iluvatar", "Iluvatar BI-V100", [0], [513 << 20]),
        ("metax-n260", "mx-smi", "metax", "MetaX N260", [0, None], [4736 << 20, None]),
    ],
    indirect=["machine"],
)
async def test_devices_of(
    machine: Recorded, route: str, vendor: str, model: str | None, busy: list[object], used: list[object]
) -> None:
    async with talking_to(machine) as talk:
        frame = await talk.until(lambda frame: frame.column("memory_used_bytes") == used)
    assert frame.route == route
    assert not frame.problems
    assert {(device.vendor, device.model) for device in frame.devices} == {(vendor, model)}
    assert frame.column("utilization_percent") == busy
    assert frame.host.memory_total_bytes == 2113563648 * 1024
    assert frame.facts.hostname == "recorded"


def test_every_vendor_has_a_recorded_machine() -> None:
    recorded = {path.name.partition("_")[0].partition(".")[0] for path in MACHINES.glob("*/commands/*")}
    programs = {tool.programs[0] for vendor in VENDORS.values() for tool in vendor.tools}
    assert programs <= recorded


@on("amd-mi300x")
async def test_partitions_of_one_card_are_one_device_and_its_processes_have_their_owners(machine: Recorded) -> None:
    async with talking_to(machine) as talk:
        frame = await talk.next()
    assert [device.pci_bus_id for device in frame.devices] == ["0000:05:00.0", "0000:06:00.0"]
    assert [device.uuid is not None for device in frame.devices] == [True, True]
    assert frame.facts.driver_version == "6.16.6"
    assert [part.kind for part in frame.partitions_of(1)] == ["xcp", "xcp"]
    (process,) = frame.processes
    assert (process.pid, process.user, process.command) == (4711, "alice", "python3 train.py --config mixtral.yaml")
    assert process.started_at is not None
    assert frame.column("processes_known") == [True, True]


@on("ascend-910b")
async def test_health_that_is_not_ok_is_a_problem_of_the_device(machine: Recorded) -> None:
    async with talking_to(machine) as talk:
        frame = await talk.next()
    assert [problem.summary for problem in frame.device_problems[1]] == ["health: Alarm"]
    assert frame.column("state") == ["ok", "ok"]


@on("aws-inf2")
async def test_cores_of_a_stream_belong_to_the_devices_of_the_list(machine: Recorded) -> None:
    async with talking_to(machine) as talk:
        frame = await talk.until(lambda frame: frame.value("utilization_percent", 0) is not None)
    assert [device.pci_bus_id for device in frame.devices] == ["00:10.0", "00:11.0"]
    assert [part.utilization_percent for part in frame.partitions_of(0)] == [90, 30]
    assert [part.utilization_percent for part in frame.partitions_of(1)] == [None, None]
    assert [(process.pid, process.memory_used_bytes) for process in frame.processes] == [(2199, 5000000)]


@on("ascend-910b")
async def test_new_values_come_and_what_changes_seldom_is_not_asked_again(machine: Recorded) -> None:
    text = (machine.commands / "npu-smi_info.txt").read_text()
    async with talking_to(machine) as talk:
        await talk.next()
        machine.command("npu-smi_info", text.replace("| 60 ", "| 75 "))
        frame = await talk.until(lambda frame: frame.value("utilization_percent", 0) == 75)
    assert frame.column("power_watts") == [182.0, 95.2]


@on("amd-mi300x")
async def test_values_are_asked_for_again_and_identities_are_not(machine: Recorded) -> None:
    async with talking_to(machine) as talk:
        for _ in range(4):
            await talk.next()
        await talk.until(lambda _: machine.asked().count("amd-smi_metric_--json") >= 3)
    asked = machine.asked()
    assert asked.count("amd-smi_static_--json") == 1
    assert asked.count("amd-smi_process_--json") == 1


@on("amd-mi300x")
async def test_a_tool_that_hangs_costs_its_devices_and_goes_on_later(machine: Recorded) -> None:
    good = (machine.commands / "amd-smi_metric_--json.txt").read_text()
    before = descendants(os.getpid())
    async with talking_to(machine, options={"deadline": 0.3, "retry": 0.3}) as talk:
        await talk.next()
        machine.command("amd-smi_metric_--json", hangs=True)
        frame = await talk.until(lambda frame: frame.value("state", 0) == "error")
        assert frame.column("state") == ["error", "error"]
        (problem,) = frame.device_problems[0]
        assert problem.kind is ProblemKind.PROBE_HUNG
        assert "amd-smi metric --json" in problem.summary
        assert frame.value("utilization_percent", 0) is None
        assert frame.host.memory_total_bytes
        sleepers = [pid for pid in descendants(os.getpid(), but=before) if _command(pid)[:1] == ["sleep"]]
        assert len(sleepers) <= 1
        machine.command("amd-smi_metric_--json", good)
        frame = await talk.until(lambda frame: frame.value("state", 0) == "ok")
    assert frame.value("utilization_percent", 0) == 97
    assert wait_until(lambda: not any(alive(pid) for pid in sleepers))


def _command(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


@on("ascend-910b")
async def test_a_tool_that_hangs_from_the_start_is_told_as_such(machine: Recorded) -> None:
    machine.command("npu-smi_info", "", hangs=True)
    async with talking_to(machine, options={"deadline": 0.3, "retry": 0.3}) as talk:
        frame = await talk.until(lambda frame: frame.problems)
    assert [problem.kind for problem in frame.problems] == [ProblemKind.PROBE_HUNG]
    assert not frame.devices


@pytest.mark.parametrize(
    ("machine", "name", "status", "text", "kind"),
    [
        ("ascend-910b", "npu-smi_info", 1, "dcmi module initialize failed. ret is -8005", "driver-not-loaded"),
        ("ascend-910b", "npu-smi_info", 0, "\x00\xff\x1b[31m 0 1 2 | | |\n" * 30, "tool-failed"),
        ("ascend-910b", "npu-smi_info", 139, "", "tool-failed"),
        ("gaudi3", "hl-smi_-Q", 1, "hl-smi: Permission denied", "permission"),
        ("tpu-v6e", "tpu-info", 127, "tpu-info: command not found", "tool-missing"),
        ("amd-rocm-5", "rocm-smi", 2, "ERROR: No AMD GPUs specified", "no-devices"),
    ],
    indirect=["machine"],
)
async def test_a_tool_that_fails_or_prints_garbage_is_a_problem(
    machine: Recorded, name: str, status: int, text: str, kind: str
) -> None:
    machine.command(name, text, status=status)
    async with talking_to(machine) as talk:
        frame = await talk.until(lambda frame: frame.problems)
        frame = await talk.next()
    assert not frame.devices
    assert [problem.kind.value for problem in frame.problems] == [kind]
    assert frame.host.memory_total_bytes


@on("ascend-910b")
async def test_a_tool_that_fails_later_leaves_its_devices_in_their_places(machine: Recorded) -> None:
    async with talking_to(machine, options={"retry": 0.3}) as talk:
        await talk.next()
        machine.command("npu-smi_info", "dcmi module initialize failed. ret is -8005\n", status=1)
        frame = await talk.until(lambda frame: frame.value("state", 0) == "error")
    assert [device.pci_bus_id for device in frame.devices] == ["0000:9D:00.0", "0000:9F:00.0"]
    assert frame.device_problems[1][0].kind is ProblemKind.DRIVER_NOT_LOADED
    assert not frame.processes


@on("ascend-910b")
async def test_a_device_that_its_tool_lists_no_more_is_lost(machine: Recorded) -> None:
    lines = (machine.commands / "npu-smi_info.txt").read_text().splitlines(keepends=True)
    async with talking_to(machine) as talk:
        await talk.next()
        machine.command("npu-smi_info", "".join(lines[:9] + lines[12:]))
        frame = await talk.until(lambda frame: frame.value("state", 1) == "lost")
        assert frame.column("utilization_percent") == [60, None]
        (problem,) = frame.device_problems[1]
        assert problem.kind is ProblemKind.DEVICE_LOST
        machine.command("npu-smi_info", "".join(lines))
        frame = await talk.until(lambda frame: frame.value("state", 1) == "ok")
    assert len(frame.devices) == 2


@on("amd-broken-amd-smi")
async def test_an_older_tool_is_used_where_the_newer_one_fails(machine: Recorded) -> None:
    async with talking_to(machine) as talk:
        frame = await talk.next()
    assert frame.route == "rocm-smi"
    assert len(frame.devices) == 1
    assert not frame.problems


@on("amd-no-tool")
async def test_devices_without_a_tool_are_told_with_the_places_that_were_looked_at(machine: Recorded) -> None:
    async with talking_to(machine) as talk:
        frame = await talk.next()
    assert frame.route == "none"
    (problem,) = frame.problems
    assert problem.kind is ProblemKind.TOOL_MISSING
    assert problem.summary == "AMD devices are there, and no amd-smi or rocm-smi to read them"
    assert "/opt/rocm/bin/amd-smi" in (problem.detail or "")


@on("intel-max")
async def test_a_stream_that_ends_leaves_devices_without_values_and_a_problem(machine: Recorded) -> None:
    machine.command("xpu-smi_dump", "Error: Level Zero Initialization Error\n", status=1)
    async with talking_to(machine) as talk:
        frame = await talk.until(lambda frame: frame.problems)
    assert [problem.kind for problem in frame.problems] == [ProblemKind.TOOL_FAILED]
    assert len(frame.devices) == 2
    assert frame.value("power_watts", 0) is None


@on("intel-max")
async def test_another_interval_starts_a_stream_anew(machine: Recorded) -> None:
    async with talking_to(machine) as talk:
        await talk.until(lambda frame: frame.value("power_watts", 0))
        talk.session.set_interval(1.6)
        await talk.until(lambda _: any(line.endswith("-i_2") for line in machine.asked()))


async def test_nothing_is_left_when_a_session_ends_while_a_tool_hangs(tmp_path: Path) -> None:
    machine = Recorded("amd-mi300x", tmp_path)
    machine.command("amd-smi_process_--json", hangs=True)
    before = descendants(os.getpid())
    async with talking_to(machine, options={"deadline": 0.2}) as talk:
        await talk.until(lambda _: "amd-smi_process_--json" in machine.asked())
        below = descendants(os.getpid(), but=before)
        assert below
    assert wait_until(lambda: not any(alive(pid) for pid in below))


def replayed(names: list[str], machine: Recorded, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of a recorded machine in PATH of this one."""
    folder.mkdir()
    for name in names:
        (folder / name).symlink_to(REPLAY)
    monkeypatch.setenv("REPLAY", str(machine.commands))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


async def test_two_vendors_on_one_server_are_told_together(
    nvml: NvmlFixture, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Recorded("amd-mi300x", tmp_path)
    replayed(["amd-smi"], machine, tmp_path / "bin", monkeypatch)
    nvml.set(gpu__1__compute=f"{os.getpid()}:100")
    async with talking(nvml_library=library, options={"deadline": 0.3, "retry": 0.3}) as talk:
        frame = await talk.until(lambda frame: len(frame.devices) == 10)
        assert frame.route == "nvml"
        assert [device.vendor for device in frame.devices] == ["nvidia"] * 8 + ["amd"] * 2
        assert frame.value("utilization_percent", 0) == 97
        assert frame.value("utilization_percent", 9) == 40
        assert [part.device_index for part in frame.partitions if part.kind == "xcp"] == [9, 9]
        assert {process.device_index: process.pid for process in frame.processes} == {1: os.getpid(), 8: 4711}
        assert not frame.problems
        machine.command("amd-smi_metric_--json", hangs=True)
        frame = await talk.until(lambda frame: frame.value("state", 8) == "error")
        assert frame.column("state") == ["ok"] * 8 + ["error"] * 2
        assert sorted(frame.device_problems) == [8, 9]
        nvml.set(gpu__0__error=15)
        frame = await talk.until(lambda frame: frame.value("state", 0) == "lost")
    assert frame.device_problems[0][0].kind is ProblemKind.DEVICE_LOST


async def test_a_tool_that_lies_about_says_nothing_beside_devices_of_another_vendor(
    nvml: NvmlFixture, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Recorded("amd-broken-amd-smi", tmp_path)
    replayed(["amd-smi"], machine, tmp_path / "bin", monkeypatch)
    async with talking(nvml_library=library) as talk:
        frame = await talk.until(lambda _: machine.asked())
        frame = await talk.next()
    assert len(frame.devices) == 8
    assert not frame.problems


def test_recordings_of_json_are_json() -> None:
    for path in MACHINES.glob("*/commands/*--json.txt"):
        assert json.loads(path.read_text())
