"""What the tools of a host print themselves: which of them, and their words."""

from __future__ import annotations

from rich.cells import cell_len
from textual.worker import Worker

from gputop.actions.desk import Desk
from gputop.actions.raw_tools import RawTool
from gputop.domain.call import RawOutput
from gputop.export.raw_text import raw_lines
from gputop.tui.commands import Command
from gputop.tui.draw import Spans, remote, spread
from gputop.tui.look import Look
from gputop.tui.pages.blocks import Board
from gputop.tui.pages.raw import raw_page, raw_title, tools_board
from gputop.tui.rows import Row
from gputop.tui.screens.page import PageScreen
from gputop.tui.screens.rows import CursorScreen, Place


class ToolsScreen(CursorScreen):
    """The tools that a host has for its devices."""

    def __init__(self, desk: Desk, about: Row, tools: list[RawTool]) -> None:
        super().__init__()
        self.desk = desk
        self.about = about
        self.host = about.host.name
        self.tools = tools

    def targets(self) -> tuple[str, ...]:
        return (self.host,)

    def meant(self) -> list[object]:
        return [self.about]

    def hints(self) -> tuple[Command, ...]:
        return tuple(command for command in super().hints() if command.id != "row.raw")

    def place_of(self, row: RawTool) -> Place:
        return row.words

    def head(self, look: Look, width: int) -> Spans:
        return look.plain(spread(((f" {remote(self.host)} ", "title"),), (("raw output ", "dim"),), width))

    def made(self, look: Look, width: int) -> Board:
        return tools_board(self.tools, look, width)

    def do_page_open(self) -> None:
        self.gputop.push_screen(RawScreen(self.desk, self.about, self.tools[self._index]))


class RawScreen(PageScreen):
    """What one tool prints. It is asked when the page is opened; leaving the page gives up waiting."""

    def __init__(self, desk: Desk, about: Row, tool: RawTool) -> None:
        super().__init__()
        self.desk = desk
        self.about = about
        self.host = about.host.name
        self.tool = tool
        self.output: RawOutput | None = None
        self._text: list[str] = []
        self._page: list[Spans] = []
        self._widest = 0
        self._asking: Worker[None] | None = None

    def on_mount(self) -> None:
        super().on_mount()
        self._ask()

    def _ask(self) -> None:
        if self._asking is None:
            self._asking = self.run_worker(self._wait())
            self.draw()

    async def _wait(self) -> None:
        try:
            output = await self.desk.acts.enquiries.raw(self.host, self.tool)
        finally:
            self._asking = None
        self.output = output
        self._text = raw_lines(output.text)
        self._page = []
        self._draw_if_here()

    def targets(self) -> tuple[str, ...]:
        return (self.host,)

    def meant(self) -> list[object]:
        return [self.about]

    def head(self, look: Look, width: int) -> Spans:
        return raw_title(self.host, self.tool, self.output, look, width, len(self._text), asking=self.is_asking)

    @property
    def is_asking(self) -> bool:
        return self._asking is not None

    def body(self, look: Look, width: int) -> list[Spans]:
        if not self._page or not self._text:
            self._page = raw_page(self.output, self._text, look)
            self._widest = max((cell_len(text) for line in self._page for text, _ in line), default=0)
        return self._page

    def text_width(self) -> int:
        return self._widest

    def do_retry(self) -> None:
        self._ask()

    def do_row_copy(self) -> None:
        if self.output is None:
            self.gputop.say("there is nothing to copy yet")
            return
        self.gputop.copy_to_clipboard("\n".join(self._text) + "\n")
        self.gputop.say("sent to the clipboard, if the terminal allows it (OSC 52)")
