"""`gputop HOST ...`: the live screen."""

from __future__ import annotations

import argparse
import sys

from gputop.cli import diagnostics
from gputop.cli.diagnostics import Exit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--reset-terminal", action="store_true", help="repair a terminal that a killed program left in disorder"
    )


def run(args: argparse.Namespace) -> int:
    if args.reset_terminal:
        from gputop.cli import terminal  # knows the sequences of the screen

        terminal.reset()
        return Exit.DONE
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return diagnostics.fail(
            "the screen needs a terminal", '"gputop snapshot" prints the fleet once, into a pipe too'
        )
    from gputop.cli import options  # reads files

    chosen = options.selection(args)
    if isinstance(chosen, Exit):
        return chosen
    from gputop.tui.app import run_screen

    return run_screen(chosen)
