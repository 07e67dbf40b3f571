"""`gputop snapshot`: the fleet once, for people, scripts and pictures."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import sys
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from gputop.cli import demo_options, diagnostics
from gputop.cli.diagnostics import Exit

if TYPE_CHECKING:
    from msgspec import Struct  # noqa: F401
    from textual.theme import Theme

    from gputop.cli.options import Selection
    from gputop.fleet.fleet import Fleet
    from gputop.fleet.series import SeriesStore
    from gputop.settings.schema import Settings

FORMATS = ("table", "json", "csv", "text", "svg")
PICTURES = ("text", "svg")
VIEWS = ("hosts", "gpus", "processes")
EXAMPLE_TIME = "2026-01-02T03:04:05Z"
"""Fixture time in examples of messages."""

_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,6})?([Zz]|[+-]\d\d:\d\d)")
_SIZE = re.compile(r"(\d{1,3})x(\d{1,3})")
YEARS = (1970, 2199)
COLUMNS = (20, 500)
LINES = (5, 300)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("--format", choices=FORMATS, default="table", help="default: table; text and svg: the screen")
    group.add_argument("-o", "--output", metavar="FILE", help="write to FILE, whole or not at all, mode 0600")
    group.add_argument("--wait", metavar="TIME", default="10s", help="longest time for hosts to answer (default: 10s)")
    group.add_argument("--view", metavar="VIEW", help="text, svg: hosts, gpus, processes or host:NAME")
    group.add_argument("--size", metavar="SIZE", help="text, svg: columns x lines (default: 120x36)")
    group.add_argument("--demo", action="store_true", help="a simulated fleet instead of hosts")
    group.add_argument("--at", metavar="TIME", help=f"with --demo: at this time, such as {EXAMPLE_TIME}")
    demo_options.add_demo_options(parser)


def run(args: argparse.Namespace) -> int:
    from gputop.cli.options import preferences

    mistake = _mistake(args)
    if mistake is not None:
        return mistake
    settings = preferences(args)
    if isinstance(settings, Exit):
        return settings
    picture = _picture(args, settings)
    if isinstance(picture, Exit):
        return picture
    read = _demo(args, settings) if args.demo else _selected(args)
    if isinstance(read, Exit):
        return read
    fleet, series = read
    return write(fleet, series, args, settings, picture)
