"""The traps of NVML and its binding, one by one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from gputop.remote import nvml_gpu
from gputop.remote.machine import Machine
from gputop.remote.nvidia import LIBRARIES, open_nvml
from gputop.remote.nvml_calls import Calls, DeviceFailure, DriverGone
from gputop.remote.nvml_gpu import merge_processes, mig_profile

GIB = 1024**3
NOT_AVAILABLE = 0xFFFFFFFFFFFFFFFF


def process(pid: int, used: int | None = GIB, instance: int = 0xFFFFFFFF) -> Any:
    return SimpleNamespace(pid=pid, usedGpuMemory=used, gpuInstanceId=instance, computeInstanceId=instance)


@pytest.mark.parametrize(
    "shifted",
    [process(0), process(0xFFFFFFFF), process(5_000_000), process(7, 81 * GIB), process(7, 1 << 62)],
)
def test_a_row_that_cannot_be_true_is_dropped_and_told(shifted: Any) -> None:
    rows, unreliable = merge_processes([process(11), shifted], [], 4_194_304, 80 * GIB)
    assert [row["pid"] for row in rows] == [11]
    assert unreliable


def test_memory_that_is_not_available_is_none_and_no_reason_to_doubt_the_row() -> None:
    rows, unreliable = merge_processes([process(11, NOT_AVAILABLE), process(12, None)], [], 4_194_304, 80 * GIB)
    assert [row["memory_used_bytes"] for row in rows] == [None, None]
    assert rows[0]["gpu_instance_id"] is None
    assert unreliable is None


def test_a_process_in_both_lists_is_one_of_both_kinds() -> None:
    rows, _ = merge_processes([process(11), process(12)], [process(11, None), process(13)], 4_194_304, None)
    assert [(row["pid"], row["kind"], row["memory_used_bytes"]) for row in rows] == [
        (11, "both", GIB),
        (12, "compute", GIB),
        (13, "graphics", GIB),
    ]


def test_one_process_in_two_instances_is_two_rows() -> None:
    rows, _ = merge_processes([process(11, GIB, 1), process(11, GIB, 2)], [], 4_194_304, None)
    assert [row["gpu_instance_id"] for row in rows] == [1, 2]


def attributes(slices: int, compute: int, mebibytes: int) -> Any:
    return SimpleNamespace(gpuInstanceSliceCount=slices, computeInstanceSliceCount=compute, memorySizeMB=mebibytes)


@pytest.mark.parametrize(
    ("name", "sizes", "profile"),
    [
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None, "1g.10gb"),
        ("NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb", None, "1c.3g.20gb"),
        ("A100-SXM4-40GB", attributes(3, 3, 19968), "3g.20gb"),
        ("A100-SXM4-40GB", attributes(3, 1, 19968), "1c.3g.20gb"),
        (None, None, None),
        (None, attributes(0, 0, 0), None),
    ],
)
def test_the_profile_of_an_instance_comes_from_its_name_or_its_sizes(
    name: str | None, sizes: Any, profile: str | None
) -> None:
    assert mig_profile(name, sizes) == profile


def binding(**functions: Any) -> Any:
    return SimpleNamespace(
        NVMLError=pynvml.NVMLError, NVMLLibraryMismatchError=pynvml.NVMLLibraryMismatchError, **functions
    )


def raising(error: Exception) -> Any:
    def function(*arguments: Any) -> Any:
        function.calls += 1  # type: ignore[attr-defined]
        raise error

    function.calls = 0  # type: ignore[attr-defined]
    return function


def test_a_function_that_the_driver_lacks_is_missing_by_either_class_of_error() -> None:
    assert not issubclass(pynvml.NVMLLibraryMismatchError, pynvml.NVMLError)
    calls = Calls(
        binding(
            one=raising(pynvml.NVMLLibraryMismatchError("Unversioned function called")),
            two=raising(pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)),
        )
    )
    for name in ("one", "two", "never_heard_of"):
        assert calls.value("handle", name) is None
        assert calls.is_missing(name)
    assert calls.errors == []


def test_what_is_not_supported_is_asked_again_only_after_a_retry() -> None:
    function = raising(pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED))
    calls = Calls(binding(f=function))
    handle = object()
    calls.value(handle, "f")
    calls.value(handle, "f")
    assert function.calls == 1
    calls.value(handle, "f", 1)
    calls.value(object(), "f")
    assert function.calls == 3
    calls.retry()
    calls.value(handle, "f")
    assert function.calls == 4
    assert not calls.is_missing("f")


def test_text_that_is_no_utf8_costs_its_field_alone() -> None:
    calls = Calls(binding(f=raising(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"))))
    assert calls.value("handle", "f") is None
    assert [name for name, _ in calls.errors] == ["f"]
    assert nvml_gpu.text(b"GPU\xff ") == "GPU\ufffd"
    assert nvml_gpu.text("H100") == "H100"


def test_the_failure_of_a_device_and_of_the_driver_are_no_failures_of_a_field() -> None:
    for code in (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED):
        with pytest.raises(DeviceFailure) as failure:
            Calls(binding(f=raising(pynvml.NVMLError(code)))).value("handle", "f")
        assert failure.value.code == code
    for code in (pynvml.NVML_ERROR_UNINITIALIZED, pynvml.NVML_ERROR_DRIVER_NOT_LOADED):
        with pytest.raises(DriverGone):
            Calls(binding(f=raising(pynvml.NVMLError(code)))).value("handle", "f")


def test_the_version_word_of_the_memory_call_is_the_one_of_the_binding() -> None:
    assert pynvml.nvmlMemory_v2 == nvml_gpu.MEMORY_V2


@pytest.mark.parametrize("absent", [0xFFFFFFFF, NOT_AVAILABLE, None])
def test_signs_for_not_available_are_none(absent: int | None) -> None:
    assert nvml_gpu.known(absent) is None
    assert nvml_gpu.percent(absent) is None
    assert nvml_gpu.celsius(absent) is None
    assert nvml_gpu.watts(absent) is None


def test_implausible_values_are_none() -> None:
    assert nvml_gpu.percent(101) is None
    assert nvml_gpu.celsius(0) is None
    assert nvml_gpu.celsius(255) is None
    assert nvml_gpu.watts(11_000_000) is None
    assert nvml_gpu.watts(71_300) == 71.3


class WithoutCtypes(Machine):
    def load_library(self, path: str) -> Any:
        raise ImportError("No module named '_ctypes'")


class Stub(Machine):
    """A server where only the stub of the CUDA toolkit is found: it has none of the functions."""

    def load_library(self, path: str) -> Any:
        if path == LIBRARIES[0]:
            return object()
        raise OSError(f"{path}: cannot open shared object file: No such file or directory")


@pytest.fixture
def restored_binding() -> Any:
    loaded = pynvml.nvmlLib
    yield
    pynvml.nvmlLib = loaded
    pynvml._nvmlGetFunctionPointer_cache.clear()


def test_a_stub_of_the_library_and_a_python_without_ctypes_are_passed_over(restored_binding: None) -> None:
    for machine in (WithoutCtypes(), Stub()):
        opening = open_nvml(machine, "/opt/libnvidia-ml.so.1")
        assert opening.nvml is None
        assert opening.refusal is None
        assert [line.partition(":")[0] for line in opening.tried] == ["/opt/libnvidia-ml.so.1", *LIBRARIES]
