"""`gputop snapshot`: the fleet once, for people, scripts and pictures."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, NamedTuple

from gputop.cli import demo_options, diagnostics
from gputop.cli.diagnostics import Exit

if TYPE_CHECKING:
    from textual.theme import Theme

    from gputop.fleet.fleet import Fleet
    from gputop.fleet.series import SeriesStore
    from gputop.settings.schema import Settings

FORMATS = ("table", "json", "csv", "text", "svg")
PICTURES = ("text", "svg")
VIEWS = ("hosts", "gpus", "processes")
EXAMPLE_TIME = "2026-01-02T03:04:05Z"
DEFAULT_SIZE = "120x36"

_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,6})?([Zz]|[+-]\d\d:\d\d)")
_SIZE = re.compile(r"(\d{1,3})x(\d{1,3})")
YEARS = (1971, 2199)
"""Of the demo: a moment needs its past, and Unix time begins with 1970."""
COLUMNS = (20, 500)
LINES = (5, 300)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("--format", choices=FORMATS, default="table", help="default: table; text and svg: the screen")
    group.add_argument("-o", "--output", metavar="FILE", help="write to FILE, whole or not at all, mode 0600")
    group.add_argument("--wait", metavar="TIME", default="10s", help="longest time for hosts to answer (default: 10s)")
    group.add_argument("--view", metavar="VIEW", help="text, svg: hosts, gpus, processes, host:NAME or gpu:NAME:INDEX")
    group.add_argument("--size", metavar="SIZE", help="text, svg: columns x lines (default: 120x36)")
    group.add_argument("--demo", action="store_true", help="a simulated fleet instead of hosts")
    group.add_argument("--at", metavar="TIME", help=f"with --demo: at this time, such as {EXAMPLE_TIME}")
    demo_options.add_demo_options(parser)


def run(args: argparse.Namespace) -> int:
    from gputop.cli.options import preferences, seconds

    mistake = _mistake(args)
    if mistake is not None:
        return mistake
    wait = seconds("--wait", args.wait)
    if isinstance(wait, Exit):
        return wait
    settings = preferences(args)
    if isinstance(settings, Exit):
        return settings
    canvas = _canvas(args, settings)
    if isinstance(canvas, Exit):
        return canvas
    read = (_read_demo if args.demo else _read_hosts)(args, wait, canvas)
    if isinstance(read, Exit):
        return read
    fleet, series = read
    from gputop.cli.collect import exit_code
    from gputop.export.write import write_text

    failure = write_text(_text(fleet, series, args, settings, canvas), args.output)
    return exit_code(fleet) if failure is None else diagnostics.fail(failure, code=Exit.PARTIAL)


def _mistake(args: argparse.Namespace) -> Exit | None:
    """What is wrong with the options, said."""
    if args.demo and (args.hosts or args.literal_hosts or args.inventory):
        return diagnostics.fail("--demo is a fleet of its own: it takes no hosts and no inventory")
    if not args.demo:
        for option, value in (("--at", args.at), ("--seed", args.demo_seed), ("--hosts", args.demo_hosts)):
            if value is not None:
                return diagnostics.fail(f"{option} goes with --demo")
    if args.format not in PICTURES:
        for option, value in (("--view", args.view), ("--size", args.size)):
            if value is not None:
                return diagnostics.fail(f"{option} goes with --format text or svg")
    if args.output not in (None, "-"):
        from gputop.export.write import unwritable

        reason = unwritable(args.output)
        return None if reason is None else diagnostics.fail(reason)
    return None


class Canvas(NamedTuple):
    """How the screen is to be drawn."""

    theme: Theme
    view: str
    size: tuple[int, int]
    """Columns and lines."""


def _canvas(args: argparse.Namespace, settings: Settings) -> Canvas | Exit | None:
    """For the formats that are the screen; `None` for the others."""
    if args.format not in PICTURES:
        return None
    size = parse_size(args.size or DEFAULT_SIZE)
    if size is None:
        limits = f"{COLUMNS[0]} to {COLUMNS[1]} columns, {LINES[0]} to {LINES[1]} lines"
        return diagnostics.fail(f'--size "{args.size}" is not a size such as {DEFAULT_SIZE}', limits)
    view = args.view or "hosts"
    if view not in VIEWS and not view.startswith(("host:", "gpu:")):
        views = "there are hosts, gpus, processes, host:NAME and gpu:NAME:INDEX"
        return diagnostics.fail(f'--view "{view}" is not a view', views)
    from gputop.cli.options import report
    from gputop.settings import locations
    from gputop.tui import theme

    chosen = theme.named(settings.theme, locations.themes_folder())
    return report(chosen) if isinstance(chosen, list) else Canvas(chosen, view, size)


def parse_size(text: str) -> tuple[int, int] | None:
    """`120x36` as columns and lines."""
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    columns, lines = int(match[1]), int(match[2])
    return (columns, lines) if COLUMNS[0] <= columns <= COLUMNS[1] and LINES[0] <= lines <= LINES[1] else None


def parse_time(text: str) -> datetime | None:
    """A moment as RFC 3339 writes it, zone included."""
    if _TIME.fullmatch(text) is None:
        return None
    try:
        found = datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return found if YEARS[0] <= found.year <= YEARS[1] else None


def _read_demo(args: argparse.Namespace, wait: float, canvas: Canvas | None) -> tuple[Fleet, SeriesStore] | Exit:
    chosen = demo_options.demo_fleet_options(args)
    if isinstance(chosen, Exit):
        return chosen
    hosts, seed = chosen
    from gputop.sources.demo import plan

    if (mistake := _unknown_host(canvas, {host.name for host in plan(seed, hosts)})) is not None:
        return mistake
    if args.at is None:
        from gputop.cli.collect import read_demo_server

        return read_demo_server(hosts, seed, wait)
    at = parse_time(args.at)
    if at is None:
        return diagnostics.fail(f'--at "{args.at}" is not a time such as {EXAMPLE_TIME}')
    from gputop.fleet.demo import demo_fleet
    from gputop.wiring import xid_catalog

    return demo_fleet(seed, hosts, at, xid_catalog())


def _unknown_host(canvas: Canvas | None, names: set[str]) -> Exit | None:
    """A page of a host or of its GPU needs that host."""
    if canvas is None or canvas.view in VIEWS:
        return None
    kind, _, name = canvas.view.partition(":")
    name = name.rpartition(":")[0] if kind == "gpu" else name
    if name in names:
        return None
    return diagnostics.fail(f'--view: there is no host "{name}" in this fleet')


def _read_hosts(args: argparse.Namespace, wait: float, canvas: Canvas | None) -> tuple[Fleet, SeriesStore] | Exit:
    from gputop.cli.options import collector, selection

    chosen = selection(args)
    if isinstance(chosen, Exit):
        return chosen
    if (mistake := _unknown_host(canvas, {spec.name for spec in chosen.specs})) is not None:
        return mistake
    from gputop.cli.collect import read

    return read(collector(chosen), wait)


def _text(
    fleet: Fleet, series: SeriesStore, args: argparse.Namespace, settings: Settings, canvas: Canvas | None
) -> str:
    """What is to be written."""
    from gputop.cli.options import draws_ascii

    # What does not depend on where it is made is the same everywhere: a fixed moment, and a picture.
    is_ascii = settings.ascii is True if args.at or args.format == "svg" else draws_ascii(settings)
    zone = UTC if args.at else None
    match args.format:
        case "json":
            from gputop.export.to_json import to_json

            return to_json(fleet)
        case "csv":
            from gputop.export.to_csv import to_csv

            return to_csv(fleet)
        case "table":
            return table_text(fleet, zone=zone, is_ascii=is_ascii, to_file=args.output is not None)
    from gputop.tui.picture import render

    assert canvas is not None
    return render(
        fleet,
        series,
        theme=canvas.theme,
        view=canvas.view,
        size=canvas.size,
        ascii_only=is_ascii,
        output=args.format,
        zone=zone,
    )


def table_text(fleet: Fleet, *, zone: tzinfo | None, is_ascii: bool, to_file: bool = False) -> str:
    """In color and as wide as the terminal where it goes to one, else as wide as it is."""
    from gputop.export.to_table import to_table

    is_terminal = sys.stdout.isatty() and not to_file
    width = shutil.get_terminal_size().columns if is_terminal else None
    color = is_terminal and not os.environ.get("NO_COLOR")
    return to_table(fleet, width=width, zone=zone, color=color, ascii_only=is_ascii)
