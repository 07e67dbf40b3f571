"""From a request and what is known of its hosts to a plan. Pure: whoever calls it has looked before."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct, structs

from gputop.actions.ack import plan_ack
from gputop.actions.device import message_lines
from gputop.actions.device_plan import plan_power_cap, plan_reset, plan_signal
from gputop.actions.evidence import Evidence, Work, device_keys, digest, no_answer
from gputop.actions.gate import DIAGNOSIS_SECONDS, GATE_SECONDS
from gputop.actions.hooks import drained_hook, hook
from gputop.actions.state import (
    OF_NO_JOB,
    act_state,
    data_age_seconds,
    describe,
    loss_of_job,
    losses_of_drain,
    losses_of_end,
    losses_of_reboot,
    of_no_job,
    pods_of_drain,
    unprovable,
)
from gputop.actions.verify import emptiness
from gputop.domain.action import (
    ActionKind,
    ActionRequest,
    Block,
    CheckState,
    Consent,
    Goal,
    HostActState,
    HostIdentity,
    HostPlan,
    Loss,
    LossKind,
    Plan,
    Step,
)
from gputop.domain.call import Watch
from gputop.domain.instance import Instance
from gputop.domain.job import NodeState
from gputop.domain.problem import Problem, ProblemKind
from gputop.ports import (
    CanCancelJobs,
    CanCordon,
    CanDrain,
    CanHibernate,
    CanReboot,
    CanRebootNode,
    CanRequeueJobs,
    CanResume,
    CanStart,
    CanStop,
    PowerProvider,
    Scheduler,
)
from gputop.schedulers.none import MarkerScheduler, tell_step

PLAN_SECONDS = 300.0
"""A plan that nobody confirmed within this time has expired."""

CLOSED_SECONDS = 10.0
"""How long a scheduler is asked whether a host that is empty still takes no work."""


class BackEnds(Struct, frozen=True, kw_only=True):
    """Who would carry out the steps of one host."""

    scheduler: Scheduler
    power: PowerProvider | None = None
    system: PowerProvider | None = None
    """Its operating system, which reboots it where `power` has no word for that; `None`: `power` does."""

    def power_for(self, kind: ActionKind) -> PowerProvider | None:
        return self.system if kind is ActionKind.REBOOT and self.system is not None else self.power


def make_plan(
    request: ActionRequest, evidence: Sequence[Evidence], back_ends: Mapping[str, BackEnds], now: datetime
) -> Plan | Problem:
    """The plan for exactly the hosts of `evidence`. No hosts is a problem, never "all"."""
    if not evidence or not request.hosts:
        return Problem(kind=ProblemKind.INTERNAL, summary="no hosts: nothing is done, and never all of them")
    hosts = tuple(_host_plan(request, one, back_ends[one.host.name], now) for one in evidence)
    policies = [one.host.spec.policy for one in evidence]
    digest = hashlib.sha256("".join(host.evidence for host in hosts).encode()).hexdigest()[:6]
    return Plan(
        id=f"{now:%Y%m%dT%H%M%S}{now.microsecond // 1000:03d}Z-{request.kind.value}-{digest}",
        request=request,
        created_at=now,
        expires_at=now + timedelta(seconds=PLAN_SECONDS),
        hosts=hosts,
        at_once=min(policy.at_once for policy in policies),
    )


def _host_plan(request: ActionRequest, evidence: Evidence, ends: BackEnds, now: datetime) -> HostPlan:
    host = evidence.host
    state = act_state(evidence.host, evidence.node, evidence.instance)
    steps, losses, blocks, notes = _work(request, evidence, ends, state)
    blocks = (*blocks, *_other_machine(evidence))
    if evidence.instance is not None:
        notes = (*notes, *filter(None, (*evidence.instance.notes, evidence.instance.console_hint)))
    return HostPlan(
        host=host.name,
        identity=_identity(evidence),
        state=state,
        state_after=_state_after(request.kind, ends, state),
        drained_by=_drained_by_other(request, evidence.node),
        now=describe(host, evidence.node, evidence.instance, state),
        steps=_within(request, steps) if not any(block.consent is None for block in blocks) else (),
        losses=losses,
        blocks=blocks,
        notes=notes,
        data_age_seconds=data_age_seconds(host, now),
        evidence=digest(request, evidence),
    )


def _within(request: ActionRequest, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps with the deadline that was asked for; drains and reboots have taken it into account already. What
    restores something keeps its time."""
    seconds = request.deadline_seconds
    if seconds is None or request.kind in (ActionKind.DRAIN, ActionKind.REBOOT):
        return steps
    return tuple(step if step.always else structs.replace(step, deadline_seconds=seconds) for step in steps)


