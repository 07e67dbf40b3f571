"""Lines of ours among whatever else a server prints."""

from __future__ import annotations

from gputop.probes.reader import WireReader

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
