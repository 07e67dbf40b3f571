"""Fleets for tests of the screen, one with every link state and every oddity, and large ones; waiting for a screen."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import structs
from textual.pilot import Pilot

from gputop.domain.host import Endpoint, Host, HostSpec
from gputop.domain.link import Link, LinkChange, LinkState
from gputop.domain.problem import Problem, ProblemKind
from gputop.domain.reading import Device, DeviceColumns, Frame, HostFacts, HostReading, Partition, ProcessReading
from gputop.fleet.fleet import Fleet
from gputop.fleet.series import SeriesStore
from gputop.tui import theme
from gputop.tui.app import GputopApp, ScreenOptions

NOW = datetime(2026, 12, 1, 14, 3, 22, tzinfo=UTC)
GIB = 1024**3


def dark() -> Any:
    """The default theme."""
    return theme.named(theme.DEFAULT)


def an_app(
    fleet: Fleet, series: SeriesStore | None = None, *, view: str = "hosts", ascii_only: bool = False, **options: Any
) -> GputopApp:
    """The app on a Fleet that does not change by itself."""
    look = ScreenOptions(theme=dark(), view=view, ascii_only=ascii_only, zone=UTC, title="test", **options)
    return GputopApp(look, fixed=(fleet, series or SeriesStore()))


def a_gpu_frame(
    name: str,
    utilization: list[float | None],
    *,
    memory: float = 0.5,
    model: str = "NVIDIA H100 80GB HBM3",
    at: datetime = NOW,
    processes: tuple[ProcessReading, ...] = (),
    partitions: tuple[Partition, ...] = (),
    **columns: Any,
) -> Frame:
    count = len(utilization)
    values: dict[str, Any] = {
        "state": ["ok"] * count,
        "utilization_percent": utilization,
        "memory_used_bytes": [int(memory * 80 * GIB)] * count,
        "memory_total_bytes": [80 * GIB] * count,
        "temperature_celsius": [60.0 + position for position in range(count)],
        "power_watts": [100.0 + 5 * (use or 0) for use in utilization],
        "power_limit_watts": [700.0] * count,
        "sm_clock_mhz": [1980.0] * count,
        "throttle_reasons": [[]] * count,
        "processes_known": [True] * count,
    } | columns
    return Frame(
        sequence=7,
        sampled_at=at - timedelta(seconds=0.4),
        received_at=at - timedelta(seconds=0.4),
        interval_seconds=2.0,
        route="nvml",
        facts=HostFacts(hostname=name, kernel_version="5.15.0-113-generic", driver_version="550.90.07",
                        cuda_version="12.4", cores=256, boot_id="7c1e0000-1111", os_name="Ubuntu 22.04.5 LTS"),
        host=HostReading(uptime_seconds=41 * 86400.0, cpu_utilization_percent=12.0, load_1m=31.0,
                         memory_used_bytes=900 * GIB, memory_total_bytes=2000 * GIB, agent_memory_bytes=12 * 1024**2),
        devices=tuple(
            Device(index=index, uuid=f"GPU-{name}-{index}", pci_bus_id=f"00000000:{16 + index:02X}:00.0", model=model)
            for index in range(count)
        ),
        columns=DeviceColumns(**values),
        processes=processes,
        partitions=partitions,
    )  # fmt: skip


def a_process(device: int, pid: int = 88412, **fields: Any) -> ProcessReading:
    plain: dict[str, Any] = {
        "name": "python", "command": "python train.py --config configs/70b.yaml", "user": "alice", "kind": "compute",
        "memory_used_bytes": 40 * GIB, "started_at": NOW - timedelta(hours=5), "job": "slurm 57381",
    }  # fmt: skip
    return ProcessReading(device_index=device, pid=pid, **(plain | fields))


def a_host(
    name: str,
    frame: Frame | None = None,
    state: LinkState = LinkState.OK,
    problem: Problem | None = None,
    *,
    since: datetime = NOW - timedelta(minutes=2),
    retry_at: datetime | None = None,
    **fields: Any,
) -> Host:
    link = Link(state=state, since=since, problem=problem, retry_at=retry_at)
    spec = fields.pop("spec", None) or HostSpec(name=name, groups=("train",), labels={"rack": "r12"})
    return Host(
        spec=spec, link=link, reported=link, frame=frame, endpoint=Endpoint(address=f"10.3.0.{len(name)}", user="ops"),
        link_history=(LinkChange(state=LinkState.OK, at=NOW - timedelta(hours=5)),
                      LinkChange(state=state, at=since, summary=problem.summary if problem else None)),
        **fields,
    )  # fmt: skip


def a_problem(kind: ProblemKind, summary: str, hint: str | None = None) -> Problem:
    return Problem(kind=kind, summary=summary, hint=hint, since=NOW - timedelta(minutes=2))


def odd_fleet() -> tuple[Fleet, SeriesStore]:
    """A host in each of the ten states, a lost GPU, MIG, idle-held memory, CJK and bracketed texts."""
    lost = a_problem(
        ProblemKind.DEVICE_LOST, "GPU 5 (00000000:15:00.0) is lost", "drain, reboot; replace it if it comes back"
    )
    lost_frame = a_gpu_frame(
        "gpu-003", [97.0] * 5 + [None] + [96.0] * 2, state=["ok"] * 5 + ["lost"] + ["ok"] * 2,
        throttle_reasons=[["sw_power_cap"]] * 4 + [["hw_thermal"]] * 4,
        processes=tuple(a_process(device, 88412) for device in range(5)),
    )  # fmt: skip
    mig = a_gpu_frame(
        "mig-01", [None], model="NVIDIA A100-SXM4-80GB", memory=0.27, mig_mode=["enabled"],
        partitions=(
            Partition(device_index=0, index=1, profile="3g.40gb", gpu_instance_id=1, compute_instance_id=0,
                      memory_used_bytes=20 * GIB, memory_total_bytes=40 * GIB),
            Partition(device_index=0, index=2, profile="1g.10gb", gpu_instance_id=2, compute_instance_id=0,
                      memory_used_bytes=0, memory_total_bytes=10 * GIB),
        ),
        processes=(a_process(0, 411, user="bob", command="python serve.py", gpu_instance_id=1, compute_instance_id=0),),
    )  # fmt: skip
    refused = a_problem(ProblemKind.CONNECTION_REFUSED, "connection refused by 10.3.0.17:22")
    two_users = (a_process(0), a_process(1, 2, user="dora"))
    notebook = a_process(0, 7, user="carol", command="jupyter-lab")
    hosts = [
        a_host("gpu-001", a_gpu_frame("gpu-001", [97.0] * 8, memory=0.95, processes=two_users)),
        a_host("gpu-002", a_gpu_frame("gpu-002", [0.0] * 8, memory=0.93, processes=(notebook,))),
        a_host("gpu-003", lost_frame, LinkState.DEGRADED, lost, device_problems={5: (lost,)}),
        a_host("gpu-009", a_gpu_frame("gpu-009", [41.0] * 8, at=NOW - timedelta(seconds=40)), LinkState.STALE,
               a_problem(ProblemKind.AGENT_SILENT, "connected, but no readings come", "log in and try nvidia-smi")),
        a_host("gpu-017", a_gpu_frame("gpu-017", [88.0] * 8, at=NOW - timedelta(minutes=2)), LinkState.UNREACHABLE,
               refused, retry_at=NOW + timedelta(seconds=18)),
        a_host("mig-01", mig),
        a_host("auth-1", None, LinkState.AUTH_FAILED, a_problem(
               ProblemKind.AUTH_REFUSED, "the server refused key id_ed25519 of ops", "ssh-copy-id ops@auth-1")),
        a_host("keys-1", None, LinkState.HOST_KEY_REJECTED,
               a_problem(ProblemKind.HOST_KEY_CHANGED, "the host key is not the known one", "ask who changed it")),
        a_host("shell-1", None, LinkState.UNSUPPORTED, a_problem(ProblemKind.NO_SHELL, "the account has no shell")),
        a_host("busy-1", None, LinkState.THROTTLED,
               a_problem(ProblemKind.CONNECTION_DROPPED, "the server drops new connections"),
               retry_at=NOW + timedelta(seconds=5)),
        a_host("new-1", None, LinkState.PENDING),
        a_host("new-2", None, LinkState.CONNECTING),
        a_host("odd-1", a_gpu_frame("odd-1", [55.0] * 2, model="[0] first card", processes=(
            a_process(0, 9, user="美咲", command="[red]not red[/red] \x1b[31m\u202eevil"),
            a_process(1, 10, user="[N/A]", command='python -c "x[/bad]"')))),
    ]  # fmt: skip
    fleet = Fleet(as_of=NOW, hosts={host.name: host for host in hosts})
    return fleet, some_series(fleet)


def some_series(fleet: Fleet) -> SeriesStore:
    """Five minutes that rise and fall."""
    series = SeriesStore()
    for step in range(60):
        at = NOW - timedelta(seconds=5 * (60 - step))
        for host in fleet:
            if host.frame is None or at > host.frame.received_at:
                continue
            use = [None if value is None else max(0.0, value - (step * 7) % 30) for value in
                   host.frame.column("utilization_percent") or []]  # fmt: skip
            columns = structs.replace(host.frame.columns, utilization_percent=use)
            series.push(host.name, structs.replace(host.frame, received_at=at, columns=columns))
    return series


def wide_fleet(hosts: int, *, at: datetime = NOW, shift: int = 0) -> Fleet:
    """`hosts` hosts with eight GPUs each; every 20th is unreachable. `shift` changes the values of every host."""
    refused = a_problem(ProblemKind.CONNECTION_REFUSED, "connection refused by 10.3.0.17:22")
    made = {}
    for number in range(hosts):
        name = f"node-{number:04d}"
        use: list[float | None] = [float((number * 13 + device + shift) % 100) for device in range(8)]
        frame = a_gpu_frame(name, use, at=at)
        away = number % 20 == 7
        state = LinkState.UNREACHABLE if away else LinkState.OK
        made[name] = a_host(name, frame, state, refused if away else None)
    return Fleet(as_of=at, hosts=made)


async def until(pilot: Pilot[int], probe: Callable[[], object], tries: int = 100) -> None:
    """Wait until `probe` is true."""
    for _ in range(tries):
        if probe():
            return
        await pilot.pause(0.05)
    raise AssertionError("waited in vain")
