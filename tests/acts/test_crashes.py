"""gputop is killed with SIGKILL at every moment of every act, and started again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gputop.domain.action import Plan, Step
from gputop.domain.call import Watch
from tests.fakes.acts import a_plan, every_act, every_variant

PROGRAM = Path(__file__).with_name("crash.py")


def plan_of(act: str) -> Plan:
    request, evidence = (every_act() | every_variant())[act]
    return a_plan(request, evidence)


def called_steps(plan: Plan) -> dict[str, Step]:
    return {step.id: step for host in plan.hosts for step in host.steps if not isinstance(step.call, Watch)}


def attempts(act: str, folder: Path, how: str) -> list[dict[str, Any]]:
    ran = subprocess.run(
        [sys.executable, PROGRAM, act, folder, how], capture_output=True, text=True, timeout=240, check=False
    )
    assert ran.returncode == 0, ran.stderr
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(found) > 5
    return found


@pytest.mark.parametrize("act", every_act() | every_variant())
def test_after_a_sigkill_at_any_moment_nothing_is_done_twice_nothing_is_lost_and_the_journal_is_true(
    act: str, tmp_path: Path
) -> None:
    plan = plan_of(act)
    steps = called_steps(plan)
    assert steps, "an act without a call proves nothing"
    for attempt in attempts(act, tmp_path, "resume"):
        where = f"{act}, killed at moment {attempt['at']}: {attempt}"
        assert attempt["ended"] == -9, where
        assert attempt["went_on"] == 0, where
        assert attempt["still_open"] == 0, where
        if not attempt["was_open"] and not attempt["outcomes"]:
            opened = attempt["calls_before"]
            assert set(opened) in (set(), set(steps)), where  # before the first call, or all was closed
            continue
        for name, step in steps.items():
            times = attempt["calls"].count(name)
            if step.repeatable and step.check_first:
                assert times == 1, where  # not lost, and not twice: the check saw what had been done
            elif step.repeatable:
                assert 1 <= times <= 2, where  # a site's hook, which must bear it
            else:
                assert times <= 1, where
        [(state, results)] = attempt["outcomes"]
        for name in steps:
            if results[name] in ("verified", "already"):
                assert attempt["calls"].count(name) >= 1, where  # never claimed without having been done
        if state == "verified":
            needed = [name for name, step in steps.items() if not step.optional]
            assert set(needed) <= set(attempt["calls"]), where
        else:
            doubtful = [name for name, result in results.items() if result == "unverified"]
            assert doubtful, where
            assert all(not steps[name].repeatable for name in doubtful), where


@pytest.mark.parametrize("act", ["drain", "drain by Slurm", "drain by Kubernetes", "power-cap", "stop", "reset"])
def test_a_plan_that_was_killed_can_be_rolled_back_and_only_what_it_did_is_undone(act: str, tmp_path: Path) -> None:
    steps = called_steps(plan_of(act))
    for attempt in attempts(act, tmp_path, "roll-back"):
        where = f"{act}, killed at moment {attempt['at']}: {attempt}"
        assert attempt["went_on"] == 0, where
        assert attempt["still_open"] == 0, where
        if not attempt["was_open"]:
            continue
        before = attempt["calls_before"]
        restored = {name for name in before if name.replace("stop", "start") in before and "stop" in name}
        begun = [name for name in before if steps[name].undo is not None and name not in restored]
        undone = [name for name in attempt["calls"] if name not in steps]
        possible = {step.undo.id: name for name, step in steps.items() if step.undo is not None}
        assert set(begun) <= {possible[name] for name in undone}, where
        assert len(set(undone)) == len(undone), where
