"""A passphrase, a password, a code: something to type that a host needs, and that is kept nowhere."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Button, Input

from gputop.domain.question import Declined
from gputop.tui.dialogs.asked import AskedDialog
from gputop.tui.dialogs.base import Entry, text_page
from gputop.tui.draw import Spans, remote
from gputop.tui.question_page import login_lines, passphrase_lines, prompt_label
from gputop.tui.questions import AskedLogin, AskedPassphrase
from gputop.tui.widgets.painted import Lines, Page

LABEL_CELLS = 34
LOOK_SECONDS = 0.1
"""How often it looks what became of an answer."""


class AnswerDialog(AskedDialog):
    """One line to type into for each thing asked. It stays until what was typed has been taken or refused, so that keys
    typed ahead do nothing elsewhere."""

    cancel: ClassVar[str] = "Skip"
    send: ClassVar[str] = "Send"

    def __init__(self) -> None:
        super().__init__()
        self._is_sent = False
        self._has_ended = False
        """It was withdrawn before it was answered."""

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """It waits for an answer."""

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """It is known what became of the answer."""

    @abstractmethod
    def entries(self) -> list[bool]:
        """For each thing asked, whether what is typed may be seen."""

    @abstractmethod
    def labels(self, width: int) -> list[Spans]:
        """What stands before each line to type into."""

    @abstractmethod
    def text(self, width: int, label_width: int) -> list[Spans]: ...

    @abstractmethod
    def heading(self) -> tuple[str, str]:
        """The first line, and a note at its end."""

    @abstractmethod
    def ended(self) -> str:
        """Why no answer is wanted any more."""

    @abstractmethod
    def give(self, typed: list[str]) -> None:
        """Answer."""

    @abstractmethod
    def decline(self, button: str) -> None:
        """Answer nothing."""

    def others(self) -> int:
        """Who could be declined along with it."""
        return 0

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Lines(id="dialog-title", ground="head")
            yield text_page()
            yield Lines(id="dialog-said", ground="head")
            with VerticalScroll(id="entries", can_focus=False):
                for number, is_shown in enumerate(self.entries()):
                    with Horizontal(classes="asks"):
                        yield Lines(id=f"label-{number}", ground="head")
                        yield Entry(id=f"entry-{number}", password=not is_shown)
            with Horizontal(id="dialog-buttons"):
                yield Button(self.cancel, id="cancel", compact=True)
                yield Button("Skip all", id="every", compact=True)
                yield Button(self.send, id="send", compact=True)

    def begin(self) -> None:
        self.count_from_now(self.GRACE_SECONDS)
        self.query_one("#entry-0", Entry).focus()
        self.set_interval(LOOK_SECONDS, self._look)
        self.draw()

    def on_unmount(self) -> None:
        self._clear()

    def draw(self) -> None:
        if not self.is_mounted or not self.size:
            return
        self._judge()
        look, width = self.gputop.look, self.room
        label_width = min(LABEL_CELLS, width // 2)
        for number, label in enumerate(self.labels(label_width)):
            found = self.query_one(f"#label-{number}", Lines)
            found.styles.width = label_width
            found.show([look.plain(label)])
        said: Spans = ()
        if self._has_ended:
            said = ((f" ✕ {self.ended()}", "bad"),)
        elif self._is_sent:
            said = ((" … sent, waiting", "dim"),)
        self.query_one("#dialog-said", Lines).show([look.plain(said)])
        self.query_one("#dialog-said").display = bool(said)
        entries = len(self.entries())
        frame = 4 + bool(said)
        shown = 0 if self._has_ended else min(entries, max(1, (self.size.height - frame) // 2))
        self.query_one("#entries").styles.height = shown
        self.query_one("#entries").display = bool(shown)
        lines = self.text(width, label_width)
        page = self.query_one("#dialog-text", Page)
        page.styles.height = min(len(lines), max(1, self.size.height - frame - shown))
        page.show([look.plain(line) for line in lines])
        self.show_title(*self.heading())

    def _judge(self) -> None:
        """What can be done now."""
        if not self.is_open and not self._is_sent and not self._has_ended:
            self._has_ended = True
            self._clear()
            self.label("cancel", "Close")
            self.rest_on_cancel()
        is_asking = not self._is_sent and not self._has_ended
        for entry in self.query(Entry):
            entry.disabled = not is_asking
        for name, is_offered in (("every", self.others() > 0), ("send", True)):
            button = self.query_one(f"#{name}", Button)
            button.display = is_offered and not self._has_ended
            button.disabled = not is_asking

    def _look(self) -> None:
        """Go on once it is known what became of an answer."""
        if self._is_sent and (self.is_over or type(self.gputop.next_question()) is type(self)):
            self._is_sent = False  # once
            self.gputop.go_on_from(self)

    def _clear(self) -> None:
        for entry in self.query(Entry):
            entry.value = ""

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter goes on to the next line, and from the last one sends."""
        entries = list(self.query(Entry))
        if event.input is entries[-1]:
            self.chosen("send")
        else:
            self.focus_next()

    def action_cancel(self) -> None:
        if not self._is_sent and not self._has_ended:
            self.decline("cancel")
        self.leave()

    def chosen(self, button: str) -> None:
        if self._is_sent or self._has_ended:
            return
        if button == "every":
            self.decline(button)
            self.leave()
            return
        typed = [entry.value for entry in self.query(Entry)]
        self._is_sent = True
        self._clear()
        self.set_focus(None)  # Enter typed ahead presses nothing
        self.label("cancel", "Close")
        self.give(typed)
        self.draw()


