"""Stops, starts or hibernates an instance of a played EC2 again and again, each time killed with SIGKILL a little
later, and then started again.

    python crash_ec2.py ACT FOLDER URL INSTANCE     # prints one JSON line for each place of death

Like crash.py, with gputop's own provider in place of a world that is a file.
"""

from __future__ import annotations

import asyncio
import functools
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import boto3
import botocore.session

from gputop.actions.journal import unfinished
from gputop.actions.plan import BackEnds, make_plan
from gputop.domain.action import ActionKind, Check, CheckState, Plan, Step
from gputop.domain.backend import Ec2
from gputop.domain.call import Performed, Watch
from gputop.domain.clock import SystemClock
from gputop.domain.instance import Instance
from gputop.power.ec2 import Ec2PowerProvider
from gputop.schedulers.none import MarkerScheduler
from tests.acts.crash import Death, World, executor_of, in_child, note
from tests.fakes.acts import FastClock, NobodyRuns, a_host, a_request, an_evidence
from tests.fakes.clock import START

REGION = "us-east-1"

botocore.session.create_loader = functools.cache(botocore.session.create_loader)
"""EC2's description is 3 MB: read once, by the process that all others are forks of."""


class Mortal:
    """The provider, and the moments at which its process may die: also right before and after EC2 is called."""

    def __init__(self, provider: Ec2PowerProvider, death: Death, world: World) -> None:
        self._provider = provider
        plain = provider._aws.change

        async def change(*args: Any, **parameters: Any) -> Any:
            death.moment()
            answer = await plain(*args, **parameters)
            world.call(self._step)
            death.moment()
            return answer

        provider._aws.change = change  # type: ignore[method-assign]
        self._death = death

    async def check(self, host: str, step: Step) -> Check:
        self._death.moment()
        if isinstance(step.call, Watch):
            return Check(state=CheckState.DONE, summary="seen")
        return await self._provider.check(host, step)

    async def perform(self, host: str, step: Step) -> Performed:
        self._step = step
        return await self._provider.perform(host, step)


def plan_of(act: str, instance: Instance, url: str) -> Plan:
    host = a_host(power=Ec2(instance_id=instance.id, region=REGION, endpoint=url))
    drained = act != "start"
    evidence = an_evidence(host=host, drained=drained, instance=instance)
    back_ends = {host.name: BackEnds(scheduler=MarkerScheduler({}, NobodyRuns(), FastClock()), power=provider())}
    plan = make_plan(a_request(ActionKind(act)), [evidence], back_ends, START)
    assert isinstance(plan, Plan), plan
    assert plan.hosts[0].steps, plan.hosts[0].blocks
    return plan


def provider() -> Ec2PowerProvider:
    return Ec2PowerProvider(NobodyRuns(), SystemClock())


def carry_out(folder: Path, plan: Plan, at: int, *, again: bool) -> None:
    death = Death(at)
    executor = executor_of(folder, plan, death, Mortal(provider(), death, World(folder)))
    if not again:
        note(folder, asyncio.run(executor.execute(plan)))
        (folder / "moments").write_text(str(death.count))
    elif stories := unfinished(folder):
        note(folder, asyncio.run(executor.resume(stories[0])))


def main() -> None:
    act, base, url, instance_id = sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4]
    before, wanted = ("stopped", "running") if act == "start" else ("running", "stopped")

    def ec2() -> Any:
        return boto3.client("ec2", region_name=REGION, endpoint_url=url)

    def state() -> str:
        found = ec2().describe_instances(InstanceIds=[instance_id])
        return str(found["Reservations"][0]["Instances"][0]["State"]["Name"])

    def reset() -> None:
        if state() != before:
            change = ec2().start_instances if before == "running" else ec2().stop_instances
            change(InstanceIds=[instance_id])
        assert state() == before

    async def look() -> Instance:
        host = a_host(power=Ec2(instance_id=instance_id, region=REGION, endpoint=url))
        return (await provider().observe([host]))[host.name]

    reset()
    plan = plan_of(act, asyncio.run(look()), url)
    whole = base / "whole"
    whole.mkdir(parents=True)
    assert in_child(lambda: carry_out(whole, plan, 0, again=False)) == 0
    for at in range(1, int((whole / "moments").read_text()) + 1):
        reset()
        folder = base / str(at)
        folder.mkdir()
        ended = in_child(lambda folder=folder, at=at: carry_out(folder, plan, at, again=False))
        was_open, calls, between = bool(unfinished(folder)), World(folder).calls(), state()
        went_on = in_child(lambda folder=folder: carry_out(folder, plan, 0, again=True))
        outcomes = folder / "outcomes"
        print(
            json.dumps(
                {
                    "at": at,
                    "ended": ended,
                    "was_open": was_open,
                    "calls_before": calls,
                    "state_before": between,
                    "went_on": went_on,
                    "calls": World(folder).calls(),
                    "state": state(),
                    "wanted": wanted,
                    "outcomes": json.loads(outcomes.read_text()) if outcomes.exists() else None,
                }
            )
        )


if __name__ == "__main__":
    main()
