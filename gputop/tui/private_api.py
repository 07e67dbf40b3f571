"""The only module that touches names of Textual that begin with `_`. Checked against Textual 8.2.8."""

from __future__ import annotations

import io
import os
import selectors
import signal
import traceback
from asyncio import AbstractEventLoop
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from rich.console import Console, RenderableType
from rich.control import Control
from rich.text import Text
from textual._compositor import ChopsUpdate
from textual._xterm_parser import XTermParser
from textual.app import App, SuspendNotSupported
from textual.drivers.linux_driver import LinuxDriver
from textual.filter import Monochrome, NoColor
from textual.geometry import Region
from textual.screen import Screen
from textual.timer import Timer

from gputop.tui.draw import to_ascii

READ_SIZE = 4096

LOOK_AGAIN_SECONDS = 0.05
"""While the terminal is behind, how often gputop looks whether it has caught up."""


class SafeFile:
    """A terminal to write to that may vanish: then what is written is dropped, and `gone` is called once."""

    def __init__(self, file: IO[str], gone: Callable[[], None]) -> None:
        self._file: IO[str] | None = file
        self._gone = gone

    def write(self, text: str) -> None:
        self._attempt(lambda file: file.write(text))

    def flush(self) -> None:
        self._attempt(lambda file: file.flush())

    def fileno(self) -> int:
        return -1 if self._file is None else self._file.fileno()

    def isatty(self) -> bool:
        return True

    def _attempt(self, act: Callable[[IO[str]], object]) -> None:
        if self._file is not None:
            try:
                act(self._file)
            except (OSError, ValueError):
                self._file = None
                self._gone()


