"""A script that many hosts run is told once, beside the hosts and in full."""

from __future__ import annotations

from gputop.domain.action import ActionKind, Deny
from gputop.domain.scripts import scripts_of
from gputop.export.acts import plan_text
from gputop.schedulers.none import TELL
from tests.fakes.acts import a_host, a_node, a_plan, a_request, an_evidence


def test_what_tells_people_is_told_once_and_in_full() -> None:
    hosts = [f"gpu-0{number}" for number in range(1, 4)]
    evidence = [an_evidence(host=a_host(host), node=a_node(host)) for host in hosts]
    plan = a_plan(a_request(ActionKind.DRAIN, *hosts), *evidence)
    assert scripts_of(plan) == (TELL,)
    text = plan_text(plan, Deny(refusals=()))
    assert text.count(TELL) == 1
    told = [line for line in text.splitlines() if "tell" in line]
    assert [
        f"{host}: sh -c 'the script below' <<< $'all:{host} is being drained" in line
        for host, line in zip(hosts, told, strict=False)
    ] == [True] * len(hosts)