def _other_machine(evidence: Evidence) -> tuple[Block, ...]:
    """Readings and commands go over two connections; an address that moved may have split them."""
    identity, frame = evidence.identity, evidence.host.frame
    if identity is None or frame is None:
        return ()
    facts = frame.facts
    pairs = ((identity.machine_id, facts.machine_id), (identity.boot_id, facts.boot_id))
    if all(here is None or there is None or here == there for here, there in pairs):
        return ()
    summary = "its readings come from another machine, or another boot, than its commands would reach"
    return (Block(kind="identity", summary=summary, hint="look again; then check its address"),)


def _state_after(kind: ActionKind, ends: BackEnds, before: HostActState) -> HostActState | None:
    """A boot ends a drain that only a marker below /run stood for; a scheduler remembers its own."""
    if kind not in (ActionKind.REBOOT, ActionKind.START):
        return None
    if ends.scheduler.name == MarkerScheduler.name:
        return HostActState.ACTIVE
    return HostActState.UNKNOWN if before is HostActState.STOPPED else before


def _work(request: ActionRequest, evidence: Evidence, ends: BackEnds, state: HostActState) -> Work:
    match request.kind:
        case ActionKind.DRAIN | ActionKind.CORDON | ActionKind.RESUME | ActionKind.CANCEL | ActionKind.REQUEUE:
            return _by_scheduler(request, evidence, ends.scheduler)
        case ActionKind.STOP | ActionKind.HIBERNATE | ActionKind.START:
            return _by_power(request, evidence, ends.power, state)
        case ActionKind.REBOOT:
            return _reboot(request, evidence, ends, state)
        case ActionKind.RESET:
            steps, losses, blocks, notes = plan_reset(request, evidence)
            return steps, losses, (*blocks, *_of_somebody_else(request, evidence.node)), notes
        case ActionKind.SIGNAL:
            return plan_signal(request, evidence)
        case ActionKind.POWER_CAP:
            return plan_power_cap(request, evidence)
        case ActionKind.ACK:
            return plan_ack(request, evidence)
        case ActionKind.MESSAGE:
            step = tell_step("host", evidence.host.name, message_lines(request))
            return (structs.replace(step, optional=False),), (), (), ()
        case ActionKind.BUG_REPORT:
            return (), (), (Block(kind="not-possible", summary="a report is made with a bundle, without a plan"),), ()


# --- the scheduler's acts ------------------------------------------------------------------------------------------


def _by_scheduler(request: ActionRequest, evidence: Evidence, scheduler: Scheduler) -> Work:
    node = evidence.node
    if node is None:
        return (), (), (no_answer("its scheduler was not asked"),), ()
    if node.block is not None:
        return (), (), (node.block,), ()
    steps = _scheduler_steps(request, node, scheduler)
    if isinstance(steps, Block):
        return (), (), (steps,), ()
    host = evidence.host
    others = _drained_by_other(request, node)
    stays = (f"already {others}: it stays theirs",) if others else ()
    match request.kind:
        case ActionKind.CORDON:
            return steps, (), (), stays
        case ActionKind.DRAIN:
            steps = _drain_around(request, evidence, node, steps)
            notes = (*stays, *pods_of_drain(node), *unprovable(host), *_fewer_devices(evidence))
            return steps, losses_of_drain(host, node), _consents(request, node), notes
        case ActionKind.RESUME:
            blocks, notes = _whose(request, node)
            unasked = ("overridden: whether it is fit for work is not checked",) if request.override else ()
            return _resume_around(request, evidence, steps), (), blocks, (*notes, *unasked, *_fewer_devices(evidence))
        case ActionKind.CANCEL:
            doomed = [job for job in node.jobs if {job.id, job.handle} & set(request.jobs)]
            lost = tuple(loss_of_job(job, certain=True) for job in doomed)
            return steps, lost, (), ()
    return steps, (), (), ()


