"""`gputop read`: saved output of management tools, shown like live hosts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gputop.cli import diagnostics
from gputop.cli.diagnostics import Exit

if TYPE_CHECKING:
    from gputop.fleet.fleet import Fleet
    from gputop.readers.load import Recording

STDIN = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is read")
    group.add_argument("--tool", metavar="NAME", help='the tool that wrote it, such as "nvidia-smi -q"')
    group.add_argument("--join", action="store_true", help="the files are of one machine: show one host")
    group = parser.add_argument_group("output")
    group.add_argument("--format", choices=("table", "json", "csv"), default="table", help="default: table")
    group.add_argument("-o", "--output", metavar="FILE", help="write to FILE, whole or not at all, mode 0600")
    group.add_argument("--tui", action="store_true", help="the live screen instead")


def run(args: argparse.Namespace) -> int:
    from gputop.cli.options import preferences

    settings = preferences(args)
    if isinstance(settings, Exit):
        return settings
    recordings = _recordings(args.hosts + args.literal_hosts, args.tool, join=args.join)
    if isinstance(recordings, Exit):
        return recordings
    from gputop.domain.clock import SystemClock
    from gputop.export.write import write_text
    from gputop.fleet.files import file_fleet

    fleet = file_fleet(recordings, SystemClock().now())
    failure = write_text(_text(fleet, args), args.output)
    return _exit_code(fleet) if failure is None else diagnostics.fail(failure, code=Exit.PARTIAL)


def _recordings(words: Sequence[str], tool: str | None, *, join: bool) -> list[Recording] | Exit:
    from gputop.readers.load import joined, load, load_bytes, unique
    from gputop.readers.recognize import FORMATS, formats_of

    if not words:
        return diagnostics.fail("nothing to read: no file named", 'name files or folders; "-" is standard input')
    if tool is not None and not formats_of(tool):
        near = diagnostics.suggestion(tool, [known.name for known in FORMATS])
        hint = f'did you mean "{near}"?' if near else f"known: {', '.join(known.name for known in FORMATS)}"
        return diagnostics.fail(f'--tool "{tool}" is no tool that gputop knows', hint)
    missing = [word for word in words if word != STDIN and not Path(word).exists()]
    if missing:
        return diagnostics.fail(f"{missing[0]}: no such file or folder")
    recordings: list[Recording] = []
    for word in words:
        found, left_out = (
            load_bytes("stdin", sys.stdin.buffer.read(), tool) if word == STDIN else load(Path(word), tool)
        )
        recordings += found
        if left_out:
            diagnostics.say(f"gputop: {word}: {left_out} files of no known tool left out")
    return joined(recordings) if join else unique(recordings)


def _text(fleet: Fleet, args: argparse.Namespace) -> str:
    if args.format == "json":
        from gputop.export.to_json import to_json

        return to_json(fleet)
    if args.format == "csv":
        from gputop.export.to_csv import to_csv

        return to_csv(fleet)
    from gputop.export.to_table import to_table

    return to_table(fleet, width=None, zone=None)


def _exit_code(fleet: Fleet) -> Exit:
    """0: every file and every device in it is fine; 3: nothing could be read at all; 1: something could not."""
    from gputop.domain.problem import ProblemKind

    readable = [
        host
        for host in fleet
        if not any(problem.kind is ProblemKind.UNREADABLE_FILE for problem in host.problems)
        or (host.frame is not None and (host.frame.devices or host.frame.events))
    ]
    if not readable:
        return Exit.NOTHING
    from gputop.domain.link import LinkState

    return Exit.DONE if all(host.link.state is LinkState.OK for host in fleet) else Exit.PARTIAL
