"""`gputop themes`: the themes that `--theme` knows."""

from __future__ import annotations

import argparse

from gputop.cli.diagnostics import Exit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It has no options of its own."""


def run(args: argparse.Namespace) -> int:
    from gputop.cli import table
    from gputop.cli.options import preferences
    from gputop.settings import locations
    from gputop.tui import theme

    settings = preferences(args)
    if isinstance(settings, Exit):
        return settings
    found = theme.available((locations.themes_folder(), *theme.SHIPPED))
    rows = [("*" if name == settings.theme else "", name, str(path)) for name, path in found.items()]
    print("\n".join(table.lines(("", "THEME", "FILE"), rows)))
    return Exit.DONE
