"""What was found out about a host before a plan is made, and what of it must still hold when it is carried out. Pure.

Hosts at work change all the time: memory moves, processes and jobs come and go. A plan stays good as long as it does
not understate anything: what it rests on is the same, and nothing is lost, or waited for, that it did not name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from msgspec import Struct, structs

from gputop.actions.device import DeviceHolder, ProcessFound
from gputop.actions.faults import Fault
from gputop.actions.verify import ANSWERING
from gputop.domain.action import ActionRequest, Block, HostIdentity, HostPlan, Loss, LossKind, Plan, Step
from gputop.domain.host import Host
from gputop.domain.instance import Instance
from gputop.domain.job import NodeState


class Evidence(Struct, frozen=True, kw_only=True):
    """All that was found out about one host for a plan."""

    host: Host
    node: NodeState | None = None
    """`None`: it was not asked for."""
    instance: Instance | None = None
    identity: HostIdentity | None = None
    """Asked for right now; `None`: it did not answer."""
    units: tuple[str, ...] = ()
    """Units that hold devices, of those `device.UNITS` names; for a reset."""
    nvswitch: bool = False
    """Its devices hang at an NVSwitch: they are reset together."""
    holders: tuple[DeviceHolder, ...] = ()
    """What has its devices open, as far as can be seen; for a reset."""
    faults: tuple[Fault, ...] | None = None
    """Fatal events since boot, for an acknowledgment; `None`: not known."""
    devices_before: int | None = None
    """How many devices it had at its last drains; `None`: not known, or of no matter."""
    process: ProcessFound | None = None
    """For a signal; `None`: there is no such process, or it could not be seen."""
    as_of: datetime


Work = tuple[tuple[Step, ...], tuple[Loss, ...], tuple[Block, ...], tuple[str, ...]]
"""Steps, losses, blocks, notes."""

UNSEEN = "unseen"
"""The key of a loss: what may run on a host although nobody can see it."""

TOPICS = {
    "identity": "which machine, or which boot of it, answers",
    "readings": "whether it answers",
    "devices": "its GPUs, or whether they answer",
    "scheduler": "what its scheduler says of it",
    "power": "what its power provider says of it",
    "units": "which services hold its GPUs",
    "process": "the process",
}
"""What a plan rests on, in words for people."""

MOVING_FLAGS = frozenset({"idle", "mixed", "allocated", "completing", "planned"})
"""States of a scheduler's node that only tell how much runs on it now."""


def digest(request: ActionRequest, evidence: Evidence) -> str:
    """What a plan rests on, `TOPIC:DIGEST` a topic. What always moves is left out; what may be lost is compared by
    itself, see `changes`."""
    host, frame = evidence.host, evidence.host.frame
    answers = frame is not None and host.link.state in ANSWERING
    facts: dict[str, Any] = {
        "identity": structs.asdict(evidence.identity) if evidence.identity is not None else None,
        "readings": answers,
        "devices": [device_keys(host), frame.column("state") if frame is not None else None],
        "scheduler": _of_node(evidence.node),
        "power": _of_instance(evidence.instance),
        "units": evidence.units,
        "process": structs.asdict(evidence.process.target) if evidence.process is not None else None,
    }
    return " ".join(
        f"{topic}:{_short([request.kind.value, host.name, facts[topic]])}" for topic in TOPICS if topic in facts
    )


def _short(facts: object) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:12]


def _of_node(node: NodeState | None) -> list[Any] | None:
    if node is None:
        return None
    flags = sorted(set(node.flags) - MOVING_FLAGS)
    block = node.block.kind if node.block is not None else None
    return [node.node, node.admin.value, node.cordoned, flags, node.reason, node.by, node.controller, block]


def _of_instance(instance: Instance | None) -> list[Any] | None:
    if instance is None:
        return None
    blocks = [*instance.stop_blocks, *instance.start_blocks, *instance.reboot_blocks]
    return [instance.id, instance.power.value, [block.kind for block in blocks]]


def changes(before: Plan, after: Plan) -> tuple[str, ...]:
    """Why `after`, the same plan made again, is not covered by what a person saw of `before`; none: it is. Less that is
    lost is covered; more never is."""
    found: list[str] = []
    for old, new in zip(before.hosts, after.hosts, strict=True):
        found += (f"{new.host}: {words}" for words in _changes(old, new))
    return tuple(found)


def _changes(before: HostPlan, after: HostPlan) -> Iterator[str]:
    held = set(before.evidence.split())
    for word in after.evidence.split():
        if word not in held:
            yield f"{TOPICS.get(word.partition(':')[0], 'what is known of it')} has changed"
    shown = {(step.id, step.title) for step in before.steps}
    yield from (f'"{step.title}" would be done too' for step in after.steps if (step.id, step.title) not in shown)
    for loss in new_losses(before, after):
        yield f"{loss.summary} is new"


def new_losses(before: HostPlan, after: HostPlan) -> Iterator[Loss]:
    """What `after` loses, or waits for, that nobody who saw `before` has agreed to. Memory that nobody can be seen to
    hold comes and goes with the work; the guards judge it."""
    agreed = {stake for loss in before.losses for stake in _covers(loss)}
    for loss in after.losses:
        if loss.key != UNSEEN and _stake(loss) not in agreed:
            agreed |= set(_covers(loss))
            yield loss


def _stake(loss: Loss) -> tuple[str, ...]:
    """What a person must have seen before this may be lost. A drain waits for whatever its users run meanwhile, so
    there a process stands for its user."""
    if loss.certain or loss.kind is not LossKind.PROCESS:
        return ("certain" if loss.certain else "waits", loss.key or loss.summary)
    return ("waits", f"a process of {loss.user}" if loss.user else "a process of nobody known")


def _covers(loss: Loss) -> Iterator[tuple[str, ...]]:
    """Everything that a person who has seen `loss` has agreed to: who agreed to lose a thing has agreed to wait for
    it."""
    yield _stake(loss)
    yield _stake(structs.replace(loss, certain=False))


def device_keys(host: Host) -> tuple[str, ...]:
    return tuple(device.key for device in host.frame.devices) if host.frame is not None else ()


def no_answer(summary: str) -> Block:
    return Block(kind="no-answer", summary=summary)
