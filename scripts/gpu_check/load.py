"""Something to do for GPU 0, in a process of its own, so that values move."""

import contextlib
import subprocess
import sys
import time
from typing import Iterator, Optional

_DRIVER = r"""
import ctypes, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    if status:
        sys.exit("%s: error %d" % (name, status))
device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
call("cuInit", 0)
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
size = 256 << 20
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(size))
print("ready", flush=True)
end = time.time() + float(sys.argv[1])
while time.time() < end:
    for value in range(64):
        call("cuMemsetD8Async", memory, ctypes.c_ubyte(value), ctypes.c_size_t(size), None)
    call("cuCtxSynchronize")
"""
_TORCH = r"""
import sys, time, torch
a = torch.rand(4096, 4096, device="cuda:0")
print("ready", flush=True)
end = time.time() + float(sys.argv[1])
while time.time() < end:
    a = (a @ a).clamp_(0, 1)
    torch.cuda.synchronize()
"""
_CUPY = r"""
import sys, time, cupy
a = cupy.random.rand(4096, 4096, dtype=cupy.float32)
print("ready", flush=True)
end = time.time() + float(sys.argv[1])
while time.time() < end:
    a = cupy.clip(a @ a, 0, 1)
    cupy.cuda.Stream.null.synchronize()
"""
_KINDS = (("a loop of cuMemsetD8", _DRIVER), ("torch", _TORCH), ("cupy", _CUPY))
_READY_SECONDS = 25.0


class Worker:
    """A program that loads the GPU; `pid` is `None` when none could be started."""

    def __init__(self) -> None:
        self.process: Optional["subprocess.Popen[bytes]"] = None
        self.words = ""

    @property
    def pid(self) -> Optional[int]:
        return None if self.process is None else self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None


@contextlib.contextmanager
def running(seconds: float) -> Iterator[Worker]:
    """The first kind of load that works, for the length of the block and at most for `seconds`."""
    worker = Worker()
    reasons = []
    for name, source in _KINDS:
        process = subprocess.Popen(
            [sys.executable, "-c", source, str(seconds)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert process.stdout is not None
        said = _first_words(process)
        if said == "ready":
            worker.process, worker.words = process, name
            break
        process.kill()
        process.wait()
        process.stdout.close()
        reasons.append("%s: %s" % (name, said))
    else:
        worker.words = "; ".join(reasons)
    try:
        yield worker
    finally:
        if worker.process is not None:
            worker.process.kill()
            worker.process.wait()
            assert worker.process.stdout is not None
            worker.process.stdout.close()


def _first_words(process: "subprocess.Popen[bytes]") -> str:
    """`ready`, or the last line of what went wrong."""
    import selectors

    assert process.stdout is not None
    last = "no answer in %d s" % _READY_SECONDS
    end = time.monotonic() + _READY_SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(max(0.0, end - time.monotonic())):
            line = process.stdout.readline().decode("utf-8", "replace")
            if not line or line.strip() == "ready":
                return line.strip() or last
            last = line.strip() or last
    return last