def _scheduler_steps(request: ActionRequest, node: NodeState, scheduler: Scheduler) -> tuple[Step, ...] | Block:
    match request.kind:
        case ActionKind.DRAIN if isinstance(scheduler, CanDrain):
            return scheduler.drain_steps(node, request)
        case ActionKind.CORDON if isinstance(scheduler, CanCordon):
            return scheduler.cordon_steps(node, request)
        case ActionKind.RESUME if isinstance(scheduler, CanResume):
            return scheduler.resume_steps(node, request)
        case ActionKind.CANCEL if isinstance(scheduler, CanCancelJobs):
            return scheduler.cancel_steps(node, request)
        case ActionKind.REQUEUE if isinstance(scheduler, CanRequeueJobs):
            return scheduler.requeue_steps(node, request)
    return _cannot(request.kind, scheduler.name)


def _drain_around(
    request: ActionRequest, evidence: Evidence, node: NodeState, steps: Sequence[Step]
) -> tuple[Step, ...]:
    """The site's hook before. After: the devices verified empty, whatever the scheduler says, its hook, and that nobody
    and no reboot has meanwhile opened the host to new work."""
    host = evidence.host
    policy = host.spec.policy
    seconds = request.deadline_seconds or policy.drain_deadline_seconds
    steps = [structs.replace(step, deadline_seconds=seconds) if step.waits else step for step in steps]
    baseline = policy.idle_memory_bytes // 1024**2
    empty = Step(
        id="host.empty",
        actor="host",
        title="verify that every GPU is empty",
        call=Watch(
            what=f"wait until no GPU has a process or more than {baseline:,} MiB in use, "
            f"{policy.idle_samples} samples in a row"
        ),
        goal=Goal.DEVICES_EMPTY,
        wanted={"devices": ",".join(device_keys(host))},
        before=_machine(evidence),
        deadline_seconds=seconds,
        poll_seconds=policy.idle_sample_seconds,
        waits=True,
    )
    closed = Step(
        id="scheduler.closed",
        actor="scheduler",
        title="see that it still takes no new work",
        call=Watch(what="see that what was set at the beginning is still set"),
        goal=Goal.CORDONED,
        wanted={"node": node.node} if node.node is not None else {},
        deadline_seconds=CLOSED_SECONDS,
        poll_seconds=2.0,
    )
    before, after = hook("pre_drain", policy.pre_drain, request, host), drained_hook(request, host, seconds)
    return (*before, *steps, empty, *after, closed)


def _machine(evidence: Evidence) -> dict[str, str]:
    """Which machine a later reading must come from."""
    identity = evidence.identity
    return {"machine_id": identity.machine_id} if identity is not None and identity.machine_id is not None else {}


def _fewer_devices(evidence: Evidence) -> tuple[str, ...]:
    here, before = len(device_keys(evidence.host)), evidence.devices_before or 0
    if here >= before or evidence.host.spec.expect_devices is not None:
        return ()
    return (f"{here} of {before} GPUs: it had more at an earlier drain",)


def _resume_around(request: ActionRequest, evidence: Evidence, steps: Sequence[Step]) -> tuple[Step, ...]:
    host, before = evidence.host, evidence.devices_before
    gate: tuple[Step, ...] = ()
    seconds = GATE_SECONDS + (DIAGNOSIS_SECONDS if host.spec.policy.dcgm_diag else 0.0)
    if not request.override:
        gate = (
            Step(
                id="host.gate",
                actor="host",
                title="check that it is fit for work",
                call=Watch(
                    what="device count, fatal Xid since boot or ack, pending remaps, link width, driver as its group"
                ),
                goal=Goal.HEALTHY,
                wanted={} if before is None else {"devices": f"{before}"},
                deadline_seconds=seconds,
                poll_seconds=5.0,
                check_seconds=seconds,
            ),
        )
    return (*gate, *steps, *hook("post_resume", host.spec.policy.post_resume, request, host))


def _whose(request: ActionRequest, node: NodeState) -> tuple[tuple[Block, ...], tuple[str, ...]]:
    """A drain that is not ours is undone only when that was said."""
    if not node.cordoned:
        return (), ("it takes work already",)
    told = _drained_by(node)
    if node.by == request.by or request.override or Consent.DRAINED_BY_OTHER in request.consents:
        return (), (told,)
    consent = Consent.DRAINED_BY_OTHER
    hint = f"ask them first; then --consent {consent}, or --override REASON, which sets the gate aside too"
    return (Block(kind=consent, summary=told, hint=hint, consent=consent),), (told,)


