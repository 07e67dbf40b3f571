from __future__ import annotations

import asyncio

import pytest

from gputop.transport.once import Once


async def test_many_that_ask_at_once_get_the_value_of_one_piece_of_work() -> None:
    once: Once[str, int] = Once()
    ran = []

    async def work() -> int:
        ran.append(1)
        await asyncio.sleep(0)
        return 7

    assert await asyncio.gather(*(once.get("a", work, usable=bool) for _ in range(50))) == [7] * 50
    assert len(ran) == 1
    assert await once.get("a", work, usable=bool) == 7
    assert len(ran) == 1


async def test_a_waiter_that_is_cancelled_takes_nothing_away_from_the_others() -> None:
    once: Once[str, int] = Once()
    go = asyncio.Event()

    async def work() -> int:
        await go.wait()
        return 7

    first, second = (asyncio.create_task(once.get("a", work, usable=bool)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    go.set()
    assert await second == 7
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_value_that_is_not_usable_any_more_is_made_again_as_is_one_that_failed() -> None:
    once: Once[str, int] = Once()
    values = iter([0, ValueError(), 3])

    async def work() -> int:
        value = next(values)
        if isinstance(value, ValueError):
            raise value
        return value

    assert await once.get("a", work, usable=bool) == 0
    with pytest.raises(ValueError):
        await once.get("a", work, usable=bool)
    assert await once.get("a", work, usable=bool) == 3


async def test_closing_leaves_no_task() -> None:
    once: Once[str, int] = Once()
    before = asyncio.all_tasks()

    async def work() -> int:
        await asyncio.Event().wait()
        return 1

    waiter = asyncio.create_task(once.get("a", work, usable=bool))
    await asyncio.sleep(0)
    await once.close()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert asyncio.all_tasks() == before
