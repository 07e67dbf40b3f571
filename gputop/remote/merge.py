"""Several outputs of one tool as one sample."""

from typing import Any, List, Optional

from gputop.remote.metrics import same_bus_id
from gputop.remote.sample import Row, Sample


def merged(samples: List[Sample]) -> Sample:
    """The first sample, with what the others know more. Devices that only others list are left out of it: what lists
    them was asked earlier."""
    made = samples[0]
    for other in samples[1:]:
        for key, value in other["facts"].items():
            if made["facts"].get(key) is None:
                made["facts"][key] = value
        for row in other["devices"]:
            known = find(made["devices"], row)
            if known is not None:
                _fill(known, row)
    return made


def find(rows: List[Row], row: Row) -> Optional[Row]:
    """The row about the same device: by uuid, else by bus id, else by index."""
    return next((known for known in rows if same_device(known, row)), None)


def same_device(one: Row, other: Row) -> bool:
    if one.get("uuid") and other.get("uuid"):
        return bool(one["uuid"] == other["uuid"])
    if one.get("pci_bus_id") and other.get("pci_bus_id"):
        return same_bus_id(one["pci_bus_id"], other["pci_bus_id"])
    return bool(one["index"] == other["index"])


def _fill(known: Row, row: Row) -> None:
    for key, value in row.items():
        if key == "problems":
            continue  # of a question that is asked seldom: they may be over
        if key == "processes_known":
            known[key] = bool(known.get(key)) or bool(value)
        elif key == "partitions":
            known[key] = _by(known.get(key) or [], value or [], "index")
        elif key == "processes":
            known[key] = _by(known.get(key) or [], value or [], "pid")
        elif known.get(key) is None:
            known[key] = value


def _by(known: List[Any], told: List[Any], key: str) -> List[Any]:
    """Rows of both; those with the same `key` filled in."""
    made = [dict(row) for row in known]
    for row in told:
        same = next((one for one in made if one.get(key) == row.get(key)), None)
        if same is None:
            made.append(dict(row))
        else:
            same.update((name, value) for name, value in row.items() if same.get(name) is None)
    return made
