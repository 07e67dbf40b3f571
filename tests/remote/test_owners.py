"""Containers, pods and jobs of processes: cgroup files as runtimes write them, and who a pid of a driver is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.probes.smi_route import SmiDialect
from gputop.remote.machine import Machine
from gputop.remote.owners import Owner, docker_name, job_of_environment, parse_cgroup, pod_name, short_id
from gputop.remote.processes import FIRST_PID_NAMESPACE, ProcessTable
from tests.needs import need, need_root
from tests.remote.agents import NvmlFixture, talking

ID = "4f797c539e6c745de61a93ca3ff892358ecbcaccd8414d5db545c38428142970"
OTHER = "9ec39b91f3d70e1beff50a308f77067065ea6be0d91a3378375056cd4422cf3d"
UID = "3c9a7a16-5c4e-4d8b-9a54-0f6f2a1b7c3d"
CGROUPS = Path(__file__).parents[1] / "fixtures" / "cgroups"


@pytest.mark.parametrize(
    ("name", "container", "pod", "job"),
    [
        ("none-v2.txt", None, None, None),
        ("none-v1.txt", None, None, None),
        ("docker-v1-cgroupfs.txt", ID, None, None),
        ("docker-v1-systemd.txt", ID, None, None),
        ("docker-v2.txt", ID, None, None),
        ("containerd-v2.txt", ID, None, None),
        ("podman-v2-root.txt", ID, None, None),
        ("podman-v2-rootless.txt", ID, None, None),
        ("podman-v2-conmon.txt", None, None, None),
        ("lxc-v2.txt", "train-01", None, None),
        ("kubepods-v1-cgroupfs.txt", ID, UID, None),
        ("kubepods-v1-containerd-colons.txt", ID, UID, None),
        ("kubepods-v2-containerd.txt", ID, UID, None),
        ("kubepods-v2-crio.txt", ID, UID, None),
        ("kubepods-v2-static-pod.txt", ID, "0123456789abcdef0123456789abcdef", None),
        ("kubepods-v2-in-docker.txt", ID, UID, None),
        ("slurm-22-v1.txt", None, None, "4242"),
        ("slurm-22-v2.txt", None, None, "4242"),
        ("slurm-24-v2.txt", None, None, "918273"),
        ("slurm-24-v2-podman.txt", ID, None, "918273"),
    ],
)
def test_what_runtimes_write_is_understood(name: str, container: str | None, pod: str | None, job: str | None) -> None:
    owner = parse_cgroup((CGROUPS / name).read_text())
    assert (owner.container_id, owner.pod_uid, owner.job) == (container, pod, job)


def test_every_cgroup_file_has_its_test() -> None:
    parametrized = {argument.args[0] if hasattr(argument, "args") else argument[0] for argument in _cases()}
    assert {path.name for path in CGROUPS.glob("*.txt")} == parametrized


def _cases() -> list[tuple[str, ...]]:
    (mark,) = test_what_runtimes_write_is_understood.pytestmark  # type: ignore[attr-defined]
    return list(mark.args[1])


@given(st.text())
def test_no_text_is_too_odd(text: str) -> None:
    owner = parse_cgroup(text)
    assert owner.job is None or owner.job.isdigit()
    job_of_environment(text)
    docker_name(text)


def test_a_path_that_only_looks_like_a_job_or_a_container_is_none() -> None:
    for path in (f"/system.slice/{ID}0.scope", "/user.slice/job_17", "/system.slice/slurmd.service", "/slurm/job_1"):
        owner = parse_cgroup(f"0::{path}\n")
        assert (owner.container_id, owner.job) == (None, None), path


def test_a_job_without_a_cgroup_is_known_by_its_environment() -> None:
    assert job_of_environment("HOME=/root\0SLURM_JOB_ID=77\0SLURM_JOB_ID_X=1") == "77"
    assert job_of_environment("XSLURM_JOB_ID=77\0SLURM_JOB_ID=a;rm\0") is None


def owned(container: str | None, pod: str | None = None) -> Owner:
    owner = Owner()
    owner.container_id, owner.pod_uid = container, pod
    return owner


def test_a_pod_has_the_name_that_its_logs_have_and_no_other() -> None:
    containers = [f"vllm-0_serving_engine-{ID}.log", "broken.log", f"x_y-{OTHER}.log"]
    pods = [f"serving_vllm-0_{UID}", "kube-system_proxy_0123456789abcdef0123456789abcdef"]
    assert pod_name(owned(ID, UID), containers, pods) == "serving/vllm-0/engine"
    assert pod_name(owned(OTHER, UID), containers, pods) == "serving/vllm-0"
    assert pod_name(owned(OTHER, "0123456789abcdef0123456789abcdef"), [], pods) == "kube-system/proxy"
    assert pod_name(owned(OTHER, UID), [], []) == f"pod {UID}"
    assert pod_name(owned(OTHER), containers, pods) is None


def test_ids_are_short_and_names_are_whole() -> None:
    assert short_id(ID) == "4f797c539e6c"
    assert short_id("train-01-with-a-long-name") == "train-01-with-a-long-name"
    assert docker_name('{"Name": "/vllm-chat", "State": {}}') == "vllm-chat"
    assert docker_name('["Name"]') is None


# who a pid is


class Server(Machine):
    """A folder with the files of a server, and a clock."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.path = root
        self.now = 1000.0
        self.write("/proc/stat", "cpu  1 2 3 4\nbtime 1764500000\n")
        self.write("/etc/passwd", "ada:x:1000:1000::/home/ada:/bin/sh\n")

    def boot_seconds(self) -> float:
        return self.now

    def write(self, name: str, text: str) -> None:
        path = self.path / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def point(self, name: str, target: str) -> None:
        path = self.path / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    def process(self, pid: int, name: str, started: float, cgroup: str = "0::/\n") -> None:
        ticks = round(started * self.clock_ticks)
        self.write(f"/proc/{pid}/stat", f"{pid} ({name}) S 1 {' '.join(['0'] * 17)} {ticks} 0 0")
        self.write(f"/proc/{pid}/cmdline", f"{name}\0--train\0")
        self.write(f"/proc/{pid}/status", "Uid:\t1000\t1000\t1000\t1000\n")
        self.write(f"/proc/{pid}/cgroup", cgroup)


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


