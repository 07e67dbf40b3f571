"""Dialogs of incident bundles: what is to go into one, and how far it is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, Input

from gputop.bundle.bug_report import COMMAND
from gputop.bundle.items import Order, Progress
from gputop.bundle.write import Made, NotWritten
from gputop.catalog.text import counted, wrap
from gputop.domain.link import LinkState
from gputop.export.write import unwritable
from gputop.tui.dialogs.base import Dialog, Entry, text_page
from gputop.tui.draw import Spans, remote
from gputop.tui.widgets.painted import Lines, Page

EDGE = 12
"""Lines of the screen that the text leaves to the rest of the dialog."""
EDGE_CELLS, WIDEST = 5, 118
"""What frame and margins take, and the widest that a dialog gets, in cells."""

CONTENTS = (
    "All that gputop knows of each host, three readings, the last minutes, kernel log, what nvidia-smi and its like "
    "print, versions, units, PCI devices, audit lines. Nothing is changed; passwords and tokens that can be told are "
    "masked."
)
REPORT = f"The vendor's report runs {COMMAND} on each host: minutes, and a file there for a while."


class Choice(Button):
    """Something that may be chosen besides. A mark says whether it is, not a color."""

    def __init__(self, words: str, *, id: str, disabled: bool = False) -> None:
        super().__init__(Content(f"[ ] {words}"), id=id, compact=True, disabled=disabled, classes="choice")
        self._words = words
        self.value = False

    def toggle(self) -> None:
        self.value = not self.value
        self.label = Content(f"[{'x' if self.value else ' '}] {self._words}")


class Wanted(Struct, frozen=True, kw_only=True):
    """A bundle that a person asks for."""

    order: Order
    target: Path


class BundleDialog(Dialog[Wanted]):
    """Which choices, and which file."""

    def __init__(self, hosts: Sequence[str], name: str, why_no_report: str) -> None:
        """`name`: of the file. `why_no_report`: why the vendor's report cannot be asked for; empty: it can."""
        super().__init__()
        self._hosts = tuple(hosts)
        self._name = name
        self._why_no_report = why_no_report
        self.said: Spans = ()

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Lines(id="dialog-title", ground="head")
            yield text_page()
            yield Lines(id="dialog-said", ground="head")
            yield Choice("pseudonyms in place of names and addresses", id="redact")
            yield Choice("the vendor's report too, as root", id="report", disabled=bool(self._why_no_report))
            with Horizontal(classes="asks"):
                yield Lines(id="file-label", ground="head")
                yield Entry(self._name, id="file", select_on_focus=False)
            with Horizontal(id="dialog-buttons"):
                yield Button("Cancel", id="cancel", compact=True)
                yield Button("Save", id="go", compact=True)

    def on_mount(self) -> None:
        super().on_mount()
        note = "of simulated hosts" if self.gputop.is_simulated else ""
        self.show_title(f"Incident bundle of {_of(self._hosts)}", note)
        self.query_one("#file-label", Lines).styles.width = 7
        self.query_one("#file-label", Lines).show([((" File", "strong"),)])
        self._draw()

    def on_resize(self) -> None:
        if self.is_mounted:
            self._draw()

    def _draw(self) -> None:
        fleet, look = self.gputop.fleet, self.gputop.look
        width = _width(self.size.width)
        report = f"No vendor's report: {self._why_no_report}." if self._why_no_report else REPORT
        lines: list[Spans] = [((f" {line}", "text"),) for line in wrap(CONTENTS, width)]
        lines += [((f" {line}", "dim"),) for line in wrap(report, width)]
        hosts = [host for name in self._hosts if (host := fleet.get(name)) is not None]
        troubled = [host for host in hosts if host.link.state is not LinkState.OK]
        for host in troubled:
            words = host.link.problem.summary if host.link.problem is not None else ""
            lines.append(
                ((f" {remote(host.name)}", "strong"), (f"  {host.link.state.value}  {remote(words, '')}", "warn"))
            )
        page = self.query_one("#dialog-text", Page)
        page.styles.height = min(len(lines), max(1, self.size.height - EDGE))
        page.show([look.plain(line) for line in lines])
        self.query_one("#dialog-said", Lines).show([look.plain(self.said)])
        self.query_one("#dialog-said").display = bool(self.said)

    def on_input_submitted(self) -> None:
        self.chosen("go")

    def chosen(self, button: str) -> None:
        if button in ("redact", "report"):
            self.query_one(f"#{button}", Choice).toggle()
            return
        name = os.path.expanduser(self.query_one("#file", Input).value.strip())
        lack = f"{name} is there already" if name and os.path.lexists(name) else unwritable(name)
        if lack is not None:
            self.said = ((f" ✕ {remote(lack)}", "bad"),)
            self._draw()
            return
        order = Order(
            hosts=self._hosts,
            redact=self.query_one("#redact", Choice).value,
            bug_report=self.query_one("#report", Choice).value,
        )
        self.dismiss(Wanted(order=order, target=Path(name)))


