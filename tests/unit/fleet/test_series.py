from __future__ import annotations

from datetime import timedelta

from gputop.fleet.series import BUCKET_SECONDS, BUCKETS, HOST, SeriesStore
from tests.fakes.builders import a_frame
from tests.fakes.clock import START


def test_a_bucket_holds_the_mean_of_its_values_and_gaps_are_none() -> None:
    store = SeriesStore()
    store.push("h", a_frame(START, utilization=(10.0, None)))
    store.push("h", a_frame(START + timedelta(seconds=1), utilization=(30.0, None)))
    later = START + timedelta(seconds=2 * BUCKET_SECONDS)
    store.push("h", a_frame(later, utilization=(80.0, 60.0)))
    assert store.trend("h", "GPU-0", "utilization_percent", later)[-3:] == [20.0, None, 80.0]
    assert store.trend("h", "GPU-1", "utilization_percent", later)[-3:] == [None, None, 60.0]
    assert store.trend("h", HOST, "utilization_percent", later)[-3:] == [20.0, None, 70.0]
    assert store.trend("h", HOST, "memory_percent", later)[-1] == 12.5


def test_what_is_older_than_the_window_is_gone() -> None:
    store = SeriesStore()
    store.push("h", a_frame(START))
    much_later = START + timedelta(seconds=BUCKETS * BUCKET_SECONDS)
    assert store.trend("h", "GPU-0", "utilization_percent", much_later) == [None] * BUCKETS
    store.push("h", a_frame(much_later))
    assert [value for value in store.trend("h", "GPU-0", "utilization_percent", much_later) if value is not None] == [
        50
    ]


def test_a_forgotten_host_has_no_history() -> None:
    store = SeriesStore()
    store.push("h", a_frame(START))
    store.forget({"h"})
    assert set(store.trend("h", "GPU-0", "utilization_percent", START)) == {None}


def test_a_bucket_that_has_just_begun_holds_the_value_that_still_counts() -> None:
    store = SeriesStore()
    store.push("h", a_frame(START + timedelta(seconds=BUCKET_SECONDS - 1), interval_seconds=2.0))
    just_begun = START + timedelta(seconds=BUCKET_SECONDS)
    assert store.trend("h", "GPU-0", "utilization_percent", just_begun)[-2:] == [50.0, 50.0]
    assert store.trend("h", "GPU-0", "utilization_percent", just_begun + timedelta(seconds=BUCKET_SECONDS))[-1] is None


def test_values_that_come_less_often_than_buckets_pass_leave_no_gaps() -> None:
    store = SeriesStore()
    for tick in range(4):
        at = START + tick * timedelta(seconds=30)
        store.push("h", a_frame(at, utilization=(10.0 * tick,), interval_seconds=30.0))
    newest = START + timedelta(seconds=90)
    per_value = int(30 / BUCKET_SECONDS)
    assert store.trend("h", "GPU-0", "utilization_percent", newest)[-1 - 3 * per_value :] == [
        *[0.0] * per_value, *[10.0] * per_value, *[20.0] * per_value, 30.0,
    ]  # fmt: skip
