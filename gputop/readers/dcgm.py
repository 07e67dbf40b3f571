"""NVIDIA's data center tools: `dcgmi discovery -l`, `dcgmi diag`, and the metrics of dcgm-exporter."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gputop.remote import cells, nvidia_values
from gputop.remote.nvidia_values import Gathering
from gputop.remote.sample import Row, Sample, new_sample, problem

ROUTE = "dcgm"

Convert = Callable[[str | None], Any]

# discovery

_INDEX = re.compile(r"\|\s*(?P<index>\d{1,3})\s*\|\s*(?P<said>.*?)\s*\|?\s*$")
_MORE = re.compile(r"\|\s*\|\s*(?P<said>.*?)\s*\|?\s*$")
_DISCOVERED = (
    ("model", "name:"),
    ("pci_bus_id", "pci bus id:"),
    ("uuid", "device uuid:"),
)


def looks_like_discovery(text: str) -> bool:
    return "Device Information" in text and "GPU ID" in text


def read_discovery(text: str) -> Sample:
    sample = new_sample(ROUTE)
    row: Row | None = None
    is_gpus = False
    for line in text.splitlines():
        if "Device Information" in line or line.lstrip("| ").startswith(("Switch ID", "CPU ID")):
            is_gpus, row = "GPU ID" in line, None
            continue
        first = _INDEX.match(line.strip())
        more = _MORE.match(line.strip())
        if not is_gpus or (first is None and more is None):
            continue
        if first is not None:
            row = {"index": int(first["index"]), "vendor": "nvidia"}
            sample["devices"].append(row)
        said = (first or more)["said"]  # type: ignore[index]
        for key, label in _DISCOVERED:
            if row is not None and said.lower().startswith(label):
                row.setdefault(key, cells.text(said[len(label) :]))
    return sample


# monitor

_DMON_HEAD = re.compile(r"^#\s*Entity\s+(?P<names>\S.*)$", re.MULTILINE)
_DMON_ROW = re.compile(r"^\s*GPU (?P<index>\d{1,3})\s+(?P<values>\S.*)$")
_DMON: dict[str, tuple[str, Convert]] = {
    "SMCLK": ("sm_clock_mhz", nvidia_values.amount),
    "MMCLK": ("memory_clock_mhz", nvidia_values.amount),
    "TMPTR": ("temperature_celsius", nvidia_values.celsius),
    "MMTMP": ("memory_temperature_celsius", nvidia_values.celsius),
    "POWER": ("power_watts", nvidia_values.amount),
    "GPUTL": ("utilization_percent", cells.percent),
    "MCUTL": ("memory_utilization_percent", cells.percent),
    "FBTTL": ("memory_total_bytes", nvidia_values.mib),
    "FBUSD": ("memory_used_bytes", nvidia_values.mib),
}


def looks_like_dmon(text: str) -> bool:
    return _DMON_HEAD.search(text) is not None


def read_dmon(text: str) -> Sample:
    """`dcgmi dmon`: of each GPU the last sample."""
    sample = new_sample(ROUTE)
    names: list[str] = []
    rows: dict[int, Row] = {}
    for line in text.splitlines():
        head, found = _DMON_HEAD.match(line), _DMON_ROW.match(line)
        if head is not None:
            names = head["names"].split()
        values = found["values"].split() if found is not None else []
        if found is None or len(values) != len(names):
            continue
        gathering = Gathering({"index": int(found["index"]), "vendor": "nvidia"})
        for name, value in zip(names, values, strict=True):
            if name in _DMON:
                key, convert = _DMON[name]
                gathering.put(key, value, convert)
        rows[int(found["index"])] = gathering.finish()
    sample["devices"] = list(rows.values())
    return sample


# diagnosis

_TEST = re.compile(r"\|\s*(?P<test>[A-Z][\w /-]*?)\s*\|\s*(?P<said>\S.*?)\s*\|?\s*$")
_VERDICT = re.compile(r"(?P<verdict>Pass|Fail|Warn|Skip)\b(?:\s*-\s*(?:All|GPUs?:\s*(?P<gpus>\d[\d, ]*)))?")


def looks_like_diag(text: str) -> bool:
    return any(
        (row := _TEST.match(line.strip())) is not None and _VERDICT.match(row["said"]) is not None
        for line in text.splitlines()
    )


def read_diag(text: str) -> Sample:
    """Tests that failed, at the devices that the table names."""
    sample = new_sample(ROUTE)
    test, notes = "", list[str]()
    failed: list[tuple[str, str | None]] = []
    for line in text.splitlines():
        named, more = _TEST.match(line.strip()), _MORE.match(line.strip())
        said = (named or more)["said"] if named or more else ""  # type: ignore[index]
        if named is not None and named["test"] in ("Warning", "Error", "Info"):
            notes.append(said)
        elif notes and named is None and more is not None and _VERDICT.match(said) is None:
            notes[-1] += _broken_off(notes[-1]) + said
        elif (verdict := _VERDICT.match(said)) is not None:
            test = named["test"] if named is not None else test
            for index in (verdict["gpus"] or "").replace(",", " ").split():
                _diagnosed(sample, index)
            if verdict["verdict"] == "Fail":
                failed.append((test, verdict["gpus"]))
    for name, gpus in failed:
        found = problem("device-error", f"dcgmi diag: {name} failed", "\n".join(notes)[:2000] or None, None)
        for index in (gpus or "").replace(",", " ").split():
            _diagnosed(sample, index).setdefault("problems", []).append(found)
        if not gpus:
            sample["problems"].append(found)
    return sample


def _broken_off(note: str) -> str:
    """Words are broken across rows without a hyphen; a row that ends early ended at a blank."""
    return "" if len(note) >= 40 else " "


def _diagnosed(sample: Sample, index: str) -> Row:
    number = int(index[:9])
    row: Row | None = next((row for row in sample["devices"] if row["index"] == number), None)
    if row is None:
        row = {"index": number, "vendor": "nvidia"}
        sample["devices"].append(row)
    return row


# the exporter's metrics

_SERIES = re.compile(r"^(?P<name>DCGM_FI_\w+)\{(?P<labels>[^}]*)\}\s+(?P<value>\S+)", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def _gauge(cell: str | None) -> float | None:
    """A number, `1.5e+02` too; the blank values of DCGM are none."""
    try:
        value = float(cell or "")
    except ValueError:
        return None
    return value if -cells.LIMIT < value < cells.LIMIT else None


def _scaled(factor: float) -> Convert:
    def convert(cell: str | None) -> float | None:
        value = _gauge(cell)
        return None if value is None or value < 0 else value * factor

    return convert


def _percent(cell: str | None) -> float | None:
    value = _gauge(cell)
    return value if value is not None and 0 <= value <= 100 else None


def _celsius(cell: str | None) -> float | None:
    value = _gauge(cell)
    return value if value is not None and -100 < value < 300 else None


def _count(cell: str | None) -> int | None:
    value = _gauge(cell)
    return int(value) if value is not None and value >= 0 else None


def _mib(cell: str | None) -> int | None:
    value = _gauge(cell)
    return round(value * (1 << 20)) if value is not None and value >= 0 else None


def _flag(cell: str | None) -> bool | None:
    value = _gauge(cell)
    return None if value is None else value != 0


METRICS: dict[str, tuple[str, Convert]] = {
    # without DCGM_FI_; the second names are those since DCGM 4.6
    "DEV_SM_CLOCK": ("sm_clock_mhz", _scaled(1)),
    "DEV_MEM_CLOCK": ("memory_clock_mhz", _scaled(1)),
    "DEV_GPU_TEMP": ("temperature_celsius", _celsius),
    "DEV_GPU_TEMP_CELSIUS": ("temperature_celsius", _celsius),
    "DEV_MEMORY_TEMP": ("memory_temperature_celsius", _celsius),
    "DEV_MEMORY_TEMP_CELSIUS": ("memory_temperature_celsius", _celsius),
    "DEV_POWER_USAGE": ("power_watts", _scaled(1)),
    "DEV_BOARD_POWER_WATTS": ("power_watts", _scaled(1)),
    "DEV_TOTAL_ENERGY_CONSUMPTION": ("energy_joules", _scaled(0.001)),
    "DEV_GPU_UTIL": ("utilization_percent", _percent),
    "DEV_MEM_COPY_UTIL": ("memory_utilization_percent", _percent),
    "DEV_ENC_UTIL": ("encoder_utilization_percent", _percent),
    "DEV_DEC_UTIL": ("decoder_utilization_percent", _percent),
    "DEV_FB_USED": ("memory_used_bytes", _mib),
    "DEV_FB_TOTAL": ("memory_total_bytes", _mib),
    "DEV_FB_RESERVED": ("memory_reserved_bytes", _mib),
    "DEV_FAN_SPEED": ("fan_percent", _scaled(1)),
    "DEV_POWER_MGMT_LIMIT": ("power_limit_watts", _scaled(1)),
    "DEV_POWER_MGMT_LIMIT_DEF": ("power_default_limit_watts", _scaled(1)),
    "DEV_PCIE_REPLAY_COUNTER": ("pcie_replay_count", _count),
    "DEV_PCIE_REPLAY_TOTAL": ("pcie_replay_count", _count),
    "DEV_PCIE_LINK_GEN": ("pcie_generation", _count),
    "DEV_PCIE_LINK_WIDTH": ("pcie_width", _count),
    "PROF_PCIE_TX_BYTES": ("pcie_tx_bytes_per_second", _scaled(1)),
    "PROF_PCIE_RX_BYTES": ("pcie_rx_bytes_per_second", _scaled(1)),
    "PROF_NVLINK_TX_BYTES": ("nvlink_tx_bytes_per_second", _scaled(1)),
    "PROF_NVLINK_RX_BYTES": ("nvlink_rx_bytes_per_second", _scaled(1)),
    "DEV_ECC_SBE_VOL_TOTAL": ("ecc_corrected_volatile", _count),
    "DEV_ECC_DBE_VOL_TOTAL": ("ecc_uncorrected_volatile", _count),
    "DEV_ECC_SBE_AGG_TOTAL": ("ecc_corrected_aggregate", _count),
    "DEV_ECC_DBE_AGG_TOTAL": ("ecc_uncorrected_aggregate", _count),
    "DEV_CORRECTABLE_REMAPPED_ROWS": ("remapped_rows_corrected", _count),
    "DEV_ROW_REMAP_CORRECTABLE_TOTAL": ("remapped_rows_corrected", _count),
    "DEV_UNCORRECTABLE_REMAPPED_ROWS": ("remapped_rows_uncorrected", _count),
    "DEV_ROW_REMAP_UNCORRECTABLE_TOTAL": ("remapped_rows_uncorrected", _count),
    "DEV_ROW_REMAP_FAILURE": ("remapped_rows_failed", _flag),
    "DEV_ROW_REMAP_FAILED": ("remapped_rows_failed", _flag),
    "DEV_ROW_REMAP_PENDING": ("remapped_rows_pending", _flag),
    "DEV_RETIRED_SBE": ("retired_pages_single_bit", _count),
    "DEV_RETIRED_DBE": ("retired_pages_double_bit", _count),
    "DEV_RETIRED_PENDING": ("retired_pages_pending", _flag),
}
"""GPU_UTIL_RATIO is left out: builds differ in whether it is 0 to 1 or 0 to 100."""

_PARTITION_METRICS = {"memory_used_bytes", "memory_total_bytes"}


def looks_like_metrics(text: str) -> bool:
    return _SERIES.search(text) is not None


def read_metrics(text: str) -> Sample:
    """One row a GPU; series of a MIG instance belong to its partition."""
    sample = new_sample(ROUTE)
    gatherings: dict[str, Gathering] = {}
    hosts = set()
    for found in _SERIES.finditer(text):
        labels = dict(_LABEL.findall(found["labels"]))
        host = cells.text(labels.get("Hostname") or labels.get("hostname"))
        hosts.add(host)
        index = cells.integer(labels.get("gpu"))
        if index is None or len(hosts) > 1:
            continue
        identity = labels.get("UUID") or labels.get("uuid") or str(index)
        if identity not in gatherings:
            gatherings[identity] = _gathering(sample, index, labels)
        gathering = gatherings[identity]
        _take_facts(sample, host, labels)
        key, convert = METRICS.get(found["name"].removeprefix("DCGM_FI_"), ("", _gauge))
        if labels.get("GPU_I_ID"):
            _take_instance(gathering.row, labels, key, convert(found["value"]))
        elif key:
            gathering.put(key, found["value"], convert)
    _put_totals(sample, text, gatherings)
    if len(hosts) > 1:
        sample["problems"].append(
            problem("unreadable-file", "metrics of several hosts; the first one is shown", None, "one file a host")
        )
    return sample


def _gathering(sample: Sample, index: int, labels: dict[str, str]) -> Gathering:
    row: Row = {"index": index, "vendor": "nvidia"}
    for key, names in (
        ("uuid", ("UUID", "uuid")),
        ("pci_bus_id", ("pci_bus_id",)),
        ("model", ("modelName", "model_name")),
    ):
        row[key] = next((value for name in names if (value := cells.text(labels.get(name)))), None)
    device = labels.get("device", "")
    row["minor_number"] = cells.integer(device.removeprefix("nvidia")) if device.startswith("nvidia") else None
    sample["devices"].append(row)
    return Gathering(row)


def _take_facts(sample: Sample, host: str | None, labels: dict[str, str]) -> None:
    for key, value in (
        ("hostname", host),
        ("driver_version", labels.get("DCGM_FI_DRIVER_VERSION") or labels.get("DCGM_FI_SYSTEM_DRIVER_VERSION")),
    ):
        if value:
            sample["facts"].setdefault(key, value)


def _take_instance(row: Row, labels: dict[str, str], key: str, value: Any) -> None:
    row["mig_mode"] = "enabled"
    number = cells.integer(labels["GPU_I_ID"])
    partitions = row.setdefault("partitions", [])
    found = next((known for known in partitions if known["gpu_instance_id"] == number), None)
    if found is None:
        found = {
            "kind": "mig",
            "index": len(partitions),
            "profile": cells.text(labels.get("GPU_I_PROFILE")),
            "gpu_instance_id": number,
        }
        partitions.append(found)
    if key in _PARTITION_METRICS and value is not None:
        found[key] = value


def _put_totals(sample: Sample, text: str, gatherings: dict[str, Gathering]) -> None:
    """The exporter gives used, free and, since DCGM 3, reserved memory; the total is their sum."""
    free: dict[str, int] = {}
    for found in _SERIES.finditer(text):
        if found["name"] == "DCGM_FI_DEV_FB_FREE":
            labels = dict(_LABEL.findall(found["labels"]))
            value = _mib(found["value"])
            if value is not None and not labels.get("GPU_I_ID"):
                free[labels.get("UUID") or labels.get("uuid") or labels.get("gpu", "")] = value
    for identity, gathering in gatherings.items():
        row = gathering.row
        used = row.get("memory_used_bytes")
        if row.get("memory_total_bytes") is None and used is not None and identity in free:
            row["memory_total_bytes"] = used + free[identity] + (row.get("memory_reserved_bytes") or 0)
        gathering.finish()
