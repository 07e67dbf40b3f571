"""`nvidia-smi dmon` and `nvidia-smi pmon`: columns under a commented header, one sample after the other.

A recording spans some time: of each device the last sample is shown, of processes all that were seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gputop.remote import cells, nvidia_remarks, nvidia_values
from gputop.remote.nvidia_values import Gathering
from gputop.remote.sample import Row, Sample, new_sample

_HEADER = re.compile(r"^#\s*(?:(?:date|time|yyyymmdd|hh:mm:ss)\s+)*gpu\s+\S", re.IGNORECASE | re.MULTILINE)

Convert = Callable[[str | None], Any]


def _megabytes_per_second(cell: str | None) -> float | None:
    value = nvidia_values.amount(cell)
    return None if value is None else value * 1e6


_DEVICE: dict[str, tuple[str, Convert]] = {
    "pwr": ("power_watts", nvidia_values.amount),
    "gtemp": ("temperature_celsius", nvidia_values.celsius),
    "temp": ("temperature_celsius", nvidia_values.celsius),
    "mtemp": ("memory_temperature_celsius", nvidia_values.celsius),
    "sm": ("utilization_percent", cells.percent),
    "mem": ("memory_utilization_percent", cells.percent),
    "enc": ("encoder_utilization_percent", cells.percent),
    "dec": ("decoder_utilization_percent", cells.percent),
    "mclk": ("memory_clock_mhz", nvidia_values.amount),
    "pclk": ("sm_clock_mhz", nvidia_values.amount),
    "fb": ("memory_used_bytes", nvidia_values.mib),
    "bar1": ("bar1_used_bytes", nvidia_values.mib),
    "sbecc": ("ecc_corrected_volatile", cells.count),
    "dbecc": ("ecc_uncorrected_volatile", cells.count),
    "pci": ("pcie_replay_count", cells.count),
    "rxpci": ("pcie_rx_bytes_per_second", _megabytes_per_second),
    "txpci": ("pcie_tx_bytes_per_second", _megabytes_per_second),
}


def looks_like_dmon(text: str) -> bool:
    names = _first_header(text)
    return "pid" not in names and bool(set(names) & set(_DEVICE))


def looks_like_pmon(text: str) -> bool:
    return "pid" in _first_header(text)


def read_dmon(text: str) -> Sample:
    sample = new_sample("nvidia-smi")
    words: list[str] = []
    for names, values in _rows(text, words):
        index = cells.integer(values[0])
        if index is None:
            words.append(" ".join(values))
            continue
        gathering = Gathering({"index": index, "vendor": "nvidia"})
        for name, value in zip(names[1:], values[1:], strict=False):
            if name in _DEVICE:
                key, convert = _DEVICE[name]
                gathering.put(key, value, convert)
        _replace(sample, gathering.finish())
    nvidia_remarks.attach(sample, "\n".join(words))
    return sample


def read_pmon(text: str) -> Sample:
    sample = new_sample("nvidia-smi")
    words: list[str] = []
    for names, values in _rows(text, words):
        cells_by_name = dict(zip(names, values, strict=False))
        index = cells.integer(values[0])
        if index is None or "pid" not in cells_by_name:
            words.append(" ".join(values))
            continue
        device = next((row for row in sample["devices"] if row["index"] == index), None)
        if device is None:
            device = {"index": index, "vendor": "nvidia", "processes": [], "processes_known": True}
            sample["devices"].append(device)
        pid = cells.integer(cells_by_name["pid"])
        if pid:
            process = _process(pid, cells_by_name)
            device["processes"] = [known for known in device["processes"] if known["pid"] != pid] + [process]
    nvidia_remarks.attach(sample, "\n".join(words))
    return sample


def _process(pid: int, cells_by_name: dict[str, str]) -> Row:
    return {
        "pid": pid,
        "name": cells.text(cells_by_name.get("command")),
        "kind": nvidia_values.process_kind(cells_by_name.get("type")),
        "utilization_percent": cells.percent(cells_by_name.get("sm")),
        "memory_used_bytes": nvidia_values.mib(cells_by_name.get("fb")),
    }


def _replace(sample: Sample, row: Row) -> None:
    rows = sample["devices"]
    for at, known in enumerate(rows):
        if known["index"] == row["index"]:
            rows[at] = row
            return
    rows.append(row)


def _first_header(text: str) -> list[str]:
    found = _HEADER.search(text)
    if found is None:
        return []
    end = text.find("\n", found.start())
    return _names(text[found.start() : end if end >= 0 else len(text)])


def _names(line: str) -> list[str]:
    """The columns from `gpu` on; date and time come before."""
    names = line.lstrip("# ").lower().split()
    return names[names.index("gpu") :] if "gpu" in names else []


def _rows(text: str, words: list[str]) -> Iterator[tuple[Sequence[str], list[str]]]:
    """Columns and cells of each sample, from the index of the GPU on. Other lines go to `words`."""
    names: list[str] = []
    skipped = 0
    for line in text.splitlines():
        if line.startswith("#"):
            found = _names(line) if _HEADER.match(line) else []
            if found:
                names = found
                skipped = len(line.lstrip("# ").split()) - len(found)
            continue
        last_is_text = names[-1:] == ["command"]
        pieces = line.split(None, skipped + len(names) - 1) if last_is_text else line.split()
        values = [piece.strip() for piece in pieces[skipped:]]
        # A line with fewer cells is the beginning of a sample, or words; its last cell may be cut off.
        if names and len(values) == len(names):
            yield names, values
        elif line.strip():
            words.append(line)
