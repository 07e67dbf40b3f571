"""Every vendor that is read by its tool: how to tell that its devices are here, which program to ask, and how often.

A tool is asked for what it prints best for machines. What it prints is read by the module of its name, which is loaded
only where the tool is used. The first question of a tool lists the devices; the others fill in what it leaves out.
"""

from importlib import import_module
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from gputop.remote.machine import Machine
from gputop.remote.merge import merged
from gputop.remote.sample import Sample

SELDOM = 300.0
"""Seconds between two questions about what changes seldom."""
BESIDE = 10.0
"""Seconds between two questions about processes: what they cost is paid less often than the values of devices."""


class Ask(NamedTuple):
    """One question to a tool, which ends by itself."""

    arguments: Tuple[str, ...]
    every: float = 0.0
    """Seconds between two questions, at least; 0: as often as frames are wanted and the cost allows."""


class Stream(NamedTuple):
    """A tool that prints on and on."""

    programs: Tuple[str, ...]
    arguments: Callable[[float], Tuple[str, ...]]
    """For an interval in seconds."""
    lines: int
    """The newest lines that hold a whole report."""
    has_header: bool
    """The first line names the columns."""


class Tool(NamedTuple):
    """A program and what it is asked."""

    programs: Tuple[str, ...]
    """Names for PATH, then the places where it may be beside it."""
    module: str
    """In `gputop.remote`: has `ROUTE` and `read`."""
    asks: Tuple[Ask, ...]
    stream: Optional[Stream] = None
    adds_up: bool = False
    """`read` takes several outputs in one text."""

    @property
    def route(self) -> str:
        route: str = import_module("gputop.remote." + self.module).ROUTE
        return route

    def read(self, texts: List[str]) -> Sample:
        """All outputs as one sample; those of the first question come first."""
        read: Callable[[str], Sample] = import_module("gputop.remote." + self.module).read
        return read("\n".join(texts)) if self.adds_up else merged([read(text) for text in texts])


class Vendor(NamedTuple):
    """Who made the devices."""

    title: str
    pci: Tuple[Tuple[str, str], ...]
    """Vendor and beginning of the class of its PCI devices, in hexadecimal digits."""
    nodes: Tuple[str, ...]
    """Beginnings of names in /dev."""
    tools: Tuple[Tool, ...]
    """The first that is there and finds devices is used."""


_DISPLAY, _CO_PROCESSOR, _ACCELERATOR = "03", "0b40", "12"


def _cards(vendor: str) -> Tuple[Tuple[str, str], ...]:
    return tuple((vendor, kind) for kind in (_DISPLAY, _CO_PROCESSOR, _ACCELERATOR))


def _places(name: str, *folders: str) -> Tuple[str, ...]:
    usual = ("/usr/local/bin", "/usr/local/sbin", "/usr/bin", "/usr/sbin")
    return (name, *("%s/%s" % (folder, name) for folder in folders + usual))


def _dump(interval: float) -> Tuple[str, ...]:
    # Use, power, frequency, temperatures of core and memory, memory used.
    return ("dump", "-d", "-1", "-m", "0,1,2,3,4,18", "-i", "%d" % max(1, round(interval)))


_GAUDI_COLUMNS = (
    "index,uuid,bus_id,name,serial,driver_version,module_id,utilization.aip,memory.used,memory.total,temperature.aip,"
    "power.draw"
)

NVIDIA_PCI = (("10de", _DISPLAY), ("10de", _ACCELERATOR))
NVIDIA_NODES = ("nvidiactl",)

