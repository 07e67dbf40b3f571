"""From the options and words of a command line to what is to be watched, or to a clear message."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import yaml
from msgspec import Struct
from msgspec.structs import replace

from gputop.cli import diagnostics
from gputop.cli.diagnostics import Exit
from gputop.configfile import ConfigProblem, Document, as_duration, duration
from gputop.domain.host import INTERVAL_SECONDS, HostKeyPolicy, HostSpec
from gputop.health.catalog import load as load_catalog
from gputop.inventory import load as inventory_files
from gputop.inventory.expand import BadPattern, unfit
from gputop.inventory.load import Inventory
from gputop.inventory.local import has_devices, local_spec
from gputop.inventory.select import exclude, parts, select
from gputop.settings import load as settings_file
from gputop.settings import locations
from gputop.settings.schema import Settings

if TYPE_CHECKING:
    from gputop.fleet.collector import Collector

DEFAULT_INTERVAL_SECONDS = 2.0

OTHER_WORDS = {
    "hibernate": "stop --hibernate",
    "kill": "signal",
    "powercap": "power-cap",
    "poweroff": "stop",
    "restart": "reboot",
    "shutdown": "stop",
    "uncordon": "resume",
    "undrain": "resume",
}
"""What other tools, and gputop's own audit log, call what is a command here."""

THIS_MACHINE = "local"
"""The word for this machine, watched without SSH, unless an inventory has a host of that name. (`localhost` is what it
is for ssh.)"""

SHOWN_PROBLEMS = 20
"""Problems of a file that are printed; the rest is counted."""


class Selection(Struct, frozen=True, kw_only=True):
    """What a command is to work on."""

    specs: tuple[HostSpec, ...]
    """The hosts, in order; empty only when there is nothing to watch and the caller allows it."""
    groups: dict[str, tuple[str, ...]]
    """The inventory's groups, as far as their hosts are selected."""
    known: tuple[HostSpec, ...]
    """Every host of the inventory: a jump host need not be watched itself."""
    settings: Settings
    """With the options of the command line applied."""
    source: Literal["ssh", "local", "none"]
    files: tuple[str, ...]
    """The inventory files, by their whole paths: a plan that keeps them may be gone on with in another folder."""


def selection(args: argparse.Namespace, *, may_be_empty: bool = False) -> Selection | Exit:
    """What `args` ask for; an exit code when that was not possible, after the reason was said.

    `may_be_empty`: whether "no host named, no inventory, no devices here" is an answer (the start screen) or an error.
    """
    settings = preferences(args)
    if isinstance(settings, Exit):
        return settings
    options = _host_options(args)
    if isinstance(options, Exit):
        return options
    interval = settings.interval.total_seconds() if settings.interval else DEFAULT_INTERVAL_SECONDS
    inventory = _inventory(args.inventory, interval, settings.host_keys)
    if isinstance(inventory, Exit):
        return inventory
    specs = _specs(args, inventory, options, interval, settings.host_keys, may_be_empty=may_be_empty)
    if isinstance(specs, Exit):
        return specs
    names = {spec.name for spec in specs}
    members = {group: tuple(name for name in hosts if name in names) for group, hosts in inventory.groups.items()}
    return Selection(
        specs=specs,
        groups={group: hosts for group, hosts in members.items() if hosts},
        known=inventory.specs,
        settings=settings,
        source="none" if not specs else "local" if all(spec.local for spec in specs) else "ssh",
        files=tuple(map(os.path.abspath, inventory.files)),
    )


def preferences(args: argparse.Namespace) -> Settings | Exit:
    """The user's settings with the options of the command line applied. All files of the user are looked through."""
    settings = settings_file.load(locations.settings_file(), _keymap_problems)
    xids = load_catalog(locations.xid_file())
    problems = [problem for one in (settings, xids) if isinstance(one, list) for problem in one]
    if problems or isinstance(settings, list):
        return report(problems)
    said = {key: value for key in ("theme", "ascii", "mouse") if (value := getattr(args, key, None)) is not None}
    return replace(settings, **said)


def _keymap_problems(document: Document[Settings]) -> list[ConfigProblem]:
    keymap = document.value.keymap
    if not keymap:
        return []
    from gputop.tui.commands import COMMANDS, keymap_errors

    ids = [command.id for command in COMMANDS]
    problems = []
    for name, summary in keymap_errors(keymap):
        is_known = name in ids
        near = None if is_known else diagnostics.suggestion(name, ids, cutoff=0.75)
        guess = f'did you mean "{near}"? ' if near else ""
        hint = None if is_known else f'{guess}"gputop keys" lists them'
        problems.append(document.problem(("keymap", name), f"keymap: {summary}", hint, of_key=not is_known))
    return sorted(problems, key=lambda problem: (problem.line or 0, problem.column or 0))


def collector(chosen: Selection) -> Collector:
    """What reads the hosts of `chosen`."""
    from gputop import wiring

    shakes = chosen.settings.handshakes
    return wiring.make_collector(
        chosen.specs,
        known=chosen.known,
        handshakes_per_hop=shakes.per_hop,
        handshakes_total=shakes.total,
    )


def draws_ascii(settings: Settings) -> bool:
    """Whether to draw with plain characters: as the settings say, else where the locale is not one of UTF-8."""
    if settings.ascii != "auto":
        return settings.ascii
    locale = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_CTYPE", "LANG"))), "")
    return "utf" not in locale.lower()


def seconds(option: str, text: str, *, longest: float = 3600.0) -> float | Exit:
    """The time that an option names, above 0 and at most `longest` seconds."""
    span = duration(text)
    if span is None:
        example = "write 30m or 2h" if longest > 3600.0 else "write 10s or 500ms"
        return diagnostics.fail(f'{option} "{text}" is no time', example)
    if not 0 < span.total_seconds() <= longest:
        return diagnostics.fail(f'{option} "{text}" must be above 0 and at most {as_duration(longest)}')
    return span.total_seconds()


