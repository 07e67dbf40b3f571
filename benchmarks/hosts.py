"""Streaming hosts for the measurements: SSH servers on loopback that speak the wire protocol from prepared frames.

    python -m benchmarks.hosts HOSTS FOLDER

Listens on 127.0.1.1, 127.0.1.2, … (one address a host) and writes into FOLDER an inventory and the keys to reach them.
Prints one line when all listen; ends when its standard input does. Frames are made before the first connection, by the
demo fleet's functions, and only their number, time and token are filled in while streaming: the hosts cost little, so
that two cores are left to gputop.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from gputop.probes.bundle import parse_command
from gputop.sources import demo

DEVICES = 8
MOMENTS = 64
"""Different frames of a host; then they begin again."""
PATTERNS = 16
"""Hosts with values of their own; the others repeat them."""
START = 1_764_550_000.0
INTERVAL_SECONDS = 1.0

USUAL = {
    "state",
    "utilization_percent",
    "memory_utilization_percent",
    "memory_used_bytes",
    "temperature_celsius",
    "memory_temperature_celsius",
    "power_watts",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "performance_state",
    "throttle_reasons",
    "pcie_tx_bytes_per_second",
    "pcie_rx_bytes_per_second",
    "processes_known",
}
"""Columns of every frame; the others change seldom and come with every `SELDOM`th, as the agent sends them."""
SELDOM = 10


@dataclass(frozen=True, slots=True)
class Pattern:
    hello: str
    """JSON without its first brace."""
    frames: tuple[str, ...]
    """JSON from the `host` key on."""


def patterns(count: int) -> list[Pattern]:
    """Prepared messages of hosts with eight whole devices and no trouble."""
    hosts = [host for host in demo.plan(10 * count) if is_plain(host)]
    made = []
    for host in hosts[:count]:
        frames = []
        for moment in range(MOMENTS):
            message = demo.frame(host, START + moment, moment)
            if moment % SELDOM:
                message["columns"] = {name: column for name, column in message["columns"].items() if name in USUAL}
            for key in ("k", "n", "t", "interval", "problems", "device_problems"):
                message.pop(key, None)
            frames.append(json.dumps(message, separators=(",", ":"))[1:])
        hello = demo.hello(host, START) | {"interval": INTERVAL_SECONDS, "problems": []}
        made.append(Pattern(json.dumps(hello, separators=(",", ":")), tuple(frames)))
    return made


def is_plain(host: demo.DemoHost) -> bool:
    """Whether a demo host has eight whole devices and no trouble."""
    return host.devices == DEVICES and not host.is_mig and demo.condition(host, START) == demo.Condition()


async def serve(process: asyncssh.SSHServerProcess[bytes], pattern: Pattern) -> None:
    """The agent's side of one session."""
    asked = parse_command(process.command or "")
    if asked is None:
        process.exit(127)
        return
    size, token = asked
    process.stdout.write(f"{token}\n".encode())
    await process.stdin.readexactly(size)
    process.stdout.write(f"{token} {pattern.hello}\n".encode())
    ended = asyncio.ensure_future(process.stdin.read())
    number = 0
    begun = time.monotonic()
    while not ended.done():
        head = f'{token} {{"k":"frame","n":{number},"t":{time.time():.3f},"interval":{INTERVAL_SECONDS},'
        process.stdout.write(head.encode() + pattern.frames[number % MOMENTS].encode() + b"\n")
        number += 1
        await asyncio.wait([ended], timeout=max(0.0, begun + number * INTERVAL_SECONDS - time.monotonic()))
    process.exit(0)


class Server(asyncssh.SSHServer):
    """Lets in whoever has the key of FOLDER."""


def address(number: int) -> str:
    return f"127.0.{1 + number // 250}.{1 + number % 250}"


async def main(count: int, folder: Path) -> None:
    host_key = asyncssh.generate_private_key("ssh-ed25519")
    user_key = asyncssh.generate_private_key("ssh-ed25519")
    identity = folder / "id_ed25519"
    user_key.write_private_key(identity)
    identity.chmod(0o600)
    authorized = asyncssh.import_authorized_keys(user_key.export_public_key().decode())
    prepared = patterns(min(count, PATTERNS))

    def session(pattern: Pattern) -> object:
        async def run(process: asyncssh.SSHServerProcess[bytes]) -> None:
            try:
                await serve(process, pattern)
            except (asyncio.IncompleteReadError, asyncssh.BreakReceived, ConnectionError, BrokenPipeError):
                process.close()

        return run

    port = 0
    lines = []
    for number in range(count):
        server = await asyncssh.create_server(
            Server,
            address(number),
            port,
            server_host_keys=[host_key],
            authorized_client_keys=authorized,
            process_factory=session(prepared[number % len(prepared)]),  # type: ignore[arg-type]
            encoding=None,
            line_editor=False,
        )
        port = port or server.get_port()
        lines.append(f"  - {{name: bench{number:04}, address: {address(number)}}}")
    public = host_key.export_public_key().decode().split()
    known = folder / "known_hosts"
    known.write_text("".join(f"[{address(n)}]:{port} {public[0]} {public[1]}\n" for n in range(count)))
    defaults = (
        f"{{port: {port}, user: bench, identity: {identity}, known_hosts: {known}, ssh_config: null, interval: 1s}}"
    )
    (folder / "inventory.yaml").write_text(f"defaults: {defaults}\nhosts:\n" + "\n".join(lines) + "\n")
    print("listening", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2])))
