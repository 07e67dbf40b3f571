"""The options that commands share, and the parser that reports mistakes in one line. Imports nothing heavy."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from gputop import __version__
from gputop.cli import diagnostics
from gputop.cli.diagnostics import Exit

HOSTS_HELP = """\
HOST is a name of the inventory or of ssh_config, or user@host:port; an IPv6 address stands in brackets: [::1]:22.
Ranges gpu[01-16], lists a,b and groups @train work too. "local" is this machine, without SSH."""


class Parser(argparse.ArgumentParser):
    """argparse with errors as gputop words them. Host names are not its business: `parse_words` gives them back."""

    def __init__(self, name: str, usage: str, description: str, epilog: str) -> None:
        super().__init__(
            name,
            usage,
            description,
            epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            add_help=False,
            allow_abbrev=False,
        )

    def options_with_value(self) -> dict[str, bool]:
        """Every option by its spelling, and whether the next word is its value."""
        return {text: action.nargs is None for text, action in self._option_string_actions.items()}

    def error(self, message: str) -> NoReturn:
        summary = message.removeprefix("argument ")
        sys.exit(diagnostics.fail(summary, f'"{self.prog} --help" lists the options'))

    def parse_words(self, argv: Sequence[str]) -> argparse.Namespace:
        """The options of `argv` in any place; its other words as `hosts`, those after `--` as `literal_hosts`."""
        before, after = _split_at_dashes(argv)
        args, words = self.parse_known_args(before)
        for word in words:
            if word.startswith("-") and word != "-":
                sys.exit(self._unknown_option(word))
        args.hosts, args.literal_hosts = words, after
        return args

    def _unknown_option(self, word: str) -> Exit:
        name = word.partition("=")[0]
        known = [text.removeprefix("--") for text in self._option_string_actions if text.startswith("--")]
        near = diagnostics.suggestion(name.lstrip("-"), known, cutoff=0.7)
        hint = f"did you mean --{near}? " if near else ""
        return diagnostics.fail(f"unknown option {name}", f'{hint}"{self.prog} --help" lists the options')


def _split_at_dashes(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    words = list(argv)
    if "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """Options of every command."""
    group = parser.add_argument_group("diagnosis")
    group.add_argument("-h", "--help", action="help", help="show this text")
    group.add_argument("--version", action="version", version=f"gputop {__version__}", help="show the version")
    group.add_argument("--log-file", metavar="FILE", help="append what gputop does to FILE")
    group.add_argument("--debug", action="store_true", help="log everything (to FILE, or to the state folder)")


def add_host_options(parser: argparse.ArgumentParser) -> None:
    """Options of the commands that take hosts: which ones, and how to reach them."""
    group = parser.add_argument_group("which hosts")
    group.add_argument(
        "-f", "--inventory", metavar="FILE", action="append", default=[], help="inventory file; may be repeated"
    )
    group.add_argument(
        "--exclude", metavar="HOSTS", action="append", default=[], help="leave these out: names, ranges, @groups"
    )
    group = parser.add_argument_group("how to reach them (instead of what the inventory says)")
    group.add_argument("-l", "--user", metavar="USER", help="log in as USER")
    group.add_argument("-p", "--port", metavar="PORT", help="port of the SSH server")
    group.add_argument("-i", "--identity", metavar="FILE", action="append", help="private key; may be repeated")
    group.add_argument("-J", "--jump", metavar="HOSTS", help='jump hosts, separated by commas; "none" for none')
    group.add_argument("--ssh-config", metavar="FILE", help='ssh_config file instead of yours; "none" for none')
    group.add_argument("--interval", metavar="TIME", help="time between two readings, such as 2s or 500ms")


def add_screen_options(parser: argparse.ArgumentParser) -> None:
    """Options about how the screen looks."""
    group = parser.add_argument_group("the screen")
    group.add_argument("--theme", metavar="NAME", help='a name that "gputop themes" lists')
    group.add_argument(
        "--ascii", action=argparse.BooleanOptionalAction, default=None, help="draw with plain ASCII characters"
    )
    group.add_argument(
        "--mouse", action=argparse.BooleanOptionalAction, default=None, help="use the mouse (off by default)"
    )
