"""What is read of a drain marker, which is text of a host."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gputop.schedulers.none import read_marker


def test_a_marker_that_gputop_wrote_is_read_as_it_was_written() -> None:
    marker = read_marker('{"by":"bob","reason":"fans","since":"2026-03-01T10:15:00Z","units":["a-b@1.service"]}')
    assert (marker.by, marker.reason, marker.units) == ("bob", "fans", ("a-b@1.service",))
    assert marker.since == datetime(2026, 3, 1, 10, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2026-03-01T10:15:00", datetime(2026, 3, 1, 10, 15, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", None),
        ("9999-12-31T23:59:59+00:00", None),
    ],
)
def test_times_without_a_zone_are_utc_and_no_time_is_beyond_all_zones(written: str, read: datetime | None) -> None:
    marker = read_marker(f'{{"by":"bob","reason":"fans","since":"{written}","until":"{written}"}}')
    assert (marker.since, marker.until) == (read, read)


def test_no_unit_of_a_marker_is_an_option_or_a_path() -> None:
    marker = read_marker('{"by":"bob","reason":"","units":["-h","--root=/x","../x","a b","a;b","","launcher.service"]}')
    assert marker.units == ("launcher.service",)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"by":1}', "drained by bob\n\x1b[31m", '{"by":"b","reason":"r","until":5}']
)
def test_any_other_marker_is_somebody_s_all_the_same(text: str) -> None:
    marker = read_marker(text)
    assert (marker.by, marker.gputop) == ("", 0)
    assert marker.reason.startswith("a marker that is not gputop's: ")
    assert marker.reason.isprintable()
