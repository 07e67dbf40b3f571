"""Single cells of tools' output: a text that holds one value, or says in one of many words that there is none.

Every function gives `None` for what holds no value: never 0.
"""

import re
from typing import Optional

_NUMBER = re.compile(r"[-+]?\d{1,18}(?:\.\d{1,18})?(?=\s*(\D*)$)")
_INTEGER = re.compile(r"\d{1,18}$")
_UNITS = {
    "": None,
    "b": 1,
    "byte": 1,
    "bytes": 1,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "tb": 1000**4,
    "k": 1 << 10,
    "m": 1 << 20,
    "g": 1 << 30,
}
LIMIT = 2**62
"""Counters above are the ways in which tools say "no value" (`0x7ffffffffffffff2` and the like)."""


def number(cell: Optional[str]) -> Optional[float]:
    """A decimal number, whatever unit follows it: `35`, `35 C`, `35%`, `16x`. `None` for all else, such as `0x10`."""
    if not cell:
        return None
    found = _NUMBER.match(cell.strip())
    if found is None:
        return None
    value = float(found.group())
    return value if -LIMIT < value < LIMIT else None


def percent(cell: Optional[str]) -> Optional[float]:
    """A number from 0 to 100; `None` for any other: no tool means what it says then."""
    value = number(cell)
    return value if value is not None and 0 <= value <= 100 else None


def count(cell: Optional[str]) -> Optional[int]:
    """A whole number of 0 or more, whatever unit follows it."""
    value = number(cell)
    return int(value) if value is not None and value >= 0 and value == int(value) else None


def integer(cell: Optional[str]) -> Optional[int]:
    """Digits and nothing else: an index, a process id."""
    text = (cell or "").strip()
    return int(text) if _INTEGER.match(text) else None


def size(cell: Optional[str], unit: Optional[int] = None) -> Optional[int]:
    """An amount of memory in bytes. `unit`: bytes of the unit of a bare number; `None`: that is no amount."""
    value = number(cell)
    if value is None or value < 0 or cell is None:
        return None
    word = cell.strip().lstrip("+0123456789.").strip().lower()
    factor = _UNITS[word] if word in _UNITS else 0
    if factor is None:
        factor = unit or 0
    return round(value * factor) if factor else None


def text(cell: Optional[str]) -> Optional[str]:
    """A name; `None` for an empty cell and for the words that stand for none."""
    word = (cell or "").strip()
    return None if no_value(word) else word


_NONE_WORDS = frozenset(
    {
        "",
        "-",
        "--",
        "n/a",
        "na",
        "none",
        "null",
        "unknown",
        "not supported",
        "not available",
        "not found",
        "no data",
        "unsupported",
        "function not found",
        "requested functionality has been deprecated",
    }
)


def no_value(cell: Optional[str]) -> bool:
    """Whether `cell` says in words that there is no value, in brackets or not."""
    return bare(cell) in _NONE_WORDS


def bare(cell: Optional[str]) -> str:
    """`cell` in lower case, without blanks and brackets around it."""
    word = (cell or "").strip()
    if word.startswith("[") and word.endswith("]"):
        word = word[1:-1].strip()
    return word.lower()
