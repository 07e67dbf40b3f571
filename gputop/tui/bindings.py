"""The command registry as Textual bindings and palette entries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from textual.binding import Binding, BindingType
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.screen import Screen

from gputop.tui.commands import COMMANDS, Command, Scope, in_scope, key_sign, with_keymap
from gputop.tui.draw import to_ascii

ALWAYS = frozenset({"quit.now", "suspend", "redraw"})
"""Commands whose keys count even while text is typed."""

NOT_IN_PALETTE = frozenset({"palette"})


def textual_key(key: str) -> str:
    """The name that Textual has for a key of the registry."""
    if key == ",":
        return "comma"
    if key.startswith("ctrl-"):
        rest = key.removeprefix("ctrl-")
        return "ctrl+" + {"\\": "backslash"}.get(rest, rest)
    return key if len(key) == 1 else key.lower()


def bindings(scope: Scope, commands: Iterable[Command] = COMMANDS) -> list[BindingType]:
    """Bindings of the commands that belong to exactly this scope."""
    return [
        Binding(
            ",".join(textual_key(key) for key in command.keys),
            f"run('{command.id}')",
            command.title,
            show=False,
            tooltip=command.help,
            id=command.id,
            priority=command.id in ALWAYS,
        )
        for command in commands
        if command.scope is scope and command.keys
    ]


def textual_keymap(keymap: dict[str, str]) -> dict[str, str]:
    """The user's keymap in Textual's words."""
    return {
        command.id: ",".join(textual_key(key) for key in command.keys)
        for command in with_keymap(COMMANDS, keymap)
        if command.id in keymap
    }


class PaletteCommands(Provider):
    """The commands that the screen under the palette offers."""

    def _offered(self) -> list[tuple[str, Command]]:
        from gputop.tui.app import GputopApp

        app = self.app
        assert isinstance(app, GputopApp)
        found = []
        for command in in_scope(app.commands, scope_of(self.screen)):
            if command.id not in NOT_IN_PALETTE:
                keys = " ".join(key_sign(key, ascii_only=app.ascii_only) for key in command.keys)
                label = f"{command.title}   {keys}".rstrip()
                if command.acts and app.why_locked:
                    command = replace(command, help=f"{command.help} Now: {app.why_locked}.")
                found.append((to_ascii(label) if app.ascii_only else label, command))
        return found

    async def discover(self) -> Hits:
        for label, command in self._offered():
            yield DiscoveryHit(label, partial(self._run, command), text=label, help=command.help)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for label, command in self._offered():
            score = max(matcher.match(label), matcher.match(command.id))
            if score > 0:
                yield Hit(score, matcher.highlight(label), partial(self._run, command), text=label, help=command.help)

    async def _run(self, command: Command) -> None:
        await self.screen.run_action(f"run('{command.id}')")


def scope_of(screen: Screen[object]) -> Scope:
    """The scope whose commands a screen offers."""
    scope = getattr(screen, "scope", Scope.EVERYWHERE)
    assert isinstance(scope, Scope)
    return scope
