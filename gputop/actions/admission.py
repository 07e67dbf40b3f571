"""Whether hosts are given new work, from what can be seen of them now: their scheduler, the marker in their readings,
and last what is noted of drains. Pure. What was noted is never taken for what is so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from gputop.actions.verify import ANSWERING, emptiness
from gputop.domain.action import ActionKind, CheckState
from gputop.domain.backend import NoScheduler
from gputop.domain.host import Host
from gputop.domain.job import AdminState, NodeState
from gputop.domain.record import Lease, Standing, standing
from gputop.fleet.fleet import Fleet
from gputop.schedulers.none import read_marker

NODE_SECONDS = 90.0
"""What a scheduler said longer ago tells nothing about now."""


PROVEN_SECONDS = 15.0
"""What a drain has proven at its end is of now for so long, until its scheduler was asked or a reading has come."""


class Word(StrEnum):
    """Where a host stands, for a column of 11 cells."""

    OPEN = "takes work"
    CORDONED = "cordoned"
    """It takes no new work; whether anything is left on it is not known."""
    DRAINING = "draining"
    DRAINED = "drained"
    """It takes no new work, and every device is proven empty, both right now."""
    MAYBE = "drained?"
    """A drain is noted, and nobody can tell whether it holds."""


class Admission(Struct, frozen=True, kw_only=True):
    """Whether one host is given new work, who said so, and how that is known."""

    host: str
    word: Word
    by: str | None = None
    reason: str = ""
    since: datetime | None = None
    until: datetime | None = None
    source: str = ""
    """Who tells it: `slurm`, `kubernetes`, `its marker`; `noted`: nobody now."""
    known_at: datetime | None = None
    """When that was looked at."""
    remark: str = ""
    """What of the lease does not hold any more, or what is left."""

    @property
    def is_open(self) -> bool:
        return self.word is Word.OPEN

    def is_over(self, now: datetime) -> bool:
        """Whether its time has passed, and it still takes no work as far as anybody knows."""
        return not self.is_open and self.until is not None and self.until <= now


def admissions(
    fleet: Fleet | None, nodes: Mapping[str, NodeState], leases: Sequence[Lease], now: datetime
) -> dict[str, Admission]:
    """Where each host stands of which something says, or once said, that it takes no new work; those first whose time
    ends first."""
    noted = {lease.host: lease for lease in leases}
    hosts = {host.name: host for host in fleet} if fleet is not None else {}
    names = dict.fromkeys((*noted, *hosts))
    found = ((name, admission(hosts.get(name), nodes.get(name), noted.get(name), now)) for name in names)
    return {name: one for name, one in found if one is not None}


def admission(host: Host | None, node: NodeState | None, lease: Lease | None, now: datetime) -> Admission | None:
    """Where a host stands; `None`: nothing says that it does not take work. `node`: what its scheduler said last."""
    noted_at = lease.since if lease is not None else None
    if node is not None and _says_now(node, noted_at, now):
        return _by_scheduler(host, node, lease)
    if host is not None and (marker := _marker_now(host, noted_at)) is not None:
        return _by_marker(host, marker, lease)
    return _by_lease(host, lease, now) if lease is not None else None


def _says_now(node: NodeState, noted_at: datetime | None, now: datetime) -> bool:
    """Whether what a scheduler said is of now, and not from before the drain that is noted."""
    if node.block is not None or node.cordoned is None or node.observed_at is None:
        return False
    is_fresh = (now - node.observed_at).total_seconds() <= NODE_SECONDS
    return is_fresh and (noted_at is None or node.observed_at >= noted_at)


def _marker_now(host: Host, noted_at: datetime | None) -> str | None:
    """What the readings of a host without a scheduler say of its marker now; `None`: nothing."""
    frame = host.frame
    if frame is None or host.link.state not in ANSWERING or not isinstance(host.spec.scheduler, NoScheduler | None):
        return None
    return frame.host.drain_marker if noted_at is None or frame.received_at >= noted_at else None


def _by_scheduler(host: Host | None, node: NodeState, lease: Lease | None) -> Admission | None:
    if not node.cordoned:
        return _opened(lease, node.scheduler, node.observed_at) if lease is not None else None
    word, left = _emptied(host)
    if word is Word.DRAINED and node.admin is AdminState.DRAINING:
        word, left = Word.DRAINING, "its GPUs are empty, its scheduler has work on it"
    elif word is Word.DRAINED and node.admin is AdminState.UNKNOWN:
        word, left = Word.CORDONED, "its GPUs are empty; what else runs on it was not looked at"
    return Admission(
        host=node.host,
        word=word,
        by=node.by or (lease.by if lease is not None else None),
        reason=node.reason or (lease.reason if lease is not None else ""),
        since=node.since or (lease.since if lease is not None else None),
        until=lease.until if lease is not None else None,
        source=node.scheduler,
        known_at=node.observed_at,
        remark=left,
    )


def _by_marker(host: Host, text: str, lease: Lease | None) -> Admission | None:
    assert host.frame is not None
    seen = host.frame.received_at
    if not text:
        return _opened(lease, "its marker", seen) if lease is not None else None
    marker = read_marker(text)
    word, left = _emptied(host)
    return Admission(
        host=host.name,
        word=word,
        by=marker.by or None,
        reason=marker.reason,
        since=marker.since,
        until=marker.until,
        source="its marker",
        known_at=seen,
        remark=left,
    )


def _by_lease(host: Host | None, lease: Lease, now: datetime) -> Admission:
    """Nobody can tell now. A reading of another boot tells that a marker is gone."""
    if lease.verified and not lease.doubt and (now - lease.since).total_seconds() <= PROVEN_SECONDS:
        return _noted(lease, Word.DRAINED, "its drain", lease.since, "proven empty")
    frame = host.frame if host is not None else None
    found = standing(lease, frame.facts.boot_id if frame is not None else None)
    if found is Standing.GONE and frame is not None:
        return _noted(lease, Word.OPEN, "its boot id", frame.received_at, "it has rebooted: its marker is gone")
    never_proven = "it was cordoned" if lease.act is ActionKind.CORDON else "it was never proven empty"
    remark = {Standing.DRAINING: never_proven, Standing.DOUBTFUL: lease.doubt}.get(
        found, "whether that still holds cannot be told now"
    )
    return _noted(lease, Word.MAYBE, "noted", lease.since, remark)


def _opened(lease: Lease, source: str, known_at: datetime | None) -> Admission:
    """Somebody else, or a reboot, has ended a drain that is still noted."""
    return _noted(lease, Word.OPEN, source, known_at, "somebody let it work again, or it has rebooted")


def _noted(lease: Lease, word: Word, source: str, known_at: datetime | None, remark: str) -> Admission:
    return Admission(
        host=lease.host,
        word=word,
        by=lease.by,
        reason=lease.reason,
        since=lease.since,
        until=lease.until,
        source=source,
        known_at=known_at,
        remark=remark,
    )


def _emptied(host: Host | None) -> tuple[Word, str]:
    """What the devices of a host that takes no new work say."""
    if host is None:
        return Word.CORDONED, ""
    check = emptiness(host, host.spec.policy)
    match check.state:
        case CheckState.DONE:
            return Word.DRAINED, check.summary
        case CheckState.NOT_DONE:
            return Word.DRAINING, check.summary
    return Word.CORDONED, check.summary
