"""Words of Slurm: node states with suffixes and flags, generic resources, lists of nodes, times."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException
from msgspec import Struct

from gputop.domain.job import AdminState

SUFFIXES = {
    "*": "not-responding",
    "~": "powered-down",
    "#": "powering-up",
    "%": "powering-down",
    "!": "power-down",
    "$": "maintenance",
    "@": "reboot-requested",
    "^": "reboot-issued",
    "-": "planned",
}
"""What a mark after a state means (sinfo; `*` also in scontrol)."""

WORKING = frozenset({"ALLOCATED", "MIXED"})
NO_NEW_WORK = frozenset({"drain", "fail"})
"""Flags by which somebody took the node out of service."""
CLOSED = NO_NEW_WORK | {"not-responding", "powering-down", "power-down", "reboot-issued", "maintenance", "invalid-reg"}
FINISHED = frozenset(
    [
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
    ]
)
"""States of jobs that hold nothing any more, unless they are still `COMPLETING`."""


class SlurmState(Struct, frozen=True):
    """A node's state: one base, and flags beside it. DRAIN is a flag: the base says whether work is left."""

    base: str
    """`IDLE`, `MIXED`, `ALLOCATED`, `DOWN`, `UNKNOWN`, …"""
    flags: frozenset[str] = frozenset()
    """Lower case, with dashes: `drain`, `not-responding`, `reboot-requested`, …"""

    @property
    def text(self) -> str:
        return "+".join([self.base, *sorted(flag.upper().replace("-", "_") for flag in self.flags)])

    @property
    def cordoned(self) -> bool:
        return bool(self.flags & NO_NEW_WORK)

    @property
    def busy(self) -> bool:
        """Jobs run, or what they leave is still being cleared away (an epilog)."""
        return self.base in WORKING or "completing" in self.flags

    @property
    def responding(self) -> bool:
        return "not-responding" not in self.flags

    @property
    def can_take_jobs(self) -> bool:
        return self.base in {"IDLE", "MIXED"} and not self.flags & CLOSED

    @property
    def admin(self) -> AdminState:
        if self.cordoned:
            return AdminState.DRAINING if self.busy else AdminState.DRAINED
        if self.base in {"DOWN", "ERROR"}:
            return AdminState.DOWN
        return AdminState.SCHEDULABLE if self.base in WORKING | {"IDLE"} else AdminState.UNKNOWN


def parse_state(text: str) -> SlurmState:
    """A state as scontrol and sinfo print it: `MIXED+DRAIN`, `DOWN*+DRAIN`, `IDLE~`."""
    base, *flags = text.strip().upper().split("+")
    return state_of(base, flags)


def state_of(base: str, flags: list[str]) -> SlurmState:
    """A state from its parts, which may carry suffixes."""
    named = set()
    parts = []
    for part in (base.upper(), *flags):
        while part and part[-1] in SUFFIXES:
            named.add(SUFFIXES[part[-1]])
            part = part[:-1]
        parts.append(part)
    named |= {part.lower().replace("_", "-") for part in parts[1:] if part}
    return SlurmState(parts[0] or "UNKNOWN", frozenset(named))


class Gres(Struct, frozen=True):
    """GPUs of a node as Slurm counts them."""

    total: int = 0
    used: int = 0
    used_indexes: tuple[int, ...] = ()
    """Empty also where Slurm does not say which."""


def parse_gres(configured: str | None, used: str | None) -> Gres:
    """`gpu:a100:8(S:0-1)` and `gpu:a100:2(IDX:6-7)`, several kinds with commas between them."""
    indexes: set[int] = set()
    for _, numbers in _gpus(used):
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", numbers):
            indexes.update(range(int(first), int(last or first) + 1))
    total = sum(count for count, _ in _gpus(configured))
    return Gres(total, sum(count for count, _ in _gpus(used)), tuple(sorted(indexes)))


def gpus_of(request: str | None) -> int | None:
    """How many GPUs `gres:gpu:h100:4`, `gres/gpu:4` or `gpu:h100:4(IDX:0-3)` are; `None`: it names none."""
    counts = [count for count, _ in _gpus(re.sub(r"\bgres[:/]", "", request or ""))]
    return sum(counts) if counts else None


def _gpus(text: str | None) -> list[tuple[int, str]]:
    """Count and index list of each kind of GPU in a list of generic resources: `gpu`, `gpu:8`, `gpu:a100:8(S:0-1)`."""
    found = []
    for entry in re.findall(r"(?:[^,(]|\([^)]*\))+", text or ""):
        body, _, note = entry.partition("(")
        name, *rest = body.strip().split(":")
        if name == "gpu":
            indexes = note.rstrip(")").partition("IDX:")[2]
            found.append((int(rest[-1]) if rest and rest[-1].isdecimal() else 1, indexes))
    return found


def expand_nodes(text: str) -> tuple[str, ...]:
    """`gpu[01-03,07]` in full. Never raises: what cannot be read stays as it is."""
    try:
        return tuple(str(node) for node in NodeSet(text, resolver=RESOLVER_NOGROUP)) if text else ()
    except NodeSetException:
        return (text,)


def parse_time(text: str | None) -> datetime | None:
    """A time as Slurm's programs print it in UTC; `None` for `Unknown`, `N/A`, `NONE` and the like."""
    try:
        return datetime.fromisoformat(text or "").replace(tzinfo=UTC)
    except ValueError:
        return None
