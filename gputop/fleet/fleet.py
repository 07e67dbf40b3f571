"""The Fleet value."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct

from gputop.domain.host import Host
from gputop.domain.problem import Problem


class Fleet(Struct, frozen=True, kw_only=True):
    """The immutable picture of all hosts at `as_of`. It is replaced, never edited; keeping an old one is pausing."""

    as_of: datetime
    """Every age is computed against this, never against a clock. UTC."""
    source: str = "ssh"
    """`ssh`, `local`, `file`, `demo`, `replay` or `prometheus`."""
    hosts: dict[str, Host] = {}
    """By name, in inventory order. Never mutated."""
    problems: tuple[Problem, ...] = ()
    """Of sources as a whole."""

    def __iter__(self) -> Iterator[Host]:
        return iter(self.hosts.values())

    def get(self, name: str) -> Host | None:
        return self.hosts.get(name)
