"""Which programs are run on a host for a bundle. All of them only read."""

from __future__ import annotations

from typing import NamedTuple

from gputop.actions.raw_tools import RawTool, raw_tools
from gputop.domain.call import RunOn
from gputop.domain.host import Host

KERNEL_LINES = 2000
DEVICE_LINES = 1000
DEVICE_WORDS = (
    "NVRM|SXid|nvidia|amdgpu|kfd|davinci|habanalabs|xe |i915|neuron|pcieport|AER|mce:|EDAC|oom-kill|Out of memory|"
    "hung_task|soft lockup"
)

READ_LOG = """\
for try in 'dmesg -T' 'dmesg' 'journalctl -k -b -q -n 50000 -o short-iso --no-pager'; do
  if lines=$($try 2>&1) && [ -n "$lines" ]; then
    printf 'source: %s\\n' "$try"
    printf '%s\\n' "$lines" | {cut}
    exit 0
  fi
  printf '%s: %s\\n' "$try" "$(printf '%s\\n' "${{lines:-printed nothing}}" | tail -n 1)" >&2
done
exit 1
"""

VERSIONS = """\
for command in 'uname -a' 'cat /etc/os-release' 'cat /proc/cmdline' 'cat /proc/driver/nvidia/version' \
'modinfo -F version nvidia' 'modinfo -F version amdgpu' 'nvidia-ctk --version' 'nvidia-container-cli --version' \
'dcgmi --version' 'nv-fabricmanager --version' 'docker --version' 'containerd --version' 'kubelet --version' \
'slurmd -V' 'ofed_info -s' 'python3 --version' 'uptime'; do
  printf '$ %s\\n' "$command"
  $command 2>&1
  printf '(exit status %s)\\n\\n' "$?"
done
"""

UNITS = (
    "nvidia-persistenced",
    "nvidia-fabricmanager",
    "nvidia-dcgm",
    "dcgm",
    "nvidia-mps",
    "docker",
    "containerd",
    "kubelet",
    "slurmd",
)
UNIT_FACTS = "Id,LoadState,ActiveState,SubState,UnitFileState,Result,NRestarts,ActiveEnterTimestamp"


class Tool(NamedTuple):
    """One question."""

    path: str
    what: str
    words: tuple[str, ...]
    seconds: float = 20.0
    in_words: str = ""
    """Of a script: what it does."""

    @property
    def shown(self) -> str:
        """As a person would type it."""
        return self.in_words or " ".join(self.words)

    def call(self, host: str) -> RunOn:
        return RunOn(host=host, argv=RawTool(self.words, self.what).argv)


def _script(text: str) -> tuple[str, ...]:
    return ("sh", "-c", text)


HOST_TOOLS: tuple[Tool, ...] = (
    Tool(
        "versions.txt",
        "versions of all that drives devices",
        _script(VERSIONS),
        in_words="uname -a; cat /etc/os-release; and --version of what drives devices",
    ),
    Tool(
        "kernel.log",
        f"kernel log, its last {KERNEL_LINES:,} lines",
        _script(READ_LOG.format(cut=f"tail -n {KERNEL_LINES}")),
        in_words=f"dmesg -T, else journalctl -k -b | tail -n {KERNEL_LINES}",
    ),
    Tool(
        "kernel-devices.log",
        f"kernel log, the last {DEVICE_LINES:,} lines about devices",
        _script(READ_LOG.format(cut=f"grep -E '{DEVICE_WORDS}' | tail -n {DEVICE_LINES}")),
        in_words=f"dmesg -T, else journalctl -k -b | grep -E … | tail -n {DEVICE_LINES}",
    ),
    Tool(
        "units.txt",
        "systemd units beside the driver",
        ("systemctl", "show", "--no-pager", "-p", UNIT_FACTS, *(f"{unit}.service" for unit in UNITS)),
    ),
    Tool("modules.txt", "kernel modules", ("cat", "/proc/modules")),
    Tool("lspci.txt", "PCI devices", ("lspci", "-nn")),
    Tool("lspci-tree.txt", "PCI devices as a tree", ("lspci", "-tv")),
    Tool("lspci-vv.txt", "PCI devices, all that may be read of them", ("lspci", "-vv")),
)
"""The first is asked before all others: a host that does not answer it is asked nothing else."""

ASK_SECONDS = 45.0
"""For one question to a driver: eight devices without persistence mode take 20 s."""

MORE: dict[str, tuple[str, ...]] = {
    "nvidia-smi": ("nvidia-smi -q -x", "nvidia-smi nvlink -e"),
    "amd-smi": ("amd-smi bad-pages",),
    "xpu-smi": ("xpu-smi health -l",),
}
"""By program: what is asked beside the tools that are shown on demand."""


def vendor_tools(host: Host) -> list[Tool]:
    """The tools of the vendors whose devices `host` has; of one that never told its devices, those of NVIDIA."""
    words = [tool.words for tool in raw_tools(host)]
    words += [
        tuple(more.split()) for program in dict.fromkeys(each[0] for each in words) for more in MORE.get(program, ())
    ]
    return [_asked(each) for each in words]


def _asked(words: tuple[str, ...]) -> Tool:
    name = "-".join(word.strip("-/") for word in words).replace("/", "-")
    ending = "xml" if words[-1] == "-x" else "txt"
    return Tool(f"tools/{name}.{ending}", f"what {' '.join(words)} prints", words, ASK_SECONDS)
