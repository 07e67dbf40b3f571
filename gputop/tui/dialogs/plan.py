"""The dialog that every act goes through: what will be done, what is lost, what speaks against it, and a phrase to type
for whoever still wants it."""

from __future__ import annotations

from msgspec import structs
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Input

from gputop.actions.acts import Expired, NotConfirmed, Proposal
from gputop.actions.desk import Work
from gputop.actions.guards import is_confirmed
from gputop.actions.words import one_line
from gputop.domain.action import MOST_CHARACTERS, ActionKind, ActionRequest, Allow, Confirm, Deny
from gputop.domain.problem import Problem
from gputop.tui.dialogs.base import Dialog, Entry, text_page
from gputop.tui.draw import Spans, remote
from gputop.tui.plan_page import many, plan_lines, plan_title, verb
from gputop.tui.widgets.painted import Lines, Page

EDGE = 4
"""Cells that the frame and its padding take."""


MAY_OVERRIDE = frozenset(
    {ActionKind.RESUME, ActionKind.STOP, ActionKind.HIBERNATE, ActionKind.REBOOT, ActionKind.RESET}
)
"""Acts with checks that a person may set aside: fitness for work, being drained, a host or a device that is silent."""

CHANGED: Spans = ((" ▲ things have changed meanwhile: this is the plan now", "warn"),)


def _facts(proposal: Proposal) -> list[str]:
    return [host.evidence for host in proposal.plan.hosts]