def _drained_by(node: NodeState) -> str:
    when = f" since {node.since:%Y-%m-%d %H:%M} UTC" if node.since is not None else ""
    return f"drained by {node.by or 'somebody unknown'}{when}: {node.reason or 'no reason given'}"


def _drained_by_other(request: ActionRequest, node: NodeState | None) -> str:
    """Who else has drained it, when and why; empty: nobody else has."""
    return _drained_by(node) if node is not None and node.cordoned and node.by != request.by else ""


def _of_somebody_else(request: ActionRequest, node: NodeState | None) -> tuple[Block, ...]:
    """Who drained a host may be at work on it; only a reason to go on all the same sets that aside."""
    others = _drained_by_other(request, node)
    if not others or request.override:
        return ()
    return (Block(kind=Consent.DRAINED_BY_OTHER, summary=others, hint="ask them first; then --override REASON"),)


def _lost_drain(request: ActionRequest, evidence: Evidence) -> tuple[Loss, ...]:
    """Of somebody else, where only a marker below /run stands for it."""
    node = evidence.node
    if node is None or not _drained_by_other(request, node) or node.scheduler != MarkerScheduler.name:
        return ()
    who = node.by or "somebody unknown"
    return (Loss(kind=LossKind.DRAIN, summary=f"the drain of {who}: a boot removes its marker", user=node.by),)


def _consents(request: ActionRequest, node: NodeState) -> tuple[Block, ...]:
    """Pods whose loss nobody has agreed to yet, by name."""
    blocks = []
    for kind in (LossKind.UNMANAGED_POD, LossKind.EMPTY_DIR):
        names = [f"{pod.namespace}/{pod.name}" for pod in node.pods if kind.value in pod.concerns]
        if names and kind.value not in request.consents:
            why = "has no controller and will not come back" if kind is LossKind.UNMANAGED_POD else "loses its emptyDir"
            summary = f"{', '.join(names)}: {why}"
            hint = f"to lose that: --consent {kind}"
            blocks.append(Block(kind="needs-consent", summary=summary, hint=hint, consent=kind.value))
    return tuple(blocks)


# --- power ---------------------------------------------------------------------------------------------------------


def _by_power(request: ActionRequest, evidence: Evidence, power: PowerProvider | None, state: HostActState) -> Work:
    instance = evidence.instance
    if power is None or instance is None or evidence.host.spec.power is None:
        hint = 'say "power" in the inventory'
        return (), (), (Block(kind="no-power", summary="nothing is known that powers it", hint=hint),), ()
    if instance.block is not None:
        return (), (), (instance.block,), ()
    steps: tuple[Step, ...] | Block
    match request.kind:
        case ActionKind.STOP if isinstance(power, CanStop):
            steps, blocks = power.stop_steps(instance, request), instance.stop_blocks
        case ActionKind.HIBERNATE if isinstance(power, CanHibernate):
            steps, blocks = power.hibernate_steps(instance, request), instance.stop_blocks
        case ActionKind.START if isinstance(power, CanStart):
            steps, blocks = power.start_steps(instance, request), instance.start_blocks
        case _:
            return (), (), (_cannot(request.kind, power.name),), ()
    if isinstance(steps, Block):
        return (), (), (*blocks, steps), ()
    if request.kind is ActionKind.START:
        seconds = evidence.host.spec.policy.reboot_deadline_seconds
        return (*steps, _first_frame(evidence, seconds)), (), blocks, ()
    losses = (*losses_of_end(evidence.host, evidence.node), *instance.stop_losses)
    if request.kind is ActionKind.STOP:
        losses += _lost_drain(request, evidence)
    notes = (instance.billing,) if instance.billing else ()
    blocks = (*blocks, *_not_drained(request, evidence, state), *_of_somebody_else(request, evidence.node))
    return steps, losses, blocks, notes


