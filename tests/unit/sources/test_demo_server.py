"""The demo server is a real SSH server, and it leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path

import asyncssh
import pytest

from gputop.domain.host import HostSpec
from gputop.probes import bundle
from gputop.probes.decode import FrameLine, HelloLine, Line, decode
from gputop.probes.reader import WireReader
from gputop.sources.demo import condition, plan
from gputop.sources.demo.direct import last_sample
from gputop.sources.demo_server import DemoFailed, DemoHandle, start_demo

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
HOSTS, SEED = 6, 7
TOKEN = "token-of-the-test"
DEADLINE_SECONDS = 20.0


@pytest.fixture(scope="module")
def demo() -> Iterator[DemoHandle]:
    """Six hosts in which time stands still."""
    with start_demo(HOSTS, SEED, frozen_at=AT) as running:
        yield running


def connect(spec: HostSpec) -> AbstractAsyncContextManager[asyncssh.SSHClientConnection]:
    return asyncssh.connect(
        spec.address or "",
        spec.port or 0,
        username=spec.user,
        client_keys=list(spec.identity),
        known_hosts=list(spec.known_hosts or ()),
        config=None,
        agent_path=None,
    )


async def start_agent(connection: asyncssh.SSHClientConnection, interval: float) -> asyncssh.SSHClientProcess[bytes]:
    payload = bundle.bundle().payload
    process = await connection.create_process(bundle.command(len(payload), TOKEN), encoding=None)
    process.stdin.write(payload + b'options {"interval": %f}\n' % interval)
    return process


async def lines(process: asyncssh.SSHClientProcess[bytes], count: int) -> list[Line]:
    """The next `count` lines of the protocol; fewer when the agent ends before."""
    reader = WireReader(TOKEN)
    found: list[Line] = []
    async with asyncio.timeout(DEADLINE_SECONDS):
        while len(found) < count and (data := await process.stdout.read(65536)):
            for body in reader.feed(data):
                if body:
                    line = decode(body)
                    assert isinstance(line, Line), line
                    found.append(line)
    return found


def of_kind(demo: DemoHandle, *, reachable: bool, silent: bool) -> HostSpec:
    return next(
        spec
        for host, spec in zip(plan(SEED, HOSTS), demo.specs, strict=True)
        for trouble in [condition(host, last_sample(host, AT.timestamp()))]
        if trouble.is_reachable is reachable and trouble.is_silent is silent
    )


async def test_a_host_greets_and_sends_frames_on_its_tick(demo: DemoHandle) -> None:
    async with connect(of_kind(demo, reachable=True, silent=False)) as connection:
        process = await start_agent(connection, 0.1)
        hello, *frames = await lines(process, 4)
    assert isinstance(hello, HelloLine)
    assert [line.n for line in frames if isinstance(line, FrameLine)] == [1, 2, 3]


async def test_lines_of_the_client_are_obeyed(demo: DemoHandle) -> None:
    async with connect(of_kind(demo, reachable=True, silent=False)) as connection:
        process = await start_agent(connection, 3600.0)
        await lines(process, 2)
        process.stdin.write(b"sample\n")
        assert [type(line) for line in await lines(process, 1)] == [FrameLine]
        process.stdin.write(b"\ninterval 1800\n")
        (frame,) = await lines(process, 1)
        assert isinstance(frame, FrameLine)
        assert frame.interval == 1800
        process.stdin.write(b"stop\n")
        (bye,) = await lines(process, 1)
        async with asyncio.timeout(DEADLINE_SECONDS):
            await process.wait_closed()
    assert (type(bye).__name__, process.exit_status) == ("ByeLine", 0)


async def test_the_agent_ends_at_the_end_of_its_input(demo: DemoHandle) -> None:
    async with connect(of_kind(demo, reachable=True, silent=False)) as connection:
        process = await start_agent(connection, 3600.0)
        process.stdin.write_eof()
        await lines(process, 99)
        async with asyncio.timeout(DEADLINE_SECONDS):
            await process.wait_closed()
    assert process.exit_status == 0


async def test_nothing_is_run_but_what_is_simulated_says_so(demo: DemoHandle) -> None:
    async with connect(of_kind(demo, reachable=True, silent=False)) as connection:
        ran = await connection.run("cat /etc/passwd")
    assert ran.exit_status == 127
    assert ran.stdout == "cat: not found: this host is simulated by the demo of gputop\n"


async def test_a_short_payload_is_told_by_the_exit_code(demo: DemoHandle) -> None:
    async with connect(of_kind(demo, reachable=True, silent=False)) as connection:
        process = await connection.create_process(bundle.command(1000, TOKEN), encoding=None)
        process.stdin.write(b"too short")
        process.stdin.write_eof()
        async with asyncio.timeout(DEADLINE_SECONDS):
            await process.wait_closed()
    assert process.exit_status == 97


async def test_another_key_is_refused(demo: DemoHandle) -> None:
    spec = of_kind(demo, reachable=True, silent=False)
    stranger = asyncssh.generate_private_key("ssh-ed25519")
    with pytest.raises(asyncssh.PermissionDenied):
        await asyncssh.connect(
            spec.address or "",
            spec.port or 0,
            username=spec.user,
            client_keys=[stranger],
            known_hosts=list(spec.known_hosts or ()),
            config=None,
            agent_path=None,
        )


def test_every_host_has_a_key_of_its_own(demo: DemoHandle) -> None:
    (path,) = demo.specs[0].known_hosts or ()
    keys = [line.split()[2] for line in Path(path).read_text().splitlines()]
    assert len(set(keys)) == len(keys) == HOSTS


async def test_an_unreachable_host_refuses_connections(demo: DemoHandle) -> None:
    spec = of_kind(demo, reachable=False, silent=False)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(spec.address, spec.port)


async def test_a_silent_host_tells_its_values_once_and_then_nothing() -> None:
    with start_demo(HOSTS, SEED, frozen_at=AT) as demo:
        spec = of_kind(demo, reachable=True, silent=True)
        async with connect(spec) as connection:
            first = await lines(await start_agent(connection, 0.1), 2)
            process = await start_agent(connection, 0.1)
            process.stdin.write(b"sample\nstop\n")
            second = await lines(process, 99)
    assert [type(line).__name__ for line in first] == ["HelloLine", "FrameLine"]
    assert [type(line).__name__ for line in second] == ["HelloLine", "ByeLine"]


def test_only_the_owner_can_read_its_files(demo: DemoHandle) -> None:
    assert stat.S_IMODE(demo.folder.stat().st_mode) == 0o700
    assert not any(stat.S_IMODE(path.stat().st_mode) & 0o077 for path in demo.folder.rglob("*"))


def test_stopping_leaves_no_process_no_port_and_no_file() -> None:
    demo = start_demo(HOSTS, SEED, frozen_at=AT)
    ports = [spec.port or 0 for spec in demo.specs]
    demo.stop()
    demo.stop()
    assert not demo.folder.exists()
    assert not exists(demo.process_id)
    assert not any(answers(port) for port in ports)


def test_nothing_is_left_when_the_server_was_killed() -> None:
    demo = start_demo(HOSTS, SEED, frozen_at=AT)
    os.kill(demo.process_id, signal.SIGKILL)
    demo.stop()
    assert not demo.folder.exists()
    assert not exists(demo.process_id)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["kill -9", "kill"])
def test_nothing_is_left_when_gputop_is_killed(how: signal.Signals) -> None:
    program = (
        "from gputop.sources.demo_server import start_demo\n"
        f"demo = start_demo({HOSTS}, {SEED})\n"
        "print(demo.process_id, demo.folder, flush=True)\n"
        "input()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stdin is not None
    with parent:
        child, folder = parent.stdout.readline().split()
        assert Path(folder).exists()
        assert exists(int(child))
        parent.send_signal(how)
        parent.wait(DEADLINE_SECONDS)
        until_gone(int(child))
    assert not Path(folder).exists()


def test_a_server_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.sources.demo_server.CHILD", "gputop.sources.no_such_module")
    with pytest.raises(DemoFailed, match="no_such_module"):
        start_demo(HOSTS, SEED)


def exists(process: int) -> bool:
    """Whether a process runs (one that waits to be reaped does not)."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until_gone(process: int) -> None:
    end = time.monotonic() + DEADLINE_SECONDS
    while exists(process):
        assert time.monotonic() < end, "the demo server outlived gputop"
        time.sleep(0.02)


def answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_many_hosts_fit_under_the_usual_limit_of_open_files() -> None:
    program = (
        "import resource\n"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))\n"
        "from gputop.sources.demo_server import start_demo\n"
        "with start_demo(300, 1) as demo:\n"
        "    print(len(demo.specs))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (ran.stdout, ran.stderr) == ("300\n", "")
