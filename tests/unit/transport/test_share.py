from __future__ import annotations

from gputop.domain.host import Endpoint, HostSpec
from gputop.domain.link import LinkFailure, LinkState
from gputop.domain.problem import ProblemKind
from gputop.ports import Connection, Told
from gputop.transport.share import Shared
from tests.fakes.builders import a_problem, a_spec


class CountingTransport:
    def __init__(self) -> None:
        self.closed = 0

    async def locate(self, spec: HostSpec) -> Endpoint | LinkFailure:
        return Endpoint(address=spec.name)

    async def connect(self, spec: HostSpec, told: Told | None = None) -> Connection | LinkFailure:
        return LinkFailure(state=LinkState.UNREACHABLE, problem=a_problem(ProblemKind.NO_ROUTE, "no"))

    def forget(self, *, by_person: bool = True) -> None:
        """Nothing is remembered."""

    async def close(self) -> None:
        self.closed += 1


def counting() -> tuple[Shared, list[CountingTransport]]:
    made: list[CountingTransport] = []

    def make() -> CountingTransport:
        made.append(CountingTransport())
        return made[-1]

    return Shared(make), made


async def test_it_is_made_when_it_is_taken_and_once() -> None:
    shared, made = counting()
    assert made == []
    shared.take()
    shared.take()
    assert len(made) == 1


async def test_only_the_last_user_closes_it() -> None:
    shared, made = counting()
    first, second = shared.take(), shared.take()
    await first.close()
    await first.close()
    assert made[0].closed == 0
    await second.close()
    assert made[0].closed == 1


async def test_a_user_who_comes_back_counts_again() -> None:
    shared, made = counting()
    first, second = shared.take(), shared.take()
    await first.close()
    await first.connect(a_spec("a"))
    await second.close()
    assert made[0].closed == 0
    await first.close()
    assert made[0].closed == 1
