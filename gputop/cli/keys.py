"""`gputop keys`: the keys of the screen, from the command registry and the user's settings."""

from __future__ import annotations

import argparse

from gputop.cli import diagnostics


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It has no options of its own."""


def run(args: argparse.Namespace) -> int:
    from gputop.cli import table
    from gputop.cli.options import preferences
    from gputop.tui.commands import COMMANDS, with_keymap

    settings = preferences(args)
    if isinstance(settings, diagnostics.Exit):
        return settings
    commands = with_keymap(COMMANDS, settings.keymap)
    rows = [(" ".join(command.keys), command.id, command.help) for command in commands]
    print("\n".join(table.lines(("KEYS", "COMMAND", "DOES"), rows)))
    return diagnostics.Exit.DONE
