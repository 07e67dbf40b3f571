from __future__ import annotations

from gputop.domain.problem import Problem
from gputop.ports import Told
from gputop.transport.waits import Waits, awaited

GATE, INNER, OTHER = ("gate",), ("gate", "inner"), ("other",)


def hearing(heard: list[str]) -> Told:
    async def told(problem: Problem | None) -> None:
        heard.append(problem.summary if problem is not None else "-")

    return told


async def test_every_host_whose_way_leads_through_hears_it_and_nobody_else() -> None:
    waits = Waits()
    gate: list[str] = []
    inner: list[str] = []
    other: list[str] = []
    async with (
        waits.listening(GATE, "gate", hearing(gate)),
        waits.listening(INNER, "inner", hearing(inner)),
        waits.listening(OTHER, "other", hearing(other)),
        waits.waiting(GATE, "bastion", awaited("a code")),
    ):
        assert waits.hosts(GATE) == ("gate", "inner")
        assert waits.hosts(INNER) == ("inner",)
    assert gate == ["waits for your answer: a code", "-"]
    assert inner == ["jump host bastion waits for your answer: a code", "-"]
    assert other == []


async def test_a_host_that_comes_later_hears_what_is_waited_for_already() -> None:
    waits = Waits()
    late: list[str] = []
    async with waits.waiting(GATE, "bastion", awaited("a code")), waits.listening(INNER, "inner", hearing(late)):
        assert late == ["jump host bastion waits for your answer: a code"]


async def test_a_host_with_two_logins_is_named_once_and_one_that_ended_no_more() -> None:
    waits = Waits()
    async with waits.listening(INNER, "inner", None):
        async with waits.listening(INNER, "inner", None):
            assert waits.hosts(GATE) == ("inner",)
        assert waits.hosts(GATE) == ("inner",)
    assert waits.hosts(GATE) == ()
