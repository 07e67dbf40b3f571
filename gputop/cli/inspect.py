"""`gputop inspect`: everything known of hosts, grouped."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

from gputop.cli import diagnostics
from gputop.cli.diagnostics import Exit
from gputop.domain.link import LinkState

if TYPE_CHECKING:
    from gputop.cli.options import Selection
    from gputop.domain.record import AuditRecord
    from gputop.export.inspect import Inspected

ACTS_SHOWN = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "--raw", action="store_true", help="also what the host's own tools print: nvidia-smi -q, topo -m and the like"
    )
    group.add_argument("--format", choices=("text", "json"), default="text", help="default: text")


def run(args: argparse.Namespace) -> int:
    from gputop.cli.options import formatted, selection
    from gputop.domain.clock import SystemClock
    from gputop.export.inspect import inspect_document, inspect_text

    if not args.hosts and not args.literal_hosts:
        return diagnostics.fail("no hosts named", "gputop inspect HOST …")
    chosen = selection(args)
    if isinstance(chosen, Exit):
        return chosen
    found = asyncio.run(_inspect(args, chosen))
    now = SystemClock().now()
    if args.format == "json":
        documents = [inspect_document(one, now) for one in found]
        print(formatted(documents[0] if len(documents) == 1 else documents, "json"), end="")
    else:
        print("\n".join(inspect_text(one, now, None) for one in found), end="")
    answered = [one.host.link.state in (LinkState.OK, LinkState.DEGRADED) for one in found]
    return Exit.DONE if all(answered) else Exit.PARTIAL if any(answered) else Exit.NOTHING


async def _inspect(args: argparse.Namespace, chosen: Selection) -> list[Inspected]:
    from gputop.actions.audit import read_records
    from gputop.actions.lease import leases
    from gputop.cli.act import opened
    from gputop.export.inspect import Inspected
    from gputop.settings import locations

    names = [spec.name for spec in chosen.specs]
    folder = locations.state_folder()
    try:
        records: list[AuditRecord] | None = list(read_records(folder / "audit.jsonl"))
    except OSError as error:
        diagnostics.say(f"gputop: the audit log cannot be read: {error.strerror}")
        records = None
    outcomes = [one for one in records or () if one.event.value == "outcome"]
    async with opened(chosen, names, allowed=False) as acts:
        found = await acts.inspect(names, outcomes, raw=args.raw)
    held = leases(folder)
    return [
        Inspected(
            host=one.host,
            state=one.state,
            node=one.node,
            instance=one.instance,
            kernel=one.kernel,
            raw=one.raw,
            history=None if records is None else one.history[-ACTS_SHOWN:],
            leases=[lease for lease in held if lease.host == one.host.name],
        )
        for one in found
    ]