VENDORS: Dict[str, Vendor] = {
    "amd": Vendor(
        "AMD",
        _cards("1002"),
        (),
        (
            Tool(
                _places("amd-smi", "/opt/rocm/bin"),
                "amd",
                (
                    Ask(("metric", "--json")),
                    Ask(("static", "--json"), SELDOM),
                    Ask(("list", "--json"), SELDOM),
                    Ask(("process", "--json"), BESIDE),
                ),
                adds_up=True,
            ),
            Tool(
                _places("rocm-smi", "/opt/rocm/bin"),
                "rocm_smi",
                (
                    Ask(
                        (
                            "--showuse",
                            "--showmemuse",
                            "--showmeminfo",
                            "vram",
                            "--showpower",
                            "--showtemp",
                            "--showclocks",
                            "--showfan",
                            "--showpids",
                            "--json",
                        )
                    ),
                    Ask(
                        (
                            "--showid",
                            "--showproductname",
                            "--showserial",
                            "--showuniqueid",
                            "--showbus",
                            "--showmaxpower",
                            "--showdriverversion",
                            "--json",
                        ),
                        SELDOM,
                    ),
                ),
                adds_up=True,
            ),
        ),
    ),
    "huawei": Vendor(
        "Ascend",
        (("19e5", _ACCELERATOR),),
        ("davinci",),
        (
            Tool(
                _places("npu-smi", "/usr/local/Ascend/driver/tools", "/usr/local/sbin"),
                "ascend",
                (Ask(("info",)),),
            ),
        ),
    ),
    "habana": Vendor(
        "Gaudi",
        (("1da3", ""),),
        (),
        (
            Tool(
                _places("hl-smi", "/usr/lib/habanatools", "/opt/habanalabs/bin"),
                "gaudi",
                (Ask(("-Q", _GAUDI_COLUMNS, "-f", "csv")), Ask((), BESIDE)),
            ),
        ),
    ),
    "intel": Vendor(
        "Intel",
        (),
        (),
        (
            Tool(
                _places("xpu-smi", "/opt/xpum/bin") + _places("xpumcli", "/opt/xpum/bin"),
                "xpu",
                (Ask(("discovery", "-j"), BESIDE), Ask(("ps", "-j"), BESIDE)),
                Stream((), _dump, lines=256, has_header=True),
                adds_up=True,
            ),
        ),
    ),
    "aws": Vendor(
        "Neuron",
        (),
        ("neuron",),
        (
            Tool(
                _places("neuron-ls", "/opt/aws/neuron/bin"),
                "neuron",
                (Ask(("-j",), BESIDE),),
                Stream(
                    _places("neuron-monitor", "/opt/aws/neuron/bin"), lambda interval: (), lines=1, has_header=False
                ),
            ),
        ),
    ),
    "google": Vendor(
        "TPU",
        (("1ae0", ""),),
        (),
        (Tool(_places("tpu-info", "/root/.local/bin", "/opt/venv/bin"), "tpu", (Ask(()),)),),
    ),
    "mthreads": Vendor(
        "Moore Threads",
        _cards("1ed5"),
        ("mtgpu",),
        (Tool(_places("mthreads-gmi"), "mthreads", (Ask(()), Ask(("-q",), BESIDE))),),
    ),
    "cambricon": Vendor(
        "Cambricon",
        (("cabc", ""),),
        ("cambricon_",),
        (Tool(_places("cnmon", "/usr/local/neuware/bin"), "cambricon", (Ask(()),)),),
    ),
    "hygon": Vendor(
        "Hygon",
        _cards("1d94"),
        (),
        (
            Tool(
                _places("hy-smi", "/opt/hyhal/bin", "/opt/dtk/bin"),
                "hygon",
                (
                    Ask(("--showuse", "--showmemuse", "--showtemp", "--showpower", "--showpids", "--json")),
                    Ask(("--showproductname", "--showbus", "--showmeminfo", "vram", "--json"), SELDOM),
                ),
                adds_up=True,
            ),
        ),
    ),
    "iluvatar": Vendor(
        "Iluvatar",
        (("1e3e", ""),),
        ("iluvatar",),
        (Tool(_places("ixsmi", "/usr/local/corex/bin"), "iluvatar", (Ask(()), Ask(("-q",), BESIDE))),),
    ),
    "metax": Vendor(
        "MetaX",
        (("9999", ""),),
        ("mxcd",),
        (Tool(_places("mx-smi", "/opt/mxdriver/bin", "/opt/maca/bin"), "metax", (Ask(()), Ask(("-L",), SELDOM))),),
    ),
}


class Evidence:
    """What of devices can be seen without any tool."""

    def __init__(self, machine: Machine) -> None:
        folder = "/sys/bus/pci/devices"
        self._nodes = machine.names("/dev")
        self._pci = set()
        for name in machine.names(folder):
            vendor = (machine.text("%s/%s/vendor" % (folder, name)) or "").strip()[2:]
            kind = (machine.text("%s/%s/class" % (folder, name)) or "").strip()[2:]
            self._pci.add((vendor.lower(), kind.lower()))

    def of(self, pci: Tuple[Tuple[str, str], ...], nodes: Tuple[str, ...]) -> bool:
        """Whether there are such devices."""
        if any(name.startswith(node) for name in self._nodes for node in nodes):
            return True
        return any(vendor == one and kind.startswith(begin) for one, kind in self._pci for vendor, begin in pci)
