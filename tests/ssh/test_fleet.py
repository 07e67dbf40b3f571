"""The whole way, from specs to the Fleet, over real OpenSSH: true frames, and each trouble its own row."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from gputop.domain.clock import SystemClock
from gputop.domain.host import Host, HostSpec
from gputop.domain.link import LinkState
from gputop.domain.problem import ProblemKind
from gputop.fleet.collector import Collector
from gputop.fleet.fleet import Fleet
from gputop.sources.agent import AgentSource
from gputop.transport.ssh import SshTransport
from tests.needs import need_that
from tests.ssh.conftest import Servers

pytestmark = pytest.mark.sshd

SETTLED = frozenset(LinkState) - {LinkState.PENDING, LinkState.CONNECTING}


def a_collector(specs: list[HostSpec], folder: Path) -> Collector:
    clock = SystemClock()
    transport = SshTransport(specs, clock=clock, own_known_hosts=folder / "own", connect_seconds=2)
    return Collector([AgentSource("ssh", transport, specs, clock)], clock)


async def watch(specs: list[HostSpec], folder: Path) -> Fleet:
    """The Fleet once every host has an answer."""
    before = asyncio.all_tasks()
    async with asyncio.timeout(45), aclosing(a_collector(specs, folder).updates()) as updates:
        async for update in updates:
            if len(update.fleet.hosts) == len(specs) and all(host.link.state in SETTLED for host in update.fleet):
                break
    assert asyncio.all_tasks() == before
    return update.fleet


def row(host: Host) -> tuple[LinkState, ProblemKind | None]:
    return host.link.state, host.link.problem.kind if host.link.problem else None


async def test_each_trouble_is_one_clear_row_and_all_other_hosts_go_on(servers: Servers, tmp_path: Path) -> None:
    silent = HostSpec(name="silent", address="127.0.0.1", port=servers.silent_port, ssh_config=())
    nobody = HostSpec(name="nobody", address="127.0.0.1", port=1, ssh_config=())
    specs = [
        servers.spec(servers.with_gpus, nvml_library=str(servers.nvml)),
        servers.spec(servers.gate),
        servers.spec(servers.inner_1, jump=("gate",)),
        servers.spec(servers.inner_2, jump=("gate",)),
        servers.spec(servers.refusing),
        servers.spec(servers.password),
        servers.spec(servers.changed),
        servers.spec(servers.unknown),
        servers.spec(servers.other_type),
        servers.spec(servers.no_shell),
        servers.spec(servers.takes_encrypted, name="locked", identity=(str(servers.encrypted),)),
        silent,
        nobody,
    ]
    fleet = await watch(specs, tmp_path)
    assert {host.name: row(host) for host in fleet} == {
        "with-gpus": (LinkState.OK, None),
        "gate": (LinkState.DEGRADED, ProblemKind.TOOL_MISSING),
        "inner-1": (LinkState.DEGRADED, ProblemKind.TOOL_MISSING),
        "inner-2": (LinkState.DEGRADED, ProblemKind.TOOL_MISSING),
        "refusing": (LinkState.AUTH_FAILED, ProblemKind.AUTH_REFUSED),
        "password": (LinkState.AUTH_FAILED, ProblemKind.PASSWORD_REQUIRED),
        "changed": (LinkState.HOST_KEY_REJECTED, ProblemKind.HOST_KEY_CHANGED),
        "unknown": (LinkState.HOST_KEY_REJECTED, ProblemKind.HOST_KEY_UNKNOWN),
        "other-type": (LinkState.HOST_KEY_REJECTED, ProblemKind.HOST_KEY_OTHER_TYPE),
        "no-shell": (LinkState.UNSUPPORTED, ProblemKind.NO_SHELL),
        "locked": (LinkState.AUTH_FAILED, ProblemKind.KEY_ENCRYPTED),
        "silent": (LinkState.UNREACHABLE, ProblemKind.TIMED_OUT),
        "nobody": (LinkState.UNREACHABLE, ProblemKind.CONNECTION_REFUSED),
    }
    for host in fleet:
        problem = host.link.problem
        assert problem is None or (problem.summary and problem.hint), host.name
    frame = fleet.hosts["with-gpus"].frame
    assert frame is not None
    assert frame.route == "nvml"
    assert [device.model for device in frame.devices] == ["NVIDIA H100 80GB HBM3"] * 8
    assert fleet.hosts["inner-2"].frame is not None


async def test_login_files_that_print_noise_and_take_three_seconds_do_no_harm(servers: Servers, tmp_path: Path) -> None:
    need_that(servers.fleet.own_users, "needs root and mount namespaces for an account with its own login files")
    noisy = servers.spec(servers.noisy, nvml_library=str(servers.nvml))
    frame = (await watch([noisy], tmp_path)).hosts["noisy"].frame
    assert frame is not None
    assert frame.facts.hostname
    assert "***" not in repr(frame)


async def test_nothing_of_gputop_runs_on_a_server_after_the_end(servers: Servers, tmp_path: Path) -> None:
    spec = servers.spec(servers.second)
    assert (await watch([spec], tmp_path)).hosts["second"].frame is not None
    marker = f"GPUTOP_TEST_SERVER={servers.second.folder}".encode()

    def left() -> list[str]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if marker in (entry / "environ").read_bytes():
                        found.append((entry / "cmdline").read_bytes().decode(errors="replace"))
                except OSError:
                    continue
        return found

    async with asyncio.timeout(5):
        while left():
            await asyncio.sleep(0.05)
