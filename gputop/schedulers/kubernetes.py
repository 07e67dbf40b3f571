"""Kubernetes, through kubectl: its drain is the reference, and it brings the user's kubeconfig, plug-ins and rights."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from msgspec import structs

from gputop.domain.action import ActionRequest, Block, Check, CheckState, Goal, Step
from gputop.domain.backend import Kubernetes
from gputop.domain.call import CommandResult, Performed
from gputop.domain.host import Host
from gputop.domain.job import AdminState, NodeState
from gputop.domain.policy import POLICY
from gputop.domain.problem import Problem, ProblemKind
from gputop.ports import Clock, Runner
from gputop.schedulers import kubernetes_steps
from gputop.schedulers.kubernetes_check import describe_budget, judge_node, judge_pods
from gputop.schedulers.kubernetes_read import (
    LEFT_ALONE,
    NODE_COLUMNS,
    OWNER_COLUMNS,
    OWNER_KINDS,
    Budget,
    KubeNode,
    KubePod,
    Unreadable,
    covering,
    parse_budgets,
    parse_node_names,
    parse_nodes,
    parse_pods,
)
from gputop.schedulers.kubernetes_steps import kubectl, trial_call
from gputop.schedulers.match import find_nodes
from gputop.schedulers.reason import parse_reason
from gputop.transport.runner import perform, shown, trouble

LOOK_SECONDS = 30.0
AT_ONCE = 4
"""kubectl processes at the same time."""

SILENCES = (
    "Unable to connect to the server",
    "was refused - did you specify",
    "couldn't get current server API group list",
    "i/o timeout",
    "TLS handshake timeout",
    "Client.Timeout exceeded",
)
"""Words by which kubectl says that the API server does not answer."""
UNKNOWN_USER = ("You must be logged in to the server", "Unauthorized", "provide credentials")
NO_CREDENTIALS = "getting credentials: "
"""Behind it kubectl says what became of the program that should fetch them."""
NO_CONTEXT = ("context was not found", "does not exist")
TIMED_OUT = ("global timeout reached", "drain did not complete within", "to terminate: context deadline exceeded")
OLD_KUBECTL = "doesn't support dry-run"
"""Until 1.20 kubectl could list what it would evict, and then stumbled."""
BUDGET = "disruption budget"
"""In what kubectl prints when a PodDisruptionBudget refuses."""

_FORBIDDEN = re.compile(r'User "([^"]*)" cannot (\S+) resource "([^"]*)"')
_TOO_OLD = re.compile(r"unknown flag: \S+|invalid argument \S+ for \"?--dry-run\S*")
_NO_TRUST = re.compile(r"x509: (.*)")
_T = TypeVar("_T")


class KubernetesScheduler:
    """Implements `ports.Scheduler` and `CanGlance`, `CanCordon`, `CanDrain`, `CanResume`."""

    name = "kubernetes"

    def __init__(self, spec: Kubernetes, runner: Runner, clock: Clock) -> None:
        self._spec = spec
        self._runner = runner
        self._clock = clock
        self._places = asyncio.Semaphore(AT_ONCE)
        self._drain_seconds: dict[str, float] = {}
        """By host, from its policy."""

    async def observe(self, hosts: Sequence[Host]) -> Mapping[str, NodeState]:
        self._drain_seconds |= {host.name: host.spec.policy.drain_deadline_seconds for host in hosts}
        known = await self._names()
        if isinstance(known, Problem):
            return {host.name: self._blocked(host, _block(known)) for host in hosts}
        found = find_nodes(hosts, self._spec.node, known)
        names = sorted(node for node in found.values() if isinstance(node, str))
        nodes, owners, budgets = await asyncio.gather(self._nodes(names), self._owners(), self._budgets())
        pods = dict(zip(names, await asyncio.gather(*(self._pods(name, owners) for name in names)), strict=True))
        states = {}
        for host in hosts:
            node = found[host.name]
            if isinstance(node, Block):
                states[host.name] = self._blocked(host, node)
            else:
                states[host.name] = self._state(host, node, nodes, pods[node], budgets)
        return states

    async def glance(self, hosts: Sequence[Host]) -> Mapping[str, NodeState]:
        """Without pods: whether a cordoned node has any left is not known."""
        known = await self._names()
        if isinstance(known, Problem):
            return {host.name: self._blocked(host, _block(known)) for host in hosts}
        found = find_nodes(hosts, self._spec.node, known)
        nodes = await self._nodes(sorted(node for node in found.values() if isinstance(node, str)))
        states = {}
        for host in hosts:
            node = found[host.name]
            if isinstance(node, Block):
                states[host.name] = self._blocked(host, node)
                continue
            state = self._state(host, node, nodes, (), ())
            told = state.admin not in (AdminState.DRAINED, AdminState.DRAINING)
            states[host.name] = state if told else structs.replace(state, admin=AdminState.UNKNOWN)
        return states

    def cordon_steps(self, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block:
        return kubernetes_steps.cordon_steps(self._spec, node, request)

    def drain_steps(self, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block:
        own = self._drain_seconds.get(node.host, POLICY.drain_deadline_seconds)
        seconds = own if request.deadline_seconds is None else request.deadline_seconds
        return kubernetes_steps.drain_steps(self._spec, node, request, seconds)

    def resume_steps(self, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block:
        return kubernetes_steps.resume_steps(self._spec, node, request)

    async def check(self, host: str, step: Step) -> Check:
        name = step.wanted["node"]
        if step.goal is Goal.EVICTABLE:
            return await self._trial(step)
        nodes = await self._nodes([name])
        if isinstance(nodes, Problem):
            return Check(state=CheckState.UNKNOWN, summary=nodes.summary)
        if name not in nodes:
            return Check(state=CheckState.UNKNOWN, summary=f"the cluster says nothing of node {name}")
        if step.goal is not Goal.NO_WORK:
            return judge_node(step, nodes[name])
        pods, budgets = await asyncio.gather(self._pods(name, await self._owners()), self._budgets())
        if isinstance(pods, Problem):
            return Check(state=CheckState.UNKNOWN, summary=pods.summary)
        return judge_pods(step, nodes[name], pods, budgets, self._clock.now())

    async def perform(self, host: str, step: Step) -> Performed:
        performed = await perform(self._runner, step)
        error = next((line for line in performed.output.splitlines() if line.startswith("error: ")), None)
        if performed.ok and error is not None:  # some versions of kubectl cordon exit 0 when they were refused
            problem = Problem(kind=ProblemKind.TOOL_FAILED, summary=error, detail=performed.output)
            performed = structs.replace(performed, ok=False, problem=problem)
        if performed.problem is None:
            return performed
        if step.goal is Goal.NO_WORK and any(words in performed.output for words in TIMED_OUT):
            return structs.replace(performed, pending=True, problem=None)  # what is left is the check's to say
        return structs.replace(performed, problem=_explain(performed.problem, performed.output))

    async def _trial(self, step: Step) -> Check:
        """A drain without effect. A budget without room only means waiting; anything else would stop the real one."""
        result = await self._run_call(trial_call(self._spec, step))
        if result.ok:
            return Check(state=CheckState.DONE, summary="nothing stands in its way")
        said = shown(result.error_text + result.text)
        if any(words in said for words in TIMED_OUT) and BUDGET in said:
            return Check(state=CheckState.DONE, summary=await self._full_budgets(step.wanted["node"]))
        if OLD_KUBECTL in said:
            return Check(state=CheckState.DONE, summary="no pod needs consent; this old kubectl cannot try more")
        problem = trouble(result)
        assert problem is not None
        explained = _explain(problem, said)
        if result.lost is not None or result.exit_status is None or _is_silent(said):
            return Check(state=CheckState.UNKNOWN, summary=explained.summary)
        return Check(state=CheckState.BLOCKED, summary=explained.summary, left=tuple(_refusals(said)))

    async def _full_budgets(self, node: str) -> str:
        pods, budgets = await asyncio.gather(self._pods(node, None), self._budgets())
        if isinstance(pods, Problem):
            return "a PodDisruptionBudget has no room: the drain will wait"
        full = {describe_budget(b) for pod in pods for b in covering(pod, budgets) if b.allowed <= 0}
        return f"the drain will wait: {'; '.join(sorted(full)) or 'a PodDisruptionBudget has no room'}"

    def _state(
        self,
        host: Host,
        name: str,
        nodes: Mapping[str, KubeNode] | Problem,
        pods: Sequence[KubePod] | Problem,
        budgets: Sequence[Budget],
    ) -> NodeState:
        if isinstance(nodes, Problem):
            return self._blocked(host, _block(nodes), name)
        if isinstance(pods, Problem):
            return self._blocked(host, _block(pods), name)
        if name not in nodes:
            return self._blocked(host, Block(kind="node-not-found", summary=f"node {name} has just gone"), name)
        node = nodes[name]
        busy = [pod for pod in pods if pod.pod.fate not in LEFT_ALONE]
        ours = parse_reason(node.mark)
        return NodeState(
            host=host.name,
            scheduler=self.name,
            node=name,
            admin=node.admin(bool(busy)),
            raw=node.raw,
            flags=tuple(node.raw.lower().split(",")),
            cordoned=node.unschedulable,
            reason=node.mark if node.unschedulable else None,
            by=ours.by if ours is not None and node.unschedulable else None,
            since=node.cordoned_at,
            pods=tuple(pod.pod for pod in pods),
            budgets=tuple(b.budget for b in budgets if any(b.covers(pod) for pod in busy)),
            controller=node.control_plane,
            observed_at=self._clock.now(),
        )

    def _blocked(self, host: Host, block: Block, node: str | None = None) -> NodeState:
        now = self._clock.now()
        return NodeState(host=host.name, scheduler=self.name, node=node, block=block, observed_at=now)

    # --- what is read ----------------------------------------------------------------------------------------------

    async def _names(self) -> dict[str, tuple[str, ...]] | Problem:
        """Every node of the cluster with what a host may be found by."""
        words = ("get", "nodes", "--no-headers", "-o", f"custom-columns={NODE_COLUMNS}")
        return await self._read(words, lambda result: parse_node_names(result.text))

    async def _nodes(self, names: Sequence[str]) -> dict[str, KubeNode] | Problem:
        if not names:
            return {}
        return await self._read(("get", "node", *names, "-o", "json"), lambda result: parse_nodes(result.stdout))

    async def _pods(self, node: str, owners: Collection[str] | None) -> list[KubePod] | Problem:
        words = ("get", "pods", "--all-namespaces", f"--field-selector=spec.nodeName={node}", "-o", "json")
        return await self._read(words, lambda result: parse_pods(result.stdout, owners))

    async def _owners(self) -> frozenset[str] | None:
        """Uids of everything that may own a pod; `None` where this account may not see them."""
        kinds = ",".join(OWNER_KINDS.values())
        words = ("get", kinds, "--all-namespaces", "--no-headers", "-o", f"custom-columns={OWNER_COLUMNS}")
        found = await self._read(words, lambda result: frozenset(result.text.split()))
        return None if isinstance(found, Problem) else found

    async def _budgets(self) -> list[Budget]:
        """None where this account may not see them: then kubectl itself tells of them."""
        words = ("get", "poddisruptionbudgets.policy", "--all-namespaces", "-o", "json")
        found = await self._read(words, lambda result: parse_budgets(result.stdout))
        return [] if isinstance(found, Problem) else found

    async def _read(self, words: tuple[str, ...], parse: Callable[[CommandResult], _T]) -> _T | Problem:
        result = await self._run_call(kubectl(self._spec, f"--request-timeout={LOOK_SECONDS - 5:g}s", *words))
        problem = trouble(result)
        if problem is not None:
            return _explain(problem, shown(result.error_text + result.text))
        try:
            return parse(result)
        except Unreadable as error:
            return Problem(kind=ProblemKind.TOOL_FAILED, summary=f"kubectl get {words[1]}: {error}")

    async def _run_call(self, call: kubernetes_steps.Kubectl) -> CommandResult:
        async with self._places:
            return await self._runner.run(call, deadline_seconds=LOOK_SECONDS)


def _is_silent(said: str) -> bool:
    return any(words in said for words in SILENCES)


def _refusals(said: str) -> list[str]:
    """The lines in which kubectl names pods that it will not evict."""
    lines = (line.strip().removeprefix("error: ") for line in said.splitlines())
    return list(dict.fromkeys(line for line in lines if line.startswith("cannot delete")))


def _explain(problem: Problem, said: str) -> Problem:
    """What went wrong, told apart: not allowed, not known, no server, no such context, no kubectl, a refused drain."""
    if match := _FORBIDDEN.search(said):
        summary = f"the cluster does not let {match[1]} {match[2]} {match[3]}"
        return Problem(kind=ProblemKind.PERMISSION, summary=summary, detail=said, hint="ask for that right (RBAC)")
    if any(words in said for words in UNKNOWN_USER):
        return Problem(kind=ProblemKind.AUTH_REFUSED, summary="the cluster does not know this account", detail=said)
    if why := said.partition(NO_CREDENTIALS)[2]:
        summary = f"kubectl gets no credentials: {why.splitlines()[0]}"[:200]
        return Problem(kind=ProblemKind.AUTH_REFUSED, summary=summary, detail=said)
    if match := _NO_TRUST.search(said):
        summary = f"kubectl does not accept the API server's certificate: {match[1]}"
        return Problem(kind=ProblemKind.TOOL_FAILED, summary=summary, detail=said)
    if _is_silent(said):
        summary = "the API server does not answer"
        return Problem(kind=ProblemKind.CONNECTION_REFUSED, summary=summary, detail=said)
    if problem.kind is ProblemKind.TIMED_OUT:
        return structs.replace(problem, summary=f"the cluster does not answer: {problem.summary}")
    if "context" in said and any(words in said for words in NO_CONTEXT):
        return Problem(kind=ProblemKind.TOOL_FAILED, summary="the kubeconfig has no such context", detail=said)
    if problem.kind is ProblemKind.TOOL_MISSING or "exit status 127" in problem.summary:
        summary = "kubectl is not on the PATH of this account"
        return Problem(kind=ProblemKind.TOOL_MISSING, summary=summary, detail=said or problem.summary)
    if match := _TOO_OLD.search(said):
        summary = f"this kubectl is too old: {match[0]}"
        return Problem(kind=ProblemKind.TOOL_FAILED, summary=summary, detail=said, hint="kubectl 1.20 or newer")
    if refused := _refusals(said):
        summary = f"kubectl evicts nothing: {'; '.join(refused)}"
        return Problem(kind=ProblemKind.TOOL_FAILED, summary=summary, detail=said)
    return problem


def _block(problem: Problem) -> Block:
    kind = "permission" if problem.kind is ProblemKind.PERMISSION else "no-answer"
    return Block(kind=kind, summary=problem.summary, hint=problem.hint)
