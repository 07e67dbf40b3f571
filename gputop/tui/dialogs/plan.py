"""The dialog that every act goes through: what will be done, what is lost, what speaks against it, and a phrase to type
for whoever still wants it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import ClassVar

from msgspec import structs
from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, Vertical
from textual.events import DescendantBlur
from textual.widget import Widget
from textual.widgets import Button, Input
from textual.worker import Worker

from gputop.actions.acts import Expired, NotConfirmed, Proposal
from gputop.actions.desk import Work
from gputop.actions.evidence import changes
from gputop.actions.guards import is_confirmed
from gputop.actions.words import one_line
from gputop.catalog.text import counted
from gputop.configfile import duration
from gputop.domain.action import MOST_CHARACTERS, ActionKind, ActionRequest, Allow, Confirm, Consent, Deny
from gputop.domain.problem import Problem
from gputop.tui.dialogs.base import Dialog, Entry, text_page
from gputop.tui.draw import Spans, remote
from gputop.tui.plan_page import labeled, plan_lines, plan_title, verb
from gputop.tui.widgets.painted import Lines, Page

EDGE = 4
"""Cells that the frame and its padding take."""
MOST_WIDTH = 118
"""Cells of the dialog, as in dialogs.tcss."""
NARROW = 60
"""Below so many cells the buttons that agree to losses stand under each other, and labels are short."""
LEAST_LINES = 2
"""Of a plan must be seen at once for anybody to agree to it."""
MOST_SAID = 4
"""Lines about what happened last."""

MAY_OVERRIDE = frozenset(
    {ActionKind.RESUME, ActionKind.STOP, ActionKind.HIBERNATE, ActionKind.REBOOT, ActionKind.RESET}
)
"""Acts with checks that a person may set aside: fitness for work, being drained, a host or a device that is silent."""
HAS_LEASE = frozenset({ActionKind.DRAIN, ActionKind.CORDON})
"""Acts that are for a time."""
LONGEST_LEASE = timedelta(days=30)

AGREES: Mapping[Consent, tuple[str, str]] = {
    Consent.UNMANAGED_PODS: ("Agree: pods without a controller end", "Lose pods"),
    Consent.EMPTY_DIR_DATA: ("Agree: emptyDir data is lost", "Lose emptyDir data"),
    Consent.NODE_NOT_READY: ("Agree: wait for its kubelet", "Wait for kubelet"),
    Consent.DRAINED_BY_OTHER: ("Agree: undo another's drain", "Undo another's"),
    Consent.POWER_CUT: ("Agree: cut the power", "Cut the power"),
    Consent.MAY_TERMINATE: ("Agree: it may be deleted", "May be deleted"),
}
"""What a person may agree to so that it stands in the way no more: the words of its button, and in a narrow pane."""


class PlanDialog(Dialog[Work]):
    """Makes the plan of `request` through the gate, shows it, and hands it back to the gate when it was confirmed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "next_field", show=False, priority=True),
        Binding("f5", "look_again", show=False),
    ]

    def __init__(self, request: ActionRequest) -> None:
        super().__init__()
        self.request = request
        self.proposal: Proposal | None = None
        self.said: list[Spans] = []
        """What happened last: why it was not begun, what has changed."""
        self._is_handed_on = False
        """The plan is with the gate: no other takes its place."""
        self._wants_deed = False
        """Enter was pressed behind the right phrase while the plan was made again with what was typed before it."""
        self._lease = ""
        """What was typed for how long, as far as `request.until` comes from it."""

    @property
    def only_waits(self) -> bool:
        return self._is_handed_on or (self.proposal is None and not self.said)

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Lines(id="dialog-title", ground="head")
            yield text_page()
            yield Lines(id="dialog-said", ground="head")
            yield from _field("reason", "")
            yield from _field("for", "such as 2h or 30m; empty: until it is resumed")
            yield from _field("phrase", "")
            yield from _field("override", "why checks that say no are set aside; empty: they count")
            with Container(id="dialog-consents"):
                for name, (words, _) in AGREES.items():
                    yield Button(words, id=f"agree-{name}", compact=True)
            with Horizontal(id="dialog-buttons"):
                yield Button("Drain instead", id="drain", compact=True)
                yield Button("Cancel", id="cancel", compact=True)
                yield Button(_deed(self.request), id="go", compact=True, disabled=True)

    def on_mount(self) -> None:
        super().on_mount()
        self._look()
        self.set_interval(1.0, self._draw)

    def on_resize(self) -> None:
        self._draw()

    # --- the plan -------------------------------------------------------------------------------------------

    def _look(self) -> None:
        self.proposal = None
        self._draw()
        self._make_plan()

    def _make_plan(self) -> None:
        """In the background; one that is being made is given up."""
        _: Worker[None] = self.run_worker(self._propose, exclusive=True, group="plan")

    async def _propose(self) -> None:
        """Make the plan. One that asks for no more than the one before takes its place without more ado."""
        desk = self.gputop.desk
        assert desk is not None
        before = self.proposal
        found = await desk.propose(self.request)
        if self._is_handed_on:
            return
        if isinstance(found, Problem):
            self._say("✕", "bad", found.summary)
            self._draw()
            return
        is_own = before is not None and before.plan.request != found.plan.request
        if before is not None and _asks_the_same(before.plan.request, found.plan.request):
            news = changes(before.plan, found.plan)
            if not news and _refusals(before) == _refusals(found):
                self.proposal = found
                self._draw()
                if self._wants_deed and not self.query_one("#go", Button).disabled:
                    self.chosen("go")
                return
            self._say_changes(news)
        else:
            self.said = []
        self._show(found, goes_on=is_own)

    def on_descendant_blur(self, event: DescendantBlur) -> None:
        """What was typed stands in what will be run, or decides what counts, so the plan must show it."""
        wanted = self.request
        match event.widget.id:
            case "reason":
                wanted = structs.replace(wanted, reason=self._value("reason"))
            case "override":
                wanted = structs.replace(wanted, override=self._value("override"))
            case "for" if (typed := self._value("for")) != self._lease and (span := self._span()) is not None:
                self._lease = typed
                wanted = structs.replace(wanted, until=self._now() + span if span else None)
        if wanted != self.request:
            self._ask_again(wanted)

    def _span(self) -> timedelta | None:
        """For how long; none at all where nothing was typed; `None`: what was typed is no such time."""
        typed = self._value("for")
        span = duration(typed) if typed else timedelta()
        return span if span is not None and (not typed or timedelta() < span <= LONGEST_LEASE) else None

    def _ask_again(self, request: ActionRequest) -> None:
        if self.proposal is not None and not self._is_handed_on:
            self.request = request
            self._make_plan()

    def _value(self, entry: str) -> str:
        return one_line(self.query_one(f"#{entry}", Input).value)

    def _consents(self) -> set[str]:
        """What a person may agree to, so that it stands in the way no more."""
        hosts = self.proposal.plan.hosts if self.proposal is not None else ()
        return {block.consent for host in hosts for block in host.blocks if block.consent is not None}

    def _show(self, proposal: Proposal, *, goes_on: bool = False) -> None:
        """`goes_on`: it came by what a person types, who stays in the field."""
        self.proposal = proposal
        self.query_one("#phrase", Input).value = ""
        if proposal.plan.request.reason:
            self.query_one("#reason", Input).value = proposal.plan.request.reason
        self._draw()
        if goes_on and isinstance(self.focused, Entry) and self.query_one(f"#{self.focused.id}-line").display:
            self.count_from_now()
        else:
            self.rest_on_cancel()

    # --- drawing --------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        if not self.is_mounted:
            return
        look, proposal = self.gputop.look, self.proposal
        width = min(self.size.width, MOST_WIDTH) - EDGE
        verdict = proposal.verdict if proposal is not None else None
        asks = isinstance(verdict, Confirm)
        fields = {
            "reason": asks,
            "for": asks and self.request.kind in HAS_LEASE,
            "phrase": asks,
            "override": self._may_override(),
        }
        if proposal is None:
            self.show_title(f"{verb(self.request.kind)} {counted(len(self.request.hosts), 'host')}", self.simulated)
            lines = [] if self.said else [_looking(self.request)]
        else:
            self.show_title(plan_title(proposal.plan), self.simulated)
            seen = (self._now() - proposal.plan.created_at).total_seconds()
            lines = plan_lines(proposal.plan, proposal.verdict, look, width, hints=self._hints(), seen_seconds=seen)
        said = self._warnings()
        buttons = self._draw_consents(width)
        room = self.size.height - EDGE - len(said) - sum(fields.values()) - buttons
        is_tight = asks and room < min(LEAST_LINES, len(lines))
        if is_tight:
            fields = dict.fromkeys(fields, False)
            lines = [((" The pane is too small for this plan: make it higher.", "warn"),), *lines]
            room = self.size.height - EDGE - len(said) - buttons
        page = self.query_one("#dialog-text", Page)
        page.styles.height = max(1, min(len(lines), room))
        page.show([look.plain(line) for line in lines])
        told = self.query_one("#dialog-said", Lines)
        told.styles.height = max(1, len(said))
        told.display = bool(said)
        told.show([look.plain(line) for line in said])
        self._draw_fields(fields, verdict, width)
        self.query_one("#drain").display = self._may_drain_instead()
        self.query_one("#go").display = isinstance(verdict, Allow | Confirm) and not is_tight
        self._judge()

    def _may_override(self) -> bool:
        """Whether there is a check that may be set aside: a resume has its own, others only where one says no."""
        if self.proposal is None or self.request.kind not in MAY_OVERRIDE:
            return False
        is_refused = isinstance(self.proposal.verdict, Deny)
        return self.request.kind is ActionKind.RESUME or is_refused or bool(self.request.override)

    def _draw_fields(self, fields: Mapping[str, bool], verdict: object, width: int) -> None:
        is_narrow = width < NARROW
        labels: dict[str, Spans] = {
            "reason": ((" Reason", "strong"),),
            "for": ((" For", "strong"),),
            "override": ((" Set aside", "strong"),),
            "phrase": ((" To confirm, type " if not is_narrow else " Type ", "strong"),),
        }
        if isinstance(verdict, Confirm):
            labels["phrase"] += ((verdict.phrase, "accent"),)
            must = "must" if verdict.reason_required else "may"
            self.query_one("#reason", Input).placeholder = f"why: {must} be given, is written down"
            what = "the name of the host" if len(self.request.hosts) == 1 else "the number of hosts"
            self.query_one("#phrase", Input).placeholder = what
        room = max(sum(len(text) for text, _ in labels[name]) for name in labels if fields[name] or name == "for") + 2
        for name, is_there in fields.items():
            self.query_one(f"#{name}-line").display = is_there
            label = self.query_one(f"#{name}-label", Lines)
            label.styles.width = min(room, width // 2)
            label.show([self.gputop.look.plain(labels[name])])

    def _draw_consents(self, width: int) -> int:
        """Show the buttons that agree to something; how many lines they take."""
        wanted, is_narrow = self._consents(), width < NARROW
        for name, words in AGREES.items():
            button = self.query_one(f"#agree-{name}", Button)
            button.display = name in wanted
            button.label = words[is_narrow]
        box = self.query_one("#dialog-consents", Container)
        box.set_class(is_narrow, "-narrow")
        count = sum(name in wanted for name in AGREES)
        lines = count if is_narrow else min(1, count)
        box.display = bool(lines)
        box.styles.height = max(1, lines)
        return lines

    def _warnings(self) -> list[Spans]:
        """What is said between the plan and what is typed."""
        said = list(self.said)
        proposal = self.proposal
        if self._span() is None:
            said.append(((f' ✕ "{remote(self._value("for"))}" is no time: write 30m, 2h or 3d, at most 30d', "bad"),))
        if proposal is not None and isinstance(proposal.verdict, Confirm) and self._now() >= proposal.plan.expires_at:
            said.append(((" ▲ this plan is older than 5 minutes: F5 looks again", "warn"),))
        return said

    def _say(self, sign: str, style: str, text: str) -> None:
        width = min(self.size.width, MOST_WIDTH) - EDGE
        self.said = labeled(sign, style, remote(text), style, width, label_width=2)[:MOST_SAID]

    def _say_changes(self, news: tuple[str, ...]) -> None:
        more = f", and {len(news) - 2} more" if len(news) > 2 else ""
        what = f": {'; '.join(news[:2])}{more}" if news else ""
        self._say("▲", "warn", f"things have changed meanwhile{what}. This is the plan now")

    def _hints(self) -> dict[str, str]:
        """What to do about a refusal, where the screen has another way than the command line."""
        agree, aside = "agree to it below", 'say why under "Set aside"'
        hints = {
            "not-drained": f'drain it first ("Drain instead" below); or, if its work may be lost, {aside}',
            "drained-by-other": f"ask them first; then {agree}, or {aside}",
            "needs-consent": f"{agree}, if it may be lost",
        }
        hosts = self.proposal.plan.hosts if self.proposal is not None else ()
        for block in (block for host in hosts for block in host.blocks):
            if block.consent is not None and block.kind not in hints:
                hints[block.kind] = f'"{AGREES[Consent(block.consent)][0]}" below'
        return hints | ({"read-only": self.gputop.why_locked} if self.gputop.why_locked else {})

    def _may_drain_instead(self) -> bool:
        hosts = self.proposal.plan.hosts if self.proposal is not None else ()
        return any(block.kind == "not-drained" for host in hosts for block in host.blocks)

    def _now(self) -> datetime:
        desk = self.gputop.desk
        assert desk is not None
        return desk.now

    # --- what is typed and pressed --------------------------------------------------------------------------

    def _judge(self) -> None:
        proposal = self.proposal
        typed, reason = self._value("phrase"), self._value("reason")
        is_ready = (
            proposal is not None
            and is_confirmed(proposal.verdict, typed, reason)
            and self._span() is not None
            # else the plan that is shown is not the one that would be carried out
            and proposal.plan.request.override == self._value("override")
            and self._lease == self._value("for")
            and proposal.plan.request.until == self.request.until
        )
        self.query_one("#go", Button).disabled = not is_ready or self._is_handed_on

    def on_input_changed(self) -> None:
        self._wants_deed = False
        self._judge()

    def action_next_field(self) -> None:
        """Enter in a field goes on to the next one, at once: what is typed right behind it belongs there. In the last
        one, and on buttons, it does what it says."""
        if not isinstance(self.focused, Entry) or self.focused.id == "phrase":
            raise SkipAction
        if self.focused.id == "override" and self.query_one("#phrase-line").display:
            self.query_one("#phrase").focus()
        else:
            self.focus_next()

    def on_input_submitted(self) -> None:
        """Enter behind the phrase is the deed, when all is right; else what is missing is said."""
        if not self.query_one("#go", Button).disabled:
            self.chosen("go")
        elif (proposal := self.proposal) is not None and not self._is_handed_on:
            lack = self._lack(proposal)
            self._wants_deed = not lack
            self._say("▲", "warn", lack or "the plan is being made again with what was typed …")
            self._draw()

    def _lack(self, proposal: Proposal) -> str:
        """What is missing; empty: only the plan with what was typed, which is on its way."""
        verdict = proposal.verdict
        if isinstance(verdict, Confirm) and self._value("phrase") != verdict.phrase:
            return f"to confirm, type {verdict.phrase}"
        if isinstance(verdict, Confirm) and verdict.reason_required and not self._value("reason"):
            return "a reason must be given"
        return "" if self._span() is not None else "for how long must be a time, or nothing"

    def action_look_again(self) -> None:
        self._ask_again(self.request)

    def chosen(self, button: str) -> None:
        if button.startswith("agree-"):
            consent = button.removeprefix("agree-")
            self._ask_again(structs.replace(self.request, consents=self.request.consents | {consent}))
        elif button == "drain":
            self._drain_instead()
        elif self.proposal is not None and not self._is_handed_on:
            self._is_handed_on = True
            them = "it" if len(self.request.hosts) == 1 else "them"
            self._say("…", "dim", f"looking at {them} once more before anything is done; Cancel gives it up")
            self._draw()
            self.run_worker(self._carry_out(self.proposal), group="deed")

    def _drain_instead(self) -> None:
        """Another act on the same hosts: its plan is made and confirmed like any other."""
        request = self.request
        self.request = ActionRequest(kind=ActionKind.DRAIN, hosts=request.hosts, reason=request.reason, by=request.by)
        self.query_one("#override", Input).value = ""
        self.query_one("#go", Button).label = _deed(self.request)
        self.said = []
        self._look()

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
                self._say_changes(done.changes)
                self._show(done.proposal)
                return
            case Deny():
                text = "; ".join(refusal.summary for refusal in done.refusals)
            case NotConfirmed():
                text = "what was typed is not what was asked for"
            case Problem():
                text = done.summary
            case _:
                text = str(done)
        self._say("✕", "bad", f"{text}; nothing was done")
        self._draw()
        self.rest_on_cancel()


def _asks_the_same(before: ActionRequest, after: ActionRequest) -> bool:
    """Whether two plans differ only in words: why, and until when."""
    return structs.replace(before, reason="", until=None) == structs.replace(after, reason="", until=None)


def _refusals(proposal: Proposal) -> set[tuple[str, str | None]]:
    verdict = proposal.verdict
    return {(one.guard, one.host) for one in verdict.refusals} if isinstance(verdict, Deny) else set()


def _field(name: str, placeholder: str) -> Iterator[Widget]:
    with Horizontal(id=f"{name}-line", classes="asks"):
        yield Lines(id=f"{name}-label", ground="head")
        yield Entry(id=name, placeholder=placeholder, max_length=MOST_CHARACTERS)


def _deed(request: ActionRequest) -> str:
    return verb(request.kind).split()[0]


def _looking(request: ActionRequest) -> Spans:
    return ((f" looking at {counted(len(request.hosts), 'host')} …", "dim"),)
