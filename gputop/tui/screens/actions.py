"""View 9: plans under way, live, what is drained, and what was done before; and everything about one of the plans."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType

from gputop.actions.desk import Desk, Work
from gputop.actions.guards import phrase_for
from gputop.actions.journal import Story
from gputop.catalog.text import clean
from gputop.domain.problem import Problem
from gputop.domain.record import AuditRecord
from gputop.tui.actions_page import Item, Ledger, actions_lines, hosts_of, key_of
from gputop.tui.bindings import bindings
from gputop.tui.commands import Scope
from gputop.tui.dialogs.ask import AskDialog
from gputop.tui.draw import Spans, remote, spread
from gputop.tui.look import Look
from gputop.tui.plan_page import plan_title
from gputop.tui.screens.page import PageScreen
from gputop.tui.work_page import as_work, whole_lines

READ_SECONDS = 2.0
"""How often the books are read while the view is open."""


class ActionsScreen(PageScreen):
    """A list with a cursor: plans, drained hosts, records. Plans under way always show their hosts and steps."""

    scope = Scope.ACTIONS
    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.ACTIONS)

    def __init__(self) -> None:
        super().__init__()
        self._cursor: tuple[str, ...] | None = None
        self._line = 0

    def on_mount(self) -> None:
        self.set_interval(READ_SECONDS, self.read_again)
        self.read_again()
        super().on_mount()

    def read_again(self) -> None:
        if self.gputop.desk is not None:
            self.gputop.desk.read_books()
        self._draw_if_here()

    @property
    def ledger(self) -> Ledger:
        desk = self.gputop.desk
        if desk is None:
            return Ledger()
        page, own = desk.page, {work.plan.id for work in desk.running}
        return Ledger(
            works=desk.works,
            elsewhere=[story for story in page.under_way if story.plan.id not in own],
            unfinished=[story for story in page.unfinished if story.plan.id not in own],
            admissions=list(desk.admissions().values()),
            history=page.history,
        )

    def _place(self, items: list[Item]) -> int:
        """Of the cursor among the items."""
        return next((number for number, item in enumerate(items) if key_of(item) == self._cursor), 0)

    def _here(self) -> Item | None:
        items = self.ledger.items
        return items[self._place(items)] if items else None

    def targets(self) -> tuple[str, ...]:
        known = {host.name for host in self.gputop.fleet}
        return tuple(name for name in hosts_of(self._here()) if name in known)

    def _go(self, number: int) -> None:
        items = self.ledger.items
        if items:
            self._cursor = key_of(items[min(max(0, number), len(items) - 1)])
            self.draw()
            self.page.scroll_to(y=max(0, self._line - self.page.size.height // 3), animate=False)

    def head(self, look: Look, width: int) -> Spans:
        mode = self.gputop.head().mode
        return spread(((" gputop ", "title"), ("  9 Actions", "dim")), (mode, (" ", "text")), width)

    def body(self, look: Look, width: int) -> list[Spans]:
        if self.gputop.desk is None:
            return [((" ", "text"),), (("  There is nothing to act on here.", "dim"),)]
        ledger = self.ledger
        if self._cursor is None and ledger.items:
            self._cursor = key_of(ledger.items[0])  # it stays on its plan when that is over and goes elsewhere
        lines, self._line = actions_lines(ledger, self._place(ledger.items), look, width)
        return lines

    def do_move_down(self) -> None:
        items = self.ledger.items
        place = self._place(items)
        if place + 1 < len(items):
            self._go(place + 1)
        else:
            super().do_move_down()

    def do_move_up(self) -> None:
        place = self._place(self.ledger.items)
        if place > 0 and self.page.scroll_offset.y <= self._line:
            self._go(place - 1)
        else:
            super().do_move_up()

    def do_move_top(self) -> None:
        self._go(0)

    def do_move_bottom(self) -> None:
        self._go(len(self.ledger.items) - 1)

    def do_plan_open(self) -> None:
        """Everything about what the cursor is on."""
        item, desk = self._here(), self.gputop.desk
        match item:
            case Work() | Story():
                self.gputop.push_screen(PlanScreen(item.plan.id))
            case AuditRecord() if desk is not None and desk.story(item.plan) is not None:
                self.gputop.push_screen(PlanScreen(item.plan))
            case AuditRecord():
                self.gputop.say("nothing more is known of it: it was refused, or its journal is gone")
            case _ if item is not None:
                self.gputop.go(f"host:{hosts_of(item)[0]}")


class PlanScreen(PageScreen):
    """Everything about one plan, live while it is carried out; and what can be done about it."""

    scope = Scope.ACTIONS
    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.ACTIONS)

    def __init__(self, plan_id: str) -> None:
        super().__init__()
        self._plan_id = plan_id

    def on_mount(self) -> None:
        self.set_interval(READ_SECONDS, self._draw_if_here)
        super().on_mount()

    def _found(self) -> tuple[Work | Story | None, bool]:
        """The plan, and whether somebody carries it out now."""
        desk = self.gputop.desk
        if desk is None:
            return None, False
        own = next((work for work in reversed(desk.works) if work.plan.id == self._plan_id), None)
        if own is not None and not own.is_over:
            return own, True
        story = desk.story(self._plan_id)
        if story is None:
            return own, False
        return story, any(other.plan.id == self._plan_id for other in desk.page.under_way)

    def targets(self) -> tuple[str, ...]:
        known = {host.name for host in self.gputop.fleet}
        return tuple(name for name in hosts_of(self._found()[0]) if name in known)

    def head(self, look: Look, width: int) -> Spans:
        found, _ = self._found()
        title = plan_title(found.plan) if found is not None else self._plan_id
        return spread(((f" {title} ", "title"),), (self.gputop.head().mode, (" ", "text")), width)

    def body(self, look: Look, width: int) -> list[Spans]:
        found, is_alive = self._found()
        if found is None:
            return [(("  Its journal is gone.", "dim"),)]
        work = found if isinstance(found, Work) else as_work(found, is_alive=is_alive)
        return whole_lines(work, look, width, is_alive=is_alive, deeds=self._deeds())

    def _deeds(self) -> str:
        """What Enter offers; empty: nothing."""
        desk, (found, is_alive) = self.gputop.desk, self._found()
        if desk is None or found is None:
            return ""
        if isinstance(found, Work):
            return "let go of it" if is_alive else ""
        if is_alive:
            return ""
        if found.closed is None:
            return "go on with it, roll it back, or forget it"
        return "undo it: the power limits before it come back" if desk.can_undo(found) else ""

    def do_plan_open(self) -> None:
        desk, (found, _) = self.gputop.desk, self._found()
        if desk is None or not self._deeds():
            self.gputop.say("nothing is left to be done about it")
        elif isinstance(found, Work):
            self.gputop.run_worker(self._leave(desk, found))
        elif isinstance(found, Story) and found.closed is None:
            self.gputop.run_worker(self._finish(desk, found))
        elif isinstance(found, Story):
            self.gputop.run_worker(self._undo(desk, found))

    async def _leave(self, desk: Desk, work: Work) -> None:
        text: list[Spans] = [
            ((" Nothing more of it is begun, and its hosts stay as they are now. It is unfinished then,", "text"),),
            ((" and can be resumed or rolled back here.", "text"),),
        ]
        dialog = AskDialog(f"Let go of: {plan_title(work.plan)}", text, [("leave", "Let go")])
        if await self.gputop.push_screen_wait(dialog) is not None:
            desk.leave(work)

    async def _finish(self, desk: Desk, story: Story) -> None:
        text: list[Spans] = [
            ((" Resume: go on; what was called for certain is not called again.", "text"),),
            ((" Roll back: undo what it did, last step first.", "text"),),
            ((" Forget: leave all as it is, and close the plan.", "text"),),
        ]
        buttons = [("resume", "Resume"), ("back", "Roll back"), ("forget", "Forget")]
        match await self._confirmed(f"Unfinished: {plan_title(story.plan)}", text, buttons, story):
            case "forget":
                problem = desk.forget(story)
                self.gputop.say(problem or "forgotten; its hosts stay as they are")
            case "resume" | "back" as way:
                self._say_refusal(await desk.go_on(story, back=way == "back"))
        desk.read_books()

    async def _undo(self, desk: Desk, story: Story) -> None:
        undone = [step.undo for host in story.plan.hosts for step in host.steps if step.undo is not None]
        text: list[Spans] = [((f" {clean(step.title)}: {clean(step.command)}", "text"),) for step in undone]
        if await self._confirmed(f"Undo: {plan_title(story.plan)}", text, [("back", "Undo")], story) is not None:
            self._say_refusal(await desk.go_on(story, back=True))
        desk.read_books()

    async def _confirmed(
        self, title: str, text: list[Spans], buttons: list[tuple[str, str]], story: Story
    ) -> str | None:
        """The button that was pressed, by somebody who typed the phrase of the plan."""
        phrase = phrase_for(story.plan)
        dialog = AskDialog(
            title, text, buttons, prompt=f"Type {remote(phrase)}", accepts=lambda typed: typed.strip() == phrase
        )
        answer = await self.gputop.push_screen_wait(dialog)
        return answer[0] if answer is not None else None

    def _say_refusal(self, done: object) -> None:
        match done:
            case Work():
                return
            case Problem():
                self.gputop.say(f"{done.summary}: nothing was done")
            case str():
                self.gputop.say(done)
            case _:
                self.gputop.say(f"refused: {self.gputop.why_locked or 'read-only'}")
