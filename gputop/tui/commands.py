"""The command registry: everything a key can do. Bindings, footer, help, palette, `gputop keys` and the docs come
from it. Knows nothing of Textual."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum


class Scope(StrEnum):
    """Where a command is offered."""

    EVERYWHERE = "everywhere"
    TABLES = "tables"
    """Hosts, GPUs and Processes."""
    HOST = "host"
    """The detail of one host and other pages of text."""
    ACTIONS = "actions"
    """The view of plans."""


@dataclass(frozen=True, slots=True)
class Command:
    id: str
    """Stable; used in keymaps, palette and docs. Its handler is the method `do_` + id with `_` for `.` and `-`."""
    title: str
    keys: tuple[str, ...]
    """As people write them: `j`, `F5`, `ctrl-p`, `space`, `down`."""
    help: str
    """One sentence."""
    scope: Scope = Scope.EVERYWHERE
    footer: int = 0
    """Place in the footer, 1 first; 0: not there."""
    acts: bool = False
    """It opens the plan of an act: dimmed while gputop is read-only."""

    @property
    def handler(self) -> str:
        return "do_" + self.id.replace(".", "_").replace("-", "_")


COMMANDS: tuple[Command, ...] = (
    Command("help", "help", ("?", "F1"), "Show what every key does.", footer=1),
    Command("filter", "filter", ("/",), "Show only rows that contain the words typed; Enter keeps, Esc clears it.",
            Scope.TABLES, footer=2),
    Command("row.open", "open", ("enter",), "Open the page of the host or GPU under the cursor; of a process that of "
            "its GPU, or of its host where it is on several.", Scope.TABLES, footer=3),
    Command("page.open", "open", ("enter",), "Open what is under the cursor: the page of a GPU; all values of a "
            "process or the host.", Scope.HOST, footer=3),
    Command("mark.toggle", "mark", ("space",), "Mark or unmark the row and go on to the next.", Scope.TABLES, footer=4),
    Command("problem.next", "next problem", ("n",), "Go to the next row in trouble.", Scope.TABLES, footer=5),
    Command("problem.previous", "previous problem", ("N",), "Go to the row in trouble before this one.", Scope.TABLES),
    Command("palette", "command", (":", "ctrl-p"), "Find a command by its name.", footer=6),
    Command("quit", "quit", ("q",), "Go back to the first view; there: quit.", footer=8),
    Command("quit.now", "quit at once", ("ctrl-c",), "Quit from anywhere; while an act is under way it asks "
            "first, and a second one quits."),
    Command("back", "back", ("escape",), "Go back one step; never quits.", footer=9),
    Command("view.hosts", "Hosts", ("1",), "One row a host, trouble first."),
    Command("view.gpus", "GPUs", ("2",), "One row a GPU, with its MIG slices."),
    Command("view.processes", "Processes", ("3",), "One row a process on any GPU."),
    Command("view.actions", "Actions", ("9",), "Plans in progress, unfinished ones, drained hosts, what was done."),
    Command("view.last", "last view", ("-",), "Switch to the view before this one and back."),
    Command("history.back", "view history back", ("[",), "Go back in the views visited."),
    Command("history.forward", "view history forward", ("]",), "Go forward in the views visited."),
    Command("move.down", "down", ("j", "down"), "One row down."),
    Command("move.up", "up", ("k", "up"), "One row up."),
    Command("move.page-down", "page down", ("pagedown",), "One page down."),
    Command("move.page-up", "page up", ("pageup",), "One page up."),
    Command("move.top", "first row", ("g", "home"), "To the first row."),
    Command("move.bottom", "last row", ("G", "end"), "To the last row."),
    Command("columns.left", "columns left", ("h", "left"), "Scroll the columns back.", Scope.TABLES),
    Command("columns.right", "columns right", ("l", "right"), "Scroll to columns that do not fit.", Scope.TABLES),
    Command("columns.wide", "wide columns", ("w",), "All columns at full width; scroll them with h and l.",
            Scope.TABLES),
    Command("mark.range", "mark range", ("V",), "Mark all rows from the last one marked to the cursor.", Scope.TABLES),
    Command("mark.all", "mark all shown", ("*",), "Mark every row the filter lets through.", Scope.TABLES),
    Command("mark.clear", "clear marks", ("ctrl-\\",), "Unmark all rows.", Scope.TABLES),
    Command("sort.previous", "sort column left", ("<",), "Sort by the column to the left.", Scope.TABLES),
    Command("sort.next", "sort column right", (">",), "Sort by the column to the right.", Scope.TABLES),
    Command("sort.invert", "invert sort", ("I",), "Turn the order around.", Scope.TABLES),
    Command("sort.by", "sort by", ("o",), "Then a letter: sort by that column.", Scope.TABLES),
    Command("row.details", "details", ("d",), "Everything known about the row.", Scope.TABLES),
    Command("page.details", "details", ("d",), "Everything known about the row under the cursor, field by field.",
            Scope.HOST),
    Command("page.find", "find", ("/",), "Find text in the page; Enter goes to it, Esc clears it.", Scope.HOST,
            footer=9),
    Command("page.find-next", "find next", ("n",), "To the next line with the text.", Scope.HOST),
    Command("page.find-previous", "find previous", ("N",), "To the line with the text before this one.", Scope.HOST),
    Command("page.next", "next GPU, or right", ("right",), "To the next GPU of the host; in wide text to the right.",
            Scope.HOST),
    Command("page.previous", "previous GPU, or left", ("left",), "To the GPU before; in wide text to the left.",
            Scope.HOST),
    Command("row.raw", "raw output", ("v",), "What the host's own tools print: nvidia-smi -q, topo -m and the like.",
            footer=10),
    Command("row.log", "kernel log", ("L",), "Kernel log and events of the row: Xids, by bursts."),
    Command("shell", "shell", ("s",), "A shell on the host by your own ssh: in tmux beside gputop, else in its place."),
    Command("bundle", "incident bundle", ("b",), "Save all that can be read of the marked hosts in one file."),
    Command("row.copy", "copy as JSON", ("y",), "Send the row as JSON to the terminal's clipboard."),
    Command("act.cordon", "cordon", ("C",), "Give the marked hosts no new work; what runs goes on.", acts=True),
    Command("act.resume", "resume", ("U",), "Let the marked hosts take work again.", acts=True),
    Command("act.drain", "drain", ("D",), "No new work, wait for what runs, verify all GPUs empty.", acts=True),
    Command("act.stop", "stop", ("X",), "Stop the instances of drained hosts.", acts=True),
    Command("act.start", "start", ("O",), "Start the instances of the marked hosts.", acts=True),
    Command("act.reboot", "reboot", ("B",), "Reboot drained hosts and prove it.", acts=True),
    Command("act.reset", "reset GPU", ("R",), "Reset GPUs that nobody uses.", acts=True),
    Command("act.signal", "signal", ("K", "F9"), "Send a signal to the process of the row.", acts=True),
    Command("act.power-cap", "power cap", ("P",), "Set the power limit of the marked GPUs.", acts=True),
    Command("act.message", "message", ("M",), "Write to the people who are logged in.", acts=True),
    Command("act.ack", "acknowledge faults", (), "Note that fatal Xids so far are known: a resume counts later ones.",
            acts=True),
    Command("act.again", "act again", (".",), "The last act on the new marks; its plan is shown again.", acts=True),
    Command("acts.lock", "lock or unlock acts", (), "Make gputop read-only, or allow acts after it locked itself."),
    Command("help.page", "help", ("h",), "Show what every key does; in tables h scrolls columns.", Scope.HOST),
    Command("plan.open", "open", ("enter",), "Everything about a plan, and what can be done about it.",
            Scope.ACTIONS, footer=3),
    Command("display.pause", "pause", ("p",), "Freeze the picture; collection goes on. Again: go on.", footer=7),
    Command("interval.longer", "longer interval", ("+", "="), "Ask the hosts less often."),
    Command("interval.shorter", "shorter interval", ("_",), "Ask the hosts more often."),
    Command("retry", "retry now", ("F5", "ctrl-r"), "Ask the marked hosts, or the row's, again now."),
    Command("snapshot", "snapshot", ("S",), "Save the screen as a picture (SVG) in the current folder."),
    Command("suspend", "suspend", ("ctrl-z",), "Stop gputop; `fg` in the shell brings it back."),
    Command("redraw", "redraw", ("ctrl-l",), "Paint the whole screen again."),
)  # fmt: skip


def with_keymap(commands: Iterable[Command], keymap: Mapping[str, str]) -> tuple[Command, ...]:
    """`commands` with the user's keys. `keymap`: command id to keys separated by commas or blanks."""
    return tuple(
        replace(command, keys=tuple(keymap[command.id].replace(",", " ").split())) if command.id in keymap else command
        for command in commands
    )


