"""`gputop bundle`: all that can be read of hosts now, in one .tar.gz with an index."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from gputop.cli import diagnostics
from gputop.cli.diagnostics import Exit

if TYPE_CHECKING:
    from gputop.bundle.items import Progress
    from gputop.bundle.write import Made, NotWritten
    from gputop.cli.options import Selection


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the bundle")
    group.add_argument("-o", "--output", metavar="FILE", help="default: gputop-bundle-TIME.tar.gz; never overwritten")
    group.add_argument("--redact", action="store_true", help="put pseudonyms in the place of names and addresses")
    group.add_argument(
        "--bug-report",
        action="store_true",
        help="also the vendor's own report: runs sudo -n nvidia-bug-report.sh on each host, for minutes",
    )
    group.add_argument("--allow-actions", action="store_true", help="leave read-only mode, as --bug-report needs it")
    group.add_argument("--format", choices=("text", "json"), default="text", help="json: the index; default: text")


def run(args: argparse.Namespace) -> int:
    from gputop.bundle.bug_report import PATH
    from gputop.cli.options import formatted, selection
    from gputop.export.write import unwritable

    if not args.hosts and not args.literal_hosts:
        return diagnostics.fail("no hosts named", "gputop bundle HOST …")
    chosen = selection(args)
    if isinstance(chosen, Exit):
        return chosen
    target = Path(args.output) if args.output is not None else None
    if target is not None and target.exists():
        return diagnostics.fail(f"{target} is there already", "a bundle is never written over another file")
    lack = unwritable(args.output) if args.output is not None else unwritable("gputop-bundle.tar.gz")
    if lack is not None:
        return diagnostics.fail(lack)
    allowed = args.allow_actions or chosen.settings.actions.enabled
    if args.bug_report and not allowed:
        return _refused(chosen)
    made = asyncio.run(_bundle(args, chosen, target, allowed=allowed))
    from gputop.bundle.write import NotWritten

    if isinstance(made, NotWritten):
        return diagnostics.fail(made.summary, code=Exit.PARTIAL)
    if args.format == "json":
        paths = {"file": str(made.path), "file_bytes": made.size, "names_file": str(made.names) if made.names else None}
        print(formatted({**paths, **made.index}, "json"), end="")
    else:
        print("\n".join(made.words()))
    answered = made.answered.values()
    if not any(answered):
        return Exit.NOTHING
    is_whole = all(answered) and not (args.bug_report and made.lacks(PATH))
    return Exit.DONE if is_whole else Exit.PARTIAL


def _refused(chosen: Selection) -> Exit:
    """`--bug-report` in read-only mode."""
    from gputop import wiring
    from gputop.actions.audit import AuditFailed, AuditLog, who_acts
    from gputop.bundle.bug_report import READ_ONLY, note
    from gputop.bundle.write import folder_name
    from gputop.domain.clock import SystemClock
    from gputop.domain.record import AuditEvent
    from gputop.settings import locations

    audit, clock = AuditLog(wiring.audit_path(locations.state_folder()), who_acts()), SystemClock()
    plan = folder_name(clock.now())
    try:
        for spec in chosen.specs:
            note(audit, clock, spec.name, plan, AuditEvent.REFUSED, "read-only", READ_ONLY)
    except AuditFailed as failure:
        diagnostics.say(f"gputop: {failure}")
    return diagnostics.fail(f"refused (read-only): {READ_ONLY}", "nothing was done", code=Exit.REFUSED)


async def _bundle(
    args: argparse.Namespace, chosen: Selection, target: Path | None, *, allowed: bool
) -> Made | NotWritten:
    from gputop import wiring
    from gputop.bundle.items import Order
    from gputop.bundle.make import Bundler
    from gputop.cli.act import opened
    from gputop.settings import locations

    names = tuple(spec.name for spec in chosen.specs)
    order = Order(hosts=names, redact=args.redact, bug_report=args.bug_report)
    folder = locations.state_folder()
    async with opened(chosen, names, allowed=allowed) as acts:
        bundler = Bundler(
            acts, state_folder=folder, audit_path=wiring.audit_path(folder), series=None, source=chosen.source
        )
        return await bundler.make(order, target, _say)


def _say(progress: Progress) -> None:
    """What is over, and what takes long, on standard error."""
    if progress.is_over:
        diagnostics.say(f"{progress.host}: {'done' if progress.answered else 'did not answer'}")
    elif progress.takes_long:
        diagnostics.say(f"{progress.host}: {progress.doing}")
