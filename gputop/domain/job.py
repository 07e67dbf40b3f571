"""A host as its scheduler sees it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from gputop.domain.action import Block


class AdminState(StrEnum):
    """Whether the scheduler gives a host work. The values but `unknown` are those of the JSON output."""

    SCHEDULABLE = "schedulable"
    DRAINING = "draining"
    """No new work; some is left."""
    DRAINED = "drained"
    """No new work and none left, as far as the scheduler knows: no proof that the devices are empty."""
    DOWN = "down"
    UNKNOWN = "unknown"


class Job(Struct, frozen=True, kw_only=True):
    """A job with something on the host. Names are untrusted text."""

    id: str
    """The number that its processes carry. Slurm counts the last task of an array, and the first part of a
    heterogeneous job, under the number of the whole: said to one of its programs, it means them all."""
    part: str | None = None
    """What Slurm calls this task or part alone: `4711_3`, `4711+0`; `None`: the job is whole."""
    name: str | None = None
    user: str | None = None
    state: str | None = None
    """As the scheduler says it: `RUNNING`, `COMPLETING`, …"""
    partition: str | None = None
    nodes: tuple[str, ...] = ()
    """All nodes of the job, under the scheduler's names."""
    gpus: int | None = None
    """On this host."""
    started_at: datetime | None = None
    ends_at: datetime | None = None
    """Start plus time limit; `None`: no limit or not known."""
    requeueable: bool | None = None

    @property
    def handle(self) -> str:
        """What it is called, and nothing else is."""
        return self.part or self.id


class PodFate(StrEnum):
    """What a drain does with a pod."""

    EVICT = "evict"
    DAEMON_SET = "daemon-set"
    """Left: it would be back at once."""
    MIRROR = "mirror"
    """Left: a static pod of the kubelet."""
    FINISHED = "finished"
    """Does not block."""
    TERMINATING = "terminating"
    """Already leaving: waited for, not evicted again."""
    NEEDS_CONSENT = "needs-consent"


class Pod(Struct, frozen=True, kw_only=True):
    namespace: str
    name: str
    uid: str = ""
    fate: PodFate
    concerns: tuple[str, ...] = ()
    """`LossKind` values that need consent: no controller, emptyDir."""
    claims: tuple[str, ...] = ()
    """Dynamic resource claims: they may hold devices without counting as `gpus`."""
    owner: str | None = None
    """`ReplicaSet/train-5c6d7e8f90`."""
    gpus: int | None = None
    user: str | None = None
    """A label or annotation that names whose it is, when the site has one."""


class DisruptionBudget(Struct, frozen=True, kw_only=True):
    """A PodDisruptionBudget that covers a pod of the host."""

    namespace: str
    name: str
    allowed: int
    """Disruptions allowed now."""
    healthy: int
    wanted: int


class NodeState(Struct, frozen=True, kw_only=True):
    """What a scheduler says of one host."""

    host: str
    """Its name in the inventory."""
    scheduler: str
    """`slurm`, `kubernetes` or `none`."""
    node: str | None = None
    """Its name in the scheduler; `None`: not found, and `block` says why (no match, several matches)."""
    admin: AdminState = AdminState.UNKNOWN
    raw: str = ""
    """The state in the scheduler's own words: `MIXED+DRAIN`."""
    flags: tuple[str, ...] = ()
    """The parts of it, lower case: `("mixed", "drain", "reboot-requested")`."""
    cordoned: bool | None = None
    """No new work, whoever said so; `None`: not known."""
    reason: str | None = None
    by: str | None = None
    """Who cordoned or drained it."""
    since: datetime | None = None
    booted_at: datetime | None = None
    """When it last booted, as the scheduler knows it."""
    jobs: tuple[Job, ...] = ()
    pods: tuple[Pod, ...] = ()
    budgets: tuple[DisruptionBudget, ...] = ()
    controller: bool = False
    """The scheduler itself depends on it: slurmctld, a control-plane node. Acts are refused."""
    block: Block | None = None
    """Why nothing can be planned: not found, permission, the scheduler does not answer."""
    observed_at: datetime | None = None
