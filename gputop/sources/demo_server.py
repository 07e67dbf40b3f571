"""Serves the demo fleet from a real SSH server in a child process, one loopback port a host.

Everything between gputop and the server is the true thing: host keys, authentication, the command that starts the
agent, the payload, the wire protocol. Only the numbers are made up. The child ends when the program that started it
does, however that ends, because its standard input does; its private folder goes with it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType

import msgspec

from gputop.domain.backend import CommandPower
from gputop.domain.host import HostSpec
from gputop.sources.demo.hosts import plan
from gputop.sources.demo.ordered import PROGRAM

START_SECONDS = 20.0
STOP_SECONDS = 5.0
LOOPBACK = "127.0.0.1"
CHILD = "gputop.sources.demo_child"


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What the child is told, as the first line of its standard input."""

    seed: int
    hosts: int
    frozen_at: datetime | None = None
    """Virtual time that stands still; `None`: now, going on."""


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """What the child answers, as the only line of its standard output."""

    folder: str
    """Private, holds the two files; removed by the child at its end."""
    known_hosts: str
    identity: str
    ports: list[int]
    """In the order of the plan."""


class DemoFailed(Exception):
    """The demo server could not be started; the text says why."""


class DemoHandle:
    """A running demo server."""

    def __init__(self, child: subprocess.Popen[bytes], folder: Path, specs: tuple[HostSpec, ...]) -> None:
        self.specs = specs
        """How to reach each host of the demo fleet."""
        self.folder = folder
        self._child = child

    @property
    def simulator(self) -> str:
        """The program that stands for a scheduler and for power."""
        return str(self.folder / PROGRAM)

    @property
    def process_id(self) -> int:
        return self._child.pid

    def stop(self) -> None:
        """End the server and remove what it kept on disk. Idempotent."""
        if self._child.stdin is not None:
            self._child.stdin.close()
        _end(self._child)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> DemoHandle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start_demo(hosts: int, seed: int, *, frozen_at: datetime | None = None) -> DemoHandle:
    """Start the server and wait until it listens. `frozen_at`: a time that stands still, instead of now.

    Raises `DemoFailed`, and `ValueError` for a number of hosts that a demo fleet cannot have."""
    fleet = plan(seed, hosts)
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(os.environ),
        start_new_session=True,  # Ctrl-C at the terminal is for gputop, which then ends the child in order
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        child.stdin.write(msgspec.json.encode(Order(seed=seed, hosts=hosts, frozen_at=frozen_at)) + b"\n")
        child.stdin.flush()
        answer = child.stdout.readline()
    except BrokenPipeError:
        answer = b""
    except BaseException:
        child.stdin.close()
        _end(child)
        raise
    if not answer:
        raise DemoFailed(_last_words(child))
    ready = msgspec.json.decode(answer, type=Ready)
    specs = tuple(
        msgspec.structs.replace(
            host.spec,
            address=LOOPBACK,
            port=port,
            identity=(ready.identity,),
            known_hosts=(ready.known_hosts,),
            power=_power(Path(ready.folder) / PROGRAM),
            policy=msgspec.structs.replace(host.spec.policy, idle_sample_seconds=1.0, wall=False),
        )
        for host, port in zip(fleet, ready.ports, strict=True)
    )
    return DemoHandle(child, Path(ready.folder), specs)


def _power(program: Path) -> CommandPower:
    """Simulated, as the scheduler is."""

    def order(word: str) -> tuple[str, ...]:
        return (str(program), word, "{host}")

    return CommandPower(
        status=order("status"),
        stop=order("stop"),
        start=order("start"),
        reboot=order("reboot"),
        billing="simulated: there is no bill",
        timeout_seconds=10.0,
        stop_timeout_seconds=60.0,
    )


def _environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """The child finds the same gputop; `-P` keeps it from importing out of the current folder."""
    root = str(Path(__file__).resolve().parents[2])
    path = [root, *filter(None, [inherited.get("PYTHONPATH")])]
    return {**inherited, "PYTHONPATH": os.pathsep.join(path)}


def _end(child: subprocess.Popen[bytes]) -> None:
    try:
        child.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()


def _last_words(child: subprocess.Popen[bytes]) -> str:
    """The last line of a child that ended before it was ready."""
    assert child.stderr is not None
    lines = child.stderr.read().decode("utf-8", "replace").strip().splitlines()
    _end(child)
    return lines[-1] if lines else f"the demo server ended with exit code {child.returncode}"
