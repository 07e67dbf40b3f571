"""The scheduler of the demo: a program that the demo's server brings along. Nothing real is touched."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime

from gputop.domain.action import ActionRequest, Block, Check, CheckState, Goal, Step
from gputop.domain.call import Performed, RunHere
from gputop.domain.host import Host
from gputop.domain.job import AdminState, Job, NodeState
from gputop.ports import Clock, Runner
from gputop.transport.runner import perform, trouble

LOOK_SECONDS = 10.0


class SimulatedScheduler:
    """Implements `ports.Scheduler`, `CanGlance`, `CanCordon`, `CanDrain` and `CanResume`."""

    name = "the simulated scheduler"

    def __init__(self, program: str, runner: Runner, clock: Clock) -> None:
        self._program = program
        self._runner = runner
        self._clock = clock

    async def observe(self, hosts: Sequence[Host]) -> Mapping[str, NodeState]:
        nodes = await asyncio.gather(*(self._observe(host) for host in hosts))
        return {node.host: node for node in nodes}

    async def glance(self, hosts: Sequence[Host]) -> Mapping[str, NodeState]:
        """All hosts at once."""
        now = self._clock.now()
        result = await self._runner.run(RunHere(argv=(self._program, "states")), deadline_seconds=LOOK_SECONDS)
        if (problem := trouble(result)) is not None:
            block = Block(kind="no-answer", summary=problem.summary)
            return {
                host.name: NodeState(host=host.name, scheduler=self.name, block=block, observed_at=now)
                for host in hosts
            }
        lines = result.text.splitlines()
        drained = {name: ["drained", by, why] for name, by, why in zip(*(iter(lines),) * 3, strict=False)}
        return {host.name: self._node(host, drained.get(host.name, ["schedulable"]), now) for host in hosts}

    async def _observe(self, host: Host) -> NodeState:
        now = self._clock.now()
        said = await self._state(host.name)
        if isinstance(said, Block):
            return NodeState(host=host.name, scheduler=self.name, block=said, observed_at=now)
        return self._node(host, said, now)

    def _node(self, host: Host, said: Sequence[str], now: datetime) -> NodeState:
        """`said`: the state, who drained it, why."""
        state, by, reason = (*said, "", "", "")[:3]
        is_drained = state == "drained"
        jobs = _jobs(host)
        admin = AdminState.SCHEDULABLE
        if is_drained:
            admin = AdminState.DRAINING if jobs else AdminState.DRAINED
        return NodeState(
            host=host.name,
            scheduler=self.name,
            node=host.name,
            admin=admin,
            raw=state,
            cordoned=is_drained,
            by=by or None,
            reason=reason or None,
            jobs=jobs,
            observed_at=now,
        )

    async def _state(self, host: str) -> list[str] | Block:
        call = RunHere(argv=(self._program, "state", host))
        result = await self._runner.run(call, deadline_seconds=LOOK_SECONDS)
        if (problem := trouble(result)) is not None:
            return Block(kind="no-answer", summary=f"the simulated scheduler does not answer: {problem.summary}")
        return result.text.splitlines()

    def cordon_steps(self, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block:
        if node.cordoned:
            return ()
        undo = self._resume(node.host, "undo.simulated.drain")
        return (
            Step(
                id="simulated.drain",
                actor="scheduler",
                title="drain in the simulated scheduler",
                call=RunHere(argv=(self._program, "drain", node.host, request.by, request.reason)),
                goal=Goal.CORDONED,
                poll_seconds=0.5,
                undo=undo,
            ),
        )

    def drain_steps(self, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block:
        return self.cordon_steps(node, request)

    def resume_steps(self, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block:
        return (self._resume(node.host, "simulated.resume"),) if node.cordoned else ()

    def _resume(self, host: str, step_id: str) -> Step:
        return Step(
            id=step_id,
            actor="scheduler",
            title="resume in the simulated scheduler",
            call=RunHere(argv=(self._program, "resume", host)),
            goal=Goal.SCHEDULABLE,
            poll_seconds=0.5,
            why_no_undo="drain it again",
        )

    async def check(self, host: str, step: Step) -> Check:
        said = await self._state(host)
        if isinstance(said, Block):
            return Check(state=CheckState.UNKNOWN, summary=said.summary)
        state = said[0] if said else ""
        wanted = "drained" if step.goal is Goal.CORDONED else "schedulable"
        return Check(state=CheckState.DONE if state == wanted else CheckState.NOT_DONE, summary=state)

    async def perform(self, host: str, step: Step) -> Performed:
        return await perform(self._runner, step)


def _jobs(host: Host) -> tuple[Job, ...]:
    """Those whose processes are seen on the devices."""
    if host.frame is None:
        return ()
    users = {process.job: process.user for process in host.frame.processes if process.job}
    return tuple(Job(id=job, user=users[job], state="RUNNING") for job in sorted(users))
