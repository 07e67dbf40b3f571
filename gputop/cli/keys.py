"""`gputop keys`: the keys of the screen, from the command registry."""

from __future__ import annotations

import argparse

from gputop.cli import diagnostics


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It has no options of its own."""


def run(args: argparse.Namespace) -> int:
    from gputop.cli import table
    from gputop.tui.commands import COMMANDS

    rows = [(" ".join(command.keys), command.id, command.help) for command in COMMANDS]
    print("\n".join(table.lines(("KEYS", "COMMAND", "DOES"), rows)))
    return diagnostics.Exit.DONE
