"""Rewrites the generated parts of the docs from the code; `--check` only says which are stale.

A generated part stands between `<!-- generated: NAME -->` and `<!-- end of generated -->`; NAME is a key of `PARTS`.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

from readings import live, readings

from gputop.actions.raw_tools import raw_tools
from gputop.catalog.words import THROTTLE_REASONS
from gputop.cli.main import COMMANDS as CLI_COMMANDS
from gputop.cli.main import SCREEN, Command, parser_for
from gputop.domain import backend
from gputop.domain.host import Host, HostSpec
from gputop.domain.link import Link, LinkState
from gputop.domain.reading import Device, Frame
from gputop.remote.vendors import VENDORS
from gputop.tui.commands import COMMANDS as KEY_COMMANDS
from gputop.tui.commands import Scope

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "gputop"

PART = re.compile(r"(?P<head><!-- generated: (?P<name>[\w-]+) -->\n).*?(?P<tail><!-- end of generated -->)", re.DOTALL)

GLOSSARY = (
    "domain/host.py",
    "domain/link.py",
    "domain/reading.py",
    "domain/problem.py",
    "domain/question.py",
    "fleet/fleet.py",
    "fleet/series.py",
    "fleet/totals.py",
    "fleet/collector.py",
    "ports.py",
)
"""Modules whose public classes are the words of gputop."""

SCOPES = {
    Scope.EVERYWHERE: "Everywhere",
    Scope.TABLES: "In the tables: Hosts, GPUs, Processes",
    Scope.HOST: "In pages: of a host, of a GPU, raw output, and other text",
    Scope.ACTIONS: "In the view of actions",
}


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def code(text: str) -> str:
    """`text` as inline code; a backtick or a backslash needs longer fences."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def attributes(source: Path, class_name: str) -> Iterator[tuple[str, str, str, str]]:
    """Name, type, default and docstring of each attribute of a class, in order, as the source has them."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    body = next(node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == class_name)
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name, kind = node.target.id, ast.unparse(node.annotation)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name, kind = node.targets[0].id, ""
        else:
            continue
        doc = ""
        if (
            isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
            and isinstance(following.value.value, str)
        ):
            doc = one_line(following.value.value)
        yield name, kind, ast.unparse(node.value) if node.value else "", doc


def keys() -> str:
    parts = []
    for scope, title in SCOPES.items():
        rows = [
            (" ".join(code(key) for key in command.keys), command.title, command.help, code(command.id))
            for command in KEY_COMMANDS
            if command.scope is scope
        ]
        if rows:
            parts.append(f"### {title}\n\n" + table(("key", "name", "does", "id"), rows))
    return "\n\n".join(parts)


def commands() -> str:
    common = common_options()
    parts = ["## Every command\n\n" + option_table([option for option in options_of(SCREEN) if option in common])]
    for command in (SCREEN, *CLI_COMMANDS):
        title = f"gputop {command.name}".strip()
        usage = " ".join([title, "[OPTION ...]", *(["[HOST ...]"] if command.takes_hosts else [])])
        summary = f"{command.summary[0].upper()}{command.summary[1:]}."
        part = f"## {title}\n\n`{usage}`\n\n{summary}"
        own = [option for option in options_of(command) if option not in common]
        parts.append(f"{part}\n\n{option_table(own)}" if own else part)
    return "\n\n".join(parts)


def option_table(options: list[tuple[tuple[str, ...], str]]) -> str:
    rows = [(", ".join(code(spelling) for spelling in spellings), one_line(text)) for spellings, text in options]
    return table(("option", "meaning"), rows)


def common_options() -> list[tuple[tuple[str, ...], str]]:
    """Options that every command has."""
    first, *others = [list(options_of(command)) for command in (SCREEN, *CLI_COMMANDS)]
    return [option for option in first if all(option in other for other in others)]


def options_of(command: Command) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each option of a command, as it is spelled with its value, and its help."""
    parser = parser_for(command)
    for action in parser._actions:
        if action.option_strings and action.help is not argparse.SUPPRESS:
            value = "" if action.nargs == 0 else " " + str(action.metavar or action.dest.upper())
            if action.choices:
                value = " " + "|".join(str(choice) for choice in action.choices)
            if isinstance(action, argparse.BooleanOptionalAction):
                value = ""
            yield tuple(f"{spelling}{value}" for spelling in action.option_strings), action.help or ""