def _reboot(request: ActionRequest, evidence: Evidence, ends: BackEnds, state: HostActState) -> Work:
    """Through the scheduler where it reboots behind its jobs; else the power provider."""
    node, instance = evidence.node, evidence.instance
    steps: tuple[Step, ...] | Block
    losses: tuple[Loss, ...] = ()
    blocks: tuple[Block, ...] = ()
    notes: tuple[str, ...] = ()
    power = ends.power_for(ActionKind.REBOOT)
    if isinstance(ends.scheduler, CanRebootNode) and node is not None and state is not HostActState.DRAINED:
        if node.block is not None:
            return (), (), (node.block,), ()
        steps = ends.scheduler.reboot_steps(node, request)
        losses = (*losses_of_reboot(evidence.host, node), *_sessions(instance))
        blocks = of_no_job(request, evidence.host, node)
        notes = (OF_NO_JOB,) if node.jobs else ()
    elif power is not None and instance is not None and isinstance(power, CanReboot):
        if instance.block is not None:
            return (), (), (instance.block,), ()
        steps = power.reboot_steps(instance, request)
        if power is ends.system and not isinstance(steps, Block):
            steps = tuple(structs.replace(step, actor="system") for step in steps)
            notes = ("the inventory names no program to reboot it: its operating system is asked, over SSH",)
        losses = (*losses_of_end(evidence.host, node), *_sessions(instance), *_lost_drain(request, evidence))
        blocks = (*instance.reboot_blocks, *_not_drained(request, evidence, state))
    else:
        return (), (), (_cannot(request.kind, power.name if power is not None else "the inventory"),), ()
    blocks = (*blocks, *_of_somebody_else(request, node))
    if isinstance(steps, Block):
        return (), losses, (*blocks, steps), ()
    before = evidence.identity.boot_id if evidence.identity is not None else None
    policy = evidence.host.spec.policy
    asked = request.deadline_seconds
    by_scheduler = any(step.actor == "scheduler" for step in steps)  # what was asked for is how long its jobs may last
    deadline = policy.reboot_deadline_seconds if asked is None or by_scheduler else asked
    known = {"boot_id": before} if before is not None else {}
    steps = tuple(
        structs.replace(step, before={**step.before, **known}, deadline_seconds=deadline)
        if step.goal is Goal.REBOOTED
        else step
        for step in steps
    )
    if not any(step.goal is Goal.REBOOTED for step in steps):
        proof = Step(
            id="host.rebooted",
            actor="host",
            title="prove the reboot",
            call=Watch(what="wait for another boot id"),
            goal=Goal.REBOOTED,
            before=known,
            deadline_seconds=max(asked or 0.0, policy.reboot_deadline_seconds) if by_scheduler else deadline,
            poll_seconds=5.0,
        )
        steps = (*steps, proof)
    notes = (*notes, *_fewer_devices(evidence))
    return (*steps, _first_frame(evidence, deadline)), losses, blocks, notes


def _first_frame(evidence: Evidence, seconds: float) -> Step:
    return Step(
        id="host.first-frame",
        actor="host",
        title="wait for a healthy reading",
        call=Watch(what="wait until it answers with all its GPUs in order"),
        goal=Goal.FIRST_FRAME,
        wanted={"devices": ",".join(device_keys(evidence.host)), "at_least": str(evidence.devices_before or 0)},
        deadline_seconds=seconds,
        poll_seconds=5.0,
    )


def _sessions(instance: Instance | None) -> tuple[Loss, ...]:
    losses = instance.stop_losses if instance is not None else ()
    return tuple(loss for loss in losses if loss.kind is LossKind.SESSION)


def _not_drained(request: ActionRequest, evidence: Evidence, state: HostActState) -> tuple[Block, ...]:
    """Only drained hosts are stopped and rebooted, unless somebody says why this one is."""
    if state in (HostActState.DRAINED, HostActState.STOPPED) or request.override:
        return ()
    check = emptiness(evidence.host, evidence.host.spec.policy)
    doubt = f"; {check.summary}" if check.state is not CheckState.DONE and check.summary else ""
    hint = "drain it first, or --override REASON"
    return (Block(kind="not-drained", summary=f"it is {state.value}, not drained{doubt}", hint=hint),)


def _identity(evidence: Evidence) -> HostIdentity:
    identity = evidence.identity or HostIdentity()
    if evidence.instance is not None and evidence.instance.id:
        return structs.replace(identity, instance_id=evidence.instance.id)
    return identity


def _cannot(kind: ActionKind, name: str) -> Block:
    if name == MarkerScheduler.name:
        summary = f"it has no scheduler that could {kind.value}"
        return Block(kind="not-possible", summary=summary, hint='say "scheduler" in the inventory')
    return Block(kind="not-possible", summary=f"{name} cannot {kind.value.replace('-', ' ')}")
