"""Acts on single processes and devices reach what was meant, or nothing."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gputop.actions.device_plan import plan_power_cap, plan_reset, plan_signal
from gputop.actions.evidence import Evidence
from gputop.domain.action import ActionKind, Goal, Step
from gputop.domain.call import RunOn
from gputop.domain.policy import Policy
from tests.fakes.acts import a_host, a_plan, a_policy, a_process, a_request, an_evidence, every_act


@pytest.mark.parametrize(
    ("meant", "says"),
    [
        ({"started_ticks": 98}, "another process has the number 4242 now"),
        ({"started_ticks": 0, "user": "mallory"}, "process 4242 belongs to carol now, not to mallory"),
    ],
)
def test_a_number_that_is_another_process_by_now_is_refused(meant: dict[str, object], says: str) -> None:
    request, evidence = every_act()["signal"]
    assert request.process is not None
    request = replace(request, process=replace(request.process, **meant))
    steps, _, blocks, _ = plan_signal(request, evidence)
    assert not steps
    assert [block.summary for block in blocks] == [says]


def test_the_process_that_was_meant_is_planned_also_where_only_its_number_was_named() -> None:
    request, evidence = every_act()["signal"]
    assert request.process is not None
    for process in (request.process, replace(request.process, started_ticks=0, user="")):
        steps, losses, blocks, notes = plan_signal(replace(request, process=process), evidence)
        assert steps
        assert not blocks
        assert losses[0].user == "carol"
        assert bool(notes) == (not process.started_ticks), "a doubt that is there and not said, or the reverse"


@pytest.mark.parametrize("ticks", [98, 99])
def test_the_list_of_processes_tells_when_the_one_of_a_number_started(ticks: int) -> None:
    request, evidence = every_act()["signal"]
    assert request.process is not None
    listed = replace(evidence, host=a_host(processes=[a_process(4242, started_ticks=ticks)]))
    steps, _, blocks, notes = plan_signal(replace(request, process=replace(request.process, started_ticks=0)), listed)
    assert bool(steps) == (ticks == 99)
    assert bool(blocks) == (ticks == 98)
    assert not notes


def test_a_process_of_which_only_the_number_is_known_is_of_another_namespace_and_refused() -> None:
    """Its number means another process for whoever logs in."""
    request, evidence = every_act()["signal"]
    stranger = replace(evidence, host=a_host(processes=[a_process(4242, user=None, name=None)]))
    steps, _, blocks, _ = plan_signal(request, stranger)
    assert not steps
    assert [block.kind for block in blocks] == ["other-namespace"]


def renumbered(evidence: Evidence) -> Evidence:
    """The same devices, numbered the other way round."""
    frame = evidence.host.frame
    assert frame is not None
    devices = tuple(replace(device, index=1 - device.index) for device in frame.devices)
    return replace(evidence, host=replace(evidence.host, frame=replace(frame, devices=devices)))


@pytest.mark.parametrize("kind", [ActionKind.RESET, ActionKind.POWER_CAP])
def test_a_device_that_was_chosen_is_the_one_that_is_reached_whatever_its_number_is_by_then(kind: ActionKind) -> None:
    evidence = an_evidence()
    assert evidence.host.frame is not None
    chosen = evidence.host.frame.devices[0].key
    request = a_request(kind, watts=500.0, devices_of={"gpu-01": (chosen,)})
    plan = plan_reset if kind is ActionKind.RESET else plan_power_cap
    for one in (evidence, renumbered(evidence)):
        steps, _, blocks, _ = plan(request, one)
        assert not blocks
        [call] = [step.call for step in steps]
        assert isinstance(call, RunOn)
        assert chosen in call.argv


@pytest.mark.parametrize("kind", [ActionKind.RESET, ActionKind.POWER_CAP])
def test_devices_that_were_chosen_on_another_host_or_are_gone_never_stand_for_all(kind: ActionKind) -> None:
    plan = plan_reset if kind is ActionKind.RESET else plan_power_cap
    for chosen in ({"gpu-02": ("GPU-0",)}, {"gpu-01": ("GPU-gone",)}):
        steps, _, blocks, _ = plan(a_request(kind, watts=500.0, devices_of=chosen), an_evidence())
        assert not steps
        assert [block.kind for block in blocks] == ["no-device"]


def test_the_gate_waits_for_its_diagnosis_and_a_hook_that_is_asked_has_its_own_time() -> None:
    policy = a_policy(dcgm_diag=True, is_drained=("/opt/site/is-drained",), hook_timeout_seconds=600.0)
    [gate] = [step for step in steps_of(ActionKind.RESUME, policy) if step.goal is Goal.HEALTHY]
    assert gate.check_seconds > 300.0
    assert gate.deadline_seconds >= gate.check_seconds
    [hook] = [step for step in steps_of(ActionKind.DRAIN, policy) if step.id == "hook.is_drained"]
    assert hook.check_seconds > 600.0


@pytest.mark.parametrize("act", every_act())
def test_a_deadline_holds_for_whatever_is_waited_for_and_never_for_what_restores_something(act: str) -> None:
    request, evidence = every_act()[act]
    plan = a_plan(replace(request, deadline_seconds=4000.0), evidence)
    waits = {step.id: step.deadline_seconds for step in plan.hosts[0].steps if not step.always}
    if request.kind is ActionKind.DRAIN:
        waits = {step.id: step.deadline_seconds for step in plan.hosts[0].steps if step.waits}
    if request.kind is ActionKind.REBOOT:
        waits = {}  # behind jobs it is how long those may take, see the tests of Slurm
    assert set(waits.values()) <= {4000.0}, waits
    restores = [step for step in plan.hosts[0].steps if step.always]
    assert all(step.deadline_seconds == 60.0 for step in restores)


def steps_of(kind: ActionKind, policy: Policy) -> tuple[Step, ...]:
    evidence = an_evidence(host=a_host(policy=policy), drained=kind is ActionKind.RESUME)
    return a_plan(a_request(kind), evidence).hosts[0].steps