def keymap_errors(keymap: Mapping[str, str], commands: Iterable[Command] = COMMANDS) -> list[tuple[str, str]]:
    """What is wrong with the user's keymap, each with the id of its entry: unknown commands, a key given twice in one
    place."""
    commands = tuple(commands)
    known = {command.id for command in commands}
    errors = [(name, f'unknown command "{name}"') for name in keymap if name not in known]
    for scope in (Scope.TABLES, Scope.HOST, Scope.ACTIONS):
        owners: dict[str, str] = {}
        for command in with_keymap(commands, keymap):
            if command.scope not in (scope, Scope.EVERYWHERE):
                continue
            for key in command.keys:
                owner = owners.setdefault(key, command.id)
                if owner != command.id:
                    entry = max((name for name in keymap if name in (owner, command.id)), key=[*keymap].index)
                    errors.append((entry, f'"{key}" stands for both {owner} and {command.id}'))
    return list(dict.fromkeys(errors))


def in_scope(commands: Iterable[Command], scope: Scope) -> tuple[Command, ...]:
    return tuple(command for command in commands if command.scope in (scope, Scope.EVERYWHERE))


KEY_SIGNS = {"enter": "⏎", "space": "Space", "escape": "Esc", "pagedown": "PgDn", "pageup": "PgUp", "home": "Home",
             "end": "End", "up": "↑", "down": "↓", "left": "←", "right": "→"}  # fmt: skip
ASCII_KEY_SIGNS = KEY_SIGNS | {"enter": "Enter", "up": "Up", "down": "Down", "left": "Left",
                               "right": "Right"}  # fmt: skip


def key_sign(key: str, *, ascii_only: bool = False) -> str:
    """How a key is shown."""
    return (ASCII_KEY_SIGNS if ascii_only else KEY_SIGNS).get(key, key)
