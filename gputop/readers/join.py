"""Several recordings of one machine as one sample."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.remote.nvidia_values import same_bus
from gputop.remote.sample import DEVICE_KEYS, Row, Sample, new_sample, problem


def join(samples: Sequence[Sample]) -> Sample:
    """All that `samples` say. Devices are the same by uuid, else by bus id, else by vendor and index; where two files
    differ in a value, the first one that has it counts."""
    made = new_sample(next((sample["route"] for sample in samples if sample["devices"]), samples[0]["route"]))
    for sample in samples:
        disagreement = _disagreement(made["facts"], sample["facts"])
        if disagreement is not None:
            made["problems"].append(disagreement)
        for part in ("facts", "host"):
            for key, value in sample[part].items():
                if made[part].get(key) is None:
                    made[part][key] = value
        for row in sample["devices"]:
            known = _same_device(made["devices"], row)
            if known is None:
                made["devices"].append(dict(row))
            else:
                _merge(known, row)
        made["problems"] += [found for found in sample["problems"] if found not in made["problems"]]
        made["events"] += sample["events"]
    made["devices"].sort(key=lambda row: row["index"])
    return made


def renumber(samples: Sequence[Sample], table: Sample) -> None:
    """Give devices the indices that they have in `table`, of the same machine: other outputs of nvidia-smi only list
    those that answer, and do not number them."""
    for row in (row for sample in samples for row in sample["devices"]):
        for known in table["devices"]:
            if row.get("pci_bus_id") and known.get("pci_bus_id") and same_bus(known["pci_bus_id"], row["pci_bus_id"]):
                row["index"] = known["index"]


def settled(sample: Sample) -> Sample:
    """`sample` with one row a device: an output that is there twice tells of the same devices again, in newer words."""
    rows: list[Row] = []
    for row in sample["devices"]:
        known = next((one for one in rows if _is_again(one, row)), None)
        if known is None:
            rows.append(row)
        else:
            _renew(known, row)
    for row in rows:
        for name, keys in (("processes", _PROCESS), ("partitions", _PARTITION)):
            if row.get(name):
                row[name] = _once(row[name], keys)
    sample["devices"] = rows
    return sample


_PROCESS = ("pid", "kind", "gpu_instance_id", "compute_instance_id")
_PARTITION = ("kind", "uuid", "gpu_instance_id", "compute_instance_id")


def _is_again(known: Row, row: Row) -> bool:
    if known.get("vendor") != row.get("vendor"):
        return False
    if known.get("uuid") and row.get("uuid") and known["uuid"] != row["uuid"]:
        return False
    one, other = known.get("pci_bus_id"), row.get("pci_bus_id")
    if one and other:
        return str(one).lower() == str(other).lower()
    return bool(known["index"] == row["index"])


def _renew(known: Row, row: Row) -> None:
    """The newer values; what the newer output does not speak of stays."""
    before, after = known.get("problems", []), row.get("problems", [])
    problems = [*before, *(found for found in after if found not in before)]
    told = {key: value for key, value in row.items() if value is not None or key not in DEVICE_KEYS}
    known.update(told, index=known["index"], problems=problems)


def _once(rows: list[Row], keys: tuple[str, ...]) -> list[Row]:
    """Without those that are there again, the newest in the place of the first."""
    found: dict[tuple[object, ...], Row] = {}
    for row in rows:
        identity = tuple(row.get(key) for key in keys)
        if identity[1:] == (None,) * (len(keys) - 1):
            identity = (*identity, row.get("index"))
        found[identity] = row
    return list(found.values())


def _disagreement(known: dict[str, object], told: dict[str, object]) -> dict[str, object] | None:
    for key, name in (("hostname", "host name"), ("driver_version", "driver version"), ("boot_id", "boot id")):
        one, other = known.get(key), told.get(key)
        if one is not None and other is not None and one != other:
            return problem(
                "unreadable-file",
                "the joined files do not seem to be of one machine at one time",
                f"{name}: {one} and {other}",
                "read them without --join",
            )
    return None


def _same_device(rows: Sequence[Row], row: Row) -> Row | None:
    for known in rows:
        if known.get("vendor") != row.get("vendor"):
            continue
        if known.get("uuid") and row.get("uuid"):
            if known["uuid"] == row["uuid"] and _buses_agree(known, row):
                return known
        elif known.get("pci_bus_id") and row.get("pci_bus_id"):
            if same_bus(known["pci_bus_id"], row["pci_bus_id"]):
                return known
        elif known["index"] == row["index"]:
            return known
    return None


def _buses_agree(known: Row, row: Row) -> bool:
    """Some recordings have all their uuids blanked: two devices of one uuid on two buses are two."""
    one, other = known.get("pci_bus_id"), row.get("pci_bus_id")
    return one is None or other is None or same_bus(one, other)


def _merge(known: Row, row: Row) -> None:
    for key, value in row.items():
        if key == "problems":
            known[key] = [*known.get(key, []), *(found for found in value if found not in known.get(key, []))]
        elif key == "partitions":
            known[key] = _merged_rows(known.get(key) or [], value, ("gpu_instance_id", "compute_instance_id"))
        elif key == "processes":
            known[key] = _merged_rows(known.get(key) or [], value, ("pid",))
        elif key == "state":
            known[key] = value if known.get(key) in (None, "ok") else known[key]
        elif key == "processes_known":
            known[key] = bool(known.get(key)) or value
        elif known.get(key) is None:
            known[key] = value


def _merged_rows(known: list[Row], told: list[Row], keys: tuple[str, ...]) -> list[Row]:
    """Partitions or processes of both, those with the same `keys` folded into one."""
    merged = [dict(row) for row in known]
    for row in told:
        same = next((one for one in merged if _same_row(one, row, keys)), None)
        if same is None:
            merged.append(dict(row))
        else:
            same.update({key: value for key, value in row.items() if same.get(key) is None})
    return merged


def _same_row(one: Row, other: Row, keys: tuple[str, ...]) -> bool:
    """By `keys` where both have them all, else by the index."""
    pairs = [(one.get(key), other.get(key)) for key in keys]
    if all(left is not None and right is not None for left, right in pairs):
        return all(left == right for left, right in pairs)
    return one.get("index") is not None and one.get("index") == other.get("index")
