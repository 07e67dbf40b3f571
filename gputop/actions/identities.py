"""Who those hosts are that nothing may be done to: one of them may be a host of a plan by another name. Reads only."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from gputop.actions.guards import Surroundings, is_protected
from gputop.actions.verify import ANSWERING
from gputop.domain.action import ActionKind, HostIdentity, Plan
from gputop.domain.proof import same_machine
from gputop.ports import Observer

IDENTIFY_SECONDS = 8.0
"""How long they are asked; one that has not answered by then is known by its address alone."""

NEEDS_NONE = frozenset({ActionKind.START, ActionKind.MESSAGE, ActionKind.ACK})
"""Acts that are harmless wherever they end up, or whose host need not answer."""

Identify = Callable[[str], Awaitable[HostIdentity | None]]


async def identities(
    plan: Plan, around: Surroundings, observer: Observer, identify: Identify
) -> dict[str, HostIdentity]:
    """By name. Those that are watched and known to be other machines are left out."""
    if plan.request.kind in NEEDS_NONE:
        return {}
    kept = {name.lower() for name in (*around.jumps, *around.vias, *around.controllers)}
    targets = {host.host: host.identity for host in plan.hosts}
    needed = [
        name
        for name, spec in around.specs.items()
        if is_protected(spec) or {name.lower(), (spec.address or name).lower()} & kept
    ]
    found = {name: targets[name] for name in needed if name in targets}
    names = [name for name in needed if name not in targets]
    for name, host in (await observer.known(names)).items():
        if host.frame is not None and host.link.state in ANSWERING:
            seen = HostIdentity(boot_id=host.frame.facts.boot_id, machine_id=host.frame.facts.machine_id)
            if not any(same_machine(seen, target) for target in targets.values()):
                names.remove(name)

    asked = {name: asyncio.ensure_future(identify(name)) for name in names}
    if asked:
        await asyncio.wait(asked.values(), timeout=IDENTIFY_SECONDS)
    for task in asked.values():
        task.cancel()
    answers = await asyncio.gather(*asked.values(), return_exceptions=True)
    return found | {name: one for name, one in zip(asked, answers, strict=True) if isinstance(one, HostIdentity)}
