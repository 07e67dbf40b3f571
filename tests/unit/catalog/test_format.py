"""Numbers as people read them, in no more room than there is."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gputop.catalog import format as shown
from gputop.catalog.text import clean, cut, pad

GIB = 1024**3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (shown.percent(None), "–"),
        (shown.percent(0), "0 %"),
        (shown.percent(0.3), "<1 %"),
        (shown.percent(97.4), "97 %"),
        (shown.percent(100, width=4), "100%"),
        (shown.memory(None), "–"),
        (shown.memory(0), "0 B"),
        (shown.memory(int(78.1 * GIB)), "78.1 GiB"),
        (shown.memory(640 * GIB), "640 GiB"),
        (shown.memory(13 * 1024 * GIB + GIB), "13.0 TiB"),
        (shown.memory_pair(571 * GIB, 640 * GIB), "571/640 GiB"),
        (shown.memory_pair(int(78.1 * GIB), int(79.6 * GIB)), "78.1/79.6 GiB"),
        (shown.memory_pair(0, 80 * GIB), "0.0/80.0 GiB"),
        (shown.memory_pair(None, 80 * GIB), "–/80.0 GiB"),
        (shown.memory_pair(None, None), "–"),
        (shown.watts(655.2), "655 W"),
        (shown.watts(4900), "4.9 kW"),
        (shown.watts(999.7), "1.0 kW"),
        (shown.watts_pair(655, 700), "655/700 W"),
        (shown.watts_pair(None, 700), "–/700 W"),
        (shown.watts_pair(655, None), "655 W"),
        (shown.celsius(74), "74 °C"),
        (shown.celsius(74, ascii_only=True), "74 C"),
        (shown.gigahertz(1980), "1.98 GHz"),
        (shown.count(1234567, width=5), "1.2M"),
        (shown.age(0.44), "0.4 s"),
        (shown.age(41), "41 s"),
        (shown.age(134), "2 m 14 s"),
        (shown.duration(3 * 3600 + 300), "3 h 05 m"),
        (shown.duration(41 * 86400), "41 d"),
    ],
)
def test_a_value_is_shown_as_people_write_it(text: str, expected: str) -> None:
    assert text == expected


def test_a_moment_is_as_short_as_the_day_allows() -> None:
    now = datetime(2026, 1, 9, 14, 0, tzinfo=UTC)
    assert shown.clock_time(datetime(2026, 1, 9, 9, 12, 3, tzinfo=UTC), now, UTC) == "09:12:03"
    assert shown.clock_time(datetime(2026, 1, 5, 9, 12, 3, tzinfo=UTC), now, UTC) == "Mon 09:12"
    assert shown.clock_time(datetime(2025, 11, 3, 9, 12, 3, tzinfo=UTC), now, UTC) == "2025-11-03 09:12"


numbers = st.one_of(st.none(), st.floats(min_value=0, max_value=1e18, allow_nan=False))
whole = st.one_of(st.none(), st.integers(min_value=0, max_value=2**63))


@given(numbers, numbers, whole, whole, st.integers(min_value=0, max_value=20))
def test_no_formatter_is_ever_wider_than_asked(
    a: float | None, b: float | None, c: int | None, d: int | None, width: int
) -> None:
    for text in (
        shown.percent(a, width=width),
        shown.watts(a, width=width),
        shown.watts_pair(a, b, width=width),
        shown.celsius(a, width=width),
        shown.gigahertz(a, width=width),
        shown.age(a, width=width),
        shown.duration(a, width=width),
        shown.memory(c, width=width),
        shown.memory_pair(c, d, width=width),
        shown.count(c, width=width),
    ):
        assert cell_len(text) <= width


@given(st.text(), st.integers(min_value=0, max_value=40))
def test_any_text_is_cut_and_padded_to_its_cells(text: str, width: int) -> None:
    assert cell_len(cut(clean(text), width)) <= width
    assert cell_len(pad(clean(text), width)) == width


@given(st.text())
def test_cleaned_text_holds_no_control_character(text: str) -> None:
    assert not any(ord(character) < 32 or 0x7F <= ord(character) < 0xA0 for character in clean(text))


def test_escapes_direction_overrides_and_line_ends_do_not_reach_the_screen() -> None:
    assert clean("a\x1b[31mred\x1b[0m\tb\nc\u202ed\u200be") == "a[31mred[0m b cde"
    assert clean('rows [1, "3"] and [red]x[/red]') == 'rows [1, "3"] and [red]x[/red]'


def test_wide_characters_count_two_cells() -> None:
    assert cut("漢字漢字", 5) == "漢字…"
    assert pad("漢字", 6) == "漢字  "