PARTS = "#dialog-title, #dialog-text, #cancel, #stop"


class BundleProgress(Dialog[bool]):
    """How far a bundle is, host by host; it goes on when this is closed. Answers whether it is to be given up."""

    def __init__(self, hosts: Sequence[str]) -> None:
        super().__init__()
        self._hosts = tuple(hosts)
        self._progress: dict[str, Progress] = {}
        self._result: Made | NotWritten | None = None

    @property
    def only_waits(self) -> bool:
        return self._result is None

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Lines(id="dialog-title", ground="head")
            yield text_page()
            with Horizontal(id="dialog-buttons"):
                yield Button("Go on working", id="cancel", compact=True)
                yield Button("Give it up", id="stop", compact=True)

    def on_mount(self) -> None:
        super().on_mount()
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def take(self, progress: dict[str, Progress], result: Made | NotWritten | None) -> None:
        """What is known now."""
        self._progress, self._result = progress, result
        self._draw()

    def _draw(self) -> None:
        if len(self.query(PARTS)) < PARTS.count("#"):  # it is being built, or taken down
            return
        look, over = self.gputop.look, sum(one.is_over for one in self._progress.values())
        note = "" if self._result is not None else f"{over} of {counted(len(self._hosts), 'host')} done"
        self.show_title(f"Incident bundle of {_of(self._hosts)}", note)
        lines = [self._line(name) for name in self._hosts]
        match self._result:
            case Made():
                first, *others = (wrap(remote(words), _width(self.size.width)) for words in self._result.words())
                lines = [((f" {line}", "ok"),) for line in first]
                lines += [((f" {line}", "text"),) for words in others for line in words]
            case NotWritten():
                lines = [((f" ✕ {remote(self._result.summary)}", "bad"),)]
        page = self.query_one("#dialog-text", Page)
        page.styles.height = min(len(lines), max(1, self.size.height - 6))
        page.show([look.plain(line) for line in lines])
        self.query_one("#stop", Button).display = self._result is None
        self.query_one("#cancel", Button).label = "Go on working" if self._result is None else "Close"

    def _line(self, name: str) -> Spans:
        progress = self._progress.get(name)
        if progress is None:
            return ((" · ", "faint"), (f"{remote(name):<20}", "strong"), ("waits for its turn", "dim"))
        if not progress.is_over:
            return ((" ◌ ", "warn"), (f"{remote(name):<20}", "strong"), (remote(progress.doing), "text"))
        sign: Spans = ((" ● ", "ok"),) if progress.answered else ((" ✕ ", "bad"),)
        words = "gathered" if progress.answered else "does not answer; what is known of it is in the bundle"
        return (*sign, (f"{remote(name):<20}", "strong"), (words, "dim"))

    def chosen(self, button: str) -> None:
        self.dismiss(True)


def _of(hosts: Sequence[str]) -> str:
    return remote(hosts[0]) if len(hosts) == 1 else counted(len(hosts), "host")


def _width(screen: int) -> int:
    """Cells of a line of text in a dialog on a screen so wide."""
    return max(20, min(screen, WIDEST) - EDGE_CELLS)
