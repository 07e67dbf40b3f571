"""How far a plan is, as lines."""

from __future__ import annotations

import pytest

from gputop.actions.desk import Work
from gputop.domain.action import HostActState, Outcome, OutcomeState, StepResult, StepState
from gputop.tui.work_page import work_lines
from tests.fakes.acts import a_plan, every_act

HINT = "add to sudoers: ops ALL=(root) NOPASSWD: /usr/bin/install -D -m 0644 /dev/stdin /run/gputop/drain.json"


@pytest.mark.parametrize("width", [80, 120, 200])
def test_what_to_do_about_a_step_that_failed_stands_below_it(width: int) -> None:
    plan = a_plan(*every_act()["drain"])
    step = plan.hosts[0].steps[1]
    result = StepResult(step=step.id, state=StepState.FAILED, summary="ops is not in sudoers", hint=HINT)
    outcome = Outcome(host="gpu-01", state=OutcomeState.FAILED, host_state=HostActState.FAILED, hint=HINT)
    work = Work(plan, results={("gpu-01", step.id): result}, outcomes=(outcome,))
    lines = ["".join(text for text, _ in line) for line in work_lines(work, width)]
    at = next(number for number, line in enumerate(lines) if "ops is not in sudoers" in line)
    below = lines[at + 1 : at + 3]
    assert below[0].strip().startswith("→ add to sudoers: ops ALL=(root) NOPASSWD: ")
    assert HINT in " ".join(line.strip() for line in below).removeprefix("→ ")
    assert all(len(line) <= width for line in below)


@pytest.mark.parametrize("width", [34, 50, 80, 120, 200])
def test_how_a_step_went_can_be_read_in_a_pane_that_cuts_its_title(width: int) -> None:
    plan = a_plan(*every_act()["drain"])
    results = {
        ("gpu-01", step.id): StepResult(step=step.id, state=StepState.UNVERIFIED) for step in plan.hosts[0].steps
    }
    work = Work(plan, results=results, trouble="left")
    lines = ["".join(text for text, _ in line) for line in work_lines(work, width)]
    steps = [line for line in lines if "unverified" in line]
    assert len(steps) == len(results)
    assert all("unverified" in line[:width] for line in steps)
