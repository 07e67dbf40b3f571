"""This machine itself as a host, watched without SSH."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

from gputop.domain.host import HostSpec

_SIGNS = (
    "dev/nvidia[0-9]*",
    "dev/nvidiactl",
    "proc/driver/nvidia",
    "usr/lib/libnvidia-ml.so.1",
    "usr/lib64/libnvidia-ml.so.1",
    "usr/lib/*-linux-gnu/libnvidia-ml.so.1",
    "usr/lib/wsl/lib/libnvidia-ml.so.1",
    "dev/kfd",
    "dev/davinci[0-9]*",
    "dev/accel*",
    "dev/neuron[0-9]*",
    "dev/mtgpu*",
    "dev/cambricon_*",
    "dev/iluvatar*",
    "dev/mxcd",
)
"""What a machine with accelerators or their drivers has."""


def has_devices(root: Path = Path("/")) -> bool:
    """Whether this machine shows any sign of an accelerator, so that asking its driver is worth while."""
    return (
        any(next(root.glob(sign), None) is not None for sign in _SIGNS)
        or shutil.which("nvidia-smi") is not None
        or any(
            (Path(folder) / "libnvidia-ml.so.1").exists()
            for folder in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
            if folder
        )
    )


def local_spec(interval_seconds: float) -> HostSpec:
    """This machine, by its host name."""
    return HostSpec(name=socket.gethostname() or "localhost", local=True, interval_seconds=interval_seconds)
