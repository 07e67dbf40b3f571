"""A plan that a person has seen stays good while a host is at work, and never covers more than it named."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec import structs

from gputop.actions.evidence import Evidence, changes
from gputop.domain.action import ActionKind, Plan
from gputop.domain.job import Job
from gputop.domain.reading import ProcessReading
from tests.fakes.acts import a_host, a_node, a_plan, a_process, a_request, an_evidence, an_instance
from tests.fakes.clock import START

OVERRIDDEN = "it burns"
"""Why a host that is not drained is stopped all the same: only then such a plan has steps."""

ENDING = (ActionKind.STOP, ActionKind.REBOOT)
KINDS = st.sampled_from([ActionKind.DRAIN, ActionKind.CORDON, ActionKind.RESET, ActionKind.MESSAGE, *ENDING])
USERS = st.sampled_from(["ann", "bob", "carol", None])
PROCESSES = st.lists(
    st.builds(
        lambda pid, user, ticks: a_process(pid, user, started_ticks=ticks),
        st.integers(2, 30),
        USERS,
        st.integers(1, 3),
    ),
    max_size=5,
    unique_by=lambda process: process.pid,
)
JOBS = st.lists(st.builds(lambda number: Job(id=str(number), user="bob"), st.integers(1, 9)), max_size=3)


def seen(processes: list[ProcessReading], jobs: list[Job], **columns: list[object]) -> Evidence:
    twice = [structs.replace(one, device_index=1) for one in processes if one.pid % 2]  # on both devices
    host = a_host(processes=[*processes, *twice])
    assert host.frame is not None
    for name, values in columns.items():
        frame = structs.replace(host.frame, columns=structs.replace(host.frame.columns, **{name: values}))
        host = structs.replace(host, frame=frame)
    return an_evidence(host=host, node=a_node(jobs=tuple(jobs)))


def planned(kind: ActionKind, evidence: Evidence, seconds: float = 0.0) -> Plan:
    request = a_request(kind, override=OVERRIDDEN if kind in ENDING else "", text="bye")
    return a_plan(request, evidence, at=START + timedelta(seconds=seconds))


def stakes(kind: ActionKind, processes: list[ProcessReading], jobs: list[Job]) -> set[object]:
    """What a person has to know of, worked out without the code under test."""
    if kind in ENDING:
        return {(one.pid, one.started_ticks) for one in processes} | {job.id for job in jobs}
    if kind is ActionKind.DRAIN:
        return {one.user for one in processes} | {job.id for job in jobs}
    return set()


@given(KINDS, PROCESSES, JOBS, st.data())
@settings(deadline=None, max_examples=200)
def test_a_plan_holds_when_work_ends_and_memory_moves(
    kind: ActionKind, processes: list[ProcessReading], jobs: list[Job], data: st.DataObject
) -> None:
    gone = data.draw(st.sets(st.integers(2, 30)))
    left = [one for one in processes if one.pid not in gone]
    fewer = [job for job in jobs if int(job.id) % 2 == 0]
    memory = data.draw(st.lists(st.integers(0, 2**36), min_size=2, max_size=2))
    before = planned(kind, seen(processes, jobs))
    assume(not before.hosts[0].blocks)
    after = planned(kind, seen(left, fewer, memory_used_bytes=memory, utilization_percent=[99.0, 3.0]), 20.0)
    assert changes(before, after) == ()


@given(KINDS, PROCESSES, JOBS, PROCESSES, JOBS)
@settings(deadline=None, max_examples=300)
def test_a_plan_never_covers_more_than_a_person_has_seen(
    kind: ActionKind,
    processes: list[ProcessReading],
    jobs: list[Job],
    later: list[ProcessReading],
    later_jobs: list[Job],
) -> None:
    before = planned(kind, seen(processes, jobs))
    assume(not before.hosts[0].blocks)  # else nobody can confirm it
    found = changes(before, planned(kind, seen(later, later_jobs), 20.0))
    more = stakes(kind, later, later_jobs) - stakes(kind, processes, jobs)
    assert bool(found) == bool(more), (found, more)


@given(KINDS, PROCESSES)
@settings(deadline=None, max_examples=50)
def test_another_boot_another_owner_and_a_lost_device_are_never_covered(
    kind: ActionKind, processes: list[ProcessReading]
) -> None:
    before = seen(processes, [])
    assert before.identity is not None
    assert before.node is not None
    others = [
        structs.replace(before, identity=structs.replace(before.identity, boot_id="another")),
        structs.replace(before, identity=None),
        structs.replace(before, node=structs.replace(before.node, cordoned=True, by="bob", reason="mine")),
        structs.replace(before, instance=an_instance(id="i-another")),
        structs.replace(before, units=("nvidia-persistenced",)),
        structs.replace(before, host=structs.replace(before.host, frame=None)),
        seen(processes, [], state=["ok", "lost"]),
    ]
    for other in others:
        assert changes(planned(kind, before), planned(kind, other, 20.0)) != (), other
