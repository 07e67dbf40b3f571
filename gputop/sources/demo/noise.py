"""Chance without state: every draw is a hash of integers, the same on every machine and every run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar
from zlib import crc32

T = TypeVar("T")

_MASK = (1 << 64) - 1


def mix(*parts: int) -> int:
    """A hash of `parts`, 0 to 2**64 - 1 (the finisher of splitmix64, once a part)."""
    state = 0x9E3779B97F4A7C15
    for part in parts:
        state = (state ^ part) * 0xBF58476D1CE4E5B9 & _MASK
        state = (state ^ state >> 30) * 0x94D049BB133111EB & _MASK
        state ^= state >> 31
    return state


def key(text: str) -> int:
    """`text` as a part for the other functions."""
    return crc32(text.encode())


def unit(*parts: int) -> float:
    """0 or more, below 1."""
    return (mix(*parts) >> 11) / 2**53


def between(low: float, high: float, *parts: int) -> float:
    """`low` or more, below `high`."""
    return low + (high - low) * unit(*parts)


def pick(options: Sequence[T], *parts: int) -> T:
    """One of `options`."""
    return options[mix(*parts) % len(options)]


def wave(t: float, period: float, *parts: int) -> float:
    """A smooth walk between 0 and 1 that takes about `period` seconds from one bend to the next."""
    step, between_knots = divmod(t / period, 1.0)
    knot = int(step)
    before, after = unit(knot, *parts), unit(knot + 1, *parts)
    return before + (after - before) * (1.0 - math.cos(math.pi * between_knots)) / 2.0
