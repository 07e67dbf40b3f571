"""Questions of hosts that are connected to: shown when that disturbs nothing else."""

from __future__ import annotations

from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input

from gputop.tui.bundling import Bundles
from gputop.tui.dialogs.answer import AnswerDialog, LoginDialog, PassphraseDialog
from gputop.tui.dialogs.asked import AskedDialog
from gputop.tui.dialogs.base import Dialog
from gputop.tui.dialogs.hostkeys import HostKeysDialog
from gputop.tui.questions import Questions
from gputop.tui.screens.base import CommandScreen

QUIET_SECONDS = 0.7
"""A dialog opens by itself once no key was pressed for so long: nobody's keys are to end up in it."""


class Answering(Bundles):
    """The app, as far as it asks."""

    questions: Questions | None = None
    """`None`: nothing is ever asked here."""
    quiet_seconds: float = QUIET_SECONDS
    _touched_at: float = 0.0
    _look_later: Timer | None = None

    def take_questions(self, questions: Questions | None) -> None:
        """Ask what is in `questions` from now on."""
        self.questions = questions
        if questions is not None:
            questions.changed = self._look_soon

    def _look_soon(self) -> None:
        """Called from tasks that are not the screen's."""
        self.call_later(self.look_at_questions)

    def touch(self) -> None:
        super().touch()
        self._touched_at = Message().time

    @property
    def waiting_words(self) -> str:
        """How many questions wait for an answer; empty when none does, or one is being asked."""
        count = self.questions.count if self.questions is not None else 0
        if not count or isinstance(self.screen, AskedDialog):
            return ""
        return "1 login waits for an answer" if count == 1 else f"{count} logins wait for an answer"

    def look_at_questions(self) -> None:
        """Ask what is to be asked, unless the person is at something else: then once that is done."""
        screen = self.screen
        if isinstance(screen, AskedDialog):
            screen.draw_soon()
            return
        dialog = self.next_question()
        if dialog is None or not self._is_idle():
            return
        quiet = Message().time - self._touched_at
        if quiet >= self.quiet_seconds:
            self.push_screen(dialog)
        elif self._look_later is None:
            self._look_later = self.set_timer(self.quiet_seconds - quiet, self._look_once_more)

    def _look_once_more(self) -> None:
        self._look_later = None
        self.look_at_questions()

    def _is_idle(self) -> bool:
        """What is in front is not being typed into and awaits no letter."""
        screen = self.screen
        if isinstance(screen, Dialog):
            return screen.only_waits
        return isinstance(screen, CommandScreen) and not screen.awaits_text and not isinstance(screen.focused, Input)

    def next_question(self) -> AskedDialog | None:
        """The dialog for what is to be asked first; `None`: nothing is."""
        questions = self.questions
        if questions is None:
            return None
        if any(asked.is_open for asked in questions.keys):
            return HostKeysDialog(questions)
        for passphrase in questions.passphrases:
            if passphrase.is_open:
                return PassphraseDialog(passphrase)
        for login in questions.logins:
            if login.is_open:
                return LoginDialog(login)
        return None

    def go_on_from(self, dialog: AnswerDialog) -> None:
        """Its answer has been taken or refused: the next question takes its place."""
        following = self.next_question()
        if following is None:
            dialog.leave()
        else:
            self.switch_screen(following)
