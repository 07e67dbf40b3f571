"""Guards never grow milder when a host, a job, a process or a block is added to a plan."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec import structs

from gputop.actions.device import ProcessFound
from gputop.actions.evidence import Evidence
from gputop.actions.guards import Surroundings, judge
from gputop.domain.action import (
    ActionKind,
    ActionRequest,
    Allow,
    Confirm,
    Consent,
    Deny,
    HostActState,
    HostIdentity,
    Plan,
    ProcessTarget,
    Signal,
    Verdict,
)
from gputop.domain.job import Job
from gputop.domain.proof import same_machine
from tests.fakes.acts import (
    a_host,
    a_node,
    a_plan,
    a_policy,
    a_process,
    a_request,
    an_evidence,
    an_instance,
)

GROUPS = st.lists(st.sampled_from(["train", "infer", "lab"]), max_size=2, unique=True)
KINDS = st.sampled_from(list(ActionKind))
ENDING = st.sampled_from([ActionKind.STOP, ActionKind.HIBERNATE, ActionKind.REBOOT])
STATES = st.sampled_from(list(HostActState))
USERS = st.sampled_from(["ann", "bob", None])
JOBS = st.sampled_from([None, "1", "99"])
OVERRIDES = st.sampled_from(["", "it burns"])
SCHEDULERS = st.sampled_from(["none", "slurm", "kubernetes"])
"""Slurm reboots nodes behind their jobs."""

IDS = st.sampled_from([None, "x", "y"])
IDENTITIES = st.builds(HostIdentity, boot_id=IDS, machine_id=IDS, host_key=IDS)

TARGET = ProcessTarget(pid=4242, started_ticks=99, user="carol", command="python train.py")


@st.composite
def evidences(draw: st.DrawFn, *, calm: bool = False) -> Evidence:
    """`calm`: nothing but what runs on it speaks against an act."""
    number = draw(st.integers(0, 400))
    name = f"gpu-{number:03d}"
    policy = a_policy()
    if not calm:
        policy = a_policy(
            max_hosts=draw(st.integers(1, 12)),
            max_percent=float(draw(st.integers(0, 100))),
            min_active=draw(st.integers(0, 3)),
        )
    pids = draw(st.lists(st.integers(2, 9), max_size=3, unique=True))
    processes = [a_process(pid, draw(USERS), job=draw(JOBS)) for pid in pids]
    host = a_host(
        name,
        policy=policy,
        groups=tuple(draw(GROUPS)),
        processes=processes,
        protected=not calm and draw(st.integers(0, 3)) == 0,
        address=None if calm else draw(st.sampled_from([None, "10.0.0.1"])),
    )
    jobs = tuple(
        Job(id=str(number), user="bob") for number in draw(st.lists(st.integers(1, 5), max_size=2, unique=True))
    )
    drained = draw(st.booleans())
    scheduler = draw(SCHEDULERS)
    node = a_node(
        name,
        drained=drained,
        scheduler=scheduler,
        jobs=jobs if scheduler == "slurm" else (),
        controller=not calm and draw(st.integers(0, 9)) == 0,
    )
    identity = HostIdentity(
        boot_id=draw(st.sampled_from([f"boot-{number}", "boot-same", None])),
        machine_id=draw(st.sampled_from([f"m-{number}", "m-same", None])),
        host_key=draw(st.sampled_from([f"key-{number}", "key-same", None])),
    )
    may_be_unpowered = not calm and scheduler != "slurm"  # which reboots a node without, but for a drained one
    if calm:
        identity = HostIdentity(boot_id=f"boot-{number}", machine_id=f"m-{number}")
    return an_evidence(
        host=host,
        node=node,
        identity=identity,
        instance=None if may_be_unpowered and draw(st.booleans()) else an_instance(name),
        process=draw(st.sampled_from([None, ProcessFound(target=TARGET, levels=1)])),
        units=draw(st.sampled_from([(), ("display-manager",)])),
    )


Fleets = st.lists(evidences(), min_size=1, max_size=8, unique_by=lambda one: one.host.name)


def rank(verdict: Verdict) -> int:
    return {Allow: 0, Confirm: 1, Deny: 2}[type(verdict)]


def is_at_least_as_strict(after: Verdict, before: Verdict) -> bool:
    """A higher rank; or the same with no reason, refusal or demand less. Numbers in words may change."""
    if rank(after) != rank(before):
        return rank(after) > rank(before)
    if isinstance(after, Deny) and isinstance(before, Deny):
        return {(one.guard, one.host) for one in before.refusals} <= {(one.guard, one.host) for one in after.refusals}
    if isinstance(after, Confirm) and isinstance(before, Confirm):
        return set(before.reasons) <= set(after.reasons) and after.reason_required >= before.reason_required
    return True


@st.composite
def requests(draw: st.DrawFn, kinds: st.SearchStrategy[ActionKind] = KINDS) -> ActionRequest:
    """Of any act, for no host yet."""
    return a_request(
        draw(kinds),
        override=draw(OVERRIDES),
        process=TARGET,
        signal=Signal.TERM,
        watts=500.0,
        text="bye",
        jobs=("1",),
        consents=draw(st.sampled_from([frozenset(), frozenset(Consent)])),
    )


def planned(wanted: ActionRequest, evidence: list[Evidence]) -> Plan:
    hosts = tuple(one.host.name for one in evidence)
    return a_plan(structs.replace(wanted, hosts=hosts), *evidence)


@st.composite
def surroundings(draw: st.DrawFn, fleet: list[Evidence]) -> Surroundings:
    """Of any fleet that some hosts of which are needed by others."""
    names = [one.host.name for one in fleet]
    some = st.lists(st.sampled_from([*names, "10.0.0.1", "elsewhere"]), max_size=2)
    return Surroundings(
        allowed=True,
        specs={one.host.name: one.host.spec for one in fleet},
        states={name: draw(STATES) for name in names},
        controllers={one.host.name for one in fleet if one.node is not None and one.node.controller},
        jumps=draw(some),
        vias=draw(some),
        identities={name: draw(IDENTITIES) for name in draw(some)},
    )


@given(requests(), Fleets, st.data())
@settings(deadline=None, max_examples=300)
def test_adding_a_host_to_a_plan_never_makes_the_guards_milder(
    wanted: ActionRequest, fleet: list[Evidence], data: st.DataObject
) -> None:
    where = data.draw(surroundings(fleet))
    count = data.draw(st.integers(1, len(fleet)))
    before = judge(planned(wanted, fleet[: max(1, count - 1)]), where)
    after = judge(planned(wanted, fleet[:count]), where)
    assert is_at_least_as_strict(after, before), (before, after)


@given(requests(), Fleets, USERS, JOBS, st.data())
@settings(deadline=None, max_examples=300)
def test_adding_a_process_to_a_host_never_makes_the_guards_milder(
    wanted: ActionRequest,
    fleet: list[Evidence],
    user: str | None,
    job: str | None,
    data: st.DataObject,
) -> None:
    where = data.draw(surroundings(fleet))
    before = judge(planned(wanted, fleet), where)
    frame = fleet[0].host.frame
    assert frame is not None
    busier = structs.replace(frame, processes=(*frame.processes, a_process(77, user, job=job)))
    more = structs.replace(fleet[0], host=structs.replace(fleet[0].host, frame=busier))
    after = judge(planned(wanted, [more, *fleet[1:]]), where)
    assert is_at_least_as_strict(after, before), (before, after)


@given(requests(), Fleets, USERS, st.data())
@settings(deadline=None, max_examples=300)
def test_adding_a_job_to_a_host_never_makes_the_guards_milder(
    wanted: ActionRequest, fleet: list[Evidence], user: str | None, data: st.DataObject
) -> None:
    where = data.draw(surroundings(fleet))
    before = judge(planned(wanted, fleet), where)
    node = fleet[0].node
    assert node is not None
    assume(node.scheduler == "slurm")
    more = structs.replace(fleet[0], node=structs.replace(node, jobs=(*node.jobs, Job(id="98", user=user))))
    after = judge(planned(wanted, [more, *fleet[1:]]), where)
    assert is_at_least_as_strict(after, before), (before, after)


@given(requests(), Fleets, st.data())
@settings(deadline=None, max_examples=300)
def test_needing_a_machine_more_never_makes_the_guards_milder(
    wanted: ActionRequest, fleet: list[Evidence], data: st.DataObject
) -> None:
    plan = planned(wanted, fleet)
    where = data.draw(surroundings(fleet))
    name = data.draw(st.sampled_from(sorted(where.specs)))
    protected = structs.replace(where.specs[name], protected=True)
    stricter = [
        structs.replace(where, jumps=[*where.jumps, name]),
        structs.replace(where, vias=[*where.vias, name]),
        structs.replace(where, controllers=[*where.controllers, name]),
        structs.replace(where, own_addresses=[*where.own_addresses, name]),
        structs.replace(where, identities={**where.identities, name: plan.hosts[0].identity}),
        structs.replace(where, specs={**where.specs, name: protected}),
        structs.replace(where, allowed=False),
    ]
    before = judge(plan, where)
    for each in stricter:
        assert is_at_least_as_strict(judge(plan, each), before), each


OF_SEVERAL = frozenset({"twin", "blast-radius", "floor"})
"""Guards that look at all hosts of a plan together."""


@given(requests(), Fleets, st.data())
@settings(deadline=None, max_examples=300)
def test_what_is_refused_of_a_host_does_not_depend_on_who_else_is_named(
    wanted: ActionRequest, fleet: list[Evidence], data: st.DataObject
) -> None:
    where = data.draw(surroundings(fleet))
    together = refused(judge(planned(wanted, fleet), where))
    alone = [refused(judge(planned(wanted, [one]), where)) for one in fleet]
    assert together == set().union(*alone)


def refused(verdict: Verdict) -> set[tuple[str, str | None]]:
    refusals = verdict.refusals if isinstance(verdict, Deny) else ()
    return {(one.guard, one.host) for one in refusals if one.guard not in OF_SEVERAL}


@given(requests(ENDING), evidences(calm=True))
@settings(deadline=None, max_examples=500)
def test_what_ends_with_a_host_is_named_or_refused(wanted: ActionRequest, one: Evidence) -> None:
    where = Surroundings(allowed=True, specs={one.host.name: one.host.spec}, states={})
    verdict = judge(planned(wanted, [one]), where)
    assert not isinstance(verdict, Allow)
    if isinstance(verdict, Deny):
        return
    assert one.host.frame is not None
    assert one.node is not None
    words = [reason for reason in verdict.reasons if reason.startswith(f"{one.host.name}: ")]
    behind_jobs = wanted.kind is ActionKind.REBOOT and one.node.scheduler == "slurm"
    waited = {job.id for job in one.node.jobs} if behind_jobs else set()
    for process in one.host.frame.processes:
        named = [reason for reason in words if f"(pid {process.pid})" in reason]
        assert named, process
        assert process.job in waited or named[0].startswith(f"{one.host.name}: loses "), process
    for job in one.node.jobs:
        assert any(f"job {job.id} of" in reason for reason in words), job
    left = [process for process in one.host.frame.processes if process.job not in waited]
    assert wanted.override or behind_jobs or one.node.cordoned
    assert wanted.override or not left


@given(IDENTITIES, IDENTITIES)
def test_what_is_not_known_never_makes_two_machines_of_one(one: HostIdentity, other: HostIdentity) -> None:
    assert same_machine(one, other) is same_machine(other, one)
    if one.boot_id is not None:
        assert same_machine(one, structs.replace(other, boot_id=one.boot_id))
    known = [key for key in ("boot_id", "machine_id") if getattr(one, key) and getattr(one, key) == getattr(other, key)]
    if known and not same_machine(one, other):  # equal in something: then the rest must be known, and differ
        assert None not in (one.boot_id, other.boot_id, one.host_key, other.host_key)
        assert (one.boot_id, one.host_key) != (other.boot_id, other.host_key)
