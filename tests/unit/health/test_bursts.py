"""Events that belong together, and which of them is the root."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.domain.reading import DeviceEvent
from gputop.health.bursts import bursts, same_device

START = datetime(2026, 12, 1, tzinfo=UTC)


def event(seconds: float | None, code: int, bus: str = "0000:3b:00", kind: str = "xid") -> DeviceEvent:
    at = None if seconds is None else START + timedelta(seconds=seconds)
    return DeviceEvent(at=at, kind=kind, code=code, pci_bus_id=bus, message=f"{kind} {code}")


def test_three_minutes_of_silence_part_two_bursts() -> None:
    events = [event(0, 31), event(179, 31), event(358, 31), event(539, 31)]
    assert [len(burst.events) for burst in bursts(events)] == [3, 1]


@pytest.mark.parametrize(
    ("codes", "root"), [([45, 43, 48, 154], 48), ([94, 63], 63), ([45, 45], 45), ([154, 79], 79), ([13], 13)]
)
def test_the_root_is_the_first_that_is_no_consequence(codes: list[int], root: int) -> None:
    (burst,) = bursts([event(at, code) for at, code in enumerate(codes)])
    assert burst.root.code == root


def test_a_code_that_means_a_consequence_as_an_xid_means_none_as_an_sxid() -> None:
    (burst,) = bursts([event(0, 45, kind="sxid"), event(1, 79)])
    assert burst.root.kind == "sxid"


def test_the_same_of_the_same_device_is_folded_with_its_count_and_the_root_first() -> None:
    events = [event(0, 45), event(1, 31), event(2, 31, "0000:3B:00.0"), event(3, 31, "0000:9b:00"), event(4, 45)]
    (burst,) = bursts(events)
    assert [(line.first.code, line.first.pci_bus_id, line.times) for line in burst.folded] == [
        (31, "0000:3b:00", 2),
        (45, "0000:3b:00", 2),
        (31, "0000:9b:00", 1),
    ]


def test_an_event_without_a_time_belongs_to_the_one_before_it() -> None:
    events = [event(None, 13), event(None, 31), event(0, 48), event(None, 45), event(1000, 79)]
    assert [len(burst.events) for burst in bursts(events)] == [4, 1]


@given(st.lists(st.tuples(st.none() | st.floats(0, 1e5), st.integers(0, 200)), max_size=30))
def test_no_event_is_lost_or_doubled(told: list[tuple[float | None, int]]) -> None:
    events = [event(at, code) for at, code in told]
    made = bursts(events)
    assert [one for burst in made for one in burst.events] == events
    assert all(sum(line.times for line in burst.folded) == len(burst.events) for burst in made)
    assert all(burst.folded[0].first == burst.root or burst.root in burst.events for burst in made)


def test_addresses_of_logs_and_tools_are_of_the_same_device() -> None:
    assert same_device("0000:3b:00", "00000000:3B:00.0")
    assert not same_device("0000:3b:00", "00000000:3C:00.0")
    assert not same_device("0001:3b:00", "00000000:3B:00.0")
    assert not same_device(None, None)
