"""Messages for a person."""

from __future__ import annotations

import pytest

from gputop.cli.diagnostics import LINE_CHARACTERS, say


def test_a_line_too_long_for_people_is_cut_and_the_next_one_stands(capsys: pytest.CaptureFixture[str]) -> None:
    say("x" * 100_000 + "\n  what to do")
    first, second = capsys.readouterr().err.splitlines()
    assert len(first) == LINE_CHARACTERS + 1
    assert second == "  what to do"


def test_control_characters_are_written_as_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    say("a\x1b[2Jb")
    assert capsys.readouterr().err == "a\\x1b[2Jb\n"