class PlanDialog(Dialog[Work]):
    """Makes the plan of `request` through the gate, shows it, and hands it back to the gate when it was confirmed."""

    def __init__(self, request: ActionRequest) -> None:
        super().__init__()
        self.request = request
        self.proposal: Proposal | None = None
        self.said: Spans = ()
        """What happened last: why it was not begun."""
        self._is_handed_on = False
        """The plan is with the gate: no other takes its place."""

    @property
    def only_waits(self) -> bool:
        return self._is_handed_on or (self.proposal is None and not self.said)

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Lines(id="dialog-title", ground="head")
            yield text_page()
            yield Lines(id="dialog-said", ground="head")
            with Horizontal(id="reason-line", classes="asks"):
                yield Lines(id="reason-label", ground="head")
                hint = "why; for the audit log and the scheduler"
                yield Entry(id="reason", placeholder=hint, max_length=MOST_CHARACTERS)
            with Horizontal(id="override-line", classes="asks"):
                yield Lines(id="override-label", ground="head")
                hint = "why checks that say no are set aside; empty: they count"
                yield Entry(id="override", placeholder=hint, max_length=MOST_CHARACTERS)
            with Horizontal(id="phrase-line", classes="asks"):
                yield Lines(id="phrase-label", ground="head")
                yield Entry(id="phrase")
            with Horizontal(id="dialog-buttons"):
                yield Button("Cancel", id="cancel", compact=True)
                yield Button("Agree to these losses", id="agree", compact=True)
                yield Button(verb(self.request.kind).split()[0], id="go", compact=True, disabled=True)

    def on_mount(self) -> None:
        super().on_mount()
        self._look()

    def on_resize(self) -> None:
        self._draw()

    def _look(self) -> None:
        self.proposal = None
        self._draw()
        self.run_worker(self._propose(), exclusive=True, group="plan")

    async def _propose(self) -> None:
        """Make the plan. One that rests on the same facts as before takes its place without more ado."""
        desk = self.gputop.desk
        assert desk is not None
        before = self.proposal
        found = await desk.propose(self.request)
        if self._is_handed_on:
            return
        if isinstance(found, Problem):
            self.said = ((f" ✕ {remote(found.summary)}", "bad"),)
            self._draw()
        elif before is not None and _facts(before) == _facts(found):
            self.proposal = found
            self._draw()
        else:
            if before is not None:
                self.said = CHANGED
            self._show(found)

    def on_descendant_blur(self) -> None:
        """What was typed stands in what will be run, or decides what counts, so the plan must show it."""
        reason, override = self._value("reason"), self._value("override")
        if (reason, override) != (self.request.reason, self.request.override):
            self._ask_again(structs.replace(self.request, reason=reason, override=override))

    def _ask_again(self, request: ActionRequest) -> None:
        if self.proposal is not None and not self._is_handed_on:
            self.request = request
            self.run_worker(self._propose(), exclusive=True, group="plan")

    def _value(self, entry: str) -> str:
        return one_line(self.query_one(f"#{entry}", Input).value)

    def _consents(self) -> frozenset[str]:
        """What a person may agree to, so that it stands in the way no more."""
        hosts = self.proposal.plan.hosts if self.proposal is not None else ()
        return frozenset(block.consent for host in hosts for block in host.blocks if block.consent is not None)

    def _show(self, proposal: Proposal) -> None:
        self.proposal = proposal
        self.query_one("#phrase", Input).value = ""
        if proposal.plan.request.reason:
            self.query_one("#reason", Input).value = proposal.plan.request.reason
        self._draw()
        self.rest_on_cancel()

    def _draw(self) -> None:
        if not self.is_mounted:
            return
        look, width = self.gputop.look, self.size.width - EDGE - 2 * (self.size.width > 100)
        proposal = self.proposal
        note = "simulated: nothing real is touched" if self.gputop.is_simulated else ""
        page = self.query_one("#dialog-text", Page)
        if proposal is None:
            hosts = self.request.hosts
            self.show_title(f"{verb(self.request.kind)} {many(len(hosts), 'host')}", note)
            lines: list[Spans] = [] if self.said else [((f" looking at {many(len(hosts), 'host')} …", "dim"),)]
            page.styles.height = 1
        else:
            self.show_title(plan_title(proposal.plan), note)
            lines = plan_lines(proposal.plan, proposal.verdict, look, width)
            page.styles.height = min(len(lines), max(3, self.size.height - 10))
        page.show([look.plain(line) for line in lines])
        self.query_one("#dialog-said", Lines).show([look.plain(self.said)])
        self.query_one("#dialog-said").display = bool(self.said)
        verdict = proposal.verdict if proposal is not None else None
        can = isinstance(verdict, Allow | Confirm)
        asks = isinstance(verdict, Confirm)
        self.query_one("#reason-line").display = asks
        self.query_one("#override-line").display = proposal is not None and self.request.kind in MAY_OVERRIDE
        self.query_one("#agree").display = bool(self._consents())
        self.query_one("#phrase-line").display = asks
        self.query_one("#go").display = can
        self.query_one("#override-label", Lines).show([((" Set aside", "strong"), (" (may be given)", "dim"))])
        if isinstance(verdict, Confirm):
            must = "must" if verdict.reason_required else "may"
            what = "the name of the host" if len(self.request.hosts) == 1 else "the number of hosts"
            self.query_one("#reason-label", Lines).show([((" Reason", "strong"), (f" ({must} be given)", "dim"))])
            typed: Spans = ((" To confirm, type ", "strong"), (verdict.phrase, "accent"))
            self.query_one("#phrase-label", Lines).show([look.plain(typed)])
            self.query_one("#phrase", Input).placeholder = what
        self._judge()

    def _judge(self) -> None:
        proposal = self.proposal
        typed, reason = self._value("phrase"), self._value("reason")
        is_ready = (
            proposal is not None
            and is_confirmed(proposal.verdict, typed, reason)
            and proposal.plan.request.override == self._value("override")  # else the plan that is shown is not this one
        )
        self.query_one("#go", Button).disabled = not is_ready or self._is_handed_on

    def on_input_changed(self) -> None:
        self._judge()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter goes on: from the reason to the phrase, from the phrase to the deed when both are right."""
        if event.input.id != "phrase":
            self.screen.focus_next()
        elif not self.query_one("#go", Button).disabled:
            self.chosen("go")

    def chosen(self, button: str) -> None:
        if button == "agree":
            self._ask_again(structs.replace(self.request, consents=self.request.consents | self._consents()))
        elif self.proposal is not None and not self._is_handed_on:
            self._is_handed_on = True
            self.query_one("#go", Button).disabled = True
            self.run_worker(self._carry_out(self.proposal), group="deed")

    async def _carry_out(self, proposal: Proposal) -> None:
        desk = self.gputop.desk
        assert desk is not None
        typed, reason = self._value("phrase"), self._value("reason")
        done = await desk.begin(proposal, typed=typed, reason=reason)
        self._is_handed_on = False
        match done:
            case Work():
                self.dismiss(done)
                return
            case Expired():
                self.said = CHANGED
                self._show(done.proposal)
                return
            case Deny():
                text = "; ".join(remote(refusal.summary) for refusal in done.refusals)
            case NotConfirmed():
                text = "what was typed is not what was asked for"
            case Problem():
                text = remote(done.summary)
            case _:
                text = remote(str(done))
        self.said = ((f" ✕ {text}; nothing was done", "bad"),)
        self._draw()
        self.rest_on_cancel()
