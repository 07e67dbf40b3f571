"""Single NVML calls, whose failures are values."""

from typing import Any, Callable, List, Optional, Set, Tuple

UNINITIALIZED = 1
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
DRIVER_NOT_LOADED = 9
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
VERSION_MISMATCH = 18
ARGUMENT_VERSION_MISMATCH = 25
DEPRECATED = 26
NOT_READY = 27

MEMORY_V2 = 0x02000028
"""Size of the struct, or-ed with its version shifted left by 24 bits."""

QUIET = frozenset((NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH, DEPRECATED))
"""Codes by which a device says that it has no such value: the field is absent, nothing is wrong."""

_DRIVER_GONE = frozenset((UNINITIALIZED, DRIVER_NOT_LOADED, VERSION_MISMATCH))


class DeviceFailure(Exception):
    """The whole device failed, not one of its values: `code` is `GPU_IS_LOST` or `RESET_REQUIRED`."""

    def __init__(self, code: Optional[int], text: str) -> None:
        Exception.__init__(self, text)
        self.code = code


def is_device_failure(code: Optional[int]) -> bool:
    return code in (GPU_IS_LOST, RESET_REQUIRED)


class DriverGone(Exception):
    """NVML has to be initialised again."""


def error_of(nvml: Any, error: Exception) -> Tuple[Optional[int], str]:
    """Code and text of what a call of nvidia-ml-py raised. A function that the driver does not have is one of two
    classes, of which one is no NVMLError; text that is not UTF-8 is a third."""
    code = getattr(error, "value", None)
    if not isinstance(error, nvml.NVMLError) or not isinstance(code, int):
        mismatch = getattr(nvml, "NVMLLibraryMismatchError", ())
        code = FUNCTION_NOT_FOUND if mismatch and isinstance(error, mismatch) else None
    return code, str(error) or type(error).__name__


class Calls:
    """The calls about one device. What it does not support is remembered, and not asked again until `retry`."""

    def __init__(self, nvml: Any) -> None:
        self.nvml = nvml
        self.current = "nvml"
        """The call that is under way: read by other threads when it hangs."""
        self.errors: List[Tuple[str, str]] = []
        """Function and text of calls that failed with something to worry about."""
        self.answered = 0
        self._missing: Set[str] = set()
        self._absent: Set[Tuple[Any, ...]] = set()

    def value(self, handle: Any, name: str, *arguments: Any) -> Any:
        """What the function of nvidia-ml-py returns; `None` when that value cannot be had. `handle` has to live until
        the next `retry`. Raises `DeviceFailure` and `DriverGone`."""
        return self._call(getattr(self.nvml, name, None), name, handle, arguments)

    def processes_v1(self, handle: Any, name: str) -> Any:
        """The first form of the process list (drivers before 450): pid and memory alone."""
        return self._call(lambda handle: _processes_v1(self.nvml, handle, name), name, handle, ())

    def process_utilization(self, handle: Any, since: int) -> Any:
        """Samples of processes that were active after `since` (microseconds since the epoch); none of them were: an
        empty list; `None`: the device does not tell."""

        def call(handle: Any) -> Any:
            try:
                return self.nvml.nvmlDeviceGetProcessUtilization(handle, since)
            except self.nvml.NVMLError as error:
                if error_of(self.nvml, error)[0] in (0, NOT_FOUND):
                    return []
                raise

        name = "nvmlDeviceGetProcessUtilization"
        return self._call(call if hasattr(self.nvml, name) else None, name, handle, ())

    def is_missing(self, name: str) -> bool:
        """The driver or the binding has no such function."""
        return name in self._missing

    def retry(self) -> None:
        """Ask again for what was not supported: MIG and ECC can be switched on."""
        self._absent.clear()

    def _call(self, function: Optional[Callable[..., Any]], name: str, handle: Any, arguments: Tuple[Any, ...]) -> Any:
        key = (id(handle), name, arguments)
        if key in self._absent:
            return None
        if function is None:  # versions of the binding differ in what they have
            self._missing.add(name)
            self._absent.add(key)
            return None
        self.current = name
        try:
            result = function(handle, *arguments)
        except Exception as error:
            code, text = error_of(self.nvml, error)
            if is_device_failure(code):
                raise DeviceFailure(code, text) from error
            if code in _DRIVER_GONE:
                raise DriverGone(text) from error
            if code == FUNCTION_NOT_FOUND:
                self._missing.add(name)
            if code in QUIET:
                self._absent.add(key)
            elif code != NOT_READY:
                self.errors.append((name, text))
            return None
        self.answered += 1
        return result


class ProcessV1:
    """A row of the first form of the process list, with the names of the later ones."""

    gpuInstanceId = None
    computeInstanceId = None

    def __init__(self, pid: int, used: int) -> None:
        self.pid = pid
        self.usedGpuMemory = used


def _processes_v1(nvml: Any, handle: Any, name: str) -> List[ProcessV1]:
    import ctypes  # here, because a Python may lack it, and then there is no NVML either

    class Info(ctypes.Structure):
        _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong)]

    function = getattr(nvml.nvmlLib, name, None)
    if function is None:
        raise nvml.NVMLError(FUNCTION_NOT_FOUND)
    count = ctypes.c_uint(0)
    status = function(handle, ctypes.byref(count), None)
    if status == 0:
        return []
    if status != INSUFFICIENT_SIZE:
        raise nvml.NVMLError(status)
    count.value = count.value * 2 + 5  # more may have started since
    rows = (Info * count.value)()
    status = function(handle, ctypes.byref(count), rows)
    if status != 0:
        raise nvml.NVMLError(status)
    return [ProcessV1(row.pid, row.used) for row in rows[: count.value]]
