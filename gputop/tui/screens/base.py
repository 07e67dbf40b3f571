"""What all screens have in common: commands run by id, a Fleet to draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputop.tui.commands import Command, Scope, in_scope
from gputop.tui.private_api import EagerScreen
from gputop.tui.widgets.painted import PAINT_CLASSES

if TYPE_CHECKING:
    from gputop.tui.app import GputopApp


class CommandScreen(EagerScreen, inherit_bindings=False):
    """A screen whose commands are methods `do_…`; what it has no method for, the app does."""

    COMPONENT_CLASSES = PAINT_CLASSES
    scope: Scope = Scope.EVERYWHERE

    @property
    def gputop(self) -> GputopApp:
        from gputop.tui.app import GputopApp

        assert isinstance(self.app, GputopApp)
        return self.app

    @property
    def commands(self) -> tuple[Command, ...]:
        return in_scope(self.gputop.commands, self.scope)

    def action_run(self, command_id: str) -> None:
        """Run a command of the registry."""
        self.gputop.touch()
        command = next(command for command in self.gputop.commands if command.id == command_id)
        handler = getattr(self, command.handler, None) or getattr(self.gputop, command.handler)
        handler()

    def targets(self) -> tuple[str, ...]:
        """Names of the hosts that a command would act on."""
        return ()

    @property
    def awaits_text(self) -> bool:
        """The next key means something else than it does mostly."""
        return False

    def meant(self) -> list[object]:
        """The rows that a command would act on: the marked ones, or the one under the cursor."""
        return []

    def meant_devices(self) -> list[object]:
        """The rows whose devices a command about devices would act on."""
        return self.meant()

    def gone(self) -> int:
        """How many marked rows are not in the fleet any more."""
        return 0

    def hidden(self) -> int:
        """How many marked rows the filter hides."""
        return 0

    def forget_marks(self) -> None:
        """What was marked is done with."""

    def draw(self) -> None:
        """Draw the app's Fleet."""
        raise NotImplementedError

    def on_screen_resume(self) -> None:
        self._draw_if_here()

    def on_resize(self) -> None:
        self._draw_if_here()

    def _draw_if_here(self) -> None:
        if self.is_mounted and self.app.screen is self:
            self.draw()
