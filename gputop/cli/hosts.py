"""`gputop hosts`: the resolved inventory; `--check` tries each host once."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from gputop.cli import diagnostics
from gputop.cli.diagnostics import Exit

if TYPE_CHECKING:
    from gputop.cli.options import Selection
    from gputop.domain.host import Endpoint, HostSpec
    from gputop.domain.link import LinkFailure
    from gputop.domain.problem import Problem

MOST_ASKED = 256
"""Hosts that ssh is asked about: one process each, some seconds in all."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "--format",
        choices=("table", "json", "yaml"),
        default="table",
        help="json, yaml: as an inventory file, with what it says alone; default: table",
    )
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
    if args.format != "table":
        from gputop.inventory.dump import as_file

        sys.stdout.write(options.formatted(as_file(chosen.specs, chosen.groups), args.format))
        return Exit.DONE
    found = _located(chosen)
    sys.stdout.write(_table(chosen, found))
    return _say_what_failed(found)


def _located(chosen: Selection) -> dict[str, Endpoint | LinkFailure]:
    """How the hosts are reached."""
    remote = [spec for spec in chosen.specs if not spec.local]
    if len(remote) > MOST_ASKED:
        diagnostics.say(
            f"gputop: ssh_config was not asked about more than {MOST_ASKED:,} hosts: "
            "what the inventory says alone is shown; name fewer"
        )
        return {}
    if not remote:
        return {}
    import asyncio

    from gputop import wiring

    return asyncio.run(wiring.locate(remote, chosen.known))


def _say_what_failed(found: dict[str, Endpoint | LinkFailure]) -> Exit:
    """Each reason once, with its hosts."""
    from gputop.domain.link import LinkFailure
    from gputop.inventory.expand import fold

    failed: dict[Problem, list[str]] = {}
    for name, one in found.items():
        if isinstance(one, LinkFailure):
            failed.setdefault(one.problem, []).append(name)
    for problem, names in failed.items():
        diagnostics.fail(f"{fold(names)}: {problem.summary}", problem.hint)
    return Exit.PARTIAL if failed else Exit.DONE


def _table(chosen: Selection, found: dict[str, Endpoint | LinkFailure]) -> str:
    from gputop.cli import table
    from gputop.inventory.policy import duration_text

    rows = [
        (
            spec.name,
            *_way(spec, found.get(spec.name)),
            duration_text(spec.interval_seconds),
            ",".join(spec.groups) or "–",
            ",".join(f"{key}={value}" for key, value in spec.labels.items()) or "–",
        )
        for spec in chosen.specs
    ]
    head = ("HOST", "ADDRESS", "PORT", "USER", "JUMP", "INTERVAL", "GROUPS", "LABELS")
    return "\n".join(table.lines(head, rows)) + "\n"


def _way(spec: HostSpec, found: Endpoint | LinkFailure | None) -> tuple[str, str, str, str]:
    """Address, port, user and jump hosts; as the inventory has them where ssh_config is not known."""
    from gputop.domain.host import Endpoint

    if spec.local:
        return "this machine", "–", "–", "–"
    if isinstance(found, Endpoint):
        return found.address, str(found.port), found.user or "–", ",".join(found.jump) or "–"
    return spec.address or "–", str(spec.port or "–"), spec.user or "–", ",".join(spec.jump or ()) or "–"