def exit_codes() -> str:
    rows = [(value, doc) for _, _, value, doc in attributes(PACKAGE / "cli" / "diagnostics.py", "Exit")]
    return table(("code", "meaning"), rows)


def device_values() -> str:
    rows = [
        (f"`{name}`", kind.replace(" | None", ""), doc)
        for name, kind, _, doc in attributes(PACKAGE / "domain" / "reading.py", "DeviceReading")
    ]
    return table(("value", "type", "meaning"), rows)


def glossary() -> str:
    rows = []
    for name in GLOSSARY:
        for node in ast.parse((PACKAGE / name).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and ast.get_docstring(node):
                first = (ast.get_docstring(node) or "").partition("\n\n")[0]
                module = "gputop." + name.removesuffix(".py").replace("/", ".")
                rows.append((f"**{node.name}**", one_line(first), f"`{module}`"))
    return table(("word", "meaning", "where"), sorted(rows))


def example_inventory() -> str:
    return "```yaml\n" + (ROOT / "inventory.example.yaml").read_text(encoding="utf-8").strip() + "\n```"


def back_end_keys(*classes: str) -> str:
    """The settings of schedulers or power providers, as the inventory says them."""
    source = PACKAGE / "domain/backend.py"
    rows = []
    for struct in classes:
        kind = getattr(backend, struct).__struct_config__.tag
        own = [(name, default, doc) for name, _, default, doc in attributes(source, struct)]
        rows += [(f"`{kind}`", code(name), doc or "–", _default(default)) for name, default, doc in own]
        rows += [] if own else [(f"`{kind}`", "–", one_line(getattr(backend, struct).__doc__), "–")]
    return table(("kind", "key", "meaning", "default"), rows)


def throttle_reasons() -> str:
    rows = [(code(name), reason.short or "–", reason.sentence) for name, reason in THROTTLE_REASONS.items()]
    return table(("in the JSON", "in the tables", "on the pages"), rows)


def raw_output() -> str:
    """The tools of each vendor whose own words can be had."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    link = Link(state=LinkState.OK, since=now)
    titles = {"nvidia": "NVIDIA", **{name: vendor.title for name, vendor in VENDORS.items()}}
    rows = []
    for vendor, title in titles.items():
        for route in ("nvml",) if vendor != "amd" else ("amd-smi", "rocm-smi"):
            frame = Frame(sequence=1, sampled_at=now, received_at=now, interval_seconds=2.0, route=route,
                          devices=(Device(index=0, vendor=vendor),))  # fmt: skip
            host = Host(spec=HostSpec(name="a"), link=link, reported=link, frame=frame)
            rows.append((title, ", ".join(code(tool.command) for tool in raw_tools(host))))
            title = f"{titles[vendor]}, read by rocm-smi"
    return table(("vendor", "tools"), rows)


def _default(source: str) -> str:
    return {"": "must be said", "None": "–", "()": "–", "''": "–", "True": "`true`", "False": "`false`"}.get(
        source, code(source.strip("'"))
    )


PARTS: dict[str, Callable[[], str]] = {
    "keys": keys,
    "commands": commands,
    "exit-codes": exit_codes,
    "device-values": device_values,
    "glossary": glossary,
    "example-inventory": example_inventory,
    "scheduler-keys": lambda: back_end_keys(*(kind.__name__ for kind in get_args(backend.SchedulerSpec))),
    "power-keys": lambda: back_end_keys(*(kind.__name__ for kind in get_args(backend.PowerSpec))),
    "throttle-reasons": throttle_reasons,
    "raw-output": raw_output,
    "readings": readings,
    "live": live,
}


def rewritten(text: str) -> str:
    """`text` with each generated part made anew."""

    def part(match: re.Match[str]) -> str:
        return f"{match['head']}\n{PARTS[match['name']]()}\n\n{match['tail']}"

    return PART.sub(part, text)


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 when a page is stale")
    args = parser.parse_args()
    stale = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        fresh = rewritten(text)
        if fresh != text:
            stale.append(page.relative_to(ROOT).as_posix())
            if not args.check:
                page.write_text(fresh, encoding="utf-8")
    if stale and args.check:
        print("stale, run make docs: " + " ".join(stale), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
