"""The child process of the demo server (`python -m gputop.sources.demo_child`): see `gputop.sources.demo_server`."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

import asyncssh
import msgspec

from gputop.domain.clock import SystemClock
from gputop.ports import Clock
from gputop.probes.bundle import parse_command
from gputop.remote.wire import EXIT_PAYLOAD_SHORT, SILENCE_LIMIT_SECONDS, pack
from gputop.sources.demo.direct import last_sample, sample_phase
from gputop.sources.demo.doings import Said, run
from gputop.sources.demo.hosts import INTERVAL_SECONDS, DemoHost, plan
from gputop.sources.demo.messages import Message, frame, hello, uuids
from gputop.sources.demo.ordered import (
    FOLDER,
    NONE,
    PROGRAM,
    SCRIPT,
    ordered_frame,
    ordered_hello,
    ordered_trouble,
    read_orders,
)
from gputop.sources.demo.programs import answer
from gputop.sources.demo.prompt import Prompt
from gputop.sources.demo.trouble import Condition, condition
from gputop.sources.demo_server import LOOPBACK, Order, Ready
from gputop.transport.limits import allow_open_files

PATROL_SECONDS = 0.5
"""How often hosts are looked at that come or go."""

FASTEST_SECONDS = 0.1

Channel: TypeAlias = "asyncssh.SSHServerProcess[bytes]"
Time: TypeAlias = Callable[[DemoHost], float]
"""The virtual time of a host's newest sample."""


def main() -> int:
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=Order)
    allow_open_files(4 * order.hosts + 100)  # each host takes two sockets and one for each connection
    folder = Path(tempfile.mkdtemp(prefix="gputop-demo-"))
    try:
        asyncio.run(_serve(order, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


async def _serve(order: Order, folder: Path) -> None:
    """Listen for all hosts until standard input ends."""
    clock = SystemClock()
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    loop.add_reader(0, _watch_parent, ended)
    client_key = asyncssh.generate_private_key("ssh-ed25519")
    _write_program(folder)
    served = [_Served(host, _time(order, clock), clock, client_key, folder) for host in plan(order.seed, order.hosts)]
    identity, known_hosts = folder / "id_ed25519", folder / "known_hosts"
    _write_private(identity, client_key.export_private_key())
    _write_private(known_hosts, b"".join(host.known_hosts_line for host in served))
    for host in served:
        await host.patrol()
    ready = Ready(
        folder=str(folder), known_hosts=str(known_hosts), identity=str(identity), ports=[host.port for host in served]
    )
    sys.stdout.buffer.write(msgspec.json.encode(ready) + b"\n")
    sys.stdout.buffer.flush()
    _log_to(folder / "server.log")
    while not ended.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), PATROL_SECONDS)
        for host in served:
            await host.patrol()
    for host in served:
        await host.leave()


def _watch_parent(ended: asyncio.Event) -> None:
    if not os.read(0, 4096):
        ended.set()


def _time(order: Order, clock: Clock) -> Time:
    if order.frozen_at is None:
        return lambda host: clock.now().timestamp()
    frozen = order.frozen_at.timestamp()
    return lambda host: last_sample(host, frozen)


