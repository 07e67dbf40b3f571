"""`gputop audit`: who did what to which host, when, and what came of it."""

from __future__ import annotations

import argparse
from pathlib import Path

from gputop.cli import diagnostics
from gputop.cli.diagnostics import Exit

LONGEST_SECONDS = 10 * 366 * 86400.0
LINES_NAMED = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which records")
    group.add_argument("--host", metavar="HOST", help="of this host")
    group.add_argument("--act", metavar="ACT", help="of this act, such as drain")
    group.add_argument("--by", metavar="USER", help="of this user")
    group.add_argument("--plan", metavar="PLAN", help="of this plan")
    group.add_argument("--event", choices=("intent", "step", "outcome", "refused"), help="of this kind")
    group.add_argument("--since", metavar="TIME", help="not older than this, such as 24h")
    group.add_argument("--last", metavar="COUNT", help="the newest so many")
    group = parser.add_argument_group("output")
    group.add_argument("--format", choices=("text", "json"), default="text", help="json: one record a line")
    group.add_argument("--file", metavar="FILE", help="another audit log than yours")


def run(args: argparse.Namespace) -> int:
    from datetime import timedelta

    import msgspec

    from gputop.actions.audit import read_records
    from gputop.catalog.text import counted
    from gputop.cli.options import seconds
    from gputop.domain.action import ActionKind
    from gputop.domain.clock import SystemClock
    from gputop.export.acts import audit_text
    from gputop.settings import locations

    since = None
    if args.since is not None:
        span = seconds("--since", args.since, longest=LONGEST_SECONDS)
        if isinstance(span, Exit):
            return span
        since = SystemClock().now() - timedelta(seconds=span)
    if args.last is not None and not (args.last.isascii() and args.last.isdigit()):
        return diagnostics.fail(f'--last "{args.last}" is no number')
    acts = [kind.value for kind in ActionKind]
    if args.act is not None and args.act not in acts:
        return diagnostics.fail(f'--act "{args.act}" is no act', f"known: {', '.join(acts)}")
    path = Path(args.file) if args.file else locations.state_folder() / "audit.jsonl"
    if args.file and not path.exists():
        return diagnostics.fail(f"{path}: no such file")
    left_out: list[int] = []
    try:
        records = [
            record
            for record in read_records(path, own=not args.file, left_out=left_out.append)
            if args.host in (None, record.host)
            and args.act in (None, record.act.value)
            and args.by in (None, record.user)
            and args.plan in (None, record.plan)
            and args.event in (None, record.event.value)
            and (since is None or record.time >= since)
        ]
    except OSError as error:
        hint = None if args.file else f"gputop audit --file {path} prints it all the same"
        return diagnostics.fail(f"{path}: {error.strerror}", hint, code=Exit.NOTHING)
    if args.last is not None:
        records = records[max(0, len(records) - int(args.last)) :]
    if args.format == "json":
        for record in records:
            print(msgspec.json.encode(record).decode())
    else:
        print(audit_text(records), end="")
    if not records:
        diagnostics.say(_why_none(args, path))
    if left_out:
        more = ", …" if len(left_out) > LINES_NAMED else ""
        where = ", ".join(f"{path}:{number}" for number in left_out[:LINES_NAMED])
        diagnostics.say(
            f"gputop: {counted(len(left_out), 'line')} left out, no record can be read there: {where}{more}"
        )
    return Exit.DONE


def _why_none(args: argparse.Namespace, path: Path) -> str:
    if not path.exists():
        return f"there is no audit log yet: nothing was done from here ({path})"
    filters = ("host", "act", "by", "plan", "event", "since", "last")
    return f"no record in {path}" + (" fits" if any(getattr(args, name) is not None for name in filters) else "")