class ScreenDriver(LinuxDriver):
    """Textual's driver for a terminal that may send bytes that are no UTF-8, vanish, or know only ASCII.

    Draws on `app.terminal_file`; the process's own standard output and error stay free for stray writes."""

    def __init__(
        self, app: ScreenApp, *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._screen_app = app
        if app.terminal_file is not None:
            self._file = SafeFile(app.terminal_file, app.terminal_gone)  # type: ignore[assignment]

    def _get_terminal_size(self) -> tuple[int, int]:
        try:
            columns, lines = os.get_terminal_size(self.fileno)
        except OSError:
            columns, lines = 80, 24
        return max(1, columns), max(1, lines)

    def write(self, data: str) -> None:
        super().write(to_ascii(data) if self._screen_app.ascii_only else data)

    @property
    def is_behind(self) -> bool:
        """The terminal has not yet taken what was drawn before."""
        return self._writer_thread is not None and not self._writer_thread._queue.empty()

    def run_input_thread(self) -> None:
        """As Textual's, but undecodable bytes are replaced, and end of file or an error is a hang-up."""
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")(errors="replace").decode
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(0.1):
                    try:
                        data = os.read(self.fileno, READ_SIZE)
                    except OSError:
                        data = b""
                    if not data:
                        self._screen_app.terminal_gone()
                        return
                    for event in parser.feed(decode(data)):
                        self.process_message(event)
                for event in parser.tick():
                    self.process_message(event)


class ExactUpdate(ChopsUpdate):
    """A repaint of spans that sends only these spans; Textual's own sends each line from its left edge."""

    def render_segments(self, console: Console) -> str:
        sequences: list[str] = []
        for y, x1, x2 in self.spans:
            if y >= len(self.chops):  # asked for before the terminal became smaller
                continue
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                if strip is None or x >= x2 or end <= x1:
                    continue
                left = max(x, x1)
                piece = strip.crop(left - x, min(end, x2) - x)
                sequences += (Control.move_to(left, y).segment.text, piece.render(console))
        return "".join(sequences)


class EagerScreen(Screen[None]):
    """A screen whose first frame comes at once; Textual's own waits one period of its frame rate for it."""

    def on_mount(self) -> None:
        self.app.call_later(self._on_timer_update)


class ScreenApp(App[int]):
    """What gputop needs of `App` beside its public API."""

    terminal_file: IO[str] | None = None
    """Where to draw; `None`: Textual's choice."""
    ascii_only: bool = False

    def __init__(self) -> None:
        super().__init__(driver_class=ScreenDriver)
        self._owed: set[Region] = set()
        self._is_lent = False
        self._look_again: Timer | None = None

    end_soon: Callable[[int], None]
    """Sees to it that the process ends soon, with this exit code, whatever hangs."""

    def terminal_gone(self) -> None:
        """The terminal can be read or written no more. May be called from any thread."""
        self.end(128 + signal.SIGHUP)

    def end(self, code: int) -> None:
        """Leave with an exit code. May be called from any thread and from signal handlers."""
        loop: AbstractEventLoop | None = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._end, code)

    def _end(self, code: int) -> None:
        self.end_soon(code)
        self.exit(code)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """The terminal is another program's: nothing is drawn on it and no key is ours, while all else goes on.
        Afterwards the screen is painted anew, unless an exception leads out of it: then gputop ends. Raises
        `SuspendNotSupported` where this is no terminal. (`App.suspend` exchanges `sys.stderr`, which must not be done
        while anything else goes on.)"""
        driver = self._driver
        if driver is None or not driver.can_suspend:
            raise SuspendNotSupported("not a terminal")
        self._suspend_signal()
        driver.suspend_application_mode()
        self._is_lent = True
        try:
            with driver.no_automatic_restart():
                yield
        finally:
            self._is_lent = False
        driver.resume_application_mode()
        self._resume_signal()
        self.refresh(layout=True)

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        if self._is_lent:
            return
        if self._is_behind:
            self._put_off(screen, renderable)
            return
        if isinstance(renderable, ChopsUpdate):
            renderable = ExactUpdate(renderable.chops, renderable.spans, renderable.chop_ends)
        super()._display(screen, renderable)

    @property
    def _is_behind(self) -> bool:
        return isinstance(self._driver, ScreenDriver) and self._driver.is_behind

    def _put_off(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        """A slow terminal gets fewer pictures, not old ones, and one that takes nothing stops nothing but itself:
        what changed is drawn, as it is then, once the terminal has taken what is on its way."""
        if isinstance(renderable, ChopsUpdate):
            self._owed |= {Region(x1, y, x2 - x1, 1) for y, x1, x2 in renderable.spans}
        elif renderable is not None:
            self._owed = {screen.size.region}
        if self._owed and self._look_again is None:
            self._look_again = self.set_timer(LOOK_AGAIN_SECONDS, self._draw_owed)

    def _draw_owed(self) -> None:
        if self._is_behind:
            self._look_again = self.set_timer(LOOK_AGAIN_SECONDS, self._draw_owed)
            return
        self._look_again = None
        owed, self._owed = self._owed, set()
        self.screen._compositor._dirty_regions |= owed
        self.screen._compositor_refresh()

    def _fatal_error(self) -> None:
        """A traceback without the values of variables: those are other people's hosts and users."""
        self._exit_renderables.append(Text(traceback.format_exc()))
        self._close_messages_no_wait()

    @property
    def has_few_colors(self) -> bool:
        """Whether this is a terminal with 16 colors, or with grays only (`NO_COLOR`)."""
        if not isinstance(self._driver, ScreenDriver):
            return False
        is_gray = any(isinstance(known, (NoColor, Monochrome)) for known in self._filters)
        return is_gray or self.console.color_system not in ("256", "truecolor")

    def ignore_no_color(self) -> None:
        """Keep colors whatever `NO_COLOR` says: it speaks of terminals, not of pictures."""
        self._filters = [known for known in self._filters if not isinstance(known, (NoColor, Monochrome))]

    def screen_lines(self) -> list[str]:
        """The screen as text, line by line, blanks at the ends left out."""
        compositor = self.screen._compositor
        return ["".join(segment.text for segment in strip).rstrip() for strip in compositor.render_strips(self.size)]

    def screen_svg(self, title: str) -> str:
        """The screen as SVG; the same screen gives the same bytes."""
        console = Console(width=self.size.width, height=self.size.height, file=io.StringIO(),
                          force_terminal=True, color_system="truecolor", record=True, legacy_windows=False,
                          safe_box=False)  # fmt: skip
        console.print(self.screen._compositor.render_update(full=True, screen_stack=[], simplify=True))
        # Some viewers take the no-break spaces at the edges of a text for blanks, and drop them.
        return console.export_svg(title=title).replace("<svg ", '<svg xml:space="preserve" ', 1)
