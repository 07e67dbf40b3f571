"""`gputop hosts`: the resolved inventory; `--check` tries each host once."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from gputop.cli.diagnostics import Exit

if TYPE_CHECKING:
    from gputop.cli.options import Selection


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("--format", choices=("table", "json", "yaml"), default="table", help="default: table")
    group.add_argument("--check", action="store_true", help="connect to each host once and say what works")
    group.add_argument("--wait", metavar="TIME", default="30s", help="longest time for --check (default: 30s)")


def run(args: argparse.Namespace) -> int:
    from gputop.cli import options  # reads YAML

    chosen = options.selection(args)
    if isinstance(chosen, Exit):
        return chosen
    if args.check:
        from gputop.cli import check

        wait = options.seconds("--wait", args.wait)
        return wait if isinstance(wait, Exit) else check.run(chosen, wait_seconds=wait, output=args.format)
    sys.stdout.write(_text(chosen, args.format))
    return Exit.DONE


def _text(chosen: Selection, output: str) -> str:
    if output == "table":
        return _table(chosen)
    from gputop.cli.options import formatted
    from gputop.inventory.dump import as_file

    return formatted(as_file(chosen.specs, chosen.groups), output)


def _table(chosen: Selection) -> str:
    from gputop.cli import table
    from gputop.inventory.policy import duration_text

    rows = [
        (
            spec.name,
            "this machine" if spec.local else spec.address or "–",
            str(spec.port or "–"),
            spec.user or "–",
            ",".join(spec.jump or ()) or "–",
            duration_text(spec.interval_seconds),
            ",".join(spec.groups) or "–",
            ",".join(f"{key}={value}" for key, value in spec.labels.items()) or "–",
        )
        for spec in chosen.specs
    ]
    head = ("HOST", "ADDRESS", "PORT", "USER", "JUMP", "INTERVAL", "GROUPS", "LABELS")
    return "\n".join(table.lines(head, rows)) + "\n"
