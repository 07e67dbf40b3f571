"""Carries out one act again and again, each time killed with SIGKILL a little later, and then started again.

    python crash.py ACT FOLDER      # prints one JSON line for each place of death

Run as a program of its own: it forks a process for each attempt. The world that the act changes is a file.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import gputop.actions.audit as audit_module
import gputop.actions.journal as journal_module
from gputop.actions.audit import AuditLog, Who
from gputop.actions.executor import Executor
from gputop.actions.journal import unfinished
from gputop.domain.action import Check, CheckState, HostIdentity, Outcome, Plan, Step
from gputop.domain.call import Performed
from gputop.ports import Actor
from tests.fakes.acts import BOOT, FastClock, a_plan, every_act, every_variant

IS_EVENT = frozenset({"told", "hook", "devices-reset"})
"""Goals that no later look can tell from what was so before."""


class Death:
    """Counts the moments at which the process may die, and dies at one of them."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.count = 0

    def moment(self) -> None:
        self.count += 1
        if self.count == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


class World:
    """What outlives a process: the goals that are reached, and every call that had an effect."""

    def __init__(self, folder: Path) -> None:
        self.calls_file, self.goals_file = folder / "calls", folder / "goals"

    def calls(self) -> list[str]:
        return self.calls_file.read_text().split() if self.calls_file.exists() else []

    def reached(self) -> set[str]:
        return set(self.goals_file.read_text().split()) if self.goals_file.exists() else set()

    def call(self, step: Step) -> None:
        with self.calls_file.open("a") as file:
            file.write(f"{step.id}\n")
        with self.goals_file.open("a") as file:
            file.write(f"{goal_of(step)}\n")


def goal_of(step: Step) -> str:
    values = "-".join(f"{key}={value}" for key, value in sorted(step.wanted.items()) if key != "marker")
    return f"{step.goal.value}/{values}".replace(" ", "_")


class WorldActor:
    """Brings goals about in the world. A watch finds its goal reached: what it waits for is not what is tested here."""

    def __init__(self, world: World, death: Death, calls_of_plan: set[str]) -> None:
        self._world, self._death, self._calls = world, death, calls_of_plan

    async def check(self, host: str, step: Step) -> Check:
        self._death.moment()
        if step.id not in self._calls:
            return Check(state=CheckState.DONE, summary="seen")
        if step.goal.value in IS_EVENT and step.goal.value != "devices-reset":
            return Check(state=CheckState.UNKNOWN)
        done = goal_of(step) in self._world.reached() or step.goal.value == "devices-reset"
        return Check(state=CheckState.DONE if done else CheckState.NOT_DONE)

    async def perform(self, host: str, step: Step) -> Performed:
        self._death.moment()
        self._world.call(step)
        self._death.moment()
        return Performed(ok=True, exit_status=0)


def executor_of(folder: Path, plan: Plan, death: Death, actor: Actor | None = None) -> Executor:
    """`actor`: who performs and checks; `None`: one that changes the world below `folder`."""
    plain = audit_module.append_line

    def append_line(path: Path, line: bytes) -> None:
        death.moment()
        if death.count + 1 == death.at:  # dies in the middle of the line
            plain(path, line)
            os.truncate(path, path.stat().st_size - len(line) // 2)
            death.moment()
        plain(path, line)
        death.moment()

    audit_module.append_line = append_line
    journal_module.append_line = append_line

    async def identify(host: str) -> HostIdentity:
        return HostIdentity(boot_id=BOOT, machine_id=f"machine-of-{host}")

    calls = {
        each.id
        for host in plan.hosts
        for step in host.steps
        if step.call.__class__.__name__ != "Watch"
        for each in (step, step.undo)
        if each
    }
    chosen = actor or WorldActor(World(folder), death, calls)
    audit = AuditLog(folder / "audit.jsonl", Who(user="ann"), to_syslog=False)
    return Executor(lambda host, name: chosen, identify, audit, folder, FastClock())


def in_child(work: Any) -> int:
    """Run it in a forked process; its exit status, or minus the signal that ended it."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            os._exit(9)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def begin(folder: Path, plan: Plan, at: int) -> None:
    death = Death(at)
    outcomes = asyncio.run(executor_of(folder, plan, death).execute(plan))
    (folder / "moments").write_text(str(death.count))
    note(folder, outcomes)


def again(folder: Path, plan: Plan, how: str) -> None:
    stories = unfinished(folder)
    executor = executor_of(folder, plan, Death(0))
    if stories and how == "roll-back":
        note(folder, asyncio.run(executor.roll_back(stories[0])))
    elif stories:
        note(folder, asyncio.run(executor.resume(stories[0])))


def note(folder: Path, outcomes: Sequence[Outcome]) -> None:
    (folder / "outcomes").write_text(
        json.dumps([[o.state.value, {s.step: s.state.value for s in o.steps}] for o in outcomes])
    )


def main() -> None:
    act, base, how = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    request, evidence = (every_act() | every_variant())[act]
    plan = a_plan(request, evidence)
    whole = base / "whole"
    whole.mkdir(parents=True)
    assert in_child(lambda: begin(whole, plan, 0)) == 0
    moments = int((whole / "moments").read_text())
    for at in range(1, moments + 1):
        folder = base / str(at)
        folder.mkdir()
        ended = in_child(lambda folder=folder, at=at: begin(folder, plan, at))
        calls = World(folder).calls()
        was_open = bool(unfinished(folder))
        went_on = in_child(lambda folder=folder: again(folder, plan, how))
        outcomes = folder / "outcomes"
        print(
            json.dumps(
                {
                    "at": at,
                    "ended": ended,
                    "calls_before": calls,
                    "was_open": was_open,
                    "went_on": went_on,
                    "calls": World(folder).calls(),
                    "still_open": len(unfinished(folder)),
                    "outcomes": json.loads(outcomes.read_text()) if outcomes.exists() else None,
                }
            )
        )


if __name__ == "__main__":
    main()
