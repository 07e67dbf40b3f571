"""`gputop schema`: the JSON Schema of the JSON output."""

from __future__ import annotations

import argparse
import sys

from gputop.cli.diagnostics import Exit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It has no options of its own."""


def run(args: argparse.Namespace) -> int:
    from gputop.export.to_json import schema_text

    sys.stdout.write(schema_text())
    return Exit.DONE
