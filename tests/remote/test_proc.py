"""The server's own values and its processes, out of captured files of /proc."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gputop.remote import hostinfo
from gputop.remote.machine import Machine
from gputop.remote.nvidia import absent_devices, parse_information
from gputop.remote.processes import ProcessTable, Users, describe, parse_cmdline, parse_stat

STAT = "cpu  100 20 30 800 50 0 0 0 40 0\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\nbtime 1764500000\n"


def write(root: Path, files: dict[str, str]) -> Machine:
    for name, text in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Machine(str(root))


def test_processor_load_is_the_busy_share_between_two_looks() -> None:
    meter = hostinfo.CpuMeter(STAT)
    assert meter.percent("cpu  150 20 30 840 60 0 0 0 40 0\n") == 50.0
    assert meter.percent("cpu  150 20 30 841 60 0 0 0 40 0\n") is None, "one tick says nothing"
    assert meter.percent("cpu  150 20 30 940 60 0 0 0 40 0\n") == 0.0
    assert meter.percent("") is None


def test_memory_in_use_is_what_is_not_available() -> None:
    text = "MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 600 kB\nBuffers: 50 kB\nCached: 200 kB\n"
    assert hostinfo.memory(text) == (400 * 1024, 1000 * 1024)
    assert hostinfo.memory(text.replace("MemAvailable", "Other")) == (650 * 1024, 1000 * 1024)
    assert hostinfo.memory("") == (None, None)


def test_what_cannot_be_read_of_the_server_is_left_out_or_none(tmp_path: Path) -> None:
    machine = Machine(str(tmp_path))
    assert hostinfo.facts(machine) == {}
    values = hostinfo.reading(machine, hostinfo.CpuMeter(""))
    known = {key for key, value in values.items() if value is not None}
    assert known == {"agent_cpu_seconds", "agent_memory_bytes", "drain_marker"}
    assert values["drain_marker"] == "", "there is none"


def test_facts_of_the_server_are_read(tmp_path: Path) -> None:
    machine = write(
        tmp_path,
        {
            "/proc/sys/kernel/hostname": "gpu-a\n",
            "/proc/sys/kernel/osrelease": "6.1.0\n",
            "/proc/sys/kernel/random/boot_id": "b\n",
            "/etc/machine-id": "m\n",
            "/etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
            "/proc/stat": STAT,
        },
    )
    assert hostinfo.facts(machine) == {
        "hostname": "gpu-a",
        "kernel_version": "6.1.0",
        "boot_id": "b",
        "machine_id": "m",
        "os_name": "Debian GNU/Linux 12 (bookworm)",
        "cores": 2,
    }


def stat_of(name: str, start: int) -> str:
    return f"7 ({name}) S 1 " + " ".join(["0"] * 17) + f" {start} 0 0"


@pytest.mark.parametrize("name", ["python3", "a) (b", "tmux: server", ""])
def test_a_name_with_blanks_and_brackets_is_read(name: str) -> None:
    assert parse_stat(stat_of(name, 4200)) == (name, 4200)


def test_a_name_that_the_kernel_cut_is_completed_from_the_command_line() -> None:
    stat = stat_of("tritonserver-lo", 1)
    assert describe(stat, "/opt/tritonserver-long\0--port\0001\0")["name"] == "tritonserver-long"
    assert describe(stat, "VLLM::worker\0")["name"] == "tritonserver-lo"


def test_a_process_without_a_command_line_has_none() -> None:
    assert describe(stat_of("kworker", 1), "") == {"name": "kworker", "command": None}
    assert parse_cmdline("\0\0") == []
    assert parse_cmdline("a\0\0b\0") == ["a", "", "b"]


def test_a_process_is_who_proc_says_and_another_one_when_its_pid_is_used_again(tmp_path: Path) -> None:
    files = {
        "/proc/stat": STAT,
        "/etc/passwd": "root:x:0:0::/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\nbroken line\n",
        "/proc/7/stat": stat_of("python3", 4200),
        "/proc/7/cmdline": "python3\0train.py\0",
        "/proc/7/status": "Name:\tpython3\nUid:\t0\t1000\t1000\t1000\n",
    }
    table = ProcessTable(write(tmp_path, files))
    assert table.look_up(7) == {
        "name": "python3",
        "command": "python3 train.py",
        "user": "ada",
        "started_at": 1764500042.0,
        "started_ticks": 4200,
        "container": None,
        "job": None,
    }
    write(tmp_path, {"/proc/7/stat": stat_of("sh", 9900), "/proc/7/cmdline": "sh\0"})
    again = table.look_up(7)
    assert again is not None
    assert (again["name"], again["started_at"], again["started_ticks"]) == ("sh", 1764500099.0, 9900)
    (tmp_path / "proc/7/stat").unlink()
    assert table.look_up(7) is None
    assert table.look_up(8) is None


class SlowNames(Machine):
    """A server whose name service answers when it is let."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.let = threading.Event()

    def user_name(self, uid: int) -> str | None:
        self.let.wait(20)
        return {4000: "grace"}.get(uid)


