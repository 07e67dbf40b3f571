from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from gputop.transport.reach import Proxy, connect_socket, introduced
from gputop.transport.resolve import Address, Resolver
from tests.fakes.clock import ManualClock


def listener(backlog: int = 8) -> socket.socket:
    return socket.create_server(("127.0.0.1", 0), backlog=backlog)


async def test_a_numeric_address_needs_no_name_server() -> None:
    resolver = Resolver(ManualClock())
    assert await resolver.addresses("127.0.0.1", 22) == (Address(socket.AF_INET, ("127.0.0.1", 22)),)
    assert (await resolver.addresses("::1", 22))[0].family == socket.AF_INET6


async def test_a_name_that_cannot_be_is_an_error_of_the_resolver_and_asked_again_later() -> None:
    resolver = Resolver(ManualClock())
    for _ in range(2):
        with pytest.raises(socket.gaierror):
            await resolver.addresses("a" * 300 + ".invalid", 22)
    await resolver.close()


async def test_an_answer_is_kept_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    true = socket.getaddrinfo

    def counting(host: str, *args: object, **fields: object) -> object:
        asked.append(host)
        return true("127.0.0.1", *args, **fields)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", counting)
    clock = ManualClock()
    resolver = Resolver(clock)
    await asyncio.gather(*(resolver.addresses("gpu", 22) for _ in range(9)))
    assert asked == ["gpu"]
    await clock.advance(61)
    await resolver.addresses("gpu", 22)
    assert asked == ["gpu"] * 2


async def test_a_dead_address_does_not_hold_up_a_living_one() -> None:
    with listener() as living, listener(backlog=0) as full:
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())  # nobody accepts: further connections get no answer
        try:
            addresses = [Address(socket.AF_INET, full.getsockname()), Address(socket.AF_INET, living.getsockname())]
            async with asyncio.timeout(10):
                sock = await connect_socket(addresses)
            assert sock.getpeername() == living.getsockname()
            sock.close()
        finally:
            for filler in fillers:
                filler.close()


async def test_when_no_address_answers_the_first_error_is_raised() -> None:
    with listener() as gone:
        address = Address(socket.AF_INET, gone.getsockname())
    with pytest.raises(ConnectionRefusedError):
        await connect_socket([address, address])


async def test_a_server_that_hangs_up_counts_as_an_answer() -> None:
    with listener() as server:
        sock = await connect_socket([Address(socket.AF_INET, server.getsockname())])
        waiting = asyncio.create_task(introduced(sock))
        await asyncio.sleep(0)
        assert not waiting.done()
        server.accept()[0].close()
        async with asyncio.timeout(10):
            assert await waiting == b""
        sock.close()


async def test_the_first_bytes_are_looked_at_and_stay() -> None:
    with listener() as server:
        sock = await connect_socket([Address(socket.AF_INET, server.getsockname())])
        accepted, _ = server.accept()
        with accepted:
            accepted.sendall(b"HTTP/1.1 400")
            async with asyncio.timeout(10):
                assert await introduced(sock) == b"HTTP/1.1 400"
        assert sock.recv(100) == b"HTTP/1.1 400"
        sock.close()


async def test_a_proxy_command_is_run_by_a_shell_and_ends_with_all_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    proxy = await Proxy.start(
        f"sh -c 'echo $$ > {pids}; sleep 1000 & echo $! >> {pids}; echo hello; echo oh >&2; wait'"
    )
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(10):
        assert await loop.sock_recv(proxy.sock, 100) == b"hello\n"
        while not proxy.said:
            await asyncio.sleep(0.01)
    assert proxy.said == b"oh\n"
    await proxy.close()
    async with asyncio.timeout(10):
        for pid in pids.read_text().split():
            while is_running(int(pid)):
                await asyncio.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[1]
    except (ProcessLookupError, FileNotFoundError):
        return False
