"""Short questions: one of a few answers, a line of text, or a phrase that stands for "I mean it"."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Input

from gputop.domain.action import MOST_CHARACTERS
from gputop.tui.dialogs.base import Dialog, Entry, text_page
from gputop.tui.draw import Spans
from gputop.tui.widgets.painted import Lines, Page

Accepts = Callable[[str], bool]


class AskDialog(Dialog[tuple[str, str]]):
    """Text, a line to type into where there is a `prompt`, and buttons. The answer: the button and what was typed."""

    def __init__(
        self,
        title: str,
        text: Sequence[Spans],
        buttons: Sequence[tuple[str, str]],
        *,
        prompt: str = "",
        accepts: Accepts = lambda _: True,
        note: str = "",
    ) -> None:
        """`buttons`: id and label, beside Cancel. `accepts`: whether what was typed allows them."""
        super().__init__()
        self._title = title
        self._text = list(text)
        self._buttons = list(buttons)
        self._prompt = prompt
        self._accepts = accepts
        self._note = note

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Lines(id="dialog-title", ground="head")
            yield text_page()
            if self._prompt:
                with Horizontal(id="phrase-line", classes="asks"):
                    yield Lines(id="phrase-label", ground="head")
                    yield Entry(id="phrase", max_length=MOST_CHARACTERS)
            with Horizontal(id="dialog-buttons"):
                yield Button("Cancel", id="cancel", compact=True)
                for name, label in self._buttons:
                    yield Button(label, id=name, compact=True, disabled=not self._accepts(""))

    def on_mount(self) -> None:
        super().on_mount()
        look = self.gputop.look
        self.show_title(self._title, self._note or self.simulated)
        page = self.query_one("#dialog-text", Page)
        page.styles.height = min(len(self._text), max(1, self.size.height - 8))
        page.show([look.plain(line) for line in self._text])
        if self._prompt:
            self.query_one("#phrase-label", Lines).show([look.plain(((f" {self._prompt}", "strong"),))])

    def _typed(self) -> str:
        return self.query_one("#phrase", Input).value if self._prompt else ""

    def on_input_changed(self) -> None:
        for name, _ in self._buttons:
            self.query_one(f"#{name}", Button).disabled = not self._accepts(self._typed())

    def on_input_submitted(self) -> None:
        """Enter is enough where there is one thing to choose."""
        if len(self._buttons) == 1 and self._accepts(self._typed()):
            self.chosen(self._buttons[0][0])

    def chosen(self, button: str) -> None:
        self.dismiss((button, self._typed()))
