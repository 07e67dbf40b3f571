"""NVML's numbered fields: which of them are asked for, and what the answers mean.

By number: the binding's own constants have changed their meaning between its versions.
"""

import math
from typing import Any, Dict, Iterable, List, Optional, Set, Tuple

from gputop.remote.nvml_calls import QUIET, DeviceFailure, is_device_failure

Key = Tuple[int, int]
"""Number of a field and its scope."""

ALL_LINKS = 0xFFFFFFFF
"""The scope that asks for the sum over all NVLinks."""

MEMORY_TEMPERATURE: Key = (82, 0)
POWER_AVERAGE: Key = (185, 0)
POWER_INSTANT: Key = (186, 0)
PCIE_TX_BYTES: Key = (197, 0)
PCIE_RX_BYTES: Key = (198, 0)
NVLINK_TX_KIB: Key = (138, ALL_LINKS)
NVLINK_RX_KIB: Key = (139, ALL_LINKS)
NVLINK5_TX_BYTES: Key = (202, ALL_LINKS)
NVLINK5_RX_BYTES: Key = (204, ALL_LINKS)

REMAPPED_CORRECTED: Key = (142, 0)
REMAPPED_UNCORRECTED: Key = (143, 0)
REMAPPED_PENDING: Key = (144, 0)
REMAPPED_FAILED: Key = (145, 0)
RECOVERY_ACTION: Key = (230, 0)

RETIRED_SINGLE_BIT: Key = (29, 0)
RETIRED_DOUBLE_BIT: Key = (30, 0)
RETIRED_PENDING: Key = (31, 0)
SHUTDOWN_TLIMIT: Key = (193, 0)
SLOWDOWN_TLIMIT: Key = (194, 0)
NVLINK_COUNT: Key = (91, 0)
NVLINK_STATE = 165
"""Its scope is the number of a link."""
NVLINK_ERRORS: Tuple[Key, ...] = ((38, 0), (52, 0), (59, 0))
"""CRC, replay and recovery, summed over all links; up to NVLink 4."""
NVLINK5_ERRORS: Tuple[Key, ...] = tuple((number, ALL_LINKS) for number in (206, 207, 208, 209, 210, 211, 219, 221))
"""Malformed packets, buffer overruns, receive (also remote, general), link integrity, effective, symbol: what
`nvidia-smi nvlink -e` lists as errors. Bit error rates are never 0, and are no errors."""

FAST = (
    *(MEMORY_TEMPERATURE, POWER_AVERAGE, POWER_INSTANT, PCIE_TX_BYTES, PCIE_RX_BYTES),
    *(NVLINK_TX_KIB, NVLINK_RX_KIB, NVLINK5_TX_BYTES, NVLINK5_RX_BYTES),
)
MEDIUM = (RECOVERY_ACTION, REMAPPED_CORRECTED, REMAPPED_UNCORRECTED, REMAPPED_PENDING, REMAPPED_FAILED)
SLOW = (NVLINK_COUNT, *NVLINK_ERRORS, *NVLINK5_ERRORS)
RETIRED = (RETIRED_SINGLE_BIT, RETIRED_DOUBLE_BIT, RETIRED_PENDING)

RECOVERY_ACTIONS = {0: "none", 1: "gpu-reset", 2: "node-reboot", 3: "drain-p2p", 4: "drain-and-reset"}
"""From 5 on the meaning of a number depends on the driver's branch."""

_INTEGERS = {1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
_LONG = frozenset((2, 3, 4))
"""Types in which a counter of bytes does not wrap between two looks."""
_INVALID_ARGUMENT = 2
_COUNTERS = frozenset((PCIE_TX_BYTES, PCIE_RX_BYTES, NVLINK_TX_KIB, NVLINK_RX_KIB, NVLINK5_TX_BYTES, NVLINK5_RX_BYTES))
_MAX_LINKS = 36


class Fields:
    """The fields of one device. What it does not have is remembered, and not asked for again until `retry`."""

    def __init__(self) -> None:
        self._absent: Set[Key] = set()

    def wanted(self, keys: Iterable[Key]) -> List[Key]:
        """Those worth asking for, in one call."""
        return [key for key in keys if key not in self._absent]

    def retry(self) -> None:
        self._absent.clear()

    def values(self, answers: Iterable[Any]) -> Dict[Key, int]:
        """Answers of `nvmlDeviceGetFieldValues` that are values. Raises `DeviceFailure`."""
        found: Dict[Key, int] = {}
        for answer in answers:
            key = (answer.fieldId, answer.scopeId)
            code = answer.nvmlReturn
            if is_device_failure(code):
                raise DeviceFailure(code, "field %d" % answer.fieldId)
            if code in QUIET or code == _INVALID_ARGUMENT:  # so say drivers that are older than the field
                self._absent.add(key)
            elif code == 0:
                value = integer(answer)
                if value is not None and (key not in _COUNTERS or answer.valueType in _LONG):
                    found[key] = value
        return found


def integer(answer: Any) -> Optional[int]:
    """The value in the type that it says to have; `None` for one that is no whole number."""
    name = _INTEGERS.get(answer.valueType)
    value = getattr(answer.value, name, None) if name is not None else None
    return value if isinstance(value, int) else None


def signed(value: Optional[int]) -> Optional[int]:
    """A small number that some drivers give in a type without a sign."""
    return value - (1 << 32) if value is not None and value >= 1 << 31 else value


def link_states(count: int) -> List[Key]:
    """The fields that tell whether each of `count` NVLinks is active."""
    return [(NVLINK_STATE, link) for link in range(min(count, _MAX_LINKS))]


def total(values: Dict[Key, int], keys: Iterable[Key]) -> Optional[int]:
    """The sum of those of `keys` that have a value; `None` where none has."""
    known = [values[key] for key in keys if key in values]
    return sum(known) if known else None


class Rates:
    """What counters grow by in a second."""

    def __init__(self) -> None:
        self._last: Dict[str, Tuple[int, float, Optional[float]]] = {}

    def per_second(self, name: str, counter: Optional[int], now: float, most: float) -> Optional[float]:
        """`None` after the first look, after a reset of the counter, and for what is more than can be: `most`. `now` in
        seconds, monotonic."""
        if counter is None:
            self._last.pop(name, None)
            return None
        last = self._last.get(name)
        if last is not None and now - last[1] < _MIN_SECONDS:
            return last[2]
        rate = None
        if last is not None and counter >= last[0]:
            rate = (counter - last[0]) / (now - last[1])
            if rate > most or math.isnan(rate):
                rate = None
        rate = None if rate is None else round(rate, 1)
        self._last[name] = (counter, now, rate)
        return rate


_MIN_SECONDS = 0.05
"""In less time too little is counted to tell."""
