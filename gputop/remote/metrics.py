"""What both routes say alike: names of values, and a sample of all devices."""

from typing import Any, Dict, List, Optional

from gputop.remote.problem import Problem

THROTTLE_REASONS = (
    (0x1, "idle"),
    (0x2, "app_clocks"),
    (0x4, "sw_power_cap"),
    (0x8, "hw_slowdown"),
    (0x10, "sync_boost"),
    (0x20, "sw_thermal"),
    (0x40, "hw_thermal"),
    (0x80, "hw_power_brake"),
    (0x100, "display_clocks"),
)

MEBIBYTE = 1024 * 1024


class Sample:
    """All devices at one instant, by position in the list of devices."""

    def __init__(self) -> None:
        self.values: List[Dict[str, Any]] = []
        """Keys of `domain.reading.DeviceReading`; what could not be read is left out or `None`."""
        self.partitions: Optional[List[Dict[str, Any]]] = None
        self.processes: Optional[List[Dict[str, Any]]] = None
        """`None`: nothing new to say."""
        self.problems: List[Problem] = []
        self.device_problems: Dict[int, List[Problem]] = {}


def throttle_reasons(mask: int) -> List[str]:
    return [name for bit, name in THROTTLE_REASONS if mask & bit]


def absolute_threshold(
    temperature: Optional[float], margin: Optional[float], threshold: Optional[float]
) -> Optional[int]:
    """A threshold in degrees, of a device that gives it relative to its limit. `margin`: degrees from the temperature
    up to that limit; `threshold`: degrees from the threshold up to it, negative above. `None` for what cannot be.

    Only of devices without a sensor in their memory: the margin is that of the sensor which is nearest to its limit.
    Recordings of one H100 give a limit of 87 degrees, of 85 and of 77; those of an L40S always 88."""
    if temperature is None or margin is None or threshold is None:
        return None
    value = int(temperature + margin - threshold)
    return value if _PLAUSIBLE_THRESHOLDS[0] <= value <= _PLAUSIBLE_THRESHOLDS[1] else None


_PLAUSIBLE_THRESHOLDS = (60, 130)


def columns(rows: List[Dict[str, Any]]) -> Dict[str, List[Any]]:
    """Rows as lists over the rows, one a key that has a value anywhere."""
    keys = {key for row in rows for key, value in row.items() if value is not None}
    return {key: [row.get(key) for row in rows] for key in sorted(keys)}


def same_bus_id(left: Optional[str], right: Optional[str]) -> bool:
    """PCI domains are written with four digits or with eight."""
    return left is not None and right is not None and left.lower()[-12:] == right.lower()[-12:]
