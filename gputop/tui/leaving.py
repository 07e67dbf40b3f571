"""Leaving gputop while plans are not finished: asked before, told after, and told again by the next one."""

from __future__ import annotations

from gputop.actions.desk import Desk
from gputop.actions.journal import Story
from gputop.catalog.text import clean, counted
from gputop.tui.answering import Answering
from gputop.tui.dialogs.ask import AskDialog
from gputop.tui.draw import Spans
from gputop.tui.screens.actions import ActionsScreen

NAMES_TOLD = 3
"""Hosts of a plan that a line names."""


class QuitDialog(AskDialog):
    """Asks whether to leave although acts are under way."""


class Leaving(Answering):
    """The app, as far as plans outlive it."""

    def __init__(self, view: str) -> None:
        super().__init__(view)
        self._seen_unfinished: set[str] = set()
        """Plans that stood in the view of actions."""

    def leave_now(self) -> None:
        """Leave without a question."""
        self.end_soon(0)
        self.exit(0)

    def do_quit_now(self) -> None:
        """From anywhere, as `q` does in the first view. Who presses it again while it is asked means it."""
        if isinstance(self.screen, QuitDialog):
            self.leave_now()
        else:
            self.may_quit()

    def may_quit(self) -> None:
        """Leave at once, or, while an act is under way, when a person agrees."""
        running = self.desk.running if self.desk is not None else []
        if not running:
            self.leave_now()
            return
        text: list[Spans] = [
            ((f" {counted(len(running), 'act')} under way. Nothing more of it is begun once you quit;", "text"),),
            ((f" {self._after_quitting()}", "text"),),
        ]

        async def ask() -> None:
            if await self.push_screen_wait(QuitDialog("Quit", text, [("quit", "Quit")])) is not None:
                self.leave_now()

        self.run_worker(ask())

    def _after_quitting(self) -> str:
        if self.is_simulated:
            return "the next demo knows nothing of it: its acts are simulated."
        return "view 9 of the next gputop can resume it or roll it back."

    @property
    def unfinished_count(self) -> int:
        """Plans that nobody carries out and nobody closed, until the view of actions was open with them."""
        desk = self.desk
        if desk is None:
            return 0
        own = {work.plan.id for work in desk.running}
        found = {story.plan.id for story in desk.page.unfinished} - own
        if any(isinstance(screen, ActionsScreen) for screen in self.screen_stack):
            self._seen_unfinished |= found
        return len(found - self._seen_unfinished)

    def last_words(self) -> tuple[str, ...]:
        """What the person is told once the screen is gone: which plans it leaves unfinished. Nothing of simulated ones:
        they end with it."""
        desk = self.desk
        return unfinished_lines(desk) if desk is not None and not desk.simulated else ()


def unfinished_lines(desk: Desk) -> tuple[str, ...]:
    """One line for each plan that this gputop began and that its journal does not tell the end of."""
    stories = [desk.story(work.plan.id) for work in desk.works]
    return tuple(_line(story) for story in stories if story is not None and story.closed is None)


def _line(story: Story) -> str:
    plan = story.plan
    names = [clean(host.host) for host in plan.hosts]
    on = names[0] if len(names) == 1 else ", ".join(names[:NAMES_TOLD])
    more = f" and {len(names) - NAMES_TOLD} more" if len(names) > NAMES_TOLD else ""
    return f"{plan.request.kind.value} of {on}{more} is unfinished: gputop actions --resume {plan.id} --allow-actions"
