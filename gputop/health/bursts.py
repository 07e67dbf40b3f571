"""Events that belong together: a fault, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import NamedTuple

from gputop.domain.reading import DeviceEvent

SILENCE = timedelta(minutes=3)
"""A burst ends when nothing was logged for so long."""

CONSEQUENCES = frozenset({43, 45, 94, 95, 137, 154})
"""Xids that mostly follow from another one: channels that are torn down, errors that were contained or not, the action
that the driver asks for."""


class Folded(NamedTuple):
    """Events of one burst that say the same of the same device."""

    first: DeviceEvent
    times: int


class Burst(NamedTuple):
    """Events of one server with no long silence between them."""

    root: DeviceEvent
    """The first that is no consequence; of consequences alone, the first."""
    events: tuple[DeviceEvent, ...]
    """All, oldest first."""

    @property
    def folded(self) -> tuple[Folded, ...]:
        """One a kind, code and device: that of the root first, then in the order in which they began."""
        groups: dict[tuple[object, ...], list[DeviceEvent]] = {_about(self.root): []}
        for event in self.events:
            groups.setdefault(_about(event), []).append(event)
        return tuple(Folded(group[0], len(group)) for group in groups.values())


def bursts(events: Iterable[DeviceEvent]) -> list[Burst]:
    """Events of one server as bursts, oldest first. One without a time belongs to the one before it."""
    groups: list[list[DeviceEvent]] = []
    last = None
    for event in events:
        begins = event.at is not None and last is not None and event.at - last > SILENCE
        if begins or not groups:
            groups.append([])
        groups[-1].append(event)
        last = event.at or last
    return [Burst(_root(group), tuple(group)) for group in groups]


def same_device(left: str | None, right: str | None) -> bool:
    """Whether two PCI addresses are of one device. Logs leave out the function and write four digits of the domain."""
    return left is not None and right is not None and _slot(left) == _slot(right)


def _root(events: list[DeviceEvent]) -> DeviceEvent:
    return next((event for event in events if event.kind != "xid" or event.code not in CONSEQUENCES), events[0])


def _about(event: DeviceEvent) -> tuple[object, ...]:
    return event.kind, event.code, event.pci_bus_id and _slot(event.pci_bus_id)


def _slot(address: str) -> str:
    domain, _, rest = address.lower().partition(".")[0].partition(":")
    return f"{domain[-4:]}:{rest}"