def test_a_process_has_its_container_and_its_job(server: Server) -> None:
    server.process(7, "python3", 500.0, (CGROUPS / "slurm-24-v2-podman.txt").read_text())
    server.process(8, "python3", 500.0)
    server.write("/proc/8/environ", "SLURM_JOB_ID=31\0")
    server.process(9, "vllm", 500.0, (CGROUPS / "docker-v2.txt").read_text())
    server.process(10, "vllm", 500.0, (CGROUPS / "kubepods-v2-crio.txt").read_text())
    server.write(f"/var/lib/docker/containers/{ID}/config.v2.json", '{"Name": "/chat"}')
    table = ProcessTable(server)
    told = {pid: table.look_up(pid) or {} for pid in (7, 8, 9, 10)}
    assert (told[7]["container"], told[7]["job"]) == ("chat", "918273")
    assert (told[8]["container"], told[8]["job"]) == (None, "31")
    assert told[9]["container"] == "chat"
    assert told[10]["container"] == f"pod {UID}"
    server.write(f"/var/log/containers/vllm-0_serving_engine-{ID}.log", "")
    table.forget()
    assert (table.look_up(10) or {})["container"] == "serving/vllm-0/engine"


def test_in_a_container_a_pid_is_somebody_only_if_that_one_has_a_device_open(server: Server) -> None:
    server.point("/proc/self/ns/pid", "pid:[4026532871]")
    for pid in (7, 8, 9):
        server.process(pid, "python3", 500.0)
    server.point("/proc/7/fd/3", "/dev/nvidia0")
    server.point("/proc/8/fd/3", "/dev/null")
    server.point("/proc/8/fd/4", "/home/dev/nvidia.txt")
    table = ProcessTable(server)
    assert (table.look_up(7) or {})["name"] == "python3"
    assert table.look_up(8) == {}
    assert table.look_up(9) == {}
    assert table.look_up(10) == {}, "nobody of that pid is here, so nobody knows a name for it"


def test_outside_of_containers_pids_are_the_drivers_own(server: Server) -> None:
    server.point("/proc/self/ns/pid", FIRST_PID_NAMESPACE)
    server.process(7, "python3", 500.0)
    table = ProcessTable(server)
    assert (table.look_up(7) or {})["name"] == "python3"
    assert table.look_up(8) is None


def test_a_process_that_started_after_its_pid_was_named_is_another_one(server: Server) -> None:
    table = ProcessTable(server)
    assert table.look_up(7) is None
    server.now = 1004.0
    server.process(7, "bash", 1003.5)
    assert table.look_up(7) == {}
    server.now = 1008.0
    assert table.look_up(7) == {}
    # The driver has not named the pid for a while: whoever has it now is the one it means.
    server.now = 1020.0
    assert (table.look_up(7) or {})["name"] == "bash"


async def test_an_agent_in_a_real_container_gives_no_wrong_name(
    nvml: NvmlFixture, library: str, tmp_path: Path
) -> None:
    need_root("a namespace of pids needs root")
    unshare = need("unshare")
    python = tmp_path / "python3"
    # In there the shell is process 1.
    python.write_text(
        f"#!/bin/sh\nexec {unshare} --pid --fork --kill-child --mount-proc "
        f'/bin/sh -c \'"$0" "$@"; exit $?\' {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    nvml.set(gpu__0__compute="1:100")
    async with talking(nvml_library=library, python=str(python)) as talk:
        frame = await talk.next()
    (process,) = frame.processes
    assert (process.pid, process.memory_used_bytes) == (1, 100 * 1024 * 1024)
    assert (process.name, process.command, process.user, process.started_at) == (None, None, None, None)


@pytest.mark.parametrize(
    ("namespace", "device", "name"),
    [
        (FIRST_PID_NAMESPACE, "", "python3"),
        ("pid:[4026532871]", "", None),
        ("pid:[4026532871]", "lrwx------ 1 root root 64 Dec 1 3 -> /dev/nvidia0", "python3"),
    ],
)
def test_the_shell_script_knows_the_same_of_a_pid(namespace: str, device: str, name: str | None) -> None:
    dialect = SmiDialect("t", 1.0)
    cgroup = (CGROUPS / "slurm-22-v1.txt").read_text().splitlines()
    lines = [
        f"pid_namespace {namespace}",
        'help "index"',
        'help "uuid"',
        "help exit 0",
        "stream1 0, GPU-a",
        "ask_apps pid 5",
        "ask_apps GPU-a, 7, wrong-name, 100",
        "ask_apps exit 0",
        "pid 7",
        f"pid_stat 7 (python3) S 1 {' '.join(['0'] * 17)} 500 0 0",
        "pid_cmdline python3\x1f--train",
        "pid_user ada",
        *(f"pid_cgroup {line}" for line in cgroup),
        *([f"pid_device {device}"] if device else []),
        "time 1764550000",
        "done ",
    ]
    (_, frame) = [line for text in lines for line in dialect.take(text.encode(), 1.0)]
    processes = frame.processes  # type: ignore[union-attr]
    assert processes.pid == [7]
    assert (processes.name or [None]) == [name]
    assert (processes.job or [None]) == ["4242" if name else None]
