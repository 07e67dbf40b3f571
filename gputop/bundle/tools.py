"""Which programs are run on a host for a bundle. All of them only read."""

from __future__ import annotations

from typing import NamedTuple

from gputop.domain.call import RunOn

KERNEL_LINES = 2000
DEVICE_LINES = 1000
DEVICE_WORDS = (
    "NVRM|SXid|nvidia|amdgpu|kfd|davinci|habanalabs|xe |i915|neuron|pcieport|AER|mce:|EDAC|oom-kill|Out of memory|"
    "hung_task|soft lockup"
)

FIND = (
    'PATH="$PATH:/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/sbin:/usr/local/nvidia/bin:/usr/lib/wsl/lib:'
    "/opt/rocm/bin:/usr/local/Ascend/driver/tools:/usr/lib/habanatools:/opt/habanalabs/bin:/opt/xpum/bin:"
    '/opt/aws/neuron/bin:/usr/local/neuware/bin:/opt/hyhal/bin:/opt/dtk/bin:/usr/local/corex/bin:/opt/mxdriver/bin"; '
    'export PATH; exec "$@"'
)
"""A login without a terminal has a short PATH: where tools are besides."""

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
    argv: tuple[str, ...]
    seconds: float = 20.0
    in_words: str = ""
    """Of a script: what it does."""

    @property
    def shown(self) -> str:
        """As a person would type it."""
        return self.in_words or " ".join(self.argv)

    def call(self, host: str) -> RunOn:
        return RunOn(host=host, argv=("sh", "-c", FIND, "sh", *self.argv))


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


def _asks(folder: str, *questions: str) -> tuple[Tool, ...]:
    found = []
    for question in questions:
        words = question.split()
        name = "-".join(word.strip("-/") for word in words).replace("/", "-")
        ending = "xml" if words[-1] == "-x" else "json" if words[-1] in ("-j", "--json") else "txt"
        found.append(Tool(f"{folder}/{name}.{ending}", f"what {question} prints", tuple(words), ASK_SECONDS))
    return tuple(found)


VENDOR_TOOLS: dict[str, tuple[Tool, ...]] = {
    "nvidia": _asks(
        "nvidia",
        "nvidia-smi",
        "nvidia-smi -q",
        "nvidia-smi -q -x",
        "nvidia-smi topo -m",
        "nvidia-smi nvlink -s",
        "nvidia-smi nvlink -e",
    ),
    "amd": _asks("amd", "amd-smi static", "amd-smi metric", "amd-smi topology", "amd-smi bad-pages", "rocm-smi -a"),
    "huawei": _asks("huawei", "npu-smi info", "npu-smi info -l", "npu-smi info -t topo"),
    "habana": _asks("habana", "hl-smi", "hl-smi -q"),
    "intel": _asks("intel", "xpu-smi discovery", "xpu-smi health -l", "xpu-smi topology -m"),
    "aws": _asks("aws", "neuron-ls", "neuron-ls -j"),
    "google": _asks("google", "tpu-info"),
    "mthreads": _asks("mthreads", "mthreads-gmi", "mthreads-gmi -q"),
    "cambricon": _asks("cambricon", "cnmon", "cnmon info"),
    "hygon": _asks("hygon", "hy-smi", "hy-smi -a"),
    "iluvatar": _asks("iluvatar", "ixsmi", "ixsmi -q", "ixsmi topo -m"),
    "metax": _asks("metax", "mx-smi", "mx-smi -L", "mx-smi topo -m"),
}
"""By `Device.vendor`: the vendor's own tools. They are asked one after the other, since each holds a lock of the
driver, and no further one once one of them hangs."""

WHERE_NONE_IS_SEEN = "nvidia"
"""Whose tools are asked where no device is seen at all."""
