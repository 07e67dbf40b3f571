"""Amounts in the outputs of vendors' tools: cells with units, pairs like `93W / 600W`, values of JSON.

As in `cells`, whatever holds no number is `None`.
"""

import re
from typing import Any, Optional, Tuple

from gputop.remote import cells

_BINARY = {"b": 1, "byte": 1, "bytes": 1}
for _power, _letter in enumerate("kmgt", start=1):
    for _suffix in ("", "b", "ib"):
        _BINARY[_letter + _suffix] = 1 << (10 * _power)

_NOT_AVAILABLE = re.compile(r"\bN/A\b", re.IGNORECASE)
_BARE_NUMBER = re.compile(r"[\d.]+$")
_TEMPERATURE = re.compile(r"(-?\d+(?:\.\d+)?)\s*(?:°\s*|\u2103)?[cC]?(?![\w.])")
_GENERATIONS = ((2.5, 1), (5, 2), (8, 3), (16, 4), (32, 5), (64, 6), (128, 7))


def said(value: Any) -> Optional[str]:
    """A value of JSON as the cell of a table: `{"value": 3, "unit": "W"}` is `3 W`; `None` for lists and the like."""
    if isinstance(value, dict):
        inner = said(value.get("value"))
        unit = value.get("unit")
        return inner + " " + unit if inner is not None and isinstance(unit, str) else inner
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    if isinstance(value, float) and abs(value) < 1e15:
        return "%.6f" % value
    return str(value) if isinstance(value, str) or abs(value) < cells.LIMIT else None


def amount(cell: Optional[str]) -> Optional[float]:
    """A number of 0 or more, whatever its unit."""
    value = cells.number(cell)
    return value if value is not None and value >= 0 else None


def percent(cell: Optional[str]) -> Optional[float]:
    """A share from 0 to 100."""
    return cells.percent(cell) if unit_of(cell) in ("", "%") else None


def watts(cell: Optional[str]) -> Optional[float]:
    """Power; what no board draws (a register of all ones) is no value."""
    value = amount(cell)
    return value if value is not None and value < 65535 and unit_of(cell) in ("", "w") else None


def megahertz(cell: Optional[str]) -> Optional[float]:
    """A clock in MHz, from MHz or GHz."""
    value, unit = amount(cell), unit_of(cell)
    if value is None or unit not in ("", "mhz", "ghz"):
        return None
    value = value * 1000 if unit == "ghz" else value
    return value if value < 65535 else None


def celsius(cell: Optional[str]) -> Optional[float]:
    """A temperature that a sensor can have: `29C`, `32 °C`, `30.0c`, `41`."""
    found = _TEMPERATURE.match((cell or "").strip())
    value = cells.number(found.group(1)) if found else None
    return value if value is not None and -100 < value < 300 else None


def unit_of(cell: Optional[str]) -> str:
    """What stands behind the number, in small letters."""
    return (cell or "").strip().lstrip("+-0123456789.").strip().lower()


def memory(cell: Optional[str], unit: int = 1 << 20) -> Optional[int]:
    """Bytes. Tools other than NVIDIA's write MB and GB for powers of 1024. `unit`: that of a bare number, in bytes."""
    value = amount(cell)
    if value is None:
        return None
    word = unit_of(cell)
    factor = _BINARY.get(word, 0) if word else unit
    return round(value * factor) if factor and value * factor < cells.LIMIT else None


def pair(cell: Optional[str]) -> Tuple[Optional[str], Optional[str]]:
    """The halves of `93W / 600W`, `29777/32624 MB` or `2MiB(16384MiB)`; a half without unit takes that of the other."""
    word = _NOT_AVAILABLE.sub("NA", (cell or "").strip())
    if word.endswith(")"):
        word = word[:-1].replace("(", "/", 1)
    left, slash, right = word.partition("/")
    if not slash:
        return None, None
    left, right = left.strip(), right.strip()
    unit = right.lstrip("0123456789. ")
    if _BARE_NUMBER.match(left) and unit and right[:1].isdigit():
        left = left + " " + unit
    return left, right


def generation(cell: Optional[str]) -> Optional[int]:
    """Generation of PCI Express: of `Gen 5`, or of a speed in GT/s."""
    word = (cell or "").strip().lower()
    if word.startswith("gen"):
        return cells.integer(word[3:])
    value = amount(word)
    if value is None or "gt" not in word:
        return None
    return next((number for speed, number in _GENERATIONS if abs(speed - value) < 0.6), None)


def pid(cell: Optional[str]) -> Optional[int]:
    """A process id of Linux."""
    value = cells.integer(cell)
    return value if value is not None and 0 < value < 2**22 else None
