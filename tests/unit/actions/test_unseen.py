"""A host whose work cannot be seen is not called idle, and what may run there counts as lost."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from gputop.actions.state import describe
from gputop.domain.action import ActionKind, HostActState
from gputop.domain.host import Host
from tests.fakes.acts import a_host, a_node, a_plan, a_process, a_request, an_evidence

HIDDEN = {"processes_known": [True, False]}
HELD = {"memory_used_bytes": [0, 5 * 1024**3]}


def seen(**columns: list[Any]) -> Host:
    host = a_host()
    assert host.frame is not None
    frame = structs.replace(host.frame, columns=structs.replace(host.frame.columns, **columns))
    return structs.replace(host, frame=frame)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (HIDDEN, "GPU 1 does not tell its processes"),
        (HELD, "GPU 1: 5,120 MiB in use without a process that can be seen"),
        ({"state": ["ok", "lost"]}, "GPU 1 does not answer (lost)"),
    ],
)
@pytest.mark.parametrize("kind", [ActionKind.REBOOT, ActionKind.STOP, ActionKind.DRAIN])
def test_what_cannot_be_seen_is_said_and_counts_as_lost(
    kind: ActionKind, columns: dict[str, list[Any]], words: str
) -> None:
    host = seen(**columns)
    assert describe(host, None, None, HostActState.ACTIVE) == f"not known to be idle: {words}"
    request = a_request(kind, override="it burns" if kind is not ActionKind.DRAIN else "")
    (plan,) = a_plan(request, an_evidence(host=host, node=a_node())).hosts
    (loss,) = (loss for loss in plan.losses if loss.key == "unseen")
    assert loss.summary == f"whatever runs there unseen: {words}"
    assert loss.user is None
    assert loss.certain is (kind is not ActionKind.DRAIN)


def test_an_idle_host_loses_nothing_unseen() -> None:
    host = a_host()
    assert describe(host, None, None, HostActState.ACTIVE) == "idle"
    (plan,) = a_plan(a_request(ActionKind.REBOOT, override="x"), an_evidence(host=host, node=a_node())).hosts
    assert not plan.losses


def test_processes_that_can_be_seen_are_named_alone() -> None:
    host = a_host(processes=[a_process(42, "bob")])
    (plan,) = a_plan(a_request(ActionKind.REBOOT, override="x"), an_evidence(host=host, node=a_node())).hosts
    assert [loss.user for loss in plan.losses] == ["bob"]


def test_a_drain_says_beforehand_that_a_lost_gpu_keeps_it_from_being_proven() -> None:
    (plan,) = a_plan(a_request(), an_evidence(host=seen(state=["ok", "lost"]), node=a_node())).hosts
    note = "GPU 1 does not answer (lost): this drain will not be proven, and what comes after it needs an override"
    assert note in plan.notes
    (plan,) = a_plan(a_request(), an_evidence(host=a_host(), node=a_node())).hosts
    assert not any("proven" in note for note in plan.notes)