class PassphraseDialog(AnswerDialog):
    """Of one key file, for all hosts that take it."""

    cancel = "Go on without it"
    send = "Unlock"

    def __init__(self, asked: AskedPassphrase) -> None:
        super().__init__()
        self.asked = asked

    @property
    def is_open(self) -> bool:
        return self.asked.is_open

    @property
    def is_over(self) -> bool:
        return self.asked.question.is_over()

    def entries(self) -> list[bool]:
        return [False]

    def labels(self, width: int) -> list[Spans]:
        return [((" Passphrase", "strong"),)]

    def text(self, width: int, label_width: int) -> list[Spans]:
        return passphrase_lines(self.asked.question, width)

    def heading(self) -> tuple[str, str]:
        return "Passphrase", ""

    def ended(self) -> str:
        return "no host waits for it now"

    def give(self, typed: list[str]) -> None:
        self.asked.answer(typed[0])

    def decline(self, button: str) -> None:
        self.asked.answer(None)


class LoginDialog(AnswerDialog):
    """What a server asks, in its own words."""

    def __init__(self, asked: AskedLogin) -> None:
        super().__init__()
        self.asked = asked

    @property
    def is_open(self) -> bool:
        return self.asked.is_open

    @property
    def is_over(self) -> bool:
        return self.asked.question.is_over()

    def entries(self) -> list[bool]:
        return [prompt.is_shown for prompt in self.asked.question.prompts]

    def labels(self, width: int) -> list[Spans]:
        question = self.asked.question
        return [prompt_label(prompt, question, width) for prompt in question.prompts]

    def text(self, width: int, label_width: int) -> list[Spans]:
        return login_lines(self.asked.question, width, label_width)

    def heading(self) -> tuple[str, str]:
        waiting = self.others()
        return f"Login to {remote(self.asked.question.host)}", f"{waiting} more to come" if waiting else ""

    def ended(self) -> str:
        return "it has ended; nothing was sent"

    def others(self) -> int:
        return self.asked.question.others() if self.asked.is_open else 0

    def give(self, typed: list[str]) -> None:
        self.asked.answer(typed)

    def decline(self, button: str) -> None:
        self.asked.answer(Declined.ALL if button == "every" else Declined.THIS)
