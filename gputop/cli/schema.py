"""`gputop schema`: the JSON Schema of the JSON output."""

from __future__ import annotations

import argparse
import sys

from gputop.cli.diagnostics import Exit

HELP = "what prints it; act: drain, resume and the other acts; default: snapshot"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("of what")
    group.add_argument("--of", choices=("snapshot", "act", "actions", "audit"), default="snapshot", help=HELP)


def run(args: argparse.Namespace) -> int:
    import msgspec

    from gputop.export.schemas import schema_of

    sys.stdout.write(msgspec.json.format(msgspec.json.encode(schema_of(args.of)), indent=2).decode() + "\n")
    return Exit.DONE
