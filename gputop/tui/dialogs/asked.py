"""Dialogs that open by themselves, because a host that is connected to needs an answer."""

from __future__ import annotations

from textual.timer import Timer
from textual.widgets import Button

from gputop.tui.dialogs.base import Dialog

EDGE = 4
"""Cells that the frame and its padding take."""
TOGETHER_SECONDS = 0.1


class AskedDialog(Dialog[None]):
    """Is drawn again whenever there is something new; keys count from when it can have been read."""

    GRACE_SECONDS = 0.3
    most_cells = 118
    """Its width; the style sheet has it too."""

    _is_left = False
    _to_draw: Timer | None = None

    def on_resize(self) -> None:
        self.draw()

    def draw_soon(self) -> None:
        """Once for all that comes in the next moment: hundreds of hosts may."""
        if self._to_draw is None:
            self._to_draw = self.set_timer(TOGETHER_SECONDS, self._draw)

    def _draw(self) -> None:
        self._to_draw = None
        self.draw()

    def draw(self) -> None:
        """Draw what is asked now, or what became of it."""
        raise NotImplementedError

    def leave(self) -> None:
        """Close it, and go on to what else is asked."""
        if not self._is_left:
            self._is_left = True
            self.dismiss()
            self.gputop.call_later(self.gputop.look_at_questions)

    @property
    def room(self) -> int:
        """Cells for a line of the text."""
        return min(self.size.width, self.most_cells) - EDGE

    def label(self, button: str, text: str) -> None:
        found = self.query_one(f"#{button}", Button)
        if str(found.label) != text:
            found.label = text
            found.refresh(layout=True)
