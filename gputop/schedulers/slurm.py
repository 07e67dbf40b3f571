"""Slurm, through its own programs: on this machine or on a host of the inventory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from msgspec import structs

from gputop.domain.action import ActionRequest, Block, Check, CheckState, Goal, Step
from gputop.domain.backend import Slurm
from gputop.domain.call import CommandResult, Performed, RunHere, RunOn
from gputop.domain.host import Host
from gputop.domain.job import AdminState, Job, NodeState
from gputop.domain.policy import POLICY
from gputop.domain.problem import Problem, ProblemKind
from gputop.ports import Clock, Runner
from gputop.schedulers import slurm_steps
from gputop.schedulers.match import find_nodes, names_of_host
from gputop.schedulers.reason import parse_reason
from gputop.schedulers.slurm_check import jobs_on, judge_job, judge_node
from gputop.schedulers.slurm_read import (
    JOB_FORMAT,
    SlurmJob,
    SlurmNode,
    Unreadable,
    parse_controllers,
    parse_jobs,
    parse_jobs_json,
    parse_nodes,
    parse_nodes_json,
)
from gputop.transport.runner import perform, shown, trouble

LOOK_SECONDS = 30.0
"""For one of Slurm's programs; slurmctld under load may take long."""
FORGOTTEN = "Invalid job id"
"""What squeue says of a job that ended some minutes ago."""

REFUSALS = ("Access/permission denied", "Invalid user id", "Permission denied")
SILENCES = (
    "Unable to contact slurm controller",
    "Connection refused",
    "connect failure",
    "Zero Bytes were transmitted",
    "Socket timed out",
    "Communication",
)
"""Words by which Slurm's programs say that slurmctld does not answer."""

FILTERS = tuple(f"SQUEUE_{name}" for name in ("ACCOUNT", "LICENSES", "NAMES", "PARTITION", "QOS", "STATES", "USERS"))
"""Variables of a person's shell that would hide jobs."""

_T = TypeVar("_T")


