"""Everything that can be found out about one host by asking. Reads only."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from gputop.actions.raw_tools import RawTool, raw_tools
from gputop.actions.state import act_state
from gputop.domain.action import HostActState
from gputop.domain.call import RawOutput, RunOn
from gputop.domain.host import Host
from gputop.domain.instance import Instance
from gputop.domain.job import NodeState
from gputop.domain.problem import Problem, ProblemKind
from gputop.domain.record import AuditRecord
from gputop.ports import Clock, PowerProvider, Runner, Scheduler
from gputop.transport.runner import trouble

LOOK_SECONDS = 20.0
RAW_SECONDS = 90.0
"""`nvidia-smi -q` of 16 GPUs takes a while where the driver has to be loaded first."""
KERNEL_LINES = 50

KERNEL = (
    "log=$(dmesg -T 2>/dev/null || journalctl -k -b -q -o short-iso --no-pager 2>/dev/null); "
    'case $log in ""|"-- "*) exit 1;; esac; '
    f"printf '%s\\n' \"$log\" | grep -E 'NVRM|SXid|nvidia|pcieport|AER|mce:|oom-kill' | tail -n {KERNEL_LINES}"
)
"""Fails where nothing of the log can be read: journalctl ends well then, and a kernel has always logged something."""


class Inspection(Struct, frozen=True, kw_only=True):
    host: Host
    state: HostActState
    node: NodeState | None
    instance: Instance | None
    kernel: tuple[str, ...] | None
    """Lines of the kernel log of this boot that speak of devices; `None`: it could not be read."""
    raw: tuple[RawOutput, ...] = ()
    history: tuple[AuditRecord, ...] = ()
    """The newest outcomes of acts on it."""


async def inspect(
    host: Host,
    scheduler: Scheduler,
    power: PowerProvider | None,
    runner: Runner,
    clock: Clock,
    history: Sequence[AuditRecord],
    *,
    raw: bool,
) -> Inspection:
    """Ask everybody about `host` at once."""
    nodes, instances, kernel, outputs = await asyncio.gather(
        scheduler.observe([host]),
        _no_instances() if power is None else power.observe([host]),
        runner.run(RunOn(host=host.name, argv=("sh", "-c", KERNEL)), deadline_seconds=LOOK_SECONDS),
        asyncio.gather(*(ask_tool(host.name, tool, runner, clock) for tool in raw_tools(host) if raw)),
    )
    node, instance = nodes.get(host.name), instances.get(host.name)
    known = kernel.lost is None and kernel.exit_status == 0 and not kernel.truncated
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


async def ask_tool(host: str, tool: RawTool, runner: Runner, clock: Clock) -> RawOutput:
    """What a tool prints, whole."""
    asked_at = clock.now()
    result = await runner.run(RunOn(host=host, argv=tool.argv), deadline_seconds=RAW_SECONDS)
    problem = trouble(result)
    if result.exit_status == 127 and result.lost is None:
        problem = Problem(kind=ProblemKind.TOOL_MISSING, summary=f"{tool.words[0]} was not found on {host}")
    return RawOutput(
        command=tool.command,
        text=result.text,
        error_text=result.error_text,
        exit_status=result.exit_status,
        problem=problem,
        asked_at=asked_at,
    )
