from __future__ import annotations

import asyncio
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gputop.transport.gate import CAP_SECONDS, Gate, backoff_seconds
from tests.fakes.clock import ManualClock


@given(failures=st.integers(-5, 10_000), seed=st.integers())
def test_a_back_off_is_never_longer_than_a_minute(failures: int, seed: int) -> None:
    assert 0.0 <= backoff_seconds(failures, Random(seed)) <= CAP_SECONDS


def test_back_offs_double_until_the_cap_and_are_spread_over_the_whole_range() -> None:
    class Top(Random):
        def uniform(self, a: float, b: float) -> float:
            assert a == 0.0
            return b

    assert [backoff_seconds(n, Top()) for n in range(1, 9)] == [1, 2, 4, 8, 16, 32, 60, 60]


async def hold(gate: Gate, hop: str, inside: set[int], number: int, leave: asyncio.Event) -> None:
    async with gate.hop(hop), gate.handshake():
        inside.add(number)
        await leave.wait()
        inside.discard(number)


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_hop_lets_so_many_in_and_the_others_wait_for_a_place() -> None:
    gate, inside, leave = Gate(ManualClock(), per_hop=2, total=32), set[int](), asyncio.Event()
    tasks = [asyncio.create_task(hold(gate, "a", inside, number, leave)) for number in range(5)]
    other = asyncio.create_task(hold(gate, "b", inside, 9, leave))
    await settle()
    assert inside == {0, 1, 9}
    leave.set()
    await asyncio.gather(*tasks, other)


async def test_the_total_counts_over_all_hops() -> None:
    gate, inside, leave = Gate(ManualClock(), per_hop=8, total=3), set[int](), asyncio.Event()
    tasks = [asyncio.create_task(hold(gate, str(number), inside, number, leave)) for number in range(5)]
    await settle()
    assert len(inside) == 3
    leave.set()
    await asyncio.gather(*tasks)


async def test_a_waiter_that_is_cancelled_takes_no_place_with_it() -> None:
    gate, inside, leave = Gate(ManualClock(), per_hop=1, total=1), set[int](), asyncio.Event()
    first, second, third = (asyncio.create_task(hold(gate, "a", inside, number, leave)) for number in range(3))
    await settle()
    second.cancel()
    first.cancel()
    await settle()
    assert 2 in inside
    leave.set()
    await asyncio.gather(first, second, third, return_exceptions=True)


async def test_nobody_knocks_at_a_hop_that_drops_connections_until_its_pause_is_over() -> None:
    clock, inside, leave = ManualClock(), set[int](), asyncio.Event()
    gate = Gate(clock, random=Random(1))
    gate.dropped("a")
    tasks = [asyncio.create_task(hold(gate, hop, inside, number, leave)) for number, hop in enumerate("ab")]
    await settle()
    assert inside == {1}
    await clock.advance(2.0)
    assert inside == {0, 1}
    leave.set()
    await asyncio.gather(*tasks)


async def test_connections_dropped_together_are_one_event() -> None:
    clock, inside, leave = ManualClock(), set[int](), asyncio.Event()
    gate = Gate(clock, random=Random(1))
    for _ in range(8):
        gate.dropped("a")
    task = asyncio.create_task(hold(gate, "a", inside, 0, leave))
    await clock.advance(2.0)
    assert inside == {0}
    leave.set()
    await task


async def test_forgetting_ends_a_pause() -> None:
    clock, inside, leave = ManualClock(), set[int](), asyncio.Event()
    gate = Gate(clock)
    gate.dropped("a")
    waiting = asyncio.create_task(hold(gate, "a", inside, 0, leave))
    await settle()
    assert inside == set()
    gate.forget()
    coming = asyncio.create_task(hold(gate, "a", inside, 1, leave))
    await settle()
    assert inside == {0, 1}
    leave.set()
    await asyncio.gather(waiting, coming)
