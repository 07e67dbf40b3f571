"""The real screen as text or SVG, without a terminal: the same Fleet gives the same bytes."""

from __future__ import annotations

import asyncio
from datetime import UTC, tzinfo
from typing import Literal

from textual.theme import Theme

from gputop.fleet.fleet import Fleet
from gputop.fleet.series import SeriesStore
from gputop.tui.app import GputopApp, ScreenOptions


async def rendered(
    fleet: Fleet,
    series: SeriesStore,
    *,
    theme: Theme,
    view: str = "hosts",
    size: tuple[int, int] = (120, 36),
    ascii_only: bool = False,
    output: Literal["text", "svg"] = "text",
    title: str = "",
    zone: tzinfo | None = UTC,
    keys: tuple[str, ...] = (),
) -> str:
    """The screen that shows `fleet`. `view`: `hosts`, `gpus`, `processes`, `host:NAME` or `gpu:NAME:INDEX`. `size`:
    columns and lines. `keys`: pressed before, in Textual's names."""
    options = ScreenOptions(theme=theme, ascii_only=ascii_only, view=view, title=title, zone=zone)
    app = GputopApp(options, fixed=(fleet, series))
    app.ignore_no_color()
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        if keys:
            await pilot.press(*keys)
            await pilot.pause()
        if output == "svg":
            return app.screen_svg(title or "gputop")
        return "\n".join(app.screen_lines()).rstrip("\n") + "\n"


def render(
    fleet: Fleet,
    series: SeriesStore,
    *,
    theme: Theme,
    view: str = "hosts",
    size: tuple[int, int] = (120, 36),
    ascii_only: bool = False,
    output: Literal["text", "svg"] = "text",
    title: str = "",
    zone: tzinfo | None = UTC,
) -> str:
    """As `rendered`, for callers without an event loop."""
    return asyncio.run(
        rendered(fleet, series, theme=theme, view=view, size=size, ascii_only=ascii_only, output=output, title=title,
                 zone=zone)
    )  # fmt: skip
