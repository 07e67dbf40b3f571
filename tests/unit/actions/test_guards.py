"""Guards refuse what must not be done; the strictest wins."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from gputop.actions.guards import REMOVES, is_confirmed, judge
from gputop.domain.action import (
    ActionKind,
    Allow,
    Confirm,
    Deny,
    HostActState,
    HostIdentity,
    Refusal,
    Verdict,
)
from gputop.domain.backend import CommandPower, Ec2, Ipmi, Kubernetes, Redfish, Slurm, SshPower
from gputop.domain.job import Job
from gputop.domain.link import LinkState
from tests.fakes.acts import (
    a_host,
    a_node,
    a_plan,
    a_policy,
    a_process,
    a_request,
    an_evidence,
    every_act,
    some_surroundings,
)
from tests.fakes.builders import a_frame, a_link
from tests.fakes.clock import START


def guards_of(verdict: Verdict) -> set[str]:
    return {refusal.guard for refusal in verdict.refusals} if isinstance(verdict, Deny) else set()


def drains(count: int, members: int = 24, **policy: Any) -> tuple[Any, list[Any]]:
    """A drain of `count` hosts of a group of `members`, and the evidence of all members."""
    rules = a_policy(**{"max_percent": 10.0, **policy})
    names = [f"gpu-{number:03d}" for number in range(members)]
    evidence = [an_evidence(host=a_host(name, policy=rules, groups=("train",))) for name in names]
    return a_plan(a_request(ActionKind.DRAIN, *names[:count]), *evidence[:count]), evidence


@pytest.mark.parametrize("act", every_act())
def test_every_act_is_refused_in_read_only_mode(act: str) -> None:
    request, evidence = every_act()[act]
    plan = a_plan(request, evidence)
    assert "read-only" in guards_of(judge(plan, some_surroundings(plan, evidence, allowed=False)))


@pytest.mark.parametrize("act", every_act())
def test_every_act_is_refused_on_a_protected_host(act: str) -> None:
    request, evidence = every_act()[act]
    spec = structs.replace(evidence.host.spec, protected=True)
    evidence = structs.replace(evidence, host=structs.replace(evidence.host, spec=spec))
    plan = a_plan(request, evidence)
    assert "protected" in guards_of(judge(plan, some_surroundings(plan, evidence)))


@pytest.mark.parametrize("act", every_act())
def test_every_other_act_is_confirmed_by_typing_the_short_name(act: str) -> None:
    request, evidence = every_act()[act]
    plan = a_plan(request, evidence)
    verdict = judge(plan, some_surroundings(plan, evidence))
    if act == "message":
        assert verdict == Allow()
        return
    assert isinstance(verdict, Confirm), verdict
    assert verdict.phrase == "gpu-01"
    needs = ("drain", "stop", "hibernate", "reboot", "reset", "signal", "cancel", "ack")
    assert verdict.reason_required is (act in needs)


def test_a_bare_enter_a_y_and_a_missing_reason_never_confirm() -> None:
    verdict = Confirm(phrase="gpu-01", reason_required=True)
    assert not is_confirmed(verdict, "", "NIC")
    assert not is_confirmed(verdict, "y", "NIC")
    assert not is_confirmed(verdict, "gpu-01", "  ")
    assert not is_confirmed(Deny(refusals=()), "gpu-01", "NIC")
    assert is_confirmed(verdict, " gpu-01 ", "NIC")


def test_many_hosts_are_confirmed_by_their_number() -> None:
    plan, evidence = drains(2)
    verdict = judge(plan, some_surroundings(plan, *evidence))
    assert isinstance(verdict, Confirm)
    assert verdict.phrase == "2"


@pytest.mark.parametrize(
    ("name", "phrase"),
    [
        ("gpu-01", "gpu-01"),
        ("gpu-01.lab.example", "gpu-01"),
        ("10.0.0.5", "10.0.0.5"),
        ("12.lab.example", "12.lab.example"),
        ("::ffff:10.0.0.5", "::ffff:10.0.0.5"),
    ],
)
def test_an_address_is_typed_whole(name: str, phrase: str) -> None:
    evidence = an_evidence(name)
    plan = a_plan(a_request(ActionKind.DRAIN, name), evidence)
    verdict = judge(plan, some_surroundings(plan, evidence))
    assert isinstance(verdict, Confirm)
    assert verdict.phrase == phrase


@pytest.mark.parametrize(("age", "refused"), [(5, False), (29, False), (31, True), (-0.5, False), (-3600, True)])
def test_data_older_than_its_limit_or_of_another_time_is_no_ground_to_act(age: float, refused: bool) -> None:
    """A clock that was set back makes the age of everything before unknown."""
    names = [f"gpu-{number:03d}" for number in range(24)]
    evidence = [an_evidence(host=a_host(name)) for name in names]
    plan = a_plan(a_request(ActionKind.DRAIN, names[0]), evidence[0], at=START + timedelta(seconds=age))
    assert plan.hosts[0].data_age_seconds == age
    assert ("stale-data" in guards_of(judge(plan, some_surroundings(plan, *evidence)))) is refused


@pytest.mark.parametrize("state", [LinkState.UNREACHABLE, LinkState.STALE, LinkState.AUTH_FAILED, LinkState.PENDING])
def test_a_host_that_does_not_answer_is_not_acted_on(state: LinkState) -> None:
    evidence = an_evidence(host=a_host(link=a_link(state)))
    plan = a_plan(a_request(), evidence)
    assert "stale-data" in guards_of(judge(plan, some_surroundings(plan, evidence)))


def test_a_host_without_any_identity_is_not_acted_on() -> None:
    evidence = an_evidence(identity=None, instance=None)
    plan = a_plan(a_request(), evidence)
    assert "identity" in guards_of(judge(plan, some_surroundings(plan, evidence)))


@pytest.mark.parametrize(
    ("count", "members", "guards"),
    [
        (1, 1, set()),
        (1, 5, set()),
        (2, 24, set()),
        (3, 24, {"blast-radius"}),
        (10, 200, set()),
        (11, 200, {"blast-radius"}),
    ],
)
def test_the_blast_radius_is_ten_hosts_or_ten_percent_of_a_group_and_one_host_is_always_allowed(
    count: int, members: int, guards: set[str]
) -> None:
    plan, evidence = drains(count, members)
    assert guards_of(judge(plan, some_surroundings(plan, *evidence))) == guards


def test_the_refusal_says_how_many_of_how_many() -> None:
    plan, evidence = drains(3)
    verdict = judge(plan, some_surroundings(plan, *evidence))
    assert isinstance(verdict, Deny)
    assert "3 of 24 in train = 12 %, over the limit of 10 %" in verdict.refusals[0].summary


def test_the_floor_counts_hosts_that_are_known_to_be_active() -> None:
    plan, evidence = drains(1, 4, min_active=3)
    around = some_surroundings(plan, *evidence)
    assert guards_of(judge(plan, around)) == set()
    states = dict(around.states) | {"gpu-003": HostActState.UNKNOWN}
    assert guards_of(judge(plan, structs.replace(around, states=states))) == {"floor"}


@pytest.mark.parametrize("kind", sorted(REMOVES - {ActionKind.RESET}))
@pytest.mark.parametrize(
    ("around", "guard"),
    [
        ({"jumps": {"gpu-01"}}, "jump-host"),
        ({"controllers": {"gpu-01"}}, "controller"),
        ({"vias": {"gpu-01"}}, "scheduler"),
        ({"self_identity": HostIdentity(machine_id="machine-of-gpu-01")}, "self"),
        ({"own_addresses": {"gpu-01"}}, "self"),
    ],
    ids=["jump host", "controller", "asked through it", "this machine", "came from it"],
)
def test_machines_that_others_need_are_refused(kind: ActionKind, around: dict[str, Any], guard: str) -> None:
    evidence = an_evidence(drained=kind is not ActionKind.DRAIN)
    plan = a_plan(a_request(kind), evidence)
    assert guard in guards_of(judge(plan, some_surroundings(plan, evidence, **around)))


def test_two_names_of_one_machine_are_refused() -> None:
    one = an_evidence("a", identity=HostIdentity(machine_id="same", boot_id="x"))
    two = an_evidence("b", identity=HostIdentity(machine_id="same", boot_id="x"))
    plan = a_plan(a_request(ActionKind.DRAIN, "a", "b"), one, two)
    assert "twin" in guards_of(judge(plan, some_surroundings(plan, one, two)))


@pytest.mark.parametrize("kind", [ActionKind.STOP, ActionKind.REBOOT, ActionKind.HIBERNATE])
def test_only_drained_hosts_are_stopped_and_rebooted_unless_somebody_says_why(kind: ActionKind) -> None:
    evidence = an_evidence()
    plan = a_plan(a_request(kind), evidence)
    assert "not-drained" in guards_of(judge(plan, some_surroundings(plan, evidence)))
    plan = a_plan(a_request(kind, override="it hangs"), evidence)
    assert isinstance(judge(plan, some_surroundings(plan, evidence)), Confirm)


def test_a_reboot_behind_jobs_waits_for_them_and_for_nothing_else() -> None:
    jobs = (Job(id="57381", user="carol"),)
    node = a_node(scheduler="slurm", jobs=jobs)
    own = a_process(7, "carol", job="57381")
    other = a_process(8, "carol")
    waits = an_evidence(host=a_host(processes=[own]), node=node)
    plan = a_plan(a_request(ActionKind.REBOOT), waits)
    assert isinstance(judge(plan, some_surroundings(plan, waits)), Confirm)
    assert [(loss.summary, loss.certain) for loss in plan.hosts[0].losses] == [
        ("job 57381 of carol", False),
        ("python (pid 7) of carol", False),
    ]
    held = an_evidence(host=a_host(processes=[own, other]), node=node)
    plan = a_plan(a_request(ActionKind.REBOOT), held)
    assert guards_of(judge(plan, some_surroundings(plan, held))) == {"not-drained"}
    dark = an_evidence(host=a_host(frame=None), node=node)
    plan = a_plan(a_request(ActionKind.REBOOT), dark)
    assert "not-drained" in guards_of(judge(plan, some_surroundings(plan, dark)))


@pytest.mark.parametrize(("asked", "seconds"), [(None, 1200.0), (12.0, 12.0), (3600.0, 3600.0)])
def test_a_reboot_is_given_the_time_that_was_asked_for(asked: float | None, seconds: float) -> None:
    evidence = an_evidence(node=a_node(drained=True))
    plan = a_plan(a_request(ActionKind.REBOOT, deadline_seconds=asked), evidence)
    assert [step.deadline_seconds for step in plan.hosts[0].steps] == [seconds, seconds]


@pytest.mark.parametrize("kind", [ActionKind.REBOOT, ActionKind.START])
def test_a_host_must_come_back_with_the_devices_of_its_last_drains(kind: ActionKind) -> None:
    plan = a_plan(a_request(kind), an_evidence(node=a_node(drained=True), devices_before=8))
    assert plan.hosts[0].steps[-1].wanted["at_least"] == "8"
    assert ("2 of 8 GPUs: it had more at an earlier drain" in plan.hosts[0].notes) is (kind is ActionKind.REBOOT)


def test_jobs_that_a_reboot_waits_for_are_given_the_time_that_was_asked_for() -> None:
    node = a_node(scheduler="slurm", jobs=(Job(id="57381", user="carol"),))
    evidence = an_evidence(node=node)
    plan = a_plan(a_request(ActionKind.REBOOT, deadline_seconds=7200.0), evidence)
    times = {step.id: step.deadline_seconds for step in plan.hosts[0].steps}
    assert {times["host.rebooted"], times["host.first-frame"]} == {7200.0, 1200.0}
    plan = a_plan(a_request(ActionKind.REBOOT, deadline_seconds=10.0), evidence)
    times = {step.id: step.deadline_seconds for step in plan.hosts[0].steps}
    assert {times["host.rebooted"], times["host.first-frame"]} == {1200.0}


def test_a_process_on_a_drained_host_makes_it_not_drained() -> None:
    evidence = an_evidence(host=a_host(processes=[a_process()]), node=a_node(drained=True))
    plan = a_plan(a_request(ActionKind.STOP), evidence)
    assert "not-drained" in guards_of(judge(plan, some_surroundings(plan, evidence)))


def test_a_process_list_that_is_not_known_makes_a_host_not_drained() -> None:
    columns = {"processes_known": [True, False], "memory_used_bytes": [0, 0]}
    evidence = an_evidence(
        host=a_host(frame=a_frame(utilization=(0.0, 0.0), columns=columns)), node=a_node(drained=True)
    )
    plan = a_plan(a_request(ActionKind.STOP), evidence)
    assert "not-drained" in guards_of(judge(plan, some_surroundings(plan, evidence)))


def test_a_drain_of_somebody_else_is_not_undone_by_the_way() -> None:
    evidence = an_evidence(node=a_node(drained=True, by="bob", reason="smoke"))
    plan = a_plan(a_request(ActionKind.RESUME), evidence)
    verdict = judge(plan, some_surroundings(plan, evidence))
    assert guards_of(verdict) == {"drained-by-other"}
    assert "bob" in plan.hosts[0].blocks[0].summary
    assert "smoke" in plan.hosts[0].blocks[0].summary
    plan = a_plan(a_request(ActionKind.RESUME, override="bob said so"), evidence)
    assert isinstance(judge(plan, some_surroundings(plan, evidence)), Confirm)


def test_silence_is_set_aside_by_an_override_only_where_power_does_not_need_the_host() -> None:
    silent = a_host(link=a_link(LinkState.UNREACHABLE), frame=None)
    evidence = an_evidence(host=silent, identity=None)
    plan = a_plan(a_request(ActionKind.REBOOT, override="it hangs"), evidence)
    around = some_surroundings(plan, evidence)
    assert isinstance(judge(plan, around), Confirm)
    assert "stale-data" in guards_of(judge(plan, structs.replace(around, in_band={"gpu-01"})))


def test_losses_are_named_with_whose_they_are() -> None:
    evidence = an_evidence(host=a_host(processes=[a_process()]))
    plan = a_plan(a_request(), evidence)
    verdict = judge(plan, some_surroundings(plan, evidence))
    assert isinstance(verdict, Confirm)
    assert verdict.reasons == ("gpu-01: waits for python (pid 4242) of carol (not yours)",)


def test_no_hosts_is_a_problem_and_never_all_hosts() -> None:
    from gputop.actions.plan import make_plan
    from gputop.domain.problem import Problem

    found = make_plan(a_request(), [], {}, START)
    assert isinstance(found, Problem)
    assert "no hosts" in found.summary


@pytest.mark.parametrize("act", ["stop", "start", "reboot"])
@pytest.mark.parametrize(
    ("power", "is_shared"),
    [
        (Ec2(instance_id="i-1"), True),
        (Ipmi(address="10.0.9.7"), True),
        (Redfish(url="https://10.0.9.7"), True),
        (CommandPower(status=("cloud", "status", "{id}"), id="vm-1"), True),
        (Ipmi(address="{host}-bmc"), False),
        (Redfish(url="https://{host}-bmc"), False),
        (CommandPower(status=("cloud", "status", "{host}")), False),
        (Ec2(), False),
        (SshPower(), False),
    ],
)
def test_a_power_switch_that_the_inventory_gives_to_two_hosts_is_not_pressed(
    power: Any, is_shared: bool, act: str
) -> None:
    request, evidence = every_act()[act]
    spec = structs.replace(evidence.host.spec, power=power)
    plan = a_plan(request, structs.replace(evidence, host=structs.replace(evidence.host, spec=spec)))
    other = structs.replace(spec, name="gpu-02", address="192.0.2.2")
    around = some_surroundings(plan, evidence, specs={spec.name: spec, other.name: other})
    assert ("twin" in guards_of(judge(plan, around))) is is_shared


@pytest.mark.parametrize("act", every_act())
def test_a_protected_host_is_protected_under_its_other_names_too(act: str) -> None:
    request, evidence = every_act()[act]
    plan = a_plan(request, evidence)
    spec = structs.replace(evidence.host.spec, address="192.0.2.1", port=22)
    other = structs.replace(spec, name="alias", port=None, protected=True)
    around = some_surroundings(plan, evidence, specs={spec.name: spec, other.name: other})
    assert "protected" in guards_of(judge(plan, around))
    elsewhere = structs.replace(other, address="192.0.2.2")
    around = some_surroundings(plan, evidence, specs={spec.name: spec, other.name: elsewhere})
    assert "protected" not in guards_of(judge(plan, around))


def test_two_names_of_a_machine_without_machine_id_are_refused() -> None:
    identity = HostIdentity(boot_id="one boot")
    evidence = [an_evidence(name, identity=identity) for name in ("a", "b")]
    plan = a_plan(a_request(ActionKind.DRAIN, "a", "b"), *evidence)
    assert "twin" in guards_of(judge(plan, some_surroundings(plan, *evidence)))


def an_identity(boot: str | None, machine: str | None = "cloned", key: str | None = None) -> HostIdentity:
    return HostIdentity(boot_id=boot, machine_id=machine, host_key=key)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (an_identity("b1", "m1", "k1"), an_identity("b1", "m2", "k2"), True),  # containers of one machine
        (an_identity("b1", "cloned", "k1"), an_identity("b2", "cloned", "k2"), False),  # two machines of one image
        (an_identity("b1", "cloned", "k"), an_identity("b2", "cloned", "k"), True),  # its keys were copied too
        (an_identity("b1", "cloned", "k1"), an_identity("b2", "cloned", None), True),
        (an_identity(None, "cloned", "k1"), an_identity("b2", "cloned", "k2"), True),
        (an_identity("b1", "m1", "k"), an_identity("b2", "m2", "k"), False),
        (an_identity("b1", None, "k1"), an_identity("b2", None, "k2"), False),
        (an_identity(None, None, None), an_identity(None, None, None), False),
    ],
)
def test_one_machine_by_two_names_is_told_from_two_of_one_image(
    one: HostIdentity, other: HostIdentity, same: bool
) -> None:
    evidence = [an_evidence("a", identity=one, instance=None), an_evidence("b", identity=other, instance=None)]
    plan = a_plan(a_request(ActionKind.DRAIN, "a", "b"), *evidence)
    assert ("twin" in guards_of(judge(plan, some_surroundings(plan, *evidence)))) is same
    keys = {one.host_key, "my-other-key"} if one.host_key is not None else set()
    here = some_surroundings(plan, *evidence, self_identity=one, self_host_keys=keys)
    refused = {refusal.host for refusal in _refusals(judge(plan, here)) if refusal.guard == "self"}
    assert ("b" in refused) is same


def _refusals(verdict: Verdict) -> tuple[Refusal, ...]:
    return verdict.refusals if isinstance(verdict, Deny) else ()


def test_readings_of_another_machine_than_commands_reach_are_no_ground_to_act() -> None:
    host = a_host()
    assert host.frame is not None
    facts = structs.replace(host.frame.facts, machine_id="another")
    evidence = an_evidence(host=structs.replace(host, frame=structs.replace(host.frame, facts=facts)))
    plan = a_plan(a_request(ActionKind.DRAIN), evidence)
    assert plan.hosts[0].steps == ()
    assert "identity" in guards_of(judge(plan, some_surroundings(plan, evidence)))


@pytest.mark.parametrize("act", ["drain", "cordon", "resume", "reboot"])
@pytest.mark.parametrize(
    ("scheduler", "is_shared"),
    [
        (Slurm(node="gpu01"), True),
        (Kubernetes(context="prod", node="gpu01"), True),
        (Slurm(node="{host}-ib"), False),
        (Slurm(), False),
    ],
)
def test_a_node_that_the_inventory_gives_to_two_hosts_is_not_acted_on(
    scheduler: Any, is_shared: bool, act: str
) -> None:
    request, evidence = every_act()[act]
    plan = a_plan(request, evidence)
    spec = structs.replace(evidence.host.spec, scheduler=scheduler)
    other = structs.replace(spec, name="gpu-02", address="192.0.2.2")
    around = some_surroundings(plan, evidence, specs={spec.name: spec, other.name: other})
    assert ("twin" in guards_of(judge(plan, around))) is is_shared
