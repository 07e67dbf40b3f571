"""What nvidia-smi says beside its output: errors of one GPU, warnings about the infoROM."""

import re
from typing import Optional

from gputop.remote.nvidia_values import HINTS, same_bus
from gputop.remote.sample import Row, Sample, problem

_HANDLE = re.compile(
    r"Unable to determine the device handle for gpu\s*(?:(?P<index>\d{1,3}):\s*)?"
    r"(?P<bus>[0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-9A-F])\s*:\s*(?P<why>.+)",
    re.IGNORECASE,
)
_INFOROM = re.compile(r"WARNING: infoROM is corrupted at gpu (?P<bus>[0-9A-Fa-f:]+\.\d)", re.IGNORECASE)


def attach(sample: Sample, words: str) -> None:
    """Attach the remarks in `words` to the devices they name; a lost GPU that is not listed becomes a device."""
    if "Unable to determine the device handle" in words:
        for line in words.splitlines():
            found = _HANDLE.search(line)
            if found is not None:
                _attach_handle_error(sample, found["bus"], found["index"], found["why"].strip())
    for found in _INFOROM.finditer(words):
        row = _row_of(sample, found["bus"])
        target = sample["problems"] if row is None else row.setdefault("problems", [])
        target.append(
            problem(
                "inforom-corrupted",
                f"the infoROM of GPU {found['bus']} is corrupted",
                found.group(),
                HINTS["inforom-corrupted"],
            )
        )


def _row_of(sample: Sample, bus_id: str) -> Optional[Row]:
    return next((row for row in sample["devices"] if same_bus(row.get("pci_bus_id"), bus_id)), None)


def _attach_handle_error(sample: Sample, bus_id: str, index: Optional[str], why: str) -> None:
    row = _row_of(sample, bus_id)
    if row is None:
        taken = {device["index"] for device in sample["devices"]}
        free = next(number for number in range(len(taken) + 1) if number not in taken)
        row = {"index": free if index is None else int(index), "vendor": "nvidia", "pci_bus_id": bus_id}
        sample["devices"].append(row)
    lost = "lost" in why.lower()
    row["state"] = "lost" if lost else "error"
    kind = "device-lost" if lost else "requires-reset" if "reset" in why.lower() else "device-error"
    summary = "the GPU is lost: the driver gets no answer from it" if lost else f"the driver cannot open it: {why}"
    row.setdefault("problems", []).append(problem(kind, summary, why, HINTS[kind]))
