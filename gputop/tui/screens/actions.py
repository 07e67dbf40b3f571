"""View 9: plans under way, live, and what was done before."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType

from gputop.actions.desk import Desk, Work, history
from gputop.actions.guards import phrase_for
from gputop.actions.journal import Story, in_progress, unfinished
from gputop.actions.lease import leases
from gputop.domain.problem import Problem
from gputop.tui.actions_page import Ledger, actions_lines
from gputop.tui.bindings import bindings
from gputop.tui.commands import Scope
from gputop.tui.dialogs.ask import AskDialog
from gputop.tui.draw import Spans, remote, spread
from gputop.tui.look import Look
from gputop.tui.plan_page import plan_title, work_lines
from gputop.tui.screens.page import PageScreen

READ_SECONDS = 2.0
"""How often journals, leases and the audit log are looked at."""

RECORDS = 200
"""Of the audit log are shown."""


class ActionsScreen(PageScreen):
    """A list of plans with a cursor; the one it is on shows its hosts and steps, those under way always do."""

    scope = Scope.ACTIONS
    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.ACTIONS)

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self._cursor: Work | str | None = None
        """A work, or the id of an unfinished plan."""
        self._line = 0
        self._under_way = 0

    def on_mount(self) -> None:
        self.set_interval(READ_SECONDS, self._read_again)
        self._read()
        super().on_mount()

    def _read_again(self) -> None:
        self._read()
        self._draw_if_here()

    def _read(self) -> None:
        desk = self.gputop.desk
        if desk is None:
            return
        self._under_way = len(desk.running)
        folder = desk.state_folder
        own = {work.plan.id for work in desk.running}
        self.ledger = Ledger(
            works=desk.works,
            elsewhere=[story for story in in_progress(folder) if story.plan.id not in own],
            unfinished=[story for story in unfinished(folder) if story.plan.id not in own],
            leases=leases(folder),
            history=history(desk.audit_path, RECORDS),
        )

    def _place(self) -> int:
        """Of the cursor among the items."""
        for number, item in enumerate(self.ledger.items):
            if item is self._cursor or (isinstance(item, Story) and item.plan.id == self._cursor):
                return number
        return 0

    def _go(self, number: int) -> None:
        items = self.ledger.items
        if items:
            item = items[min(max(0, number), len(items) - 1)]
            self._cursor = item if isinstance(item, Work) else item.plan.id
            self.draw()
            self.page.scroll_to(y=max(0, self._line - self.page.size.height // 3), animate=False)

    def head(self, look: Look, width: int) -> Spans:
        mode = self.gputop.head().mode
        return spread(((" gputop ", "title"), ("  9 Actions", "dim")), (mode, (" ", "text")), width)

    def body(self, look: Look, width: int) -> list[Spans]:
        if self.gputop.desk is None:
            return [((" ", "text"),), (("  There is nothing to act on here.", "dim"),)]
        if len(self.gputop.desk.running) != self._under_way:
            self._read()
        lines, self._line = actions_lines(self.ledger, self._place(), look, width)
        return lines

    def do_move_down(self) -> None:
        if self._place() + 1 < len(self.ledger.items):
            self._go(self._place() + 1)
        else:
            super().do_move_down()

    def do_move_up(self) -> None:
        if self._place() > 0 and self.page.scroll_offset.y <= self._line:
            self._go(self._place() - 1)
        else:
            super().do_move_up()

    def do_plan_open(self) -> None:
        """What can be done with the plan under the cursor."""
        items = self.ledger.items
        desk = self.gputop.desk
        if not items or desk is None:
            return
        item = items[self._place()]
        if isinstance(item, Story):
            self.run_worker(self._finish(desk, item))
        elif not item.is_over:
            self.run_worker(self._leave(desk, item))

    async def _leave(self, desk: Desk, work: Work) -> None:
        text: list[Spans] = [
            ((" Nothing more of it is begun, and its hosts stay as they are now. It is unfinished then,", "text"),),
            ((" and can be resumed or rolled back here.", "text"),),
        ]
        dialog = AskDialog(f"Let go of: {plan_title(work.plan)}", text, [("leave", "Let go")])
        if await self.gputop.push_screen_wait(dialog) is not None:
            desk.leave(work)

    async def _finish(self, desk: Desk, story: Story) -> None:
        plan = story.plan
        phrase = phrase_for(plan)
        lines = work_lines(Work(plan, results=dict(story.ended)), self.size.width)
        text = [*lines, ((" Resume: go on; what was called for certain is not called again.", "dim"),),
                ((" Roll back: undo what it did, last step first.   Forget: leave all as it is.", "dim"),)]  # fmt: skip
        answer = await self.gputop.push_screen_wait(
            AskDialog(
                f"Unfinished: {plan_title(plan)}",
                text,
                [("resume", "Resume"), ("back", "Roll back"), ("forget", "Forget")],
                prompt=f"Type {remote(phrase)}",
                accepts=lambda typed: typed.strip() == phrase,
            )
        )
        match answer:
            case ("forget", _):
                problem = desk.forget(story)
                self.gputop.say(problem or "forgotten; its hosts stay as they are")
            case ("resume" | "back" as way, _):
                done = await desk.go_on(story, back=way == "back")
                if isinstance(done, Problem):
                    done = f"{done.summary}: nothing was done"
                if not isinstance(done, Work):
                    self.gputop.say("refused: gputop is read-only" if not isinstance(done, str) else done)
        self._read_again()
