"""Programs of vendors whose own words are shown on demand. All of them only read."""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

from gputop.domain.host import Host
from gputop.domain.reading import Device
from gputop.remote.nvidia_smi import PROGRAMS
from gputop.remote.vendors import VENDORS

_FOLDERS = "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin"

_FIND = 'PATH="$PATH:$0"; exec "$@"'
"""The PATH of a login by SSH is not the one of a terminal. $0: folders to look in as well; the rest: the call."""


class RawTool(NamedTuple):
    """A program, its arguments, and what it tells."""

    words: tuple[str, ...]
    tells: str

    @property
    def command(self) -> str:
        """As a person would type it."""
        return shlex.join(self.words)

    @property
    def argv(self) -> tuple[str, ...]:
        """What is run on the host."""
        return ("sh", "-c", _FIND, _folders(self.words[0]), *self.words)


_BY_VENDOR: dict[str, tuple[tuple[str, str], ...]] = {
    "nvidia": (
        ("nvidia-smi -q", "all that the driver tells of every GPU"),
        ("nvidia-smi topo -m", "how GPUs, network cards and CPUs are connected"),
        ("nvidia-smi nvlink -s", "state and speed of every NVLink"),
        ("nvidia-smi", "the table"),
    ),
    "amd": (
        ("amd-smi metric", "values of every GPU"),
        ("amd-smi static", "what does not change of every GPU"),
        ("amd-smi topology", "how the GPUs are connected"),
        ("amd-smi process", "processes on the GPUs"),
    ),
    "huawei": (("npu-smi info", "the table"), ("npu-smi info -t topo", "how the chips are connected")),
    "habana": (("hl-smi", "the table"), ("hl-smi -L", "all values of every device")),
    "intel": (("xpu-smi discovery", "the devices"), ("xpu-smi topology -m", "how the devices are connected")),
    "aws": (("neuron-ls", "the devices and what uses them"), ("neuron-ls --topology", "how they are connected")),
    "google": (("tpu-info", "the table"),),
    "mthreads": (("mthreads-gmi", "the table"), ("mthreads-gmi -q", "all values of every GPU")),
    "cambricon": (("cnmon", "the table"), ("cnmon info", "all values of every card")),
    "hygon": (("hy-smi", "the table"),),
    "iluvatar": (("ixsmi", "the table"), ("ixsmi -q", "all values of every GPU")),
    "metax": (("mx-smi", "the table"), ("mx-smi -L", "the devices")),
}
_ROCM = (
    ("rocm-smi", "the table"),
    ("rocm-smi -a", "all values of every GPU"),
    ("rocm-smi --showtopo", "how the GPUs are connected"),
)

_BUS_ID = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]")


def raw_tools(host: Host, device: Device | None = None) -> list[RawTool]:
    """The tools for what `host` has; of a host that never told its devices, those of NVIDIA. `device`: that of one
    device comes first."""
    frame = host.frame
    vendors = dict.fromkeys(device.vendor for device in frame.devices) if frame is not None and frame.devices else {}
    found: list[RawTool] = []
    if device is not None and device.vendor == "nvidia":
        found.append(RawTool(("nvidia-smi", "-q", "-i", _one(device)), "all that the driver tells of this GPU"))
    for vendor in vendors or ("nvidia",):
        commands = _BY_VENDOR.get(vendor, ())
        if vendor == "amd" and frame is not None and "rocm-smi" in frame.route:
            commands = _ROCM
        found += [RawTool(tuple(command.split()), tells) for command, tells in commands]
    return found


def _one(device: Device) -> str:
    """What nvidia-smi calls one GPU: its address, which is known even of one that is lost. What is not an address never
    becomes an argument."""
    address = device.pci_bus_id or ""
    return address if _BUS_ID.fullmatch(address) else str(device.index)


def _folders(program: str) -> str:
    places = list(PROGRAMS) if program == "nvidia-smi" else []
    for vendor in VENDORS.values():
        for tool in vendor.tools:
            if program in tool.programs:
                places += tool.programs
    folders = dict.fromkeys(place.rpartition("/")[0] for place in places if "/" in place)
    return ":".join([*folders, _FOLDERS])
