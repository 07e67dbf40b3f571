"""The command line: a table of commands, loaded when they are called.

A command is one module with two functions:

    def add_arguments(parser: argparse.ArgumentParser) -> None: ...   # its own options only, no positional arguments
    def run(args: argparse.Namespace) -> int: ...                     # an exit code of `diagnostics.Exit`

`main` adds the shared options, keeps the words that are no options for `selection` to read, and guards `run` against
Ctrl-C, a closed pipe and gputop's own bugs. A module that is listed here imports nothing heavy at its top: `--help` of
the command loads it. Commands that take hosts get their `Selection` from `gputop.cli.options.selection(args)`.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gputop.cli import arguments, diagnostics, logs
from gputop.cli.arguments import Parser
from gputop.cli.diagnostics import Exit


@dataclass(frozen=True, slots=True)
class Command:
    """One command of the command line."""

    name: str
    module: str
    summary: str
    group: str
    takes_hosts: bool = False
    takes_files: bool = False
    """Its words are files."""
    has_screen: bool = False
    """Whether the options about the look of the screen apply."""
    act: str = ""
    """The act, for the commands that share `gputop.cli.act`."""


SCREEN = Command("", "gputop.cli.screen", "watch the hosts on a live screen", "", takes_hosts=True, has_screen=True)


def _act(name: str, summary: str) -> Command:
    return Command(name, "gputop.cli.act", summary, "act", takes_hosts=True, act=name)


COMMANDS: tuple[Command, ...] = (
    Command("snapshot", "gputop.cli.snapshot", "print the fleet once", "watch", takes_hosts=True, has_screen=True),
    Command("demo", "gputop.cli.demo", "the screen on a simulated fleet", "watch", has_screen=True),
    Command("read", "gputop.cli.read", "show saved output of tools", "watch", takes_files=True, has_screen=True),
    Command("hosts", "gputop.cli.hosts", "print the resolved inventory; --check tries each host", "fleet", True),
    _act("drain", "give hosts no new work, wait for what runs, verify that every GPU is empty"),
    _act("cordon", "give hosts no new work; what runs goes on"),
    _act("resume", "let hosts take work again, once they are fit for it"),
    _act("stop", "stop the instances of drained hosts"),
    _act("start", "start the instances of hosts"),
    _act("reboot", "reboot drained hosts and prove it"),
    _act("reset", "reset GPUs that nobody uses"),
    _act("signal", "send a signal to one process"),
    _act("power-cap", "set the power limit of GPUs"),
    _act("message", "write to the people who are logged in"),
    _act("cancel", "cancel jobs of the scheduler"),
    _act("ack", "note that the fatal Xids of hosts so far are known; the gate of a resume counts later ones"),
    _act("requeue", "put jobs back into the scheduler's queue"),
    Command("inspect", "gputop.cli.inspect", "print everything known of hosts", "watch", takes_hosts=True),
    Command("bundle", "gputop.cli.bundle", "save all that can be read of hosts in one file", "watch", takes_hosts=True),
    Command(
        "actions", "gputop.cli.actions", "unfinished plans and drained hosts; resume, roll back, forget", "act", True
    ),
    Command("audit", "gputop.cli.audit", "print the audit log", "act"),
    Command("keys", "gputop.cli.keys", "print the keys of the screen", "reference"),
    Command("themes", "gputop.cli.themes", "list the themes", "reference"),
    Command("schema", "gputop.cli.schema", "print the JSON Schema of the JSON output", "reference"),
)

EXAMPLES = """\
examples:
  gputop gpu1 gpu2                    watch two hosts of your ssh_config
  gputop ops@10.0.0.7:2222            watch one by address
  gputop -f fleet.yaml @train         watch a group of an inventory
  gputop hosts --check                what works on each host, and what to do where it does not
  gputop snapshot --format json       print everything once, for a script
  gputop demo                         try it without any server
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run gputop with `argv` (without the program's name); the exit code."""
    _open_closed_streams()
    _tolerate_any_encoding()
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        _abandon_stdout()
        return Exit.DONE
    except Exception as failure:  # noqa: BLE001 the last line of defense: no traceback over somebody's screen
        if isinstance(failure, OSError) and failure.errno in _OUTPUT_ERRORS:
            _abandon_stdout()
            return diagnostics.fail(f"cannot write the output: {failure.strerror}", code=Exit.PARTIAL)
        return _report_bug(failure)


_OUTPUT_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EIO}


