"""Which acts go on beside which, on one host: the same by the rule, by the locks of this machine and by those of the
host."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import structs

from gputop.actions.hostlock import held
from gputop.actions.journal import InUse, locked
from gputop.actions.sharing import may_go_beside
from gputop.domain.action import ActionKind, Plan
from gputop.domain.record import Holder
from tests.fakes.acts import a_plan, a_request, an_evidence

BESIDE_A_DRAIN = {"signal", "message", "cancel", "requeue", "ack"}
GENTLE = {"cordon", "drain", "resume", "power-cap", "signal", "message", "cancel", "requeue", "ack", "bug-report"}
"""What leaves a host and what runs on it where they are, or takes them away only as said."""

EXPECTED = {
    (act, holder): act in BESIDE_A_DRAIN and (holder in GENTLE or (holder == "reboot" and act in {"cancel", "requeue"}))
    for act in map(str, ActionKind)
    for holder in map(str, ActionKind)
}
PAIRS = [(ActionKind(act), ActionKind(holder)) for act, holder in EXPECTED]
TAKE_NONE = {ActionKind(word) for word in BESIDE_A_DRAIN}


def plan_of(act: ActionKind, name: str) -> Plan:
    plan = a_plan(a_request(ActionKind.DRAIN, "gpu-01"), an_evidence("gpu-01"))
    return structs.replace(plan, id=name, request=structs.replace(plan.request, kind=act))


class Locks:
    """Those of hosts on which `holder` is at work."""

    def __init__(self, holder: ActionKind | None) -> None:
        self.holder = Holder(by="bob", act=holder, plan="other", since=None, bastion="b1", account="eve")
        self.taken: list[str] = []

    async def take(self, host: str, plan: Plan) -> Holder | None:
        self.taken.append(host)
        return self.holder

    async def look(self, host: str, plan: Plan) -> Sequence[Holder]:
        return [self.holder]

    async def leave(self, host: str, plan: Plan) -> None: ...


def test_the_rule() -> None:
    assert {(act, holder): may_go_beside(act, holder) for act, holder in PAIRS} == EXPECTED
    assert not any(may_go_beside(act, None) for act in ActionKind), "what cannot be told"


@pytest.mark.parametrize("place", ["own", "for-all"])
@pytest.mark.parametrize(("act", "holder"), PAIRS, ids=lambda one: one.value)
def test_locks_of_this_machine(act: ActionKind, holder: ActionKind, place: str, tmp_path: Path) -> None:
    """Of one user, and of two whose machine has a folder for all."""
    shared = tmp_path / "for-all"
    shared.mkdir()
    shared.chmod(0o1777)
    theirs = tmp_path / ("ana" if place == "own" else "bob")
    allowed = EXPECTED[act, holder] or (holder in TAKE_NONE)
    with locked(theirs, plan_of(holder, "first"), shared):
        if allowed:
            with locked(tmp_path / "ana", plan_of(act, "second"), shared):
                pass
        else:
            who = f"gpu-01: another .*: ann, {holder.value}, plan first"
            with pytest.raises(InUse, match=who), locked(tmp_path / "ana", plan_of(act, "second"), shared):
                raise AssertionError("both hold it")
    with locked(tmp_path / "ana", plan_of(act, "second"), shared):
        pass  # what was left behind holds nothing


@pytest.mark.parametrize(("act", "holder"), [*PAIRS, *((act, None) for act in ActionKind)])
async def test_locks_of_the_host(act: ActionKind, holder: ActionKind | None, tmp_path: Path) -> None:
    locks = Locks(holder)
    if act is ActionKind.START or (holder is not None and EXPECTED[act, holder]):  # what is off cannot be asked
        async with held(tmp_path, plan_of(act, "second"), locks, None):
            pass
    else:
        with pytest.raises(InUse, match="gpu-01: bob acts on it"):
            async with held(tmp_path, plan_of(act, "second"), locks, None):
                raise AssertionError("both hold it")
    assert bool(locks.taken) is (act not in TAKE_NONE | {ActionKind.START})


def test_a_lock_that_says_nothing_keeps_everybody_away(tmp_path: Path) -> None:
    with locked(tmp_path, plan_of(ActionKind.DRAIN, "first")):
        (tmp_path / "plans" / "locks" / "gpu-01.lock").write_text("")
        with pytest.raises(InUse), locked(tmp_path, plan_of(ActionKind.SIGNAL, "second")):
            raise AssertionError("both hold it")
