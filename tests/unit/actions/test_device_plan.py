"""A signal goes to the process that was meant, or to none."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gputop.actions.device_plan import plan_signal
from tests.fakes.acts import every_act


@pytest.mark.parametrize(
    ("meant", "says"),
    [
        ({"started_ticks": 98}, "another process has the number 4242 now"),
        ({"started_ticks": 0, "user": "mallory"}, "process 4242 belongs to carol now, not to mallory"),
    ],
)
def test_a_number_that_is_another_process_by_now_is_refused(meant: dict[str, object], says: str) -> None:
    request, evidence = every_act()["signal"]
    assert request.process is not None
    request = replace(request, process=replace(request.process, **meant))
    steps, _, blocks, _ = plan_signal(request, evidence)
    assert not steps
    assert [block.summary for block in blocks] == [says]


def test_the_process_that_was_meant_is_planned_also_where_only_its_number_was_named() -> None:
    request, evidence = every_act()["signal"]
    assert request.process is not None
    for process in (request.process, replace(request.process, started_ticks=0, user="")):
        steps, losses, blocks, _ = plan_signal(replace(request, process=process), evidence)
        assert steps
        assert not blocks
        assert losses[0].user == "carol"
