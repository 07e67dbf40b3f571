from __future__ import annotations

from gputop.query.filter import parse_filter
from gputop.query.sort import natural, ordered


def test_every_word_must_be_found_whatever_the_case() -> None:
    passes = parse_filter("H100 alice")
    assert passes(["gpu-01", "NVIDIA h100", "Alice"])
    assert not passes(["gpu-01", "NVIDIA h100", "bob", None])


def test_an_exclamation_mark_turns_a_word_around() -> None:
    assert parse_filter("!stale")(["gpu-01", "ok"])
    assert not parse_filter("!stale")(["gpu-01", "stale"])


def test_an_empty_filter_passes_everything_and_a_word_never_spans_two_texts() -> None:
    assert parse_filter("  ")([])
    assert not parse_filter("ab")(["a", "b"])


def test_hosts_are_ordered_as_people_count() -> None:
    assert sorted(["gpu-10", "gpu-2", "GPU-1", "a"], key=natural) == ["a", "GPU-1", "gpu-2", "gpu-10"]


def test_absent_values_come_last_in_both_directions() -> None:
    rows = [("a", 3), ("b", None), ("c", 1)]
    assert [name for name, _ in ordered(rows, lambda row: row[1])] == ["c", "a", "b"]
    assert [name for name, _ in ordered(rows, lambda row: row[1], descending=True)] == ["a", "c", "b"]