def test_a_name_service_that_hangs_costs_the_name_alone(tmp_path: Path) -> None:
    machine = SlowNames(str(tmp_path))
    users = Users(machine)
    assert users.name(4000) is None
    assert users.name(4001) is None
    machine.let.set()
    names = set()
    while None in (found := (users.name(4000), users.name(4001))):
        names.add(found)
    assert found == ("grace", "4001"), "a number that nobody knows is shown as it is"


INFORMATION = "Model: \t\t NVIDIA H100\nGPU UUID: \t {uuid}\nBus Location: \t {bus}\nDevice Minor: \t {minor}\n"


def test_devices_that_the_kernel_has_and_nvml_does_not_list_are_lost(tmp_path: Path) -> None:
    folder = "/proc/driver/nvidia/gpus"
    files = {
        f"{folder}/0000:{number}:00.0/information": INFORMATION.format(
            uuid=uuid, bus=f"0000:{number}:00.0", minor=minor
        )
        for number, uuid, minor in (("18", "GPU-a", 0), ("20", "GPU-????????-????", 1), ("28", "GPU-c", 2))
    }
    files[f"{folder}/0000:28:00.0/information"] += "GPU Excluded:\t Yes\n"
    machine = write(tmp_path, files)
    known = [{"index": 0, "uuid": "GPU-a", "pci_bus_id": "00000000:18:00.0"}]
    lost, excluded = absent_devices(machine, known, [])
    assert lost.identity == {
        "index": 1,
        "uuid": None,
        "pci_bus_id": "0000:20:00.0",
        "vendor": "nvidia",
        "model": "NVIDIA H100",
        "minor_number": 1,
    }
    assert (lost.state, excluded.state) == ("lost", "excluded")


def test_devices_that_this_account_may_not_open_are_hidden_and_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = INFORMATION.format(uuid="GPU-b", bus="0000:20:00.0", minor=1)
    machine = write(tmp_path, {"/proc/driver/nvidia/gpus/0000:20:00.0/information": text, "/dev/nvidia1": ""})
    assert len(absent_devices(machine, [], [])) == 1
    monkeypatch.setattr(machine, "may_open", lambda path: path != "/dev/nvidia1")
    assert absent_devices(machine, [], []) == []


def test_a_device_that_was_there_earlier_is_lost_unless_it_is_there_again() -> None:
    machine = Machine("/nowhere")
    earlier = [
        {"index": 0, "uuid": "GPU-a", "pci_bus_id": "00000000:18:00.0"},
        {"index": 1, "uuid": "GPU-b", "pci_bus_id": "00000000:20:00.0"},
    ]
    (lost,) = absent_devices(machine, earlier[:1], earlier)
    assert lost.identity == earlier[1]
    assert absent_devices(machine, earlier, earlier) == []


def test_information_without_values_is_left_out() -> None:
    assert parse_information("Model: \t NVIDIA L4\nGPU Firmware:\nnonsense") == {"Model": "NVIDIA L4"}


def test_a_file_is_text_whatever_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xff\xfeok")
    assert Machine(str(tmp_path)).text("/file") == "\ufffd\ufffdok"
