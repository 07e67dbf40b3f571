"""Widgets that draw their lines from spans; colors come from TCSS through component classes of their screen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from gputop.tui.draw import STYLES, Span, Spans, fit
from gputop.tui.private_api import ScreenApp

REVERSE = Style(reverse=True)

GROUNDS: tuple[str, ...] = ("row", "cursor", "marked", "head")
"""What a line is drawn on."""

PAINT_CLASSES: set[str] = {f"p--{name}" for name in (*STYLES, *GROUNDS)}
"""Of the screen, not of each widget: Textual styles every one of them whenever a screen comes to the front."""


class Palette:
    """Styles by name for one widget, looked up once per theme in its screen, which must have `PAINT_CLASSES`."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._styles: dict[tuple[str, str], Style] = {}

    def style(self, name: str, ground: str) -> Style:
        found = self._styles.get((name, ground))
        if found is None:
            screen = self._widget.screen
            if ground == "cursor" and self._has_few_colors:
                return self.style("text", "row") + REVERSE
            below = screen.get_component_rich_style(f"p--{ground}")
            above = screen.get_component_rich_style(f"p--{name}", partial=True)
            found = self._styles[name, ground] = below + above
        return found

    @property
    def _has_few_colors(self) -> bool:
        """Whether grounds may look alike: then the row under the cursor is drawn in reverse."""
        app = self._widget.app
        return isinstance(app, ScreenApp) and app.has_few_colors

    def forget(self) -> None:
        self._styles.clear()

    def strip(self, spans: Iterable[Span], width: int, ground: str = "row") -> Strip:
        """One line of exactly `width` cells."""
        segments = [Segment(text, self.style(name, ground)) for text, name in spans if text]
        return Strip(segments).adjust_cell_length(width, self.style("text", ground))


class Lines(Widget):
    """A few fixed lines, such as header and footer. Only lines that changed are painted."""

    class Clicked(Message):
        """A cell was clicked."""

        def __init__(self, lines: Lines, x: int, y: int) -> None:
            super().__init__()
            self.lines, self.x, self.y = lines, x, y

    def __init__(self, *, id: str | None = None, ground: str = "row") -> None:
        super().__init__(id=id)
        self.ground = ground
        self.palette = Palette(self)
        self._shown: tuple[Spans, ...] = ()

    def show(self, lines: Sequence[Spans]) -> None:
        before, self._shown = self._shown, tuple(lines)
        changed = [
            Region(0, y, self.size.width, 1)
            for y in range(max(len(before), len(self._shown)))
            if y >= len(before) or y >= len(self._shown) or before[y] != self._shown[y]
        ]
        if changed:
            self.refresh(*changed)

    def notify_style_update(self) -> None:
        self.palette.forget()
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        spans = self._shown[y] if y < len(self._shown) else ()
        return self.palette.strip(spans, self.size.width, self.ground)

    def on_click(self, event: events.Click) -> None:
        self.post_message(self.Clicked(self, event.x, event.y))


class Page(ScrollView, can_focus=True, inherit_bindings=False):
    """Text longer than the pane, scrolled by lines; wider text is scrolled by cells."""

    class Clicked(Message):
        """A line was clicked; `times`: 2 for a double click."""

        def __init__(self, line: int, times: int) -> None:
            super().__init__()
            self.line = line
            self.times = times

    def __init__(self, *, id: str | None = None, ground: str = "row") -> None:
        super().__init__(id=id)
        self.ground = ground
        self.palette = Palette(self)
        self.lines_painted = 0
        self._shown: tuple[Spans, ...] = ()
        self._grounds: Mapping[int, str] = {}

    def show(self, lines: Sequence[Spans], *, grounds: Mapping[int, str] | None = None, width: int = 0) -> None:
        """`grounds`: of lines that stand on another ground than the page. `width`: of the widest line, where some may
        be wider than the pane; else they are cut."""
        before, self._shown = self._shown, tuple(lines)
        grounds_before, self._grounds = self._grounds, grounds or {}
        size = Size(max(self.size.width, width), len(self._shown))
        if size != self.virtual_size:
            self.virtual_size = size
        top = self.scroll_offset.y
        changed = [
            Region(0, y, self.size.width, 1)
            for y in range(self.size.height)
            if before[top + y : top + y + 1] != self._shown[top + y : top + y + 1]
            or grounds_before.get(top + y) != self._grounds.get(top + y)
        ]
        if changed:
            self.refresh(*changed)

    def on_click(self, event: events.Click) -> None:
        line = event.y + self.scroll_offset.y
        if line < len(self._shown):
            self.post_message(self.Clicked(line, event.chain))

    def notify_style_update(self) -> None:
        self.palette.forget()
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        self.lines_painted += 1
        x, index = self.scroll_offset.x, y + self.scroll_offset.y
        width = self.size.width
        spans = fit(self._shown[index], x + width) if index < len(self._shown) else ()
        strip = self.palette.strip(spans, x + width, self._grounds.get(index, self.ground))
        return strip.crop(x, x + width) if x else strip
