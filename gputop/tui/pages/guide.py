"""What the user reads about gputop itself: help, and the start page."""

from __future__ import annotations

from collections.abc import Iterable

from gputop.domain.link import LinkState
from gputop.tui.commands import Command, Scope, key_sign
from gputop.tui.draw import Spans
from gputop.tui.look import SIGNS, WORDS, Look
from gputop.tui.pages.blocks import hanging

SCOPE_TITLES = {
    Scope.EVERYWHERE: "Everywhere",
    Scope.TABLES: "In the tables",
    Scope.HOST: "In pages",
    Scope.ACTIONS: "In the view of actions",
}

LEGEND: tuple[tuple[LinkState, str], ...] = (
    (LinkState.OK, "fresh values"),
    (LinkState.DEGRADED, "values come, but a device or a part of the host fails"),
    (LinkState.STALE, "connected, but no new values for 3 intervals; old ones stand dimmed"),
    (LinkState.THROTTLED, "the server or a jump host drops new connections; gputop backs off"),
    (LinkState.UNREACHABLE, "no connection; tried again by itself"),
    (LinkState.AUTH_FAILED, "the server refused the login; F5 tries again"),
    (LinkState.HOST_KEY_REJECTED, "the host's key is not the known one; F5 tries again"),
    (LinkState.UNSUPPORTED, "connected, but nothing can be run there"),
    (LinkState.CONNECTING, "on its way, or waits for your answer"),
)


NUMBERS: tuple[tuple[str, str], ...] = (
    ("–", "could not be read; it is never 0 and never counts as idle"),
    ("data", "age of the oldest value that is shown as fresh"),
    ("busy", "utilization of 5 % or more, or a compute process"),
    ("unknown", "neither busy nor idle: old values, no values, or no list of processes"),
)


def help_page(commands: Iterable[Command], look: Look, width: int, why_locked: str = "") -> list[Spans]:
    """What every key does, and what the signs mean. `why_locked`: why acts are refused now; empty: they are not."""
    commands = tuple(commands)
    lines: list[Spans] = []
    groups = [
        (title, [one for one in commands if one.scope is scope and not one.acts], "")
        for scope, title in SCOPE_TITLES.items()
    ]
    acts = [one for one in commands if one.acts]
    groups.insert(1, ("Acts on the marked rows, or the row under the cursor", acts, why_locked))
    for title, members, why_off in groups:
        if members:
            lines += [((" ", "text"),), ((f" {title}", "strong"), (f"   {why_off}", "warn"))]
        for command in members:
            keys = " ".join(key_sign(key, ascii_only=look.ascii_only) for key in command.keys)
            styles = ("faint", "faint", "faint") if why_off else ("key", "text", "dim")
            head: Spans = ((f"   {keys:<14} ", styles[0]), (f"{command.title:<22} ", styles[1]))
            lines += hanging(head, (command.help, styles[2]), width)
    lines += [((" ", "text"),), ((" States of a host", "strong"),)]
    for state, words in LEGEND:
        sign, style = SIGNS[state]
        lines += hanging(((f"   {sign} {WORDS[state]:<18}", style),), (words, "dim"), width)
    lines += [((" ", "text"),), ((" Numbers", "strong"),)]
    for name, words in NUMBERS:
        lines += hanging(((f"   {name:<18}", "text"),), (words, "dim"), width)
    return [look.plain(line) for line in lines]


START_LINES: tuple[tuple[str, str], ...] = (
    ("gputop gpu1 gpu2", "watch hosts of your ~/.ssh/config"),
    ("gputop ops@10.0.0.7:2222", "or any other, as ssh would reach it"),
    ("gputop --inventory fleet.yaml", "or a whole fleet from a file"),
    ("gputop hosts --check", "see what works on each host, and what to do where it does not"),
)


def start_page(look: Look, width: int) -> list[Spans]:
    """What to do when there is nothing to watch."""
    lines: list[Spans] = [
        ((" ", "text"),),
        (("  Nothing to watch yet.", "strong"),),
        (("  This machine has no GPU that gputop can read, and no inventory was found.", "dim"),),
        ((" ", "text"),),
        (("  Try one of these:", "text"),),
    ]
    for command, words in START_LINES:
        lines.append(((f"    {command:<32}", "accent"), (words, "dim")))
    lines += [
        ((" ", "text"),),
        (("  d", "key"), ("  see the demo: a simulated fleet over real SSH on this machine", "text")),
        (("  q", "key"), ("  quit", "text")),
        ((" ", "text"),),
        (("  Inventories are looked for in ./inventory.yaml, ~/.config/gputop/inventory.yaml and", "dim"),),
        (("  /etc/gputop/inventory.yaml; $GPUTOP_INVENTORY names others.", "dim"),),
    ]
    return [look.plain(line) for line in lines]
