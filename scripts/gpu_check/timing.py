"""How long NVML calls take, and what the numbered fields answer."""

import contextlib
import time
from typing import Any, Dict, Iterator, List

from gputop.remote import nvml_fields

_NEVER = ("nvmlErrorString", "nvmlInit", "nvmlShutdown")


class Calls:
    """Seconds of each call, by function and arguments."""

    def __init__(self) -> None:
        self._seconds: Dict[str, List[float]] = {}
        self._failed: Dict[str, str] = {}

    def wrap(self, name: str, function: Any) -> Any:
        def timed(*arguments: Any) -> Any:
            told = [
                "%d fields" % len(argument) if isinstance(argument, tuple) else str(argument)
                for argument in arguments[1:]
            ]
            if name == "nvmlDeviceGetProcessUtilization":
                told = ["since"]
            key = "%s(%s)" % (name, ", ".join(told))
            began = time.perf_counter()
            try:
                return function(*arguments)
            except Exception as error:
                self._failed[key] = str(error) or type(error).__name__
                raise
            finally:
                self._seconds.setdefault(key, []).append(time.perf_counter() - began)

        return timed

    def figures(self) -> List[Dict[str, Any]]:
        """Slowest first; milliseconds."""
        rows = []
        for key, seconds in self._seconds.items():
            ordered = sorted(seconds)
            rows.append(
                {
                    "call": key,
                    "count": len(ordered),
                    "median_ms": round(1000 * ordered[len(ordered) // 2], 3),
                    "max_ms": round(1000 * ordered[-1], 3),
                    "failed": self._failed.get(key),
                }
            )
        return sorted(rows, key=lambda row: -row["median_ms"])


@contextlib.contextmanager
def timed_calls() -> Iterator[Calls]:
    """All functions of the binding take note of their time."""
    import pynvml

    calls = Calls()
    original = {
        name: getattr(pynvml, name)
        for name in dir(pynvml)
        if name.startswith("nvml") and callable(getattr(pynvml, name)) and not isinstance(getattr(pynvml, name), type)
        if not name.startswith(_NEVER)
    }
    for name, function in original.items():
        setattr(pynvml, name, calls.wrap(name, function))
    try:
        yield calls
    finally:
        for name, function in original.items():
            setattr(pynvml, name, function)


_MORE = ((83, 0), (94, 0), (164, 0), (166, 0), (191, 0), (195, 0), (196, 0), (269, 0), (270, 0), (271, 0))
"""Fields that gputop does not ask for, and of which it is worth knowing whether they answer."""


def fields(devices: int) -> List[Dict[str, Any]]:
    """Code, type and value of each numbered field of each GPU, asked for one by one; and what the blocking call of
    the PCIe throughput costs, which the agent never makes."""
    import pynvml

    keys = [
        *nvml_fields.FAST,
        *nvml_fields.MEDIUM,
        *nvml_fields.SLOW,
        *nvml_fields.RETIRED,
        nvml_fields.SHUTDOWN_TLIMIT,
        nvml_fields.SLOWDOWN_TLIMIT,
        (nvml_fields.NVLINK_STATE, 0),
        *_MORE,
    ]
    rows = []
    for index in range(devices):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        except Exception as error:
            rows.append({"gpu": index, "field": None, "words": str(error)})
            continue
        for key in keys:
            rows.append(_field(pynvml, handle, index, key))
        began = time.perf_counter()
        try:
            words = "%d KB/s" % pynvml.nvmlDeviceGetPcieThroughput(handle, 0)
        except Exception as error:
            words = str(error)
        rows.append({"gpu": index, "field": "PcieThroughput", "ms": _ms(began), "words": words})
    return rows


def _field(pynvml: Any, handle: Any, index: int, key: nvml_fields.Key) -> Dict[str, Any]:
    began = time.perf_counter()
    try:
        (answer,) = pynvml.nvmlDeviceGetFieldValues(handle, [key])
    except Exception as error:
        return {"gpu": index, "field": "%d" % key[0], "ms": _ms(began), "words": str(error)}
    row = {"gpu": index, "field": "%d" % key[0], "ms": _ms(began), "code": answer.nvmlReturn}
    if answer.nvmlReturn == 0:
        row.update(type=answer.valueType, value=nvml_fields.integer(answer))
    return row


def _ms(began: float) -> float:
    return round(1000 * (time.perf_counter() - began), 3)