def _run(argv: list[str]) -> int:
    command, rest = _find_command(argv)
    parser = parser_for(command)
    args = parser.parse_words(rest)
    hosts = args.hosts + args.literal_hosts
    if hosts and not (command.takes_hosts or command.takes_files):
        return diagnostics.fail(
            f'"{parser.prog}" takes no hosts, and got "{hosts[0]}"', f'"{parser.prog} --help" lists its options'
        )
    problem = logs.start(args.log_file, debug=args.debug)
    if problem is not None:
        return problem
    code: int = importlib.import_module(command.module).run(args)
    return code


def parser_for(command: Command) -> Parser:
    """The parser of a command: the shared options and its own."""
    parser = _parser(command)
    if command.act:
        parser.set_defaults(act=command.act)
    importlib.import_module(command.module).add_arguments(parser)
    return parser


def _parser(command: Command) -> Parser:
    hosts = f"\n\n{arguments.HOSTS_HELP}" if command.takes_hosts else ""
    if command is SCREEN:
        parser = Parser("gputop", "gputop [COMMAND] [OPTION ...] [HOST ...]", _overview() + hosts, EXAMPLES)
    else:
        name = f"gputop {command.name}"
        words = " [HOST ...]" if command.takes_hosts else " FILE ..." if command.takes_files else ""
        usage = f"{name} [OPTION ...]{words}"
        parser = Parser(name, usage, _sentence(command.summary) + hosts, "")
    if command.takes_hosts:
        arguments.add_host_options(parser)
    if command.has_screen:
        arguments.add_screen_options(parser)
    arguments.add_common_options(parser)
    return parser


def _overview() -> str:
    lines = ["Watch a fleet of GPU servers over SSH. Without a command: the live screen.", "", "commands:"]
    lines += [f"  {command.name:<10}{command.summary}" for command in COMMANDS]
    lines += ["", '"gputop COMMAND --help" tells more. A host named like a command follows "--": gputop -- demo']
    return "\n".join(lines)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _find_command(argv: list[str]) -> tuple[Command, list[str]]:
    """The command that `argv` asks for, and `argv` without its name.

    The first word that is no option and no option's value decides. After an option that only the command itself knows,
    a word may be that option's value: it decides only when it is a command's name.
    """
    by_name = {command.name: command for command in COMMANDS}
    options = _parser(SCREEN).options_with_value()
    at = 0
    while at < len(argv) and argv[at] != "--":
        word = argv[at]
        if word in by_name:
            return by_name[word], [*argv[:at], *argv[at + 1 :]]
        if not word.startswith("-"):
            break
        takes_value = options.get(word)
        at += 1
        if takes_value or (takes_value is None and at < len(argv) and _is_value(argv[at], word, by_name)):
            at += 1
    return SCREEN, argv


def _is_value(word: str, option: str, by_name: Mapping[str, Command]) -> bool:
    return "=" not in option and not word.startswith("-") and word not in by_name


def _open_closed_streams() -> None:
    """A standard stream that is closed from the start leads nowhere; else the first file opened takes its place."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        name = ("stdin", "stdout", "stderr")[descriptor]
        setattr(sys, name, os.fdopen(descriptor, "r" if descriptor == 0 else "w", closefd=False))
    os.close(descriptor)


def _tolerate_any_encoding() -> None:
    """Text that the terminal's encoding lacks shows as `?`; it never ends the program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(errors="replace")


def _abandon_stdout() -> None:
    """Nobody reads standard output any more: keep the interpreter from flushing to it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report_bug(failure: Exception) -> int:
    where = logs.keep_traceback(failure)
    return diagnostics.fail(f"internal error: {type(failure).__name__}: {failure}", where, code=Exit.PARTIAL)
