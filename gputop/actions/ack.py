"""Acknowledged faults: somebody knows of the fatal events of a host so far, and the gate counts later ones only.

One small file a host below the state folder. It holds for one boot, and for events up to the one that was shown."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from gputop.actions.evidence import Evidence, Work, no_answer
from gputop.actions.faults import told_once
from gputop.actions.statefile import read_own, write_whole
from gputop.domain.action import ActionRequest, Block, Check, CheckState, Goal, Step
from gputop.domain.call import Api, Performed
from gputop.domain.problem import Problem, ProblemKind
from gputop.domain.record import Ack


def plan_ack(request: ActionRequest, evidence: Evidence) -> Work:
    faults, identity = evidence.faults, evidence.identity
    if faults is None:
        return (), (), (no_answer("its kernel log cannot be read: there is nothing to acknowledge"),), ()
    if not faults:
        return (), (), (), ("no fatal event since boot",)
    if identity is None or identity.boot_id is None:
        return (), (), (no_answer("which boot this is could not be found out"),), ()
    timed = [fault.uptime_seconds for fault in faults if fault.uptime_seconds is not None]
    if not timed:
        summary = f"{told_once(faults)}: when is not known, so that later ones could not be told apart"
        return (), (), (Block(kind="no-time", summary=summary, hint="--override REASON at the resume"),), ()
    ack = Ack(
        host=evidence.host.name,
        by=request.by,
        reason=request.reason,
        at=evidence.as_of,
        boot_id=identity.boot_id,
        through_seconds=max(timed),
        faults=tuple(fault.words for fault in faults),
    )
    step = Step(
        id="ack.write",
        actor="ack",
        title="note that these are known",
        call=Api(
            service="gputop",
            operation="acknowledge",
            parameters={"through_seconds": ack.through_seconds, "faults": list(ack.faults)},
        ),
        goal=Goal.ACKNOWLEDGED,
        wanted={"ack": msgspec.json.encode(ack).decode()},
        why_no_undo="the next boot ends it",
    )
    return (step,), (), (), (f"known from then on: {told_once(faults)}",)


class AckActor:
    """Implements `ports.Actor` for steps of the actor `ack`: nothing leaves this machine."""

    def __init__(self, state_folder: Path) -> None:
        self._state_folder = state_folder

    async def check(self, host: str, step: Step) -> Check:
        wanted = msgspec.json.decode(step.wanted["ack"], type=Ack)
        if read_ack(self._state_folder, host) == wanted:
            return Check(state=CheckState.DONE, summary=f"acknowledged: {', '.join(dict.fromkeys(wanted.faults))}")
        return Check(state=CheckState.NOT_DONE, summary="not acknowledged")

    async def perform(self, host: str, step: Step) -> Performed:
        path = _path(self._state_folder, host)
        try:
            write_whole(path, step.wanted["ack"].encode())
        except OSError as error:
            summary = f"{path} cannot be written: {error.strerror}"
            return Performed(ok=False, problem=Problem(kind=ProblemKind.INTERNAL, summary=summary))
        return Performed(ok=True)


def read_ack(state_folder: Path, host: str) -> Ack | None:
    """What was acknowledged of a host last; `None`: nothing, or it cannot be read."""
    try:
        return msgspec.json.decode(read_own(_path(state_folder, host)), type=Ack)
    except (OSError, msgspec.DecodeError):
        return None


def _path(state_folder: Path, host: str) -> Path:
    name = re.sub(r"[^\w.-]", "_", host)
    return state_folder / "acks" / f"{name}.json"
