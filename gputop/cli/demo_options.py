"""The options that say which demo fleet is meant."""

from __future__ import annotations

import argparse

from gputop.cli import diagnostics
from gputop.cli.diagnostics import Exit


def add_demo_options(parser: argparse.ArgumentParser) -> None:
    """`--hosts` and `--seed`."""
    group = parser.add_argument_group("the demo fleet")
    group.add_argument("--hosts", dest="demo_hosts", metavar="N", help="how many hosts (default: 24)")
    group.add_argument("--seed", dest="demo_seed", metavar="N", help="another number, another fleet")


def demo_fleet_options(args: argparse.Namespace) -> tuple[int, int] | Exit:
    """Number of hosts and seed."""
    from gputop.sources.demo import DEFAULT_HOSTS, DEFAULT_SEED, FEWEST_HOSTS, MOST_HOSTS

    hosts = _number(args.demo_hosts, DEFAULT_HOSTS)
    if hosts is None or not FEWEST_HOSTS <= hosts <= MOST_HOSTS:
        return diagnostics.fail(f'--hosts "{args.demo_hosts}": the demo fleet has {FEWEST_HOSTS} to {MOST_HOSTS} hosts')
    seed = _number(args.demo_seed, DEFAULT_SEED)
    if seed is None:
        return diagnostics.fail(f'--seed "{args.demo_seed}" is not a whole number of at most 18 digits')
    return hosts, seed


def _number(text: str | None, default: int) -> int | None:
    if text is None:
        return default
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None
