"""The one gate: keys, palette, mouse and command line all come through here.

propose: look, plan, judge            carry_out: look again, judge again, confirm, audit, execute
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

from gputop.actions.audit import AuditLog
from gputop.actions.device import (
    FABRIC_UNIT,
    UNITS,
    DeviceHolder,
    look_at_holders,
    look_at_process,
    look_at_units,
    read_holders,
    read_process,
)
from gputop.actions.enquiries import Enquiries
from gputop.actions.evidence import Evidence, changes, new_losses
from gputop.actions.executor import Executor
from gputop.actions.faults import Fault
from gputop.actions.forgetting import forget
from gputop.actions.guards import REMOVES, Surroundings, is_confirmed, judge
from gputop.actions.here import Trace, jump_hosts, own_addresses, own_host_keys, own_identity
from gputop.actions.identities import identities
from gputop.actions.inspect import Inspection, inspect
from gputop.actions.journal import InUse, Story, devices_before
from gputop.actions.lease import remember
from gputop.actions.lock import ActionLock
from gputop.actions.onhost import HostActor
from gputop.actions.plan import PLAN_SECONDS, BackEnds, make_plan
from gputop.actions.run import Listener
from gputop.actions.state import act_state, describe
from gputop.actions.words import in_plain_words, one_line
from gputop.domain.action import (
    BESIDE,
    ActionKind,
    ActionRequest,
    Deny,
    HostPlan,
    Outcome,
    Plan,
    Progress,
    Refusal,
    Seen,
    Verdict,
)
from gputop.domain.backend import Kubernetes, Slurm, SshPower
from gputop.domain.host import Host, HostSpec
from gputop.domain.instance import Instance
from gputop.domain.job import NodeState
from gputop.domain.link import Link, LinkState
from gputop.domain.problem import Problem, ProblemKind
from gputop.domain.record import AuditEvent, AuditRecord
from gputop.ports import CanGlance, Clock, Observer, PowerProvider, Runner, Scheduler

log = logging.getLogger(__name__)

FRESH_SECONDS = 5.0
"""A plan older than this is made again before it is carried out."""

LOOK_SECONDS = 15.0

GLANCE_SECONDS = 5.0
"""How long a scheduler is asked where a host stands, for an act that does not depend on the answer."""

ASKS_SCHEDULER = frozenset(ActionKind) - {ActionKind.START}
COUNTS_DEVICES = frozenset({ActionKind.DRAIN, ActionKind.RESUME, ActionKind.REBOOT, ActionKind.START})
ASKS_POWER = frozenset({ActionKind.STOP, ActionKind.START, ActionKind.HIBERNATE, ActionKind.REBOOT})


class Proposal(Struct, frozen=True, kw_only=True):
    """A plan and what the guards say of it."""

    plan: Plan
    verdict: Verdict


class NotConfirmed(Struct, frozen=True, kw_only=True):
    """What was typed is not what was asked for; nothing was done."""


class Expired(Struct, frozen=True, kw_only=True):
    """The plan that a person has seen does not cover what would be done now; nothing was done."""

    proposal: Proposal
    """The new plan."""
    changes: tuple[str, ...] = ()
    """What it says that the old one did not."""


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
        trace: Trace,
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
        self._trace = trace

    @property
    def observer(self) -> Observer:
        return self._observer

    @property
    def runner(self) -> Runner:
        """For looks; nothing is changed through it but by the executor."""
        return self._runner

    @property
    def specs(self) -> Mapping[str, HostSpec]:
        """Of all hosts of the inventory."""
        return self._specs

    @property
    def audit(self) -> AuditLog:
        return self._audit

    @property
    def clock(self) -> Clock:
        return self._clock

    async def glance(self, hosts: Sequence[Host]) -> Mapping[str, NodeState]:
        """Whether `hosts` are given new work, of those whose scheduler is asked for it cheaply."""
        asked: dict[int, tuple[CanGlance, list[Host]]] = {}
        for host in hosts:
            ends = self._back_ends.get(host.name)
            if ends is not None and isinstance(ends.scheduler, CanGlance):
                asked.setdefault(id(ends.scheduler), (ends.scheduler, []))[1].append(host)
        answers = await asyncio.gather(*(scheduler.glance(its) for scheduler, its in asked.values()))
        return {name: node for answer in answers for name, node in answer.items()}

    async def propose(self, request: ActionRequest) -> Proposal | Problem:
        """Look at the hosts, make the plan, ask the guards. Changes nothing."""
        if (strange := self._strange(request.hosts)) is not None:
            return strange
        plain = in_plain_words(request)
        if isinstance(plain, Problem):
            return plain
        request = plain
        evidence, (jumps, untraced) = await asyncio.gather(self._gather(request), self._jumps(request))
        plan = make_plan(request, evidence, self._back_ends, self._clock.now())
        if isinstance(plan, Problem):
            return plan
        around = structs.replace(await self._surroundings(request, evidence), jumps=jumps, untraced=untraced)
        known = await identities(plan, around, self._observer, self._host_actor.identify)
        around = structs.replace(around, identities=known)
        return Proposal(plan=plan, verdict=judge(plan, around))

    async def carry_out(
        self,
        proposal: Proposal,
        *,
        typed: str,
        reason: str = "",
        inventory: Sequence[str] = (),
        listen: Listener = lambda _: None,
    ) -> tuple[Outcome, ...] | Deny | NotConfirmed | Expired | Problem:
        """Carry out a plan that a person has seen. `typed`: what they typed to confirm it; `reason`: why, where the
        request did not say. The plan is made again when it is not of right now, or the reason is new; when it then
        rests on other facts, or more would be lost, nothing is done."""
        before = proposal.plan
        request = before.request
        reason = one_line(reason)
        if reason and reason != request.reason:
            request = structs.replace(request, reason=reason)
        now = self._clock.now()
        age = (now - before.created_at).total_seconds()
        fresh: Proposal | Problem = proposal
        if request != before.request or not 0 <= age <= FRESH_SECONDS:  # below 0, the clock was set back
            fresh = await self.propose(request)
        if isinstance(fresh, Problem):
            return fresh
        if found := changes(before, fresh.plan):
            return Expired(proposal=fresh, changes=found)
        if now >= before.expires_at:
            return Expired(proposal=fresh, changes=(f"the plan was older than {PLAN_SECONDS / 60:g} minutes",))
        verdict = fresh.verdict
        if not self.lock.allowed:
            verdict = Deny(refusals=(Refusal(guard="read-only", summary="gputop is read-only"),))
        if isinstance(verdict, Deny):
            self._note_refusals(fresh.plan, verdict)
            return verdict
        if not is_confirmed(verdict, typed, fresh.plan.request.reason):
            return NotConfirmed()
        try:
            outcomes = await self._executor.execute(
                fresh.plan, inventory=inventory, listen=listen, recheck=self._changed
            )
        except InUse as busy:
            self._note_refusals(fresh.plan, Deny(refusals=(Refusal(guard="in-use", summary=str(busy)),)))
            raise
        self._remember(fresh.plan, outcomes, listen)
        return outcomes

    async def seen(self, hosts: Sequence[str]) -> dict[str, Seen]:
        """Where `hosts` stand, asked now; what does not answer is unknown."""
        found = await self._observer.look(hosts)
        seen = {name: found.get(name) or self._unseen(name) for name in hosts}
        nodes = await self._nodes(list(seen.values()))
        states = {name: act_state(host, nodes.get(name), None) for name, host in seen.items()}
        return {
            name: Seen(
                state=states[name],
                now=describe(host, nodes.get(name), None, states[name]),
                boot_id=host.frame.facts.boot_id if host.frame is not None else None,
            )
            for name, host in seen.items()
        }

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

    async def resume(self, story: Story, *, listen: Listener = lambda _: None) -> tuple[Outcome, ...] | Deny | Problem:
        """Go on with an unfinished plan: it was judged and confirmed when it was begun, and is judged again now."""
        if (refused := self._strange(story.plan.request.hosts) or self._unlocked(story)) is not None:
            return refused
        outcomes = await self._executor.resume(story, listen=listen, recheck=self._changed)
        self._remember(story.plan, outcomes, listen)
        return outcomes

    async def roll_back(
        self, story: Story, *, listen: Listener = lambda _: None
    ) -> tuple[Outcome, ...] | Deny | Problem:
        """Undo an unfinished plan."""
        if (refused := self._strange(story.plan.request.hosts) or self._unlocked(story)) is not None:
            return refused
        return await self._executor.roll_back(story, listen=listen)

    def forget(self, story: Story) -> None:
        """Close an unfinished plan and leave its hosts as they are."""
        forget(story, self._audit, self._state_folder, self._clock)

    async def _changed(self, plan: Plan, host: HostPlan) -> str | None:
        """Why what is left of `host`, which waited for others or was interrupted, may not be done any more: a guard
        would refuse it now, or more would be lost than somebody agreed to."""
        jobs = tuple(step.wanted["job"] for step in host.steps if "job" in step.wanted)  # those before are gone
        fresh = await self.propose(structs.replace(plan.request, hosts=(host.host,), jobs=jobs))
        if isinstance(fresh, Problem):
            return fresh.summary
        if isinstance(fresh.verdict, Deny):
            refusals = [refusal for refusal in fresh.verdict.refusals if refusal.guard != "read-only"]
            if refusals:  # an act that was confirmed is not cut off by the lock
                return f"{refusals[0].summary} ({refusals[0].guard})"
        instance = fresh.plan.hosts[0].identity.instance_id
        if instance != host.identity.instance_id:
            return f"its power settings name another instance now: {instance}"
        more = [loss.summary for loss in new_losses(host, fresh.plan.hosts[0]) if loss.certain]
        return f"more would be lost than when it was confirmed: {', '.join(more)}" if more else None

    def _strange(self, names: Sequence[str]) -> Problem | None:
        """Hosts whose guards, scheduler and power are not known: another inventory has them."""
        strangers = ", ".join(name for name in names if name not in self._specs)
        return Problem(kind=ProblemKind.INTERNAL, summary=f"not in this inventory: {strangers}") if strangers else None

    def _remember(self, plan: Plan, outcomes: Sequence[Outcome], listen: Listener) -> None:
        try:
            marked = {host.host for host in plan.hosts if self._back_ends[host.host].scheduler.name == "none"}
            remember(self._state_folder, plan, outcomes, self._clock.now(), marked)
        except OSError as error:  # what was done is done, and stands in the audit
            log.warning("the lease of %s cannot be written: %s", plan.id, error)
            said = f'"gputop actions" does not know of it: {error.strerror}'
            for one in outcomes:
                listen(Progress(plan=plan.id, host=one.host, step=None, state=one.host_state, summary=said))

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
        hosts = await self._look(names)
        began = self._clock.monotonic()
        nodes, instances = await asyncio.gather(
            self._nodes(hosts if request.kind in ASKS_SCHEDULER else (), briefly=request.kind in BESIDE),
            self._instances(hosts if request.kind in ASKS_POWER else (), request.kind),
        )
        if self._clock.monotonic() - began > FRESH_SECONDS:  # those took their time
            hosts = await self._look(names)
        return list(await asyncio.gather(*(self._evidence(request, host, nodes, instances) for host in hosts)))

    async def _look(self, names: Sequence[str]) -> list[Host]:
        seen = await self._observer.look(names)
        return [seen.get(name) or self._unseen(name) for name in names]

    async def _evidence(
        self,
        request: ActionRequest,
        host: Host,
        nodes: Mapping[str, NodeState],
        instances: Mapping[str, Instance],
    ) -> Evidence:
        identity = await self._host_actor.identify(host.name)
        words: list[str] = []
        holders: tuple[DeviceHolder, ...] = ()
        process = None
        faults: tuple[Fault, ...] | None = None
        if request.kind is ActionKind.ACK:
            faults = await self._host_actor.faults(host)
        if request.kind is ActionKind.RESET:
            found = await self._runner.run(look_at_units(host.name), deadline_seconds=LOOK_SECONDS)
            words = found.text.split() if found.ok else []
            holders = read_holders(await self._runner.run(look_at_holders(host.name), deadline_seconds=LOOK_SECONDS))
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
            units=tuple(word for word in words if word in UNITS),
            nvswitch="nvswitch" in words or FABRIC_UNIT in words,
            holders=holders,
            devices_before=devices_before(self._state_folder, host.name) if request.kind in COUNTS_DEVICES else None,
            faults=faults,
            process=process,
            as_of=self._clock.now(),
        )

    def _unseen(self, name: str) -> Host:
        link = Link(state=LinkState.PENDING, since=self._clock.now())
        return Host(spec=self._specs[name], link=link, reported=link)

    async def _nodes(self, hosts: Sequence[Host], *, briefly: bool = False) -> Mapping[str, NodeState]:
        """`briefly`: a scheduler that takes its time is left out."""
        asked: dict[int, tuple[Scheduler, list[Host]]] = {}
        for host in hosts:
            scheduler = self._back_ends[host.name].scheduler
            asked.setdefault(id(scheduler), (scheduler, []))[1].append(host)

        async def observe(scheduler: Scheduler, its: Sequence[Host]) -> Mapping[str, NodeState]:
            try:
                async with asyncio.timeout(GLANCE_SECONDS if briefly else None):
                    return await scheduler.observe(its)
            except TimeoutError:
                return {}

        answers = await asyncio.gather(*(observe(scheduler, its) for scheduler, its in asked.values()))
        return {name: node for answer in answers for name, node in answer.items()}

    async def _instances(self, hosts: Sequence[Host], kind: ActionKind) -> Mapping[str, Instance]:
        asked: dict[int, tuple[PowerProvider, list[Host]]] = {}
        for host in hosts:
            power = self._back_ends[host.name].power_for(kind)
            if power is not None:
                asked.setdefault(id(power), (power, []))[1].append(host)
        answers = await asyncio.gather(*(power.observe(its) for power, its in asked.values()))
        return {name: instance for answer in answers for name, instance in answer.items()}

    async def _jumps(self, request: ActionRequest) -> tuple[set[str], dict[str, str]]:
        if request.kind not in REMOVES:
            return set(), {}
        return await jump_hosts(list(self._specs.values()), self._trace)

    async def _surroundings(self, request: ActionRequest, evidence: Sequence[Evidence]) -> Surroundings:
        specs = self._specs
        states = {one.host.name: act_state(one.host, one.node, one.instance) for one in evidence}
        groups = {group for one in evidence if one.host.spec.policy.min_active for group in one.host.spec.groups}
        others = [name for name, spec in specs.items() if groups & set(spec.groups) and name not in states]
        if others:
            states |= {name: one.state for name, one in (await self.seen(others)).items()}
        return Surroundings(
            allowed=self.lock.allowed,
            specs=specs,
            states=states,
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
            self_host_keys=own_host_keys(),
            own_addresses=own_addresses(evidence),
            in_band={
                name
                for name, spec in specs.items()
                if isinstance(spec.power, SshPower | None)
                or (request.kind is ActionKind.REBOOT and self._back_ends[name].system is not None)
            },
        )
