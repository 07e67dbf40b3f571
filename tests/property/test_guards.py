"""Guards never grow milder when a host, a job, a process or a block is added to a plan."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from gputop.actions.evidence import Evidence
from gputop.actions.guards import Surroundings, judge
from gputop.domain.action import ActionKind, Allow, Confirm, Deny, HostActState, HostIdentity, Plan, Verdict
from gputop.domain.job import Job
from gputop.domain.proof import same_machine
from tests.fakes.acts import a_host, a_node, a_plan, a_policy, a_process, a_request, an_evidence, an_instance

GROUPS = st.lists(st.sampled_from(["train", "infer", "lab"]), max_size=2, unique=True)
KINDS = st.sampled_from(
    [
        ActionKind.DRAIN,
        ActionKind.STOP,
        ActionKind.HIBERNATE,
        ActionKind.REBOOT,
        ActionKind.RESET,
        ActionKind.RESUME,
        ActionKind.CORDON,
    ]
)
STATES = st.sampled_from(list(HostActState))


@st.composite
def evidences(draw: st.DrawFn) -> Evidence:
    number = draw(st.integers(0, 400))
    name = f"gpu-{number:03d}"
    policy = a_policy(
        max_hosts=draw(st.integers(1, 12)),
        max_percent=float(draw(st.integers(0, 100))),
        min_active=draw(st.integers(0, 3)),
    )
    processes = [
        a_process(pid, user)
        for pid, user in draw(
            st.lists(
                st.tuples(st.integers(2, 9), st.sampled_from(["ann", "bob", None])),
                max_size=3,
                unique_by=lambda each: each[0],
            )
        )
    ]
    host = a_host(name, policy=policy, groups=tuple(draw(GROUPS)), processes=processes, protected=draw(st.booleans()))
    jobs = tuple(
        Job(id=str(number), user="bob") for number in draw(st.lists(st.integers(1, 5), max_size=2, unique=True))
    )
    drained = draw(st.booleans())
    node = a_node(
        name,
        drained=drained,
        jobs=jobs,
        controller=draw(st.integers(0, 9)) == 0,
        scheduler=draw(st.sampled_from(["none", "slurm"])),
    )
    identity = HostIdentity(
        boot_id=draw(st.sampled_from([f"boot-{number}", "boot-same", None])),
        machine_id=draw(st.sampled_from([f"m-{number}", "m-same", None])),
        host_key=draw(st.sampled_from([f"key-{number}", "key-same", None])),
    )
    return an_evidence(host=host, node=node, identity=identity, instance=an_instance(name))


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


def planned(kind: ActionKind, evidence: list[Evidence]) -> Plan:
    return a_plan(a_request(kind, *[one.host.name for one in evidence]), *evidence)


def around(fleet: list[Evidence], states: dict[str, HostActState]) -> Surroundings:
    return Surroundings(
        allowed=True,
        specs={one.host.name: one.host.spec for one in fleet},
        states=states,
        controllers={one.host.name for one in fleet if one.node is not None and one.node.controller},
        jumps={fleet[-1].host.name} if len(fleet) % 3 == 0 else set(),
    )


@given(KINDS, Fleets, st.data())
@settings(deadline=None, max_examples=150)
def test_adding_a_host_to_a_plan_never_makes_the_guards_milder(
    kind: ActionKind, fleet: list[Evidence], data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, len(fleet)))
    states = {one.host.name: data.draw(STATES) for one in fleet}
    where = around(fleet, states)
    before = judge(planned(kind, fleet[: max(1, count - 1)]), where)
    after = judge(planned(kind, fleet[:count]), where)
    assert is_at_least_as_strict(after, before), (before, after)


@given(KINDS, Fleets, st.sampled_from(["ann", "bob", None]))
@settings(deadline=None, max_examples=150)
def test_adding_a_process_to_a_host_never_makes_the_guards_milder(
    kind: ActionKind, fleet: list[Evidence], user: str | None
) -> None:
    where = around(fleet, {one.host.name: HostActState.ACTIVE for one in fleet})
    before = judge(planned(kind, fleet), where)
    frame = fleet[0].host.frame
    assert frame is not None
    busier = structs.replace(frame, processes=(*frame.processes, a_process(77, user)))
    more = structs.replace(fleet[0], host=structs.replace(fleet[0].host, frame=busier))
    after = judge(planned(kind, [more, *fleet[1:]]), where)
    assert is_at_least_as_strict(after, before), (before, after)


@given(KINDS, Fleets, st.sampled_from(["ann", "bob", None]))
@settings(deadline=None, max_examples=150)
def test_adding_a_job_to_a_host_never_makes_the_guards_milder(
    kind: ActionKind, fleet: list[Evidence], user: str | None
) -> None:
    where = around(fleet, {one.host.name: HostActState.ACTIVE for one in fleet})
    before = judge(planned(kind, fleet), where)
    node = fleet[0].node
    assert node is not None
    more = structs.replace(fleet[0], node=structs.replace(node, jobs=(*node.jobs, Job(id="99", user=user))))
    after = judge(planned(kind, [more, *fleet[1:]]), where)
    assert is_at_least_as_strict(after, before), (before, after)


IDS = st.sampled_from([None, "x", "y"])
IDENTITIES = st.builds(HostIdentity, boot_id=IDS, machine_id=IDS, host_key=IDS)


@given(IDENTITIES, IDENTITIES)
def test_what_is_not_known_never_makes_two_machines_of_one(one: HostIdentity, other: HostIdentity) -> None:
    assert same_machine(one, other) is same_machine(other, one)
    if one.boot_id is not None:
        assert same_machine(one, structs.replace(other, boot_id=one.boot_id))
    known = [key for key in ("boot_id", "machine_id") if getattr(one, key) and getattr(one, key) == getattr(other, key)]
    if known and not same_machine(one, other):  # equal in something: then the rest must be known, and differ
        assert None not in (one.boot_id, other.boot_id, one.host_key, other.host_key)
        assert (one.boot_id, one.host_key) != (other.boot_id, other.host_key)
