"""What is known of a host or a device, in groups of labeled values in words: the same on the screen and in text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeVar

from gputop.catalog import format as show
from gputop.catalog.format import ABSENT
from gputop.catalog.paces import ages_seconds
from gputop.catalog.text import clean
from gputop.domain.host import Host

Tone = Literal["", "dim", "warn", "bad"]
"""How much a value wants to be looked at."""

WIDE = 40
"""Cells that numbers may use."""

T = TypeVar("T")


def not_known(host: Host) -> str:
    """What is said in the place of values that a host would have to be read for."""
    return f"not known while the host is {host.link.state.value.replace('-', ' ')}"


class Item(NamedTuple):
    """One value. All texts are fit for a line of a terminal."""

    label: str
    """Empty: as that of the item before."""
    text: str
    """`ABSENT`: not known."""
    note: str = ""
    """What it means."""
    tone: Tone = ""


class Group(NamedTuple):
    """Values that belong together."""

    title: str
    items: tuple[Item, ...]
    age: str = ""
    """How old they are, in words; empty: they do not age, or say it themselves."""
    absence: str = "not reported"
    """What is said in their place when none of them is known."""

    @property
    def is_absent(self) -> bool:
        return all(item.text == ABSENT for item in self.items)


def item(label: str, value: T | None, words: Callable[[T], str] = str, note: str = "", tone: Tone = "") -> Item:
    """A value in words, cleaned; its note and tone only count when it is known."""
    if value is None or value == "":
        return Item(label, ABSENT)
    return Item(label, clean(words(value)) or ABSENT, clean(note), tone)


def yes_no(value: bool) -> str:
    return "yes" if value else "no"


def percent(value: float) -> str:
    return show.percent(value, width=WIDE)


def memory(value: int) -> str:
    return show.memory(value, width=WIDE)


def watts(value: float) -> str:
    return show.watts(value, width=WIDE)


def count(value: int) -> str:
    return f"{value:,}"


def span(seconds: float) -> str:
    return "<1 s" if seconds < 1 else show.duration(seconds)


def moment(at: datetime | None, as_of: datetime, zone: Any) -> str | None:
    """`Mon 09:12, 5 h 02 m ago`."""
    if at is None:
        return None
    seconds = (as_of - at).total_seconds()
    when = show.clock_time(at, as_of, zone)
    return f"{when}, {span(seconds)} ago" if seconds >= 0 else f"{when}, in {span(-seconds)}"


def age_words(host: Host, as_of: datetime, metrics: Iterable[str] = ()) -> str:
    """How old the values of these metrics are that `host` shows; empty without any."""
    age = host.age_seconds(as_of)
    if host.frame is None or age is None:
        return ""
    newest, oldest = ages_seconds(metrics, host.frame, age)
    if newest > age:
        return f"up to {span(oldest)} old"
    return f"{span(newest)} old" if oldest == newest else f"{span(newest)} to {span(oldest)} old"