def _write_private(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def _write_program(folder: Path) -> None:
    """What stands for a scheduler and for power."""
    (folder / FOLDER).mkdir(mode=0o700)
    program = folder / PROGRAM
    program.write_text(SCRIPT, encoding="ascii")
    program.chmod(0o700)


def _log_to(path: Path) -> None:
    """Nobody reads standard error any more; a full pipe would stop the server."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 2)
    os.close(descriptor)


class _Served:
    """One host: its port, open while the host can be reached."""

    def __init__(self, host: DemoHost, time: Time, clock: Clock, client_key: asyncssh.SSHKey, folder: Path) -> None:
        self.host = host
        self.orders = NONE
        self._orders_folder = folder / FOLDER
        self.told = False
        """A frame of it went out. A silent host tells one, so that there are values to grow old."""
        self._time = time
        self._clock = clock
        self._key = asyncssh.generate_private_key("ssh-ed25519")
        self._client_keys = asyncssh.import_authorized_keys(client_key.export_public_key().decode())
        self._connections: set[asyncssh.SSHServerConnection] = set()
        self._listener: asyncssh.SSHAcceptor | None = None
        # Bound without listening: connections are refused, and nobody else gets the port while the host is away.
        self._seat = _bound(0)
        self.port: int = self._seat.getsockname()[1]

    @property
    def known_hosts_line(self) -> bytes:
        return f"[{LOOPBACK}]:{self.port} ".encode() + self._key.export_public_key().strip() + b"\n"

    async def patrol(self) -> None:
        """Open or close the port, as the host's trouble says."""
        self.orders = read_orders(self._orders_folder, self.host.name)
        t = self._time(self.host)
        if self.orders.is_away(t) or not condition(self.host, t).is_reachable:
            await self.leave()
        elif self._listener is None:
            self._listener = await asyncssh.listen(
                sock=_bound(self.port),
                config=None,
                server_factory=partial(_Door, self._connections),
                server_host_keys=[self._key],
                authorized_client_keys=self._client_keys,
                process_factory=self._answer,
                encoding=None,
                line_editor=False,
                allow_scp=False,
                gss_host=None,
            )

    async def _is_away(self) -> bool:
        """Whether an act has just switched the host off: then nobody gets an answer any more."""
        self.orders = read_orders(self._orders_folder, self.host.name)
        if not self.orders.is_away(self._time(self.host)):
            return False
        await self.leave()
        return True

    async def leave(self) -> None:
        """Close the port and drop everybody, as a host does that loses its power."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for connection in tuple(self._connections):
            connection.abort()

    async def _answer(self, channel: Channel) -> None:
        """Do what the server's shell would do with the command of a client."""
        if await self._is_away():
            return
        if channel.command is None:
            await _converse(channel, Prompt(self.host.name, self._typed, echoes=channel.term_type is not None))
            return
        asked = parse_command(channel.command)
        if asked is None:
            said = self._look(channel.command)
            channel.stdout.write(said.out.encode())
            channel.stderr.write(said.error.encode())
            channel.exit(said.status)
            return
        size, token = asked
        channel.stdout.write(token.encode() + b"\n")
        try:
            await channel.stdin.readexactly(size)
        except asyncio.IncompleteReadError:
            channel.exit(EXIT_PAYLOAD_SHORT)
            return
        await _Agent(self, channel, token, self._time, self._clock).run()
        channel.exit(0)

    def _look(self, command: str) -> Said:
        """What a program prints that gputop or a person starts on the host."""
        words = shlex.split(command)
        if "gputop" not in words:
            return self._tool(words)
        mark, _, _, _, *argv = words[words.index("gputop") + 1 :]
        t = self._time(self.host)
        frame = self.frame(t, 1, INTERVAL_SECONDS)
        said = run(argv, self.host, self.hello(t), frame, self._orders_folder, t, self.orders) or self._tool(argv)
        return msgspec.structs.replace(said, out=f"{mark}\n{said.out}")

    def _tool(self, argv: list[str]) -> Said:
        if argv[:2] == ["sh", "-c"] and argv[4:]:  # a script that finds the program and runs it
            argv = argv[4:]
        t = self._time(self.host)
        status, out = answer(argv, self.host, self.hello(t), self.frame(t, 1, INTERVAL_SECONDS), t)
        return Said(out=out, status=status)

    def _typed(self, argv: list[str]) -> tuple[int, str]:
        """For the prompt of a shell."""
        said = self._tool(argv)
        return said.status, said.out

    def _trouble(self, t: float) -> Condition:
        """What is wrong with the host, as far as no act has mended it."""
        trouble = condition(self.host, t)
        return ordered_trouble(trouble, self.orders, uuids(self.host))

    def hello(self, t: float) -> Message:
        return ordered_hello(hello(self.host, t, self._trouble(t)), self.host, self.orders, t)

    def frame(self, t: float, sequence: int, interval: float) -> Message:
        self.orders = read_orders(self._orders_folder, self.host.name)
        message = frame(self.host, t, sequence, interval, self._trouble(t))
        return ordered_frame(message, self.host, self.orders, t)


async def _converse(channel: Channel, prompt: Prompt) -> None:
    """Talk to a person who opened a shell."""
    channel.stdout.write(prompt.begin().encode())
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while not prompt.is_over:
        try:
            data = await channel.stdin.read(1024)
        except asyncssh.TerminalSizeChanged:
            continue
        except (asyncssh.BreakReceived, asyncssh.SignalReceived):
            channel.stdout.write(prompt.interrupted().encode())
            continue
        except (asyncssh.Error, OSError):
            return
        if not data:
            break
        channel.stdout.write(prompt.typed(decoder.decode(data)).encode())
    channel.exit(prompt.status)


class _Door(asyncssh.SSHServer):
    """Keeps the list of a host's connections."""

    def __init__(self, connections: set[asyncssh.SSHServerConnection]) -> None:
        self._connections = connections

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self._connections.add(conn)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self._connection)


