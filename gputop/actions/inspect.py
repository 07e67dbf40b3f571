"""Everything that can be found out about one host. Reads only."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from gputop.actions.state import act_state
from gputop.domain.action import HostActState
from gputop.domain.call import RunOn
from gputop.domain.host import Host
from gputop.domain.instance import Instance
from gputop.domain.job import NodeState
from gputop.domain.record import AuditRecord
from gputop.ports import PowerProvider, Runner, Scheduler
from gputop.transport.runner import trouble

LOOK_SECONDS = 20.0
KERNEL_LINES = 50

KERNEL = (
    "(dmesg -T 2>/dev/null || journalctl -k -b -o short-iso --no-pager 2>/dev/null) "
    f"| grep -E 'NVRM|SXid|nvidia|pcieport|AER|mce:|oom-kill' | tail -n {KERNEL_LINES}"
)

RAW: dict[str, tuple[str, ...]] = {
    "nvidia-smi -q": ("nvidia-smi", "-q"),
    "nvidia-smi topo -m": ("nvidia-smi", "topo", "-m"),
    "nvidia-smi nvlink -s": ("nvidia-smi", "nvlink", "-s"),
}
"""Tools whose own words are shown on demand."""


class RawOutput(Struct, frozen=True, kw_only=True):
    """What a tool printed. Untrusted."""

    command: str
    text: str
    problem: str | None = None


class Inspection(Struct, frozen=True, kw_only=True):
    host: Host
    state: HostActState
    node: NodeState | None
    instance: Instance | None
    kernel: tuple[str, ...] | None
    """Lines of the kernel log of this boot that speak of devices; `None`: it cannot be read."""
    raw: tuple[RawOutput, ...] = ()
    history: tuple[AuditRecord, ...] = ()
    """The newest outcomes of acts on it."""


async def inspect(
    host: Host,
    scheduler: Scheduler,
    power: PowerProvider | None,
    runner: Runner,
    history: Sequence[AuditRecord],
    *,
    raw: bool,
) -> Inspection:
    """Ask everybody about `host` at once."""
    nodes, instances, kernel, outputs = await asyncio.gather(
        scheduler.observe([host]),
        _no_instances() if power is None else power.observe([host]),
        runner.run(RunOn(host=host.name, argv=("sh", "-c", KERNEL)), deadline_seconds=LOOK_SECONDS),
        asyncio.gather(*(_raw(host.name, name, argv, runner) for name, argv in RAW.items() if raw)),
    )
    node, instance = nodes.get(host.name), instances.get(host.name)
    known = kernel.lost is None and kernel.exit_status is not None and not kernel.truncated
    return Inspection(
        host=host,
        state=act_state(host, node, instance),
        node=node,
        instance=instance,
        kernel=tuple(kernel.text.splitlines()) if known else None,
        raw=tuple(outputs),
        history=tuple(history),
    )


async def _no_instances() -> dict[str, Instance]:
    return {}


async def _raw(host: str, name: str, argv: tuple[str, ...], runner: Runner) -> RawOutput:
    result = await runner.run(RunOn(host=host, argv=argv), deadline_seconds=LOOK_SECONDS)
    problem = trouble(result)
    return RawOutput(command=name, text=result.text, problem=problem.summary if problem is not None else None)
