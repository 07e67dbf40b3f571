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
    from gputop.domain.host import Host
    from gputop.fleet.fleet import Fleet
    from gputop.readers.load import Recording
    from gputop.settings.schema import Settings
    from gputop.tui.bridge import Feed

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

    if args.tui and (refused := _refusal(args)) is not None:
        return refused
    settings = preferences(args)
    if isinstance(settings, Exit):
        return settings
    recordings = _recordings(args.hosts + args.literal_hosts, args.tool, join=args.join)
    if isinstance(recordings, Exit):
        return recordings
    if args.tui:
        return _screen(recordings, settings)
    from gputop.domain.clock import SystemClock
    from gputop.export.write import write_text
    from gputop.fleet.files import file_fleet
    from gputop.wiring import xid_catalog

    fleet = file_fleet(recordings, SystemClock().now(), xid_catalog())
    failure = write_text(_text(fleet, args, settings), args.output)
    return _exit_code(fleet) if failure is None else diagnostics.fail(failure, code=Exit.PARTIAL)


def _refusal(args: argparse.Namespace) -> Exit | None:
    from gputop.cli.screen import refusal

    if args.output is not None:
        return diagnostics.fail("--tui writes no file", "leave out --output, or --tui")
    return refusal()


def _screen(recordings: Sequence[Recording], settings: Settings) -> int:
    from gputop.cli.screen import show

    def make_feed() -> Feed:
        from gputop.wiring import make_file_collector

        return make_file_collector(recordings)

    title = recordings[0].name if len(recordings) == 1 else f"{len(recordings)} files"
    return show(settings, make_feed, title=title, interval_seconds=0.0)


def _recordings(words: Sequence[str], tool: str | None, *, join: bool) -> list[Recording] | Exit:
    from gputop.catalog.text import counted
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
            diagnostics.say(f"gputop: {word}: {counted(left_out, 'file')} of no known tool left out")
    recordings = joined(recordings) if join else unique(recordings)
    for recording in recordings:
        _say_what_was_looked_for(recording)
    return recordings


def _say_what_was_looked_for(recording: Recording) -> None:
    """Of a file of no known tool."""
    for found in recording.sample["problems"]:
        words = [line for line in (found["detail"] or "").split("\n") if line.startswith("Looked for: ")]
        if words:
            diagnostics.say(f"gputop: {recording.name}: {found['summary']}\n        {words[0]}")


def _text(fleet: Fleet, args: argparse.Namespace, settings: Settings) -> str:
    if args.format == "json":
        from gputop.export.to_json import to_json

        return to_json(fleet)
    if args.format == "csv":
        from gputop.export.to_csv import to_csv

        return to_csv(fleet)
    from gputop.cli.options import draws_ascii
    from gputop.cli.snapshot import table_text

    return table_text(fleet, zone=None, is_ascii=draws_ascii(settings), to_file=args.output is not None)


def _exit_code(fleet: Fleet) -> Exit:
    """0: every file and every device in it is fine; 3: nothing could be read at all; 1: something could not."""
    from gputop.cli.collect import exit_code

    return exit_code(fleet) if any(_says_something(host) for host in fleet) else Exit.NOTHING


def _says_something(host: Host) -> bool:
    from gputop.domain.problem import ProblemKind

    if host.frame is None:
        return False
    if host.frame.devices or host.frame.events:
        return True
    return all(problem.kind is not ProblemKind.UNREADABLE_FILE for problem in host.problems)
