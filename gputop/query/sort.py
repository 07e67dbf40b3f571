"""Orders for tables: absent values last in either direction, host names as people count."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

Row = TypeVar("Row")

_DIGITS = re.compile(r"(\d+)")


def natural(text: str) -> tuple[tuple[int, int | str], ...]:
    """A sort key under which `gpu-2` comes before `gpu-10`."""
    parts = _DIGITS.split(text.casefold())
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in parts if part)


def ordered(rows: Iterable[Row], key: Callable[[Row], Any], *, descending: bool = False) -> list[Row]:
    """`rows` by `key`; rows whose key is `None` come last whatever the direction. Stable."""
    present: list[tuple[Any, Row]] = []
    absent: list[Row] = []
    for row in rows:
        value = key(row)
        if value is None:
            absent.append(row)
        else:
            present.append((value, row))
    present.sort(key=lambda pair: pair[0], reverse=descending)
    return [row for _, row in present] + absent
