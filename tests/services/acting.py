"""Carries out single steps the way the executor does, for tests of back ends against the real thing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from gputop.domain.action import ActionKind, ActionRequest, Check, CheckState, Step
from gputop.domain.call import Performed, RunHere, RunOn, Watch
from gputop.domain.clock import SystemClock
from gputop.domain.host import Host, HostSpec
from gputop.ports import Actor, Runner
from gputop.transport.runner import ProgramRunner
from tests.fakes.builders import a_link

PLAIN = ProgramRunner({}, [])


class InEnvironment:
    """A runner whose programs run with further variables, such as SLURM_CONF and KUBECONFIG; it keeps every argv."""

    def __init__(self, environment: dict[str, str], runner: Runner = PLAIN) -> None:
        self._environment = environment
        self._runner = runner
        self.calls: list[tuple[str, ...]] = []

    async def run(self, call: RunHere | RunOn, *, deadline_seconds: float) -> Any:
        assert isinstance(call, RunHere)
        self.calls.append(call.argv)
        words = (f"{name}={value}" for name, value in self._environment.items())
        argv = ("env", *words, *call.argv)
        return await self._runner.run(RunHere(argv=argv, stdin=call.stdin), deadline_seconds=deadline_seconds)


def a_host(name: str, **fields: Any) -> Host:
    return Host(spec=HostSpec(name=name, **fields), link=a_link(), reported=a_link())


def a_request(kind: ActionKind, *hosts: str, by: str = "alice", **fields: Any) -> ActionRequest:
    return ActionRequest(kind=kind, hosts=hosts, by=by, **{"reason": "replace NIC, OPS-7", **fields})


async def until(actor: Actor, host: str, step: Step, seconds: float = 30.0, *states: CheckState) -> Check:
    """The first check in one of `states` (done or blocked, if none are named), or the last one at the deadline."""
    clock = SystemClock()
    end = clock.monotonic() + seconds
    while True:
        check = await actor.check(host, step)
        if check.state in (states or (CheckState.DONE, CheckState.BLOCKED)) or clock.monotonic() > end:
            return check
        await asyncio.sleep(0.1)


async def take(actor: Actor, host: str, step: Step, seconds: float = 30.0) -> tuple[Performed | None, Check]:
    """One step: nothing is called where its goal is reached already."""
    check = await actor.check(host, step)
    if check.state is CheckState.DONE:
        return None, check
    if isinstance(step.call, Watch):
        return None, await until(actor, host, step, seconds)
    performed = await actor.perform(host, step)
    return performed, await until(actor, host, step, seconds)


async def take_all(actor: Actor, host: str, steps: Sequence[Step], seconds: float = 30.0) -> list[Check]:
    return [(await take(actor, host, step, seconds))[1] for step in steps]