class _Agent:
    """What the agent does, with numbers of the demo fleet."""

    def __init__(self, served: _Served, channel: Channel, token: str, time: Time, clock: Clock) -> None:
        self._served = served
        self._channel = channel
        self._token = token
        self._time = time
        self._clock = clock
        self._interval = INTERVAL_SECONDS
        self._sequence = 0
        self._greeting: Message | None = None
        self._asked = asyncio.Event()
        """A frame is wanted at once."""

    async def run(self) -> None:
        """Frames on a tick until the client says stop, goes away or is silent for too long."""
        opened = await self._channel.stdin.readline()
        if not opened.startswith(b"options "):
            return
        self._set_interval(json.loads(opened[8:])["interval"])
        self._tell()
        ticking = asyncio.create_task(self._tick())
        try:
            reason = await self._obey()
        finally:
            ticking.cancel()
            await asyncio.gather(ticking, return_exceptions=True)
        if reason is not None:
            self._say({"k": "bye", "reason": reason})

    async def _obey(self) -> str | None:
        """Follow control lines; why it was the end, `None` when nobody is there to be told."""
        while True:
            try:
                line = await asyncio.wait_for(self._channel.stdin.readline(), SILENCE_LIMIT_SECONDS)
            except (TimeoutError, asyncssh.Error, OSError):
                return None
            match line.split():
                case [] if not line:
                    return None
                case [b"stop"]:
                    return "stop"
                case [b"sample"]:
                    self._asked.set()
                case [b"interval", seconds]:
                    self._set_interval(float(seconds))
                    self._asked.set()

    def _set_interval(self, seconds: float) -> None:
        self._interval = max(FASTEST_SECONDS, seconds)

    async def _tick(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), self._seconds_to_next())
            self._asked.clear()
            self._tell()

    def _seconds_to_next(self) -> float:
        """Each host samples on a grid of its own; what is nearly due counts as done."""
        passed = (self._time(self._served.host) - sample_phase(self._served.host, self._interval)) % self._interval
        left = self._interval - passed
        return left if left > 0.1 * self._interval else left + self._interval

    def _tell(self) -> None:
        host, t = self._served.host, self._time(self._served.host)
        greeting = self._served.hello(t)
        is_silent = condition(host, t).is_silent
        if greeting != self._greeting and not (is_silent and self._greeting):
            self._greeting = greeting
            self._say({**greeting, "interval": self._interval})
        if is_silent and self._served.told:
            return
        self._served.told = True
        self._sequence += 1
        self._say(self._served.frame(t, self._sequence, self._interval))

    def _say(self, message: Message) -> None:
        self._channel.stdout.write(pack(self._token, message))


def _bound(port: int) -> socket.socket:
    """A socket on a loopback port that several sockets of ours may hold; 0: any free one."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    found.bind((LOOPBACK, port))
    return found


if __name__ == "__main__":
    sys.exit(main())
