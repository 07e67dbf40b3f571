"""What an Xid or SXid means and asks for, by a catalog: data that a user can override."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from gputop.domain.reading import DeviceEvent

SEVERITIES = ("info", "warn", "app", "sw", "restart", "reset", "reboot", "rma")
"""From the mildest; `xid.yaml` says what each asks for."""


class Entry(NamedTuple):
    """What is known of some codes."""

    codes: tuple[range, ...]
    severity: str
    meaning: str
    when: tuple[tuple[re.Pattern[str], str], ...] = ()
    """Patterns over the message and the severity that each means; the first that is found counts."""


class Catalog(NamedTuple):
    """Entries by kind of event, the more special ones first."""

    version: int
    date: str
    entries: Mapping[str, tuple[Entry, ...]]
    same_as: Mapping[str, int]
    """The Xid that an event without a code would be, by its kind."""

    def entry(self, kind: str, code: int | None) -> Entry | None:
        """The entry of an event; `None` when the catalog has none."""
        if kind in self.same_as:
            kind, code = "xid", self.same_as[kind]
        if code is None:
            return None
        return next((entry for entry in self.entries.get(kind, ()) if any(code in span for span in entry.codes)), None)

    def severity(self, kind: str, code: int | None, message: str) -> str | None:
        """One of `SEVERITIES`; `None` when the catalog has no entry for such an event."""
        entry = self.entry(kind, code)
        if entry is None:
            return None
        return next((severity for pattern, severity in entry.when if pattern.search(message)), entry.severity)

    def meaning(self, kind: str, code: int | None) -> str | None:
        entry = self.entry(kind, code)
        return entry.meaning if entry else None

    def overridden(self, other: Catalog) -> Catalog:
        """The entries of `other` before those of this one."""
        kinds = {**self.entries, **other.entries}
        merged = {kind: other.entries.get(kind, ()) + self.entries.get(kind, ()) for kind in kinds}
        return Catalog(self.version, self.date, merged, {**self.same_as, **other.same_as})


NO_CATALOG = Catalog(1, "", {}, {})
"""Knows no event."""


def graded(events: Iterable[DeviceEvent], catalog: Catalog) -> tuple[DeviceEvent, ...]:
    """Events with what the catalog says of each."""
    return tuple(
        replace(
            event,
            severity=catalog.severity(event.kind, event.code, event.message),
            meaning=catalog.meaning(event.kind, event.code),
        )
        for event in events
    )
