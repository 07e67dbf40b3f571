"""Memory that no process accounts for."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.domain.reading import ProcessReading
from gputop.fleet.attribution import unattributed_bytes
from tests.fakes.builders import a_frame

MIB = 1024 * 1024


def unattributed(used: int | None, *held: int | None, **columns: Any) -> int | None:
    processes = tuple(
        ProcessReading(device_index=0, pid=number, memory_used_bytes=None if size is None else size * MIB)
        for number, size in enumerate(held, 1)
    )
    values = {"memory_used_bytes": [None if used is None else used * MIB], "memory_reserved_bytes": [479 * MIB]}
    rest = unattributed_bytes(a_frame(processes=processes, columns=values | columns), 0)
    return rest if rest is None else rest // MIB


@pytest.mark.parametrize(
    ("used", "held", "rest"),
    [
        (40_000, (), 40_000),
        (40_000, (39_000, 800), 200),
        (40_000, (39_960,), 0),
        (59, (), 0),
        (40_000, (41_000,), 0),
        (40_000, (39_000, None), None),
        (None, (), None),
    ],
)
def test_what_the_listed_processes_do_not_hold_is_nobodys(
    used: int | None, held: tuple[int | None, ...], rest: int | None
) -> None:
    assert unattributed(used, *held) == rest


def test_without_a_list_of_processes_nothing_can_be_told() -> None:
    assert unattributed(40_000, processes_known=[False]) is None
    assert unattributed(40_000, state=["lost"]) is None


def test_drivers_that_count_their_own_reserve_as_used_hold_more_when_idle() -> None:
    assert unattributed(614, memory_reserved_bytes=[None]) == 0
    assert unattributed(2000, memory_reserved_bytes=[None]) == 2000