def formatted(value: Any, output: str) -> str:
    """Plain data as `json` or `yaml`, with a line end."""
    if output == "json":
        return msgspec.json.format(msgspec.json.encode(value)).decode() + "\n"
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True)


def report(problems: Sequence[ConfigProblem]) -> Exit:
    """Say what is wrong with a file."""
    for problem in problems[:SHOWN_PROBLEMS]:
        diagnostics.say(str(problem))
    if len(problems) > SHOWN_PROBLEMS:
        diagnostics.say(f"and {len(problems) - SHOWN_PROBLEMS} more")
    return Exit.USAGE


def _inventory(named: Sequence[str], interval_seconds: float, host_keys: HostKeyPolicy) -> Inventory | Exit:
    """The inventory that counts; an empty one when there is none."""
    paths = tuple(Path(os.path.expanduser(name)) for name in named) or locations.named_inventories()
    for path in paths:
        if not os.path.lexists(path):
            hint = f"{locations.example_inventory()} shows how one is written; gputop HOST needs none"
            return diagnostics.fail(f"{path}: no such inventory file", hint)
    if not paths:
        paths = tuple(path for path in locations.inventory_places() if os.path.exists(path))[:1]
    loaded = inventory_files.load(paths, default_interval_seconds=interval_seconds, default_host_keys=host_keys)
    return report(loaded) if isinstance(loaded, list) else loaded


def _specs(
    args: argparse.Namespace,
    inventory: Inventory,
    options: dict[str, Any],
    interval: float,
    host_keys: HostKeyPolicy,
    *,
    may_be_empty: bool,
) -> tuple[HostSpec, ...] | Exit:
    words = parts(args.hosts)
    known = {spec.name.lower() for spec in inventory.specs}
    if words and (typo := _mistyped_command(words[0], known)) is not None:
        return diagnostics.fail(f'"{words[0]}" is neither a command nor in an inventory', typo)
    this_machine = THIS_MACHINE in words and THIS_MACHINE not in known
    if this_machine:
        words = [word for word in words if word != THIS_MACHINE]
    words += parts(args.literal_hosts)
    specs: tuple[HostSpec, ...] | BadPattern = ()
    if words or not this_machine:
        specs = select(words, inventory, options, interval, host_keys)
    if not isinstance(specs, BadPattern):
        if not specs and not this_machine:
            if inventory.files:
                return diagnostics.fail(f"{', '.join(inventory.files)}: no host is listed", 'list some under "hosts:"')
            this_machine = has_devices()
        if this_machine:
            specs = (local_spec(options.get("interval_seconds", interval)), *specs)
        if not specs and may_be_empty:
            return ()
        if not specs:
            example = locations.example_inventory()
            hint = f'name hosts: "gputop HOST"; or list them in an inventory like {example}; or try "gputop demo"'
            return diagnostics.fail("nothing to watch: no host named, no inventory, no GPU here", hint)
        specs = exclude(parts(args.exclude), specs, inventory)
    if isinstance(specs, BadPattern):
        return diagnostics.fail(specs.summary, specs.hint)
    return specs or diagnostics.fail("nothing left to watch: --exclude leaves every host out")


def _mistyped_command(word: str, known: set[str]) -> str | None:
    """A hint when a word without digits, dots and the like is near a command's name and no known host."""
    if word.lower() in known or not word.isalpha():
        return None
    from gputop.cli.main import COMMANDS  # main imports this module's callers

    near = OTHER_WORDS.get(word.lower())
    near = near or diagnostics.suggestion(word, [command.name for command in COMMANDS], cutoff=0.75)
    return f'did you mean "gputop {near}"? For a host of that name: gputop -- {word}' if near else None


def _host_options(args: argparse.Namespace) -> dict[str, Any] | Exit:
    """What the options say about every host, as fields of `HostSpec`."""
    said: dict[str, Any] = {}
    if args.user is not None:
        if reason := unfit(args.user):
            return diagnostics.fail(f"--user: the name {reason}")
        said["user"] = args.user
    if args.port is not None:
        if not (args.port.isascii() and args.port.isdigit() and len(args.port) < 6 and 1 <= int(args.port) <= 65535):
            return diagnostics.fail(f'--port "{args.port}" is no port', "a port is a number from 1 to 65535")
        said["port"] = int(args.port)
    for option, names in (("identity", args.identity), ("ssh_config", args.ssh_config and [args.ssh_config])):
        if names is None:
            continue
        is_none = option == "ssh_config" and names == ["none"]
        paths = [] if is_none else [Path(os.path.expanduser(name)) for name in names]
        for path in paths:
            if not os.path.isfile(path):
                return diagnostics.fail(f"--{option.replace('_', '-')}: {path}: no such file")
        said[option] = tuple(str(path.absolute()) for path in paths)
    if args.jump is not None:
        said["jump"] = () if args.jump == "none" else tuple(hop.strip() for hop in args.jump.split(","))
        for hop in said["jump"]:
            if reason := unfit(hop):
                return diagnostics.fail(f"--jump: the name {reason}")
    if args.interval is not None:
        shortest, longest = INTERVAL_SECONDS
        span = duration(args.interval)
        if span is None:
            return diagnostics.fail(f'--interval "{args.interval}" is no time', "write 2s or 500ms")
        if not shortest <= span.total_seconds() <= longest:
            return diagnostics.fail(f'--interval "{args.interval}" must be between 100ms and 1h')
        said["interval_seconds"] = span.total_seconds()
    return said
