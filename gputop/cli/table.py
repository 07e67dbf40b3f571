"""Plain aligned columns, for people and for `grep`: never cut, never wrapped."""

from __future__ import annotations

from collections.abc import Sequence


def lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """`head` and `rows` with each column as wide as its widest cell; blanks at line ends are left out."""
    cells = [list(head), *([clean(cell) for cell in row] for row in rows)]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(c + " " * (w - _width(c)) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells]


def clean(text: str) -> str:
    """`text` without what disturbs a terminal."""
    if text.isascii() and text.isprintable():
        return text
    from gputop.catalog import text as words  # loads rich, which plain text does not need

    return words.clean(text)


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
