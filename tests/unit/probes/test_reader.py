"""Lines of ours among whatever else a server prints."""

from __future__ import annotations

from gputop.probes.reader import BURST_BYTES, RATE_BYTES_PER_SECOND, Allowance, WireReader

TOKEN = "cafe0123"


def test_greetings_of_login_files_are_noise_and_kept_for_words() -> None:
    reader = WireReader(TOKEN)
    assert reader.feed(b"Welcome, have a nice day\r\n\nLast login\ncafe0123 {}\ncafe") == [b"{}"]
    assert reader.noise_lines == 2
    assert reader.noise == b"Welcome, have a nice day\nLast login\n"


def test_a_greeting_without_a_line_end_does_not_hide_the_line_after_it() -> None:
    assert WireReader(TOKEN).feed(b'>>> cafe0123 {"k":"bye"}\r\n') == [b'{"k":"bye"}']


def test_the_token_alone_is_an_empty_body() -> None:
    assert WireReader(TOKEN).feed(b"cafe0123\n") == [b""]


def test_the_token_within_a_line_of_ours_is_part_of_it() -> None:
    assert WireReader(TOKEN).feed(b'cafe0123 {"command":"x cafe0123 y"}\n') == [b'{"command":"x cafe0123 y"}']


def test_a_line_that_is_too_long_is_dropped_and_the_next_one_read() -> None:
    reader = WireReader(TOKEN, line_limit=30)
    assert reader.feed(b"cafe0123 " + b"x" * 40) == []
    assert reader.feed(b"x" * 40 + b"\ncafe0123 1\n") == [b"1"]
    assert reader.long_lines == 1
    assert reader.feed(b"cafe0123 " + b"y" * 40 + b"\ncafe0123 2\n") == [b"2"]
    assert reader.long_lines == 2


def test_a_server_may_say_a_lot_at_once_and_then_much_for_ever() -> None:
    allowance = Allowance(now=100.0)
    second = b"x" * (RATE_BYTES_PER_SECOND - 1)
    assert allowance.spend(b"x" * BURST_BYTES, 100.0)
    assert all(allowance.spend(second, 101.0 + passed) for passed in range(50))
    assert not allowance.spend(b"xx" * BURST_BYTES, 151.0)


def test_short_lines_are_counted_as_more_than_their_bytes() -> None:
    assert not Allowance(now=0.0).spend(b"\n" * (BURST_BYTES // 100), 0.0)
