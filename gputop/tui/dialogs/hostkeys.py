"""The host keys that nobody knows yet, all of them in one table."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Button

from gputop.catalog.text import counted
from gputop.tui.dialogs.asked import AskedDialog
from gputop.tui.dialogs.base import text_page
from gputop.tui.question_page import KeyId, KeyRow, KeyTable, key_rows, key_table
from gputop.tui.questions import Questions
from gputop.tui.widgets.painted import Lines, Page

ADVISES_FROM_LINES = 16
SHORT_BELOW = 60
"""Cells, for the buttons."""


class HostKeysDialog(AskedDialog):
    """Hosts come in while it is open. Only keys that were on the screen, for as long as it takes to see one, can be
    accepted."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", show=False),
        Binding("j", "scroll_text(1)", show=False),
        Binding("k", "scroll_text(-1)", show=False),
    ]

    most_cells = 160

    def __init__(self, questions: Questions) -> None:
        super().__init__()
        self._questions = questions
        self._rows: list[KeyRow] = []
        self._table = KeyTable(lines=[], places={})
        self._cursor: KeyId | None = None
        self._marks: set[KeyId] = set()
        self._seen: dict[KeyId, float] = {}
        """When a key was on the screen for the first time, on the clock of Textual's events."""

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Lines(id="dialog-title", ground="head")
            yield text_page()
            with Horizontal(id="dialog-buttons"):
                yield Button("Not now", id="cancel", compact=True)
                yield Button("Accept marked", id="marked", compact=True, disabled=True)
                yield Button("Accept all", id="all", compact=True, disabled=True)

    def begin(self) -> None:
        self.rest_on_cancel()
        self.count_from_now(self.GRACE_SECONDS)
        self.draw()

    def draw(self) -> None:
        if not self.is_mounted:
            return
        self._rows = key_rows(self._questions.keys)
        if not self._rows:
            self.leave()
            return
        known = [row.id for row in self._rows]
        if self._cursor not in known:
            self._cursor = known[0]
        self._marks &= set(known)
        page, look = self.query_one("#dialog-text", Page), self.gputop.look
        self._table = key_table(
            self._rows, self._cursor, self._marks, self.room, advises=self.size.height >= ADVISES_FROM_LINES
        )
        page.styles.height = min(len(self._table.lines), max(1, self.size.height - 4))
        page.show([look.plain(line) for line in self._table.lines])
        count = len(self._rows)
        self.show_title(f"Accept {counted(count, 'host key')}?")
        self._judge()
        self.call_after_refresh(self._look)

    def _look(self) -> None:
        """Note which keys are on the screen."""
        if not self.is_mounted:
            return
        page, now = self.query_one("#dialog-text", Page), Message().time
        top, height = page.scroll_offset.y, page.size.height
        before = len(self._seen)
        for key, place in self._table.places.items():
            if top <= place.first and place.first + place.lines <= top + height:
                self._seen.setdefault(key, now)
        if len(self._seen) != before:
            self._judge()
            self.set_timer(max(self.GRACE_SECONDS, 0.01), self._judge)

    def _seen_rows(self) -> list[KeyRow]:
        """Those that were on the screen for as long as it takes to see them."""
        until = Message().time - self.GRACE_SECONDS
        return [row for row in self._rows if self._seen.get(row.id, until + 1) <= until]

    def _judge(self) -> None:
        """What the buttons would do now."""
        seen, count, marks = len(self._seen_rows()), len(self._rows), len(self._marks)
        short = self.size.width < SHORT_BELOW
        every = f"all {count}" if seen == count else f"the {seen} seen"
        self.label("all", "Accept it" if count == 1 else every if short else f"Accept {every}")
        self.label("marked", f"{marks} marked" if short else f"Accept {marks} marked")
        self.query_one("#all", Button).disabled = not seen
        marked = self.query_one("#marked", Button)
        marked.disabled = not marks
        marked.display = count > 1

    def action_scroll_text(self, lines: int) -> None:
        """Moves the cursor; where there is nothing to go to, the text."""
        ids = [row.id for row in self._rows]
        if self._cursor not in ids:
            return
        here = ids.index(self._cursor)
        there = min(max(0, here + lines), len(ids) - 1)
        self._cursor = ids[there]
        self.draw()
        page = self.query_one("#dialog-text", Page)
        if there == here:
            page.scroll_relative(y=lines, animate=False)
        else:
            place, top, height = self._table.places[self._cursor], page.scroll_offset.y, page.size.height
            if place.first < top:
                page.scroll_to(y=0 if there == 0 else place.first, animate=False)
            elif place.first + place.lines > top + height:
                page.scroll_to(y=place.first + place.lines - height, animate=False)
        self.call_after_refresh(self.draw_title)
        self.call_after_refresh(self._look)

    def action_mark(self) -> None:
        if self._cursor is not None:
            self._marks ^= {self._cursor}
            self.draw()

    def action_cancel(self) -> None:
        """None of those that are listed; what comes later is asked for again."""
        self._answer(self._rows, accepted=False)

    def chosen(self, button: str) -> None:
        seen = self._seen_rows()
        self._answer([row for row in seen if button == "all" or row.id in self._marks], accepted=True)

    def _answer(self, rows: list[KeyRow], *, accepted: bool) -> None:
        for row in rows:
            for asked in row.asked:
                asked.answer(accepted)
        self._marks -= {row.id for row in rows}
        self.draw()
