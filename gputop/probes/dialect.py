"""How a remote program is started, spoken to and understood."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec.json import encode

from gputop.domain.host import HostSpec
from gputop.probes import bundle
from gputop.probes.decode import BadLine, Line, decode
from gputop.remote.wire import HEARTBEAT_SECONDS


class Dialect(Protocol):
    """One kind of remote program."""

    @property
    def command(self) -> str:
        """What the account's shell is asked to run."""
        ...

    @property
    def opening(self) -> bytes:
        """Written to its standard input first."""
        ...

    def take(self, body: bytes, now: float) -> Sequence[Line | BadLine]:
        """The lines of the wire protocol that a line of the program, without its token, stands for. `now` is
        monotonic."""
        ...

    def answers(self) -> list[bytes]:
        """What to write because of what was taken since the last call."""
        ...

    def interval(self, seconds: float) -> bytes:
        """Asks for another time between two frames."""
        ...

    def beat(self, interval_seconds: float, now: float) -> bytes:
        """Written every `beat_seconds`; `now` is monotonic."""
        ...

    def beat_seconds(self, interval_seconds: float) -> float: ...


class AgentDialect:
    """The agent of `gputop.remote`: speaks the wire protocol itself."""

    def __init__(self, token: str, spec: HostSpec, interval_seconds: float, options: dict[str, object]) -> None:
        payload = bundle.bundle().payload
        chosen = {"interval": interval_seconds, "nvml_library": spec.nvml_library, **options}
        self.command = bundle.command(len(payload), token, spec.python)
        self.opening = payload + b"options " + encode(chosen) + b"\n"

    def take(self, body: bytes, now: float) -> Sequence[Line | BadLine]:
        return (decode(body),) if body else ()

    def answers(self) -> list[bytes]:
        return []

    def interval(self, seconds: float) -> bytes:
        return b"interval %.3f\n" % seconds

    def beat(self, interval_seconds: float, now: float) -> bytes:
        return b"\n"

    def beat_seconds(self, interval_seconds: float) -> float:
        return HEARTBEAT_SECONDS
