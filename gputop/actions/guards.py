"""Whether a plan may be carried out. Pure; every guard is asked and the strictest answer counts.

No guard grows milder when a host, a job or a process is added. Nothing that is not known counts in a plan's favor.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct, structs

from gputop.catalog.text import counted
from gputop.domain.action import (
    ActionKind,
    Allow,
    Confirm,
    Deny,
    HostActState,
    HostIdentity,
    HostPlan,
    Plan,
    Refusal,
    Verdict,
)
from gputop.domain.backend import CommandPower, Ec2, Ipmi, Kubernetes, Redfish, Slurm
from gputop.domain.host import HostSpec
from gputop.domain.proof import same_machine

REMOVES = frozenset(
    {
        ActionKind.CORDON,
        ActionKind.DRAIN,
        ActionKind.STOP,
        ActionKind.HIBERNATE,
        ActionKind.REBOOT,
        ActionKind.RESET,
    }
)
"""Acts that take capacity away: they count for the blast radius and are refused on machines that others need."""

NEEDS_REASON = frozenset(
    {
        ActionKind.DRAIN,
        ActionKind.STOP,
        ActionKind.HIBERNATE,
        ActionKind.REBOOT,
        ActionKind.RESET,
        ActionKind.ACK,
    }
)

WITHOUT_HOST = frozenset({ActionKind.START})
"""Acts whose host need not answer."""

OUT_OF_BAND = frozenset({ActionKind.STOP, ActionKind.REBOOT})
"""Acts that a provider can do to a host that hangs; with an override its silence is set aside."""


SWITCHES = frozenset({ActionKind.STOP, ActionKind.HIBERNATE, ActionKind.START, ActionKind.REBOOT})
"""Acts of power providers."""

SCHEDULED = frozenset(
    {
        ActionKind.CORDON,
        ActionKind.DRAIN,
        ActionKind.RESUME,
        ActionKind.REBOOT,
        ActionKind.CANCEL,
        ActionKind.REQUEUE,
    }
)
"""Acts of schedulers."""


CLOCK_SECONDS = 1.0
"""A clock that is kept right by small steps may go back by so much."""


class Surroundings(Struct, frozen=True, kw_only=True):
    """What guards know beside the plan."""

    allowed: bool
    """`--allow-actions` or the settings, and not locked again meanwhile."""
    specs: Mapping[str, HostSpec]
    """Every host of the inventory, by name."""
    states: Mapping[str, HostActState]
    """As far as known; a host that is not here does not count as active."""
    jumps: Collection[str] = ()
    """Names and addresses of machines that others are reached through."""
    untraced: Mapping[str, str] = {}
    """Hosts of which it is not known what they are reached through, and why."""
    controllers: Collection[str] = ()
    """Hosts that a scheduler itself depends on."""
    vias: Collection[str] = ()
    """Hosts on which scontrol or kubectl are run for others."""
    self_identity: HostIdentity = HostIdentity()
    """Of the machine that gputop runs on."""
    self_host_keys: Collection[str] = ()
    """Fingerprints of the keys that its own SSH server may show."""
    own_addresses: Collection[str] = ()
    """Addresses of this machine and of where its user came from."""
    in_band: Collection[str] = ()
    """Hosts whose power is only reached over SSH."""
    identities: Mapping[str, HostIdentity] = {}
    """Who those hosts are that nothing may be done to, as far as is known: one may have another name too."""


def judge(plan: Plan, around: Surroundings) -> Verdict:
    """The strictest answer of all guards."""
    refusals = tuple(_refusals(plan, around))
    if refusals:
        return Deny(refusals=refusals)
    if plan.request.kind is ActionKind.MESSAGE:
        return Allow()
    return Confirm(
        phrase=phrase_for(plan),
        reasons=tuple(_reasons(plan)),
        reason_required=plan.loses or plan.request.kind in NEEDS_REASON,
    )


def phrase_for(plan: Plan) -> str:
    """What a person types: the short name of the host, or the number of hosts. An address is typed whole: its first
    part would look like a number of hosts."""
    if len(plan.hosts) != 1:
        return str(len(plan.hosts))
    name = plan.hosts[0].host
    short = name.partition(".")[0]
    return name if short.isdecimal() or ":" in short else short


def is_confirmed(verdict: Verdict, typed: str, reason: str) -> bool:
    """Whether a person may go on. An empty phrase never does."""
    match verdict:
        case Allow():
            return True
        case Confirm():
            return typed.strip() == verdict.phrase and (bool(reason.strip()) or not verdict.reason_required)
        case Deny():
            return False


def _reasons(plan: Plan) -> Iterator[str]:
    """What a person should know before agreeing."""
    for host in plan.hosts:
        for loss in host.losses:
            whose = "" if loss.user == plan.request.by else " (not yours)"
            yield f"{host.host}: {loss.verb} {loss.summary}{whose}"


def _refusals(plan: Plan, around: Surroundings) -> Iterator[Refusal]:
    if not around.allowed:
        hint = 'start with --allow-actions, or set "actions: {enabled: true}" in the settings'
        yield Refusal(guard="read-only", summary="gputop is read-only", hint=hint)
    if not plan.hosts:
        yield Refusal(guard="no-hosts", summary="no hosts: nothing is done, and never all of them")
    if plan.request.kind in REMOVES - {ActionKind.RESET} and around.untraced and not plan.request.override:
        name, why = min(around.untraced.items())
        more = f" and {len(around.untraced) - 1} more" if len(around.untraced) > 1 else ""
        summary = f"whether {name}{more} is reached through one of these is not known: {why}"
        hint = "correct the inventory or ssh_config, or --override REASON"
        yield Refusal(guard="jump-host", summary=summary, hint=hint)
    for host in plan.hosts:
        yield from _of_host(plan, host, around)
    yield from _twins(plan)
    if plan.request.kind in REMOVES:
        yield from _blast_radius(plan, around)


def _of_host(plan: Plan, host: HostPlan, around: Surroundings) -> Iterator[Refusal]:
    spec = around.specs.get(host.host)
    if spec is None:
        yield Refusal(guard="unknown-host", summary="not a host of this fleet", host=host.host)
        return
    selves = _selves(host, spec, around)
    for each in selves:
        if is_protected(each):
            other = "" if each is spec else f"it is {each.name} by another name, and "
            hint = 'its inventory says "protected: true"'
            yield Refusal(guard="protected", summary=f"{other}it is protected", host=host.host, hint=hint)
    yield from _of_namesakes(plan, spec, around)
    yield from _stale(plan, host, spec, around)
    for block in host.blocks:
        yield Refusal(guard=block.kind, summary=block.summary, host=host.host, hint=block.hint)
    if plan.request.kind in REMOVES:
        yield from _needed(plan, host, selves, around)


def _selves(host: HostPlan, spec: HostSpec, around: Surroundings) -> list[HostSpec]:
    """All that the inventory says of this machine: under its own name, and under others where they are the same place,
    or known to be the same machine."""
    place = _place(spec)
    known = around.identities
    return [spec] + [
        other
        for other in around.specs.values()
        if other.name != spec.name
        and (_place(other) == place or (other.name in known and same_machine(known[other.name], host.identity)))
    ]


def is_protected(spec: HostSpec) -> bool:
    return spec.protected or spec.labels.get("protected", "").lower() in ("true", "yes", "1")


def _of_namesakes(plan: Plan, spec: HostSpec, around: Surroundings) -> Iterator[Refusal]:
    """Hosts that share one power switch, or one node of a scheduler."""
    others = [other for other in around.specs.values() if other.name != spec.name]
    kind, switch, node = plan.request.kind, _switch(spec), _node(spec)
    for other in others:
        if kind in SWITCHES and switch is not None and _switch(other) == switch:
            summary = f"its power settings are those of {other.name} too: which of them they switch is not known"
            yield Refusal(guard="twin", summary=summary, host=spec.name, hint="correct the inventory")
        if kind in SCHEDULED and node is not None and _node(other) == node:
            summary = f"its node in the scheduler is that of {other.name} too: which of them it is is not known"
            yield Refusal(guard="twin", summary=summary, host=spec.name, hint="correct the inventory")


def _place(spec: HostSpec) -> tuple[object, ...]:
    """Where a host is reached."""
    return (spec.address or spec.name).lower(), spec.port or 22, spec.jump or ()


def _switch(spec: HostSpec) -> tuple[object, ...] | None:
    """What switches this one machine; `None` where the settings fit many hosts."""
    match spec.power:
        case Ec2(instance_id=own):
            instance = own or spec.labels.get("instance_id")
            return ("ec2", instance) if instance else None
        case Redfish(url=url, system=system) if "{" not in url:
            return "redfish", url.lower().rstrip("/"), system
        case Ipmi(address=address, port=port) if "{" not in address:
            return "ipmi", address.lower(), port
        case CommandPower(id=own, status=status):
            instance = own or spec.labels.get("instance_id")
            return ("command", status, instance) if instance and "{" not in instance else None
    return None


def _node(spec: HostSpec) -> tuple[object, ...] | None:
    """The node that the inventory names for this one host; `None` where it is found, or the settings fit many."""
    match spec.scheduler:
        case Slurm(node=str(node), via=via) if "{" not in node:
            return "slurm", via, node
        case Kubernetes(node=str(node), context=context) if "{" not in node:
            return "kubernetes", context, node
    return None


def _stale(plan: Plan, host: HostPlan, spec: HostSpec, around: Surroundings) -> Iterator[Refusal]:
    kind = plan.request.kind
    if kind in WITHOUT_HOST:
        return
    if kind in OUT_OF_BAND and plan.request.override and host.host not in around.in_band:
        return
    age, limit = host.data_age_seconds, spec.policy.max_data_age_seconds
    if age is None:
        yield Refusal(guard="stale-data", summary="there is no reading of now", host=host.host)
    elif age > limit:
        summary = f"its newest reading is {age:.0f} s old, the limit is {limit:g} s"
        yield Refusal(guard="stale-data", summary=summary, host=host.host)
    elif age < -CLOCK_SECONDS:
        summary = f"its newest reading is {-age:.0f} s in the future: the clock of this machine was set back"
        yield Refusal(guard="stale-data", summary=summary, host=host.host, hint="look again")
    if host.identity.boot_id is None and host.identity.machine_id is None:
        yield Refusal(guard="identity", summary="which machine it is could not be found out", host=host.host)


def _needed(plan: Plan, host: HostPlan, selves: Sequence[HostSpec], around: Surroundings) -> Iterator[Refusal]:
    """The machine we run on, came from or go through, and those that a scheduler runs on."""
    key = host.identity.host_key
    own_key = key if key in around.self_host_keys else next(iter(around.self_host_keys), None)
    own = structs.replace(around.self_identity, host_key=own_key)
    own_names = {each.name.lower() for each in selves}
    names = own_names | {(each.address or each.name).lower() for each in selves}
    if plan.request.kind is not ActionKind.RESET:
        if any(each.local for each in selves) or same_machine(own, host.identity):
            yield Refusal(guard="self", summary="gputop itself runs on this machine", host=host.host)
        elif names & {address.lower() for address in around.own_addresses}:
            yield Refusal(guard="self", summary="you are connected from or through this machine", host=host.host)
        if names & {jump.lower() for jump in around.jumps}:
            yield Refusal(guard="jump-host", summary="others are reached through it", host=host.host)
        if own_names & {via.lower() for via in around.vias}:
            yield Refusal(guard="scheduler", summary="the scheduler is asked through it", host=host.host)
        if own_names & {controller.lower() for controller in around.controllers}:
            yield Refusal(guard="controller", summary="a scheduler's controller runs on it", host=host.host)


def _twins(plan: Plan) -> Iterator[Refusal]:
    """Two names of one machine."""
    seen: dict[str, list[HostPlan]] = {}
    for host in plan.hosts:
        own = host.identity
        twins = {other.host for each in _ids(own) for other in seen.get(each, ()) if _is_twin(own, other.identity)}
        for each in _ids(own):
            seen.setdefault(each, []).append(host)
        for twin in sorted(twins):
            yield Refusal(guard="twin", summary=f"it is the same machine as {twin}", host=host.host)


def _ids(identity: HostIdentity) -> list[str]:
    return [each for each in (identity.boot_id, identity.machine_id, identity.instance_id) if each is not None]


def _is_twin(one: HostIdentity, other: HostIdentity) -> bool:
    return same_machine(one, other) or (one.instance_id is not None and one.instance_id == other.instance_id)


def _blast_radius(plan: Plan, around: Surroundings) -> Iterator[Refusal]:
    chosen = [around.specs[host.host] for host in plan.hosts if host.host in around.specs]
    if not chosen:
        return
    most = min(spec.policy.max_hosts for spec in chosen)
    if len(plan.hosts) > max(1, most):
        summary = f"{counted(len(plan.hosts), 'host')}, the limit is {most}"
        yield Refusal(guard="blast-radius", summary=summary, hint="take fewer, or raise policy.max_hosts")
    for group in sorted({group for spec in chosen for group in spec.groups}):
        members = [spec for spec in around.specs.values() if group in spec.groups]
        inside = [spec for spec in chosen if group in spec.groups]
        percent = min(spec.policy.max_percent for spec in inside)
        limit = max(1, math.floor(len(members) * percent / 100))
        if len(inside) > limit:
            share = 100 * len(inside) / len(members)
            summary = f"{len(inside)} of {len(members)} in {group} = {share:.0f} %, over the limit of {percent:g} %"
            yield Refusal(guard="blast-radius", summary=summary, hint="take fewer, or raise policy.max_percent")
        names = {spec.name for spec in inside}
        active = sum(around.states.get(spec.name) is HostActState.ACTIVE for spec in members if spec.name not in names)
        floor = max(spec.policy.min_active for spec in inside)
        if active < floor:
            summary = f"{counted(active, 'host')} of {group} would stay active, the floor is {floor}"
            yield Refusal(guard="floor", summary=summary, hint="resume others first, or lower policy.min_active")
