"""Entries of one AMD card that is split into compute partitions (XCP), folded into one device."""

from typing import Any, Dict, List, Optional

from gputop.remote.sample import Row

WHOLE = ("SPX", None)
"""Compute modes in which a card is one device."""


def fold(rows: List[Row]) -> List[Row]:
    """One row a card. An entry's key `xcp` (id, compute, memory, busy) is taken away.

    The first entry of a card (partition 0) carries its power, temperature and whole memory; those of the others are
    of the partition alone. Entries are of one card when they have one PCI address (whose function may be the number
    of the partition), or, where no address is known, when a partition above 0 follows its card's partition 0.
    """
    cards: List[Row] = []
    groups: List[List[Row]] = []
    for row in rows:
        card = _card_of(row, cards)
        if card is None:
            cards.append(row)
            groups.append([row])
        else:
            groups[card].append(row)
    return [_folded(group) for group in groups]


def _card_of(row: Row, cards: List[Row]) -> Optional[int]:
    address, number = row.get("pci_bus_id"), (row.get("xcp") or {}).get("id")
    if address is None:
        return len(cards) - 1 if number and cards and cards[-1].get("pci_bus_id") is None else None
    for position, card in enumerate(cards):
        other = card.get("pci_bus_id")
        if other is not None and (other.lower() == address.lower() or (number and _slot(other) == _slot(address))):
            return position
    return None


def _slot(address: str) -> str:
    return address.lower().split(".")[0]


def _folded(group: List[Row]) -> Row:
    card = group[0]
    parts = [row.pop("xcp", None) or {} for row in group]
    busy = list(parts[0].get("busy") or ())
    if len(group) > 1 or parts[0].get("compute") not in WHOLE:
        card["partitions"] = [_partition(row, part, at, card) for at, (row, part) in enumerate(zip(group, parts))]
    elif sum(percent is not None for percent in busy) > 1:
        card["partitions"] = [
            {"kind": "xcp", "index": at, "utilization_percent": percent}
            for at, percent in enumerate(busy)
            if percent is not None
        ]
    for row in group[1:]:
        card["problems"].extend(row["problems"])
        if row.get("processes"):
            card["processes"] = (card.get("processes") or []) + row["processes"]
        card["processes_known"] = bool(card.get("processes_known")) and bool(row.get("processes_known"))
    return card


def _partition(row: Row, part: Dict[str, Any], at: int, card: Row) -> Dict[str, Any]:
    names = [name for name in (part.get("compute"), part.get("memory")) if name]
    found = {
        "kind": "xcp",
        "index": part["id"] if part.get("id") is not None else at,
        "uuid": row.get("uuid") if row is not card else None,
        "profile": "/".join(names) or None,
    }
    if row is not card:
        for key in ("memory_used_bytes", "memory_total_bytes", "utilization_percent"):
            found[key] = row.get(key)
    return found
