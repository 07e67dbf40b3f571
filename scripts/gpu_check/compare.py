"""What both ways say, value by value."""

from typing import Any, Dict, List, Tuple

Row = Dict[str, Any]

TOLERANCES = {
    # what moves between two looks, by how much: share of the value, and on top of it, absolute
    "utilization_percent": (0.0, 100.0),
    "memory_utilization_percent": (0.0, 100.0),
    "encoder_utilization_percent": (0.0, 100.0),
    "decoder_utilization_percent": (0.0, 100.0),
    "memory_used_bytes": (0.02, 64.0 * 1048576),
    "bar1_used_bytes": (0.1, 64.0 * 1048576),
    "temperature_celsius": (0.0, 3.0),
    "memory_temperature_celsius": (0.0, 3.0),
    "temperature_slowdown_celsius": (0.0, 1.0),
    "temperature_shutdown_celsius": (0.0, 1.0),
    "fan_percent": (0.0, 10.0),
    "power_watts": (0.2, 10.0),
    "power_average_watts": (0.2, 10.0),
    "power_instant_watts": (0.5, 20.0),
    "power_limit_watts": (0.0, 0.5),
    "power_default_limit_watts": (0.0, 0.5),
    "sm_clock_mhz": (0.5, 50.0),
    "memory_clock_mhz": (0.5, 50.0),
    "memory_total_bytes": (0.0, 1048576.0),
    "memory_reserved_bytes": (0.0, 1048576.0),
    "bar1_total_bytes": (0.0, 1048576.0),
    "pcie_replay_count": (0.0, 5.0),
}
MOVING = frozenset(("throttle_reasons", "performance_state", "pcie_generation"))
"""May be another one a moment later, without a measure of how far."""
NVML_ALONE = frozenset(
    (
        "energy_joules",
        "pcie_tx_bytes_per_second",
        "pcie_rx_bytes_per_second",
        "nvlink_tx_bytes_per_second",
        "nvlink_rx_bytes_per_second",
    )
)


def devices(one: List[Row], other: List[Row], pairs: List[Tuple[Any, Any]]) -> List[Row]:
    """A row a key and device: what was said, and how it compares. `pairs`: samples of the same moment; of those the
    one counts in which the two are nearest."""
    rows = []
    for key in ("uuid", "pci_bus_id", "model", "serial", "minor_number"):
        for position, device in enumerate(one):
            left, right = device.get(key), other[position].get(key) if position < len(other) else None
            rows.append(_row(key, position, [(left, right)]))
    keys = sorted({key for pair in pairs for sample in pair for values in sample.values for key in values})
    for key in keys:
        for position in range(len(one)):
            said = [
                (left.values[position].get(key), right.values[position].get(key))
                for left, right in pairs
                if position < len(left.values) and position < len(right.values)
            ]
            if any(value is not None for pair in said for value in pair):
                rows.append(_row(key, position, said))
    return rows


def is_complete(rows: List[Row]) -> bool:
    """Everything that nvidia-smi is asked for more seldom has come."""
    return all(row["verdict"] != "NVML alone" or row["key"] in NVML_ALONE for row in rows)


def wrong(rows: List[Row]) -> List[Row]:
    return [row for row in rows if row["verdict"] in ("differs", "nvidia-smi alone")]


def _row(key: str, position: int, said: List[Tuple[Any, Any]]) -> Row:
    both = [(left, right) for left, right in said if left is not None and right is not None]
    if both:
        left, right = min(both, key=lambda pair: _distance(key, *pair))
        verdict = _verdict(key, left, right)
    else:
        left = next((left for left, _ in reversed(said) if left is not None), None)
        right = next((right for _, right in reversed(said) if right is not None), None)
        alone = "NVML alone" if right is None else "nvidia-smi alone"
        verdict = "neither" if left is None and right is None else alone
    words = "GPU %d: %s by NVML, %s by nvidia-smi" % (position, left, right)
    return {"key": key, "position": position, "nvml": left, "smi": right, "verdict": verdict, "words": words}


def _verdict(key: str, left: Any, right: Any) -> str:
    if left == right:
        return "same"
    if key in MOVING or _distance(key, left, right) <= 1.0:
        return "near"
    return "differs"


def _distance(key: str, left: Any, right: Any) -> float:
    """0 for the same, up to 1 within what is tolerated."""
    if left == right:
        return 0.0
    if key not in TOLERANCES or isinstance(left, (str, bool, list)):
        return 2.0
    share, more = TOLERANCES[key]
    return abs(left - right) / float(share * max(abs(left), abs(right)) + more)
