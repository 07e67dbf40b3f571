"""What was found out about a host before a plan is made, and its digest. Pure."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import Any

from msgspec import Struct, structs

from gputop.actions.device import ProcessFound
from gputop.actions.verify import busy_processes
from gputop.domain.action import ActionRequest, Block, HostIdentity, Loss, Step
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
    process: ProcessFound | None = None
    """For a signal; `None`: there is no such process, or it could not be seen."""
    as_of: datetime


Work = tuple[tuple[Step, ...], tuple[Loss, ...], tuple[Block, ...], tuple[str, ...]]
"""Steps, losses, blocks, notes."""


def digest(request: ActionRequest, evidence: Evidence) -> str:
    """Two plans whose digests are equal rest on the same facts. Readings that always move are left out."""
    frame = evidence.host.frame
    facts: dict[str, Any] = {
        "identity": structs.asdict(evidence.identity) if evidence.identity is not None else None,
        "link": evidence.host.link.state.value,
        "devices": device_keys(evidence.host),
        "states": frame.column("state") if frame is not None else None,
        "processes": sorted(
            (p.device_index, p.pid, str(p.started_at)) for p in busy_processes(frame, evidence.host.spec.policy)
        )
        if frame is not None
        else None,
        "units": evidence.units,
        "process": structs.asdict(evidence.process.target) if evidence.process is not None else None,
    }
    if (node := evidence.node) is not None:
        facts["node"] = [node.node, node.admin.value, node.raw, node.reason, node.by]
        facts["work"] = sorted([job.id for job in node.jobs] + [f"{p.namespace}/{p.name}/{p.uid}" for p in node.pods])
    if (instance := evidence.instance) is not None:
        blocks = [*instance.stop_blocks, *instance.start_blocks, *instance.reboot_blocks]
        facts["instance"] = [instance.id, instance.power.value, [block.kind for block in blocks]]
    text = json.dumps([request.kind.value, evidence.host.name, facts], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def device_keys(host: Host) -> tuple[str, ...]:
    return tuple(device.key for device in host.frame.devices) if host.frame is not None else ()


def no_answer(summary: str) -> Block:
    return Block(kind="no-answer", summary=summary)
