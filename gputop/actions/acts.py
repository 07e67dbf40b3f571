"""The one gate: keys, palette, mouse and command line all come through here.

propose: look, plan, judge            carry_out: look again, judge again, confirm, audit, execute
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

from gputop.actions.audit import AuditLog
from gputop.actions.device import look_at_process, look_at_units, read_process
from gputop.actions.enquiries import Enquiries
from gputop.actions.evidence import Evidence
from gputop.actions.executor import Executor, Listener
from gputop.actions.guards import Surroundings, is_confirmed, judge
from gputop.actions.inspect import Inspection, inspect
from gputop.actions.journal import Story, journal_of, locked
from gputop.actions.lease import remember
from gputop.actions.lock import ActionLock
from gputop.actions.onhost import HostActor
from gputop.actions.plan import BackEnds, make_plan
from gputop.actions.state import act_state
from gputop.domain.action import (
    ActionKind,
    ActionRequest,
    Deny,
    HostActState,
    HostIdentity,
    HostPlan,
    Outcome,
    Plan,
    Refusal,
    Verdict,
)
from gputop.domain.backend import Kubernetes, Slurm, SshPower
from gputop.domain.host import Host, HostSpec
from gputop.domain.instance import Instance
from gputop.domain.job import NodeState
from gputop.domain.link import Link, LinkState
from gputop.domain.problem import Problem, ProblemKind
from gputop.domain.proof import boot_id
from gputop.domain.record import AuditEvent, AuditRecord, PlanClosed
from gputop.ports import Clock, Observer, PowerProvider, Runner, Scheduler

log = logging.getLogger(__name__)

FRESH_SECONDS = 5.0
"""A plan older than this is made again before it is carried out."""

LOOK_SECONDS = 15.0

ASKS_SCHEDULER = frozenset(ActionKind) - {
    ActionKind.START,
    ActionKind.SIGNAL,
    ActionKind.POWER_CAP,
    ActionKind.MESSAGE,
    ActionKind.RESET,
}
ASKS_POWER = frozenset({ActionKind.STOP, ActionKind.START, ActionKind.HIBERNATE, ActionKind.REBOOT})


class Proposal(Struct, frozen=True, kw_only=True):
    """A plan and what the guards say of it."""

    plan: Plan
    verdict: Verdict


class NotConfirmed(Struct, frozen=True, kw_only=True):
    """What was typed is not what was asked for; nothing was done."""


class Expired(Struct, frozen=True, kw_only=True):
    """The facts changed since the plan was made; nothing was done. `proposal` is the new plan."""

    proposal: Proposal


class Acts:
    """Plans acts and carries them out."""

    def __init__(
        self,
        *,
        specs: Mapping[str, HostSpec],
        back_ends: Mapping[str, BackEnds],
        observer: Observer,
        runner: Runner,
        host_actor: HostActor,
        executor: Executor,
        audit: AuditLog,
        lock: ActionLock,
        clock: Clock,
        state_folder: Path,
    ) -> None:
        """`specs`: all hosts of the inventory. `back_ends`: of each of them."""
        self._specs = specs
        self._back_ends = back_ends
        self._observer = observer
        self._runner = runner
        self._host_actor = host_actor
        self._executor = executor
        self._audit = audit
        self.lock = lock
        self.enquiries = Enquiries(back_ends, runner, clock)
        self._clock = clock
        self._state_folder = state_folder

    async def propose(self, request: ActionRequest) -> Proposal | Problem:
        """Look at the hosts, make the plan, ask the guards. Changes nothing."""
        strangers = [name for name in request.hosts if name not in self._specs]
        if strangers:
            return Problem(kind=ProblemKind.INTERNAL, summary=f"not a host of this fleet: {', '.join(strangers)}")
        evidence = await self._gather(request)
        plan = make_plan(request, evidence, self._back_ends, self._clock.now())
        if isinstance(plan, Problem):
            return plan
        return Proposal(plan=plan, verdict=judge(plan, await self._surroundings(request, evidence)))

    async def carry_out(
        self,
        proposal: Proposal,
        *,
        typed: str,
        reason: str = "",
        inventory: Sequence[str] = (),
        wait: bool = True,
        listen: Listener = lambda _: None,
    ) -> tuple[Outcome, ...] | Deny | NotConfirmed | Expired | Problem:
        """Carry out a plan that a person has seen. `typed`: what they typed to confirm it; `reason`: why, where the
        request did not say. The plan is made again when it is not of right now, or the reason is new; when it then
        rests on other facts, nothing is done."""
        before = proposal.plan
        request = before.request
        if reason.strip() and reason != request.reason:
            request = structs.replace(request, reason=reason)
        now = self._clock.now()
        age = (now - before.created_at).total_seconds()
        fresh: Proposal | Problem = proposal
        if request != before.request or age > FRESH_SECONDS:
            fresh = await self.propose(request)
        if isinstance(fresh, Problem):
            return fresh
        if now >= before.expires_at or _facts(fresh.plan) != _facts(before):
            return Expired(proposal=fresh)
        verdict = fresh.verdict
        if not self.lock.allowed:
            verdict = Deny(refusals=(Refusal(guard="read-only", summary="gputop is read-only"),))
        if isinstance(verdict, Deny):
            self._note_refusals(fresh.plan, verdict)
            return verdict
        if not is_confirmed(verdict, typed, request.reason):
            return NotConfirmed()
        outcomes = await self._executor.execute(
            fresh.plan, inventory=inventory, wait=wait, listen=listen, recheck=self._changed
        )
        self._remember(fresh.plan, outcomes)
        return outcomes

    async def inspect(
        self, hosts: Sequence[str], outcomes: Sequence[AuditRecord] = (), *, raw: bool = False
    ) -> list[Inspection]:
        """Everything about `hosts`. `outcomes`: what the audit log says; each host gets its own."""
        seen = await self._observer.look(hosts)
        return list(
            await asyncio.gather(
                *(
                    inspect(
                        seen.get(name) or self._unseen(name),
                        self._back_ends[name].scheduler,
                        self._back_ends[name].power,
                        self._runner,
                        self._clock,
                        [record for record in outcomes if record.host == name],
                        raw=raw,
                    )
                    for name in hosts
                )
            )
        )

    async def resume(self, story: Story, *, listen: Listener = lambda _: None) -> tuple[Outcome, ...] | Deny:
        """Go on with an unfinished plan: it was judged and confirmed when it was begun. Hosts whose turn had not come
        are judged again."""
        if (refused := self._unlocked(story)) is not None:
            return refused
        outcomes = await self._executor.resume(story, listen=listen, recheck=self._changed)
        self._remember(story.plan, outcomes)
        return outcomes

    async def roll_back(self, story: Story, *, listen: Listener = lambda _: None) -> tuple[Outcome, ...] | Deny:
        """Undo an unfinished plan."""
        if (refused := self._unlocked(story)) is not None:
            return refused
        return await self._executor.roll_back(story, listen=listen)

    def forget(self, story: Story) -> None:
        """Close an unfinished plan and leave its hosts as they are."""
        forget(story, self._audit, self._state_folder, self._clock)

    async def _changed(self, plan: Plan, host: HostPlan) -> str | None:
        """Why `host`, which waited for others, may not be begun any more: a guard would refuse it now, or more would be
        lost than somebody agreed to."""
        fresh = await self.propose(structs.replace(plan.request, hosts=(host.host,)))
        if isinstance(fresh, Problem):
            return fresh.summary
        if isinstance(fresh.verdict, Deny):
            refusals = [refusal for refusal in fresh.verdict.refusals if refusal.guard != "read-only"]
            if refusals:  # an act that was confirmed is not cut off by the lock
                return f"{refusals[0].summary} ({refusals[0].guard})"
        instance = fresh.plan.hosts[0].identity.instance_id
        if instance != host.identity.instance_id:
            return f"its power settings name another instance now: {instance}"
        agreed = {loss.summary for loss in host.losses}
        more = [loss.summary for loss in fresh.plan.hosts[0].losses if loss.certain and loss.summary not in agreed]
        return f"more would be lost than when it was confirmed: {', '.join(more)}" if more else None

    def _remember(self, plan: Plan, outcomes: Sequence[Outcome]) -> None:
        try:
            remember(self._state_folder, plan, outcomes, self._clock.now())
        except OSError as error:  # what was done is done, and stands in the audit
            log.warning("the lease of %s cannot be written: %s", plan.id, error)

    def _unlocked(self, story: Story) -> Deny | None:
        if self.lock.allowed:
            return None
        verdict = Deny(refusals=(Refusal(guard="read-only", summary="gputop is read-only"),))
        self._note_refusals(story.plan, verdict)
        return verdict

    def _note_refusals(self, plan: Plan, verdict: Deny) -> None:
        for refusal in verdict.refusals:
            self._audit.write(
                AuditRecord(
                    time=self._clock.now(),
                    event=AuditEvent.REFUSED,
                    plan=plan.id,
                    act=plan.request.kind,
                    host=refusal.host,
                    reason=plan.request.reason,
                    result=refusal.guard,
                    summary=refusal.summary,
                )
            )

    # --- looking ---------------------------------------------------------------------------------------------------

    async def _gather(self, request: ActionRequest) -> list[Evidence]:
        names = list(dict.fromkeys(request.hosts))
        seen = await self._observer.look(names)
        hosts = [seen.get(name) or self._unseen(name) for name in names]
        nodes, instances = await asyncio.gather(
            self._nodes(hosts if request.kind in ASKS_SCHEDULER else ()),
            self._instances(hosts if request.kind in ASKS_POWER else ()),
        )
        return list(await asyncio.gather(*(self._evidence(request, host, nodes, instances) for host in hosts)))

    async def _evidence(
        self,
        request: ActionRequest,
        host: Host,
        nodes: Mapping[str, NodeState],
        instances: Mapping[str, Instance],
    ) -> Evidence:
        identity = await self._host_actor.identify(host.name)
        units: tuple[str, ...] = ()
        process = None
        if request.kind is ActionKind.RESET:
            found = await self._runner.run(look_at_units(host.name), deadline_seconds=LOOK_SECONDS)
            units = tuple(found.text.split()) if found.ok else ()
        if request.kind is ActionKind.SIGNAL and request.process is not None:
            pid = request.process.pid
            process = read_process(
                pid, await self._runner.run(look_at_process(host.name, pid), deadline_seconds=LOOK_SECONDS)
            )
        return Evidence(
            host=host,
            node=nodes.get(host.name),
            instance=instances.get(host.name),
            identity=identity,
            units=units,
            process=process,
            as_of=self._clock.now(),
        )

    def _unseen(self, name: str) -> Host:
        link = Link(state=LinkState.PENDING, since=self._clock.now())
        return Host(spec=self._specs[name], link=link, reported=link)

    async def _nodes(self, hosts: Sequence[Host]) -> Mapping[str, NodeState]:
        asked: dict[int, tuple[Scheduler, list[Host]]] = {}
        for host in hosts:
            scheduler = self._back_ends[host.name].scheduler
            asked.setdefault(id(scheduler), (scheduler, []))[1].append(host)
        answers = await asyncio.gather(*(scheduler.observe(its) for scheduler, its in asked.values()))
        return {name: node for answer in answers for name, node in answer.items()}

    async def _instances(self, hosts: Sequence[Host]) -> Mapping[str, Instance]:
        asked: dict[int, tuple[PowerProvider, list[Host]]] = {}
        for host in hosts:
            power = self._back_ends[host.name].power
            if power is not None:
                asked.setdefault(id(power), (power, []))[1].append(host)
        answers = await asyncio.gather(*(power.observe(its) for power, its in asked.values()))
        return {name: instance for answer in answers for name, instance in answer.items()}

    async def _surroundings(self, request: ActionRequest, evidence: Sequence[Evidence]) -> Surroundings:
        specs = self._specs
        states = {one.host.name: act_state(one.host, one.node, one.instance) for one in evidence}
        groups = {group for one in evidence if one.host.spec.policy.min_active for group in one.host.spec.groups}
        others = [name for name, spec in specs.items() if groups & set(spec.groups) and name not in states]
        if others:
            states |= await self._states(others)
        return Surroundings(
            allowed=self.lock.allowed,
            specs=specs,
            states=states,
            jumps=await self._jumps(),
            controllers={one.host.name for one in evidence if one.node is not None and one.node.controller}
            | {
                name
                for spec in specs.values()
                if isinstance(spec.scheduler, Slurm)
                for name in spec.scheduler.controllers
            },
            vias={
                spec.scheduler.via
                for spec in specs.values()
                if isinstance(spec.scheduler, Slurm | Kubernetes) and spec.scheduler.via is not None
            },
            self_identity=own_identity(),
            own_addresses=own_addresses(evidence),
            in_band={name for name, spec in specs.items() if spec.power is None or isinstance(spec.power, SshPower)},
        )

    async def _states(self, names: Sequence[str]) -> dict[str, HostActState]:
        seen = await self._observer.look(names)
        nodes = await self._nodes(list(seen.values()))
        return {name: act_state(host, nodes.get(name), None) for name, host in seen.items()}

    async def _jumps(self) -> set[str]:
        """Names of hosts, and addresses, that others are reached through."""
        known = await self._observer.known(list(self._specs))
        hops = [hop for spec in self._specs.values() for hop in spec.jump or ()]
        hops += [hop for host in known.values() if host.endpoint is not None for hop in host.endpoint.jump]
        found = {bare(hop) for hop in hops}
        addresses = {name: host.endpoint.address for name, host in known.items() if host.endpoint is not None}
        return found | {name for name, address in addresses.items() if address in found and not _is_loopback(address)}


def forget(story: Story, audit: AuditLog, state_folder: Path, clock: Clock) -> None:
    """Close an unfinished plan and leave its hosts as they are."""
    plan = story.plan
    with locked(state_folder, plan.id, [host.host for host in plan.hosts]):
        now = clock.now()
        for host in plan.hosts:
            audit.write(
                AuditRecord(
                    time=now,
                    event=AuditEvent.OUTCOME,
                    plan=plan.id,
                    act=plan.request.kind,
                    host=host.host,
                    result="forgotten",
                    summary="closed by hand; the host was left as it is",
                )
            )
        journal_of(state_folder, plan.id).write(PlanClosed(time=now, how="forgotten"))


def _facts(plan: Plan) -> list[tuple[str, str]]:
    return [(host.host, host.evidence) for host in plan.hosts]


def bare(hop: str) -> str:
    """The host of `user@host:port`."""
    host = hop.rpartition("@")[2]
    if match := re.fullmatch(r"\[(.*)\](?::\d+)?", host):
        return match[1]
    return host.partition(":")[0] if host.count(":") == 1 else host


def own_identity() -> HostIdentity:
    """Of the machine that gputop runs on."""
    return HostIdentity(boot_id=boot_id(_read("/proc/sys/kernel/random/boot_id")), machine_id=_read("/etc/machine-id"))


def own_addresses(evidence: Sequence[Evidence], environment: Mapping[str, str] = os.environ) -> set[str]:
    """Names of the hosts in `evidence` that the user's own SSH session came from or ended at."""
    words = environment.get("SSH_CONNECTION", "").split()
    ends = {word for word in words[::2] if not _is_loopback(word)}
    return {
        one.host.name for one in evidence if one.host.endpoint is not None and one.host.endpoint.address in ends
    } | ends


def _is_loopback(address: str) -> bool:
    return address in ("localhost", "::1") or address.startswith("127.")


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None
