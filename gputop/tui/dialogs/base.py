"""One family of dialogs: a panel over the screen, Cancel in focus, and keys that count from when it can be read."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Button, Input

from gputop.tui.draw import Spans, spread
from gputop.tui.widgets.painted import PAINT_CLASSES, Lines, Page

if TYPE_CHECKING:
    from gputop.tui.app import GputopApp

T = TypeVar("T")


class Entry(Input):
    """One line to type into. A key that was typed before the dialog could be read does not count."""

    counts_from: float = 0.0
    """Time of the newest thing that the dialog shows, on the clock of Textual's events."""

    def on_key(self, event: events.Key) -> None:
        self._forget_if_early(event)

    def on_paste(self, event: events.Paste) -> None:
        self._forget_if_early(event)

    def _forget_if_early(self, event: events.Event) -> None:
        if event.time < self.counts_from:
            event.stop()
            event.prevent_default()

    def action_copy(self) -> None:
        """What may not be seen does not go to the clipboard either."""
        if not self.password:
            super().action_copy()

    def action_cut(self) -> None:
        if self.password:
            self.delete_selection()
        else:
            super().action_cut()


class Dialog(ModalScreen[T]):
    """A dialog. What it answers is decided by its class; Esc and Cancel answer `None`."""

    COMPONENT_CLASSES = PAINT_CLASSES
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", show=False),
        Binding("down", "scroll_text(1)", show=False),
        Binding("up", "scroll_text(-1)", show=False),
        Binding("pagedown", "scroll_page(1)", show=False),
        Binding("pageup", "scroll_page(-1)", show=False),
        Binding("left", "app.focus_previous", show=False),
        Binding("right", "app.focus_next", show=False),
        # At once, not after the widget in focus has had its say: what is typed right behind goes to the next field.
        Binding("tab", "app.focus_next", show=False, priority=True),
        Binding("shift+tab", "app.focus_previous", show=False, priority=True),
    ]

    counts_from: float = inf
    """Time of the newest thing that the dialog shows, on the clock of Textual's events: keys from before, typed for
    something else, do nothing."""

    _title_spans: Spans = ()

    @property
    def only_waits(self) -> bool:
        """There is nothing to read or to type in it yet: what it waits for may ask something first."""
        return False

    @property
    def gputop(self) -> GputopApp:
        from gputop.tui.app import GputopApp

        assert isinstance(self.app, GputopApp)
        return self.app

    @property
    def simulated(self) -> str:
        """The words beside the title where nothing that is done is real; else empty."""
        return "simulated: nothing real is touched" if self.gputop.is_simulated else ""

    def on_mount(self) -> None:
        self.begin()

    def begin(self) -> None:
        """It can be read now."""
        self.rest_on_cancel()

    def rest_on_cancel(self) -> None:
        """What can be read now is new: Cancel has the focus, and keys from before count nowhere."""
        self.count_from_now()
        self.query_one("#cancel", Button).focus()

    def count_from_now(self, grace_seconds: float = 0.0) -> None:
        """Keys from before do nothing. `grace_seconds`: nor do those of so much time after, for what opens by itself:
        nobody can have read it."""
        self.counts_from = Message().time + grace_seconds
        for entry in self.query(Entry):
            entry.counts_from = self.counts_from

    def action_cancel(self) -> None:
        self.dismiss(None)

    def action_scroll_text(self, lines: int) -> None:
        for page in self.query(Page):
            page.scroll_relative(y=lines, animate=False)
        self.call_after_refresh(self.draw_title)

    def action_scroll_page(self, pages: int) -> None:
        """By what is seen at once, less a line to go on from."""
        self.action_scroll_text(pages * max(1, self.query_one("#dialog-text", Page).size.height - 1))

    def on_button_pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "cancel":
            self.action_cancel()
        elif event.button.id is not None:
            self.chosen(event.button.id)

    def chosen(self, button: str) -> None:
        """A button other than Cancel was pressed."""
        raise NotImplementedError

    def on_key(self, event: events.Key) -> None:
        if event.time < self.counts_from:
            event.stop()
            event.prevent_default()
        self.gputop.touch()

    def show_title(self, title: str, note: str = "") -> None:
        """The first line; what of the text cannot be seen stands at its end."""
        self._title_spans = ((f" {title} ", "title"), (f" {note}", "warn")) if note else ((f" {title} ", "title"),)
        self.draw_title()

    def draw_title(self) -> None:
        """Draw the first line again: the text was scrolled, or its place has another size."""
        page = self.query_one("#dialog-text", Page)
        lines, top, height = page.virtual_size.height, page.scroll_offset.y, page.size.height
        right: Spans = ()
        title = self.query_one("#dialog-title", Lines)
        width = title.size.width
        if 0 < height < lines:
            words = f"lines {top + 1} to {top + height} of {lines} "
            right = (("↑ ↓ ", "key"), (words if width >= 60 else f"{top + height}/{lines} ", "warn"))
        title.show([self.gputop.look.plain(spread(self._title_spans, right, width) if width else self._title_spans)])


class DialogText(Page):
    """The text of a dialog: scrolled by the arrow keys, without ever taking the focus."""

    can_focus = False

    def on_resize(self) -> None:
        if isinstance(self.screen, Dialog):
            self.screen.draw_title()


def text_page() -> Page:
    return DialogText(id="dialog-text", ground="head")
