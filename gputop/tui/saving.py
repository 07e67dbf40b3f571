"""The screen as a picture in a file."""

from __future__ import annotations

from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

from gputop.export.write import replace_file

if TYPE_CHECKING:
    from gputop.tui.app import GputopApp


def save_picture(app: GputopApp) -> str:
    """Save the screen as SVG in the current folder; what there is to say about it."""
    path = _unused(Path(f"gputop-{app.fleet.as_of.astimezone(app.options.zone):%Y%m%d-%H%M%S}.svg"))
    try:
        replace_file(path, app.screen_svg("gputop").encode())
    except OSError as failure:
        return f"cannot write {path}: {failure.strerror}"
    return f"saved {path.absolute()}"


def _unused(path: Path) -> Path:
    """`path`, or the first of `path-2`, `path-3`, … that does not exist."""
    names = (path.with_stem(f"{path.stem}-{number}") for number in count(2))
    return next(name for name in chain((path,), names) if not name.exists())
