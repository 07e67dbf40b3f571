"""The screen in a real terminal: it draws, follows keys and sizes, and gives the terminal back however it ends."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

from tests.tmux.pane import Pane, screen, wait_for

pytestmark = pytest.mark.tmux

ENDING = [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT]
SIZES = [(80, 24), (200, 50)]


def drawn(pane: Pane) -> str:
    """The screen, once it shows the fleet."""
    wait_for(lambda: "gpu-001" in pane.text(), "the fleet to be drawn")
    return pane.text()


def press_until(pane: Pane, key: str, sign: str) -> None:
    pane.keys(key)
    wait_for(lambda: sign in pane.text(), f"{sign!r} after {key}")


@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_keys_reach_every_view_and_q_leaves_a_clean_terminal(columns: int, lines: int) -> None:
    with screen(columns, lines) as pane:
        text = drawn(pane)
        assert "a stray line" not in text
        assert "another one" not in text
        assert max(len(line) for line in text.splitlines()) <= columns
        press_until(pane, "2", "PROCESSES")
        press_until(pane, "3", "COMMAND")
        press_until(pane, "1", "STATE")
        press_until(pane, "j", "gpu-001")
        press_until(pane, "Enter", "Problems")
        press_until(pane, "Escape", "1 Hosts")
        press_until(pane, "2", "PROCESSES")
        press_until(pane, "Enter", "on GPU ")
        press_until(pane, "Escape", "1 Hosts")
        press_until(pane, "1", "STATE")
        press_until(pane, "?", "Everywhere")
        press_until(pane, "Escape", "1 Hosts")
        press_until(pane, "p", "PAUSED")
        pane.keys("q")
        assert pane.exit_code() == 0
        pane.assert_clean()


def test_the_screen_follows_resizes() -> None:
    with screen(80, 24) as pane:
        drawn(pane)
        for columns, lines, sign in ((200, 50, "DRIVER"), (40, 10, "MEMORY"), (20, 5, "too small"), (120, 36, "USERS")):
            pane.resize(columns, lines)
            wait_for(lambda sign=sign: sign in pane.text(), f"{sign} at {columns}x{lines}")
        for step in range(20):
            pane.resize(60 + step * 3, 20 + step)
        wait_for(lambda: "TEMP" in pane.text(), "the table after a storm of resizes")
        pane.keys("q")
        assert pane.exit_code() == 0
        pane.assert_clean()


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_a_signal_ends_it_within_3_seconds_and_leaves_a_clean_terminal(number: signal.Signals) -> None:
    with screen(80, 24, "--mouse") as pane:
        drawn(pane)
        began = time.monotonic()
        os.kill(pane.program(), number)
        assert pane.exit_code() == 128 + number
        assert time.monotonic() - began < 4
        pane.assert_clean()


def test_ctrl_c_quits_from_anywhere() -> None:
    with screen(80, 24) as pane:
        drawn(pane)
        press_until(pane, ":", "a command")
        pane.keys("C-c")
        assert pane.exit_code() == 0
        pane.assert_clean()


def test_a_feed_that_hangs_at_the_end_does_not_keep_the_terminal() -> None:
    with screen(80, 24, "--slow-end") as pane:
        drawn(pane)
        pane.keys("q")
        assert pane.exit_code() == 0
        pane.assert_clean()


def test_a_crash_gives_the_terminal_back_and_says_what_happened(tmp_path: Path) -> None:
    trigger = tmp_path / "crash"
    with screen(120, 36, "--crash-file", str(trigger)) as pane:
        drawn(pane)
        trigger.touch()
        assert pane.exit_code() == 1
        pane.assert_clean()
        assert "a bug in the feed" in pane.text()


def test_a_killed_pane_ends_the_program() -> None:
    with screen(80, 24) as pane:
        drawn(pane)
        program = pane.program()
        pane.tmux("kill-pane")
        wait_for(lambda: not Path(f"/proc/{program}").exists(), "the program to end", seconds=5)


def test_ctrl_z_suspends_and_a_continued_screen_is_whole() -> None:
    with screen(80, 24) as pane:
        before = drawn(pane)
        program = pane.program()
        pane.keys("C-z")
        wait_for(lambda: state_of(program) == "T", "the program to stop")
        wait_for(lambda: pane.flags()["alternate_on"] == "0", "the shell's screen")
        assert pane.flags()["cursor_flag"] == "1"
        os.kill(program, signal.SIGCONT)
        wait_for(lambda: "gpu-001" in pane.text(), "the fleet to be drawn again")
        assert pane.flags()["alternate_on"] == "1"
        wait_for(lambda: pane.text().splitlines()[2:] == before.splitlines()[2:], "the whole screen")
        press_until(pane, "2", "PROCESSES")
        pane.keys("q", "q")
        assert pane.exit_code() == 0
        pane.assert_clean()


def test_bytes_that_are_no_utf8_do_not_end_the_screen() -> None:
    with screen(80, 24) as pane:
        drawn(pane)
        pane.tmux("send-keys", "-H", "ff", "80", "c3")
        press_until(pane, "2", "PROCESSES")
        pane.keys("C-c")
        assert pane.exit_code() == 0


def test_ascii_draws_nothing_but_ascii() -> None:
    with screen(120, 36, "--ascii") as pane:
        assert drawn(pane).isascii()
        for key, sign in (("2", "PROCESSES"), ("Enter", "Identity"), ("?", "Everywhere"), (":", "a command")):
            press_until(pane, key, sign)
            assert pane.text().isascii()
        assert (pane.folder / "output").read_bytes().isascii()


def test_without_color_the_states_are_words_and_signs() -> None:
    with screen(120, 36, NO_COLOR="1") as pane:
        text = drawn(pane)
        assert "✕ gpu-008  unreachable" in text


@pytest.mark.parametrize(
    "environment", [{"NO_COLOR": "1"}, {"TERM": "screen", "COLORTERM": ""}], ids=["gray", "16-colors"]
)
def test_with_few_colors_the_row_under_the_cursor_is_in_reverse(environment: dict[str, str]) -> None:
    with screen(80, 24, **environment) as pane:
        drawn(pane)
        pane.keys("Space")
        wait_for(lambda: reversed_lines(pane) == [5], "the second row in reverse, and not the marked one")


def reversed_lines(pane: Pane) -> list[int]:
    """Numbers of the lines of which the host's name is drawn in reverse."""
    lines = pane.tmux("capture-pane", "-e", "-p").splitlines()
    return [number for number, line in enumerate(lines) if re.match(r"(\x1b\[[0-9;]*m)*\x1b\[[0-9;]*\b7m", line)]


def test_the_mouse_is_off_unless_it_is_asked_for() -> None:
    with screen(80, 24) as pane:
        drawn(pane)
        assert pane.flags()["mouse_any_flag"] == "0"
    with screen(80, 24, "--mouse") as pane:
        drawn(pane)
        assert pane.flags()["mouse_any_flag"] == "1"


def state_of(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
