"""Looks that every power provider takes alike."""

from __future__ import annotations

from gputop.domain.action import Check, CheckState, Goal, Step
from gputop.domain.call import RunOn
from gputop.domain.host import HostSpec
from gputop.domain.instance import PowerState
from gputop.domain.proof import rebooted
from gputop.ports import Runner

LOOK_SECONDS = 15.0

ID_LABEL = "instance_id"
"""The label of a host that holds its id at its cloud, where its `power` is shared with others."""

WANTED = {
    Goal.STOPPED: (PowerState.STOPPED, PowerState.HIBERNATED),
    Goal.RUNNING: (PowerState.RUNNING,),
    Goal.HIBERNATED: (PowerState.HIBERNATED,),
}
"""Goals of power -> the states that reach them."""

ON_THE_WAY = {
    Goal.STOPPED: PowerState.STOPPING,
    Goal.RUNNING: PowerState.STARTING,
    Goal.HIBERNATED: PowerState.STOPPING,
}
"""Goals of power -> the state that comes right before."""


async def another_boot(runner: Runner, host: str, step: Step) -> Check:
    """Whether `host` has booted since the plan was made, by its own word."""
    call = RunOn(host=host, argv=("cat", "/proc/sys/kernel/random/boot_id"))
    result = await runner.run(call, deadline_seconds=LOOK_SECONDS)
    return rebooted(step.before.get("boot_id"), result.text if result.ok else None)


def in_state(goal: Goal, power: PowerState, said: str) -> Check:
    """Whether `power` is what `goal` asks for. `said`: the provider's own words."""
    values = {"power": said}
    if power in WANTED.get(goal, ()):
        return Check(state=CheckState.DONE, summary=said, values=values)
    if power is PowerState.GONE:
        return Check(state=CheckState.BLOCKED, summary=f"{said}: it will not come back", values=values)
    if power is PowerState.UNKNOWN:
        return Check(state=CheckState.UNKNOWN, summary=f"its state is not known: {said}", values=values)
    if goal is Goal.HIBERNATED and power is PowerState.STOPPED:
        summary = f"{said}: it stopped without hibernating, its memory is lost"
        return Check(state=CheckState.BLOCKED, summary=summary, values=values)
    return Check(state=CheckState.NOT_DONE, summary=said, values=values, under_way=power is ON_THE_WAY.get(goal))


def id_of(named: str | None, spec: HostSpec) -> str | None:
    """A host's id at its cloud: of its `power`, else of its label."""
    return named if named is not None else spec.labels.get(ID_LABEL)
