"""The command registry, the user's keymap, the history of places."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gputop.tui.bindings import textual_key
from gputop.tui.commands import COMMANDS, Scope, in_scope, keymap_errors, with_keymap
from gputop.tui.history import History


def test_no_two_commands_of_one_scope_share_a_key() -> None:
    assert keymap_errors({}) == []
    for scope in Scope:
        keys = [key for command in in_scope(COMMANDS, scope) for key in command.keys]
        assert len(keys) == len(set(keys))


def test_no_important_key_is_one_that_multiplexers_and_flow_control_eat() -> None:
    for command in COMMANDS:
        assert not {"ctrl-b", "ctrl-a", "ctrl-s", "ctrl-q"} & set(command.keys)
        if command.keys and command.id not in ("suspend", "mark.clear", "redraw", "quit.now"):
            assert any(not key.startswith(("ctrl-", "F")) for key in command.keys) or command.id == "retry"


def test_no_lower_case_letter_acts() -> None:
    for command in COMMANDS:
        if command.acts:
            assert all(not key.islower() for key in command.keys), command.id


def test_every_command_says_what_it_does_in_one_sentence() -> None:
    for command in COMMANDS:
        assert command.help.endswith(".")
        assert "\n" not in command.help


def test_a_keymap_with_mistakes_is_refused_in_words() -> None:
    assert keymap_errors({"fly": "x"}) == [("fly", 'unknown command "fly"')]
    assert keymap_errors({"help": "o"}) == [("help", '"o" stands for both help and sort.by')]
    assert keymap_errors({"sort.by": "y", "help": "y"})[0] == ("help", '"y" stands for both help and sort.by')
    assert len(keymap_errors({"help": "n"})) == 2  # in the tables, and in pages


def test_a_keymap_replaces_all_keys_of_its_commands() -> None:
    changed = {command.id: command.keys for command in with_keymap(COMMANDS, {"help": "H, ctrl-h"})}
    assert changed["help"] == ("H", "ctrl-h")
    assert changed["quit"] == ("q",)


@pytest.mark.parametrize(
    ("key", "name"), [("j", "j"), ("F5", "f5"), ("ctrl-\\", "ctrl+backslash"), ("N", "N"), (",", "comma"), ("?", "?")]
)
def test_keys_are_known_to_textual_by_other_names(key: str, name: str) -> None:
    assert textual_key(key) == name


def test_the_registry_and_the_terminal_need_no_textual() -> None:
    code = "import sys, gputop.tui.commands, gputop.tui.terminal; sys.exit('textual' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0


def test_history_goes_back_and_forward_and_forgets_what_a_new_turn_cuts_off() -> None:
    history = History()
    for place in ("hosts", "gpus", "gpus", "host:a"):
        history.visit(place)
    assert history.last() == "gpus"
    assert (history.back(), history.back(), history.back()) == ("gpus", "hosts", None)
    assert history.forward() == "gpus"
    history.visit("processes")
    assert history.forward() is None
    assert history.places == ["hosts", "gpus", "processes"]
