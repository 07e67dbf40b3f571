"""What gputop prints about acts is what its schemas say."""

from __future__ import annotations

import json
from datetime import timedelta

import msgspec
import pytest
from jsonschema import Draft202012Validator

from gputop.actions.guards import judge
from gputop.actions.outcome import audit_outcome, audit_step, intent, outcome_of
from gputop.cli.main import main
from gputop.domain.action import HostActState, Seen, StepResult, StepState
from gputop.domain.record import Lease
from gputop.export.acts import act_document, leases_document, plan_document
from gputop.export.schemas import schema_of
from tests.fakes.acts import a_plan, every_act, some_surroundings
from tests.fakes.clock import START


def check(document: str, printed: object) -> None:
    validator = Draft202012Validator(schema_of(document))
    plain = json.loads(msgspec.json.encode(printed))
    assert list(validator.iter_errors(plain)) == []
    assert list(validator.iter_errors({**plain, "plan": 1, "unfinished": 1, "time": 1})), "a schema that takes anything"


@pytest.mark.parametrize("act", every_act())
@pytest.mark.parametrize("allowed", [True, False])
def test_acts_and_their_audit(act: str, allowed: bool) -> None:
    request, evidence = every_act()[act]
    plan = a_plan(request, evidence)
    [host] = plan.hosts
    verdict = judge(plan, some_surroundings(plan, evidence, allowed=allowed))
    results = [StepResult(step=step.id, state=StepState.FAILED, hint="do this", left=("a",)) for step in host.steps]
    outcome = outcome_of(request.kind, host, results, "", None)
    for outcomes in (None, [outcome]):
        printed = act_document(plan, verdict, outcomes)
        check("act", printed)
    assert all("command" in step for step in printed["plan"]["hosts"][0]["steps"])
    steps = [audit_step(plan, host, step, result, START) for step, result in zip(host.steps, results, strict=True)]
    for record in (intent(plan, host, START), *steps, audit_outcome(plan, host, outcome, START)):
        check("audit", record)


def test_the_list_of_actions() -> None:
    plan = plan_document(a_plan(*every_act()["drain"]))
    lease = Lease(host="a", by="ann", reason="NIC", since=START, until=START + timedelta(hours=2), plan="p")
    for seen in (None, {"a": Seen(state=HostActState.DRAINED, now="drained by ann: NIC")}):
        document = {"schema": "gputop-actions/1", "unfinished": [plan], "in_progress": [plan]}
        check("actions", {**document, "leases": leases_document([lease], seen)})


@pytest.mark.parametrize(
    ("of", "title"), [([], "gputop/1"), (["--of", "act"], "gputop-act/1"), (["--of", "actions"], "gputop-actions/1")]
)
def test_schemas_are_printed(of: list[str], title: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", *of]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == title