class SlurmScheduler:
    """Implements `ports.Scheduler` and `CanGlance`, `CanCordon`, `CanDrain`, `CanResume`, `CanCancelJobs`,
    `CanRequeueJobs`, `CanRebootNode`."""

    name = "slurm"

    def __init__(self, spec: Slurm, runner: Runner, clock: Clock) -> None:
        self._spec = spec
        self._runner = runner
        self._clock = clock
        self._controllers: tuple[str, ...] = ()
        self._no_json: set[str] = set()
        """Programs of an older Slurm, or one built without JSON."""
        self._drain_seconds: dict[str, float] = {}
        """By host, from its policy."""

    async def observe(self, hosts: Sequence[Host]) -> Mapping[str, NodeState]:
        self._drain_seconds |= {host.name: host.spec.policy.drain_deadline_seconds for host in hosts}
        nodes, controllers = await asyncio.gather(self._nodes(), self._controller_names())
        if isinstance(nodes, Problem) or isinstance(controllers, Problem):
            problem = nodes if isinstance(nodes, Problem) else controllers
            assert isinstance(problem, Problem)
            return {host.name: self._blocked(host, _block(problem)) for host in hosts}
        by_name = {node.name: node for node in nodes}
        known = {node.name: (node.address, node.hostname) for node in nodes}
        found = find_nodes(hosts, self._spec.node, known)
        names = sorted(node for node in found.values() if isinstance(node, str))
        jobs = await self._jobs(names) if names else []
        states = {}
        for host in hosts:
            node = found[host.name]
            if isinstance(node, Block):
                states[host.name] = self._blocked(host, node)
            elif isinstance(jobs, Problem):
                states[host.name] = self._blocked(host, _block(jobs), node)
            else:
                states[host.name] = self._state(host, by_name[node], jobs, controllers)
        return states

    async def glance(self, hosts: Sequence[Host]) -> Mapping[str, NodeState]:
        nodes = await self._nodes()
        if isinstance(nodes, Problem):
            return {host.name: self._blocked(host, _block(nodes)) for host in hosts}
        by_name = {node.name: node for node in nodes}
        known = {node.name: (node.address, node.hostname) for node in nodes}
        found = find_nodes(hosts, self._spec.node, known)
        states = {}
        for host in hosts:
            node = found[host.name]
            states[host.name] = (
                self._blocked(host, node) if isinstance(node, Block) else self._state(host, by_name[node], None, ())
            )
        return states

    def cordon_steps(self, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block:
        return slurm_steps.cordon_steps(self._spec, node, request)

    def drain_steps(self, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block:
        return slurm_steps.drain_steps(self._spec, node, request, self._seconds(node, request))

    def resume_steps(self, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block:
        return slurm_steps.resume_steps(self._spec, node, request)

    def cancel_steps(self, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block:
        return slurm_steps.cancel_steps(self._spec, node, request)

    def requeue_steps(self, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block:
        return slurm_steps.requeue_steps(self._spec, node, request)

    def reboot_steps(self, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block:
        return slurm_steps.reboot_steps(self._spec, node, request, self._seconds(node, request))

    async def check(self, host: str, step: Step) -> Check:
        if step.goal in (Goal.JOBS_GONE, Goal.JOBS_REQUEUED):
            found = await self._job(step.wanted["job"])
            if isinstance(found, Problem):
                return Check(state=CheckState.UNKNOWN, summary=found.summary)
            return judge_job(step, found)
        name = step.wanted["node"]
        nodes, jobs = await asyncio.gather(self._nodes(name), self._jobs([name]))
        if isinstance(nodes, Problem) or isinstance(jobs, Problem):
            problem = nodes if isinstance(nodes, Problem) else jobs
            assert isinstance(problem, Problem)
            return Check(state=CheckState.UNKNOWN, summary=problem.summary)
        node = next((node for node in nodes if node.name == name), None)
        if node is None:
            return Check(state=CheckState.UNKNOWN, summary=f"Slurm says nothing of node {name}")
        return judge_node(step, node, jobs_on(node, jobs), self._clock.now())

    async def perform(self, host: str, step: Step) -> Performed:
        performed = await perform(self._runner, step)
        if performed.problem is None:
            return performed
        return structs.replace(performed, problem=_explain(performed.problem, performed.output))

    def _seconds(self, node: NodeState, request: ActionRequest) -> float:
        own = self._drain_seconds.get(node.host, POLICY.drain_deadline_seconds)
        return own if request.deadline_seconds is None else request.deadline_seconds

    def _state(
        self, host: Host, node: SlurmNode, jobs: Sequence[SlurmJob] | None, controllers: Sequence[str]
    ) -> NodeState:
        """`jobs`: `None` where they were not asked for."""
        held = node.state.cordoned or node.state.admin is AdminState.DOWN
        ours = parse_reason(node.reason)
        return NodeState(
            host=host.name,
            scheduler=self.name,
            node=node.name,
            admin=node.state.admin,
            raw=node.state.text,
            flags=(node.state.base.lower(), *sorted(node.state.flags)),
            cordoned=node.state.cordoned,
            reason=node.reason if held else None,
            by=(ours.by if ours is not None else node.reason_by) if held else None,
            since=node.reason_at if held else None,
            booted_at=node.booted_at,
            jobs=jobs_on(node, jobs) if jobs is not None else (),
            controller=self._is_controller(host, controllers),
            observed_at=self._clock.now(),
        )

    def _is_controller(self, host: Host, controllers: Sequence[str]) -> bool:
        names = {name.lower() for name in (*controllers, *self._spec.controllers)}
        if "localhost" in names and (host.spec.local or host.name == self._spec.via):
            return True
        return bool(names_of_host(host) & names)

    def _blocked(self, host: Host, block: Block, node: str | None = None) -> NodeState:
        now = self._clock.now()
        return NodeState(host=host.name, scheduler=self.name, node=node, block=block, observed_at=now)

    # --- what is read: JSON where Slurm has it, for no text can be mistaken there; else text -----------------------

    async def _nodes(self, name: str | None = None) -> list[SlurmNode] | Problem:
        words = ("scontrol", "-d", "show", "node", *((name,) if name is not None else ()))
        found = await self._read_json((*words, "--json"), parse_nodes_json)
        if found is None:
            found = await self._read((*words, "-o"), lambda result: parse_nodes(result.text))
        if isinstance(found, list) and not found:
            return Problem(kind=ProblemKind.TOOL_FAILED, summary="Slurm lists no node")
        return found

    async def _jobs(self, nodes: Sequence[str]) -> list[SlurmJob] | Problem:
        words = ("squeue", "--all", "--nodelist", ",".join(nodes))
        found = await self._read_json((*words, "--json"), parse_jobs_json)
        if found is None:
            text = (*words, "--noheader", "--format", JOB_FORMAT)
            found = await self._read(text, lambda result: parse_jobs(result.text))
        return found

    async def _job(self, number: str) -> list[Job] | Problem:
        """One job as text: 22.05 does not say in JSON that it is COMPLETING."""
        words = ("squeue", "--all", "--jobs", number, "--noheader", "--format", JOB_FORMAT)
        result = await self._run(*words)
        if result.exit_status == 1 and FORGOTTEN in result.error_text:
            return []
        found = _parsed(result, words[0], lambda result: parse_jobs(result.text))
        return found if isinstance(found, Problem) else [job.job for job in found if job.job.id == number]

    async def _controller_names(self) -> tuple[str, ...] | Problem:
        if not self._controllers:
            words = ("scontrol", "show", "config")
            found = await self._read(words, lambda result: list(parse_controllers(result.text)))
            if isinstance(found, Problem):
                return found
            self._controllers = tuple(found)
        return self._controllers

    async def _read_json(self, words: tuple[str, ...], parse: Callable[[bytes], list[_T]]) -> list[_T] | Problem | None:
        """`None`: this Slurm says it as text only, or it is too much to be kept."""
        if words[0] in self._no_json:
            return None
        result = await self._run(*words)
        said = result.error_text + result.text
        problem = trouble(result)
        late = problem is not None and problem.kind is ProblemKind.TIMED_OUT  # as text it would be as late
        silent = late or any(words in said for words in SILENCES)
        without = result.exit_status not in (0, None) and not silent
        if result.truncated or without:
            self._no_json.add(words[0])
            return None
        return _parsed(result, words[0], lambda result: parse(result.stdout))

    async def _read(self, words: tuple[str, ...], parse: Callable[[CommandResult], list[_T]]) -> list[_T] | Problem:
        return _parsed(await self._run(*words), words[0], parse)

    async def _run(self, *words: str) -> CommandResult:
        """A program that changes nothing, with times in UTC and its usual formats."""
        unset = (word for name in FILTERS for word in ("-u", name))
        argv = ("env", *unset, "TZ=UTC", "SLURM_TIME_FORMAT=standard", *words)
        call = RunOn(host=self._spec.via, argv=argv) if self._spec.via is not None else RunHere(argv=argv)
        return await self._runner.run(call, deadline_seconds=LOOK_SECONDS)


def _parsed(result: CommandResult, program: str, parse: Callable[[CommandResult], list[_T]]) -> list[_T] | Problem:
    problem = trouble(result)
    if problem is not None:
        return _explain(problem, shown(result.error_text + result.text))
    try:
        return parse(result)
    except Unreadable as error:
        return Problem(kind=ProblemKind.TOOL_FAILED, summary=f"{program}: {error}")


def _explain(problem: Problem, said: str) -> Problem:
    """What went wrong, told apart: not allowed, no controller, no such program."""
    if any(words in said for words in SILENCES):
        summary = "slurmctld does not answer"
        return Problem(kind=ProblemKind.CONNECTION_REFUSED, summary=summary, detail=said)
    if problem.kind is ProblemKind.TIMED_OUT:
        return structs.replace(problem, summary=f"Slurm does not answer: {problem.summary}")
    if any(words in said for words in REFUSALS):
        summary = "Slurm does not allow this account to do that"
        hint = "let an operator or administrator of Slurm do it, or raise its AdminLevel"
        return Problem(kind=ProblemKind.PERMISSION, summary=summary, detail=said, hint=hint)
    if problem.kind is ProblemKind.TOOL_MISSING or "exit status 127" in problem.summary:
        summary = "Slurm's programs are not on the PATH of this account"
        return Problem(kind=ProblemKind.TOOL_MISSING, summary=summary, detail=said or problem.summary)
    return problem


def _block(problem: Problem) -> Block:
    kind = "permission" if problem.kind is ProblemKind.PERMISSION else "no-answer"
    return Block(kind=kind, summary=problem.summary, hint=problem.hint)
