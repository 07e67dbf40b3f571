"""What tools of a host print, made fit for a terminal."""

from __future__ import annotations

from gputop.catalog.text import clean
from gputop.readers.text import plain

TAB_CELLS = 8


def raw_lines(text: str) -> list[str]:
    """All lines: terminal escapes are taken out whole, tabs become the blanks that they stand for, and each line is
    cleaned. Empty lines at the end are left out."""
    lines = plain(text.encode("utf-8", "replace")).split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    return [clean(line.expandtabs(TAB_CELLS)).rstrip() for line in lines]
