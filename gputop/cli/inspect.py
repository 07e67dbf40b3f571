"""`gputop inspect`: everything known of hosts, grouped."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING, Any

from gputop.cli import diagnostics
from gputop.cli.diagnostics import Exit

if TYPE_CHECKING:
    from gputop.cli.options import Selection

ACTS_SHOWN = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("--raw", action="store_true", help="also what nvidia-smi -q, topo -m and nvlink -s print")
    group.add_argument("--format", choices=("text", "json"), default="text", help="default: text")


def run(args: argparse.Namespace) -> int:
    from gputop.cli.options import formatted, selection
    from gputop.export.inspect import inspect_text

    if not args.hosts and not args.literal_hosts:
        return diagnostics.fail("no hosts named", "gputop inspect HOST …")
    chosen = selection(args)
    if isinstance(chosen, Exit):
        return chosen
    found = asyncio.run(_inspect(args, chosen))
    if args.format == "json":
        print(formatted(found[0] if len(found) == 1 else found, "json"), end="")
    else:
        print("\n".join(inspect_text(one) for one in found), end="")
    answered = [one["host"]["link"]["state"] in ("ok", "degraded") for one in found]
    return Exit.DONE if all(answered) else Exit.PARTIAL if any(answered) else Exit.NOTHING


async def _inspect(args: argparse.Namespace, chosen: Selection) -> list[dict[str, Any]]:
    from gputop.actions.audit import read_records
    from gputop.cli.act import opened
    from gputop.domain.clock import SystemClock
    from gputop.export.inspect import inspect_document
    from gputop.settings import locations

    names = [spec.name for spec in chosen.specs]
    outcomes = [one for one in read_records(locations.state_folder() / "audit.jsonl") if one.event.value == "outcome"]
    async with opened(chosen, names, allowed=False) as acts:
        found = await acts.inspect(names, outcomes, raw=args.raw)
    now = SystemClock().now()
    return [
        inspect_document(
            one.host,
            now,
            state=one.state.value,
            node=one.node,
            instance=one.instance,
            kernel=one.kernel,
            raw=[(each.command, each.text, each.problem) for each in one.raw],
            history=one.history[-ACTS_SHOWN:],
        )
        for one in found
    ]
