"""One family of dialogs: a panel over the screen, Cancel in focus, and keys that count from when it can be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Button, Input

from gputop.tui.widgets.painted import PAINT_CLASSES, Lines, Page

if TYPE_CHECKING:
    from gputop.tui.app import GputopApp

T = TypeVar("T")


class Entry(Input):
    """One line to type into. A key that was typed before the dialog could be read does not count."""

    counts_from: float = 0.0
    """Time of the newest thing that the dialog shows, on the clock of Textual's events."""

    def on_key(self, event: events.Key) -> None:
        if event.time < self.counts_from:
            event.stop()
            event.prevent_default()


class Dialog(ModalScreen[T]):
    """A dialog. What it answers is decided by its class; Esc and Cancel answer `None`."""

    COMPONENT_CLASSES = PAINT_CLASSES
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", show=False),
        Binding("down", "scroll_text(1)", show=False),
        Binding("up", "scroll_text(-1)", show=False),
        Binding("pagedown", "scroll_text(10)", show=False),
        Binding("pageup", "scroll_text(-10)", show=False),
        Binding("left", "app.focus_previous", show=False),
        Binding("right", "app.focus_next", show=False),
    ]

    @property
    def gputop(self) -> GputopApp:
        from gputop.tui.app import GputopApp

        assert isinstance(self.app, GputopApp)
        return self.app

    def on_mount(self) -> None:
        self.rest_on_cancel()

    def rest_on_cancel(self) -> None:
        """What can be read now is new: Cancel has the focus, and keys from before count nowhere."""
        now = Message().time
        for entry in self.query(Entry):
            entry.counts_from = now
        self.query_one("#cancel", Button).focus()

    def action_cancel(self) -> None:
        self.dismiss(None)

    def action_scroll_text(self, lines: int) -> None:
        for page in self.query(Page):
            page.scroll_relative(y=lines, animate=False)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "cancel":
            self.action_cancel()
        elif event.button.id is not None:
            self.chosen(event.button.id)

    def chosen(self, button: str) -> None:
        """A button other than Cancel was pressed."""
        raise NotImplementedError

    def on_key(self, event: events.Key) -> None:
        self.gputop.touch()

    def show_title(self, title: str, note: str = "") -> None:
        """The first line."""
        look = self.gputop.look
        spans = ((f" {title} ", "title"), (f" {note}", "warn")) if note else ((f" {title} ", "title"),)
        self.query_one("#dialog-title", Lines).show([look.plain(spans)])


def text_page() -> Page:
    """The text of a dialog: scrolled by the arrow keys, without ever taking the focus."""
    page = Page(id="dialog-text", ground="head")
    page.can_focus = False
    return page
