"""What the programs of a demo host print, and that they are simulated. Nothing of it is run anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from gputop.sources.demo.hosts import GIB, SIMULATED, DemoHost
from gputop.sources.demo.log import events, told
from gputop.sources.demo.messages import Message
from gputop.sources.demo.tools import nvidia_smi
from gputop.sources.demo.trouble import booted_at

NOT_FOUND = 127


def answer(argv: Sequence[str], host: DemoHost, hello: Message, frame: Message, t: float) -> tuple[int, str]:
    """Exit status and output of a program at Unix time `t`. `hello` and `frame`: what the agent would tell then."""
    match [argv[0].rpartition("/")[2], *argv[1:]]:
        case ["nvidia-smi", *arguments]:
            said, status = nvidia_smi(arguments, hello, frame)
            return status, f"{said}({SIMULATED})\n"
        case ["sh", "-c", script, *_] if "dmesg" in script:
            return 0, "\n".join(_kernel_log(host, t)) + "\n"
        case ["sh", "-c", script, *_] if "os-release" in script:
            return 0, f"$ uname -r\n{host.kernel}\n$ nvidia-ctk --version\n1.17.4\n({SIMULATED})\n"
        case ["systemctl", "show", *_]:
            return 0, f"Id=nvidia-persistenced.service\nActiveState=active\nSubState=running\n# {SIMULATED}\n"
        case ["cat", "/proc/modules"]:
            return 0, f"nvidia_uvm 1740800 8 - Live\nnvidia 56823808 1021 nvidia_uvm, Live\n# {SIMULATED}\n"
        case ["dmesg", *_]:
            return 0, "\n".join(_kernel_log(host, t)) + "\n"
        case ["hostname", *_]:
            return 0, f"{host.name}\n"
        case ["uname", *_]:
            return 0, f"Linux {host.name} {host.kernel} #1 SMP x86_64 GNU/Linux ({SIMULATED})\n"
        case ["uptime"]:
            return 0, f"up {(t - booted_at(host, t)) / 86400:.1f} days ({SIMULATED})\n"
        case ["cat", "/etc/os-release"]:
            return 0, f'PRETTY_NAME="{host.os_name}"\n# {SIMULATED}\n'
        case ["lspci", *_]:
            return 0, "\n".join(_bus(host, hello)) + "\n"
    return NOT_FOUND, f"{argv[0]}: not found: this host is {SIMULATED}\n"


def _kernel_log(host: DemoHost, t: float) -> Iterator[str]:
    boot = booted_at(host, t)
    yield f"{_stamp(boot)} Linux version {host.kernel} ({SIMULATED})"
    yield f"{_stamp(boot)} Memory: {host.memory_bytes // GIB} GiB available"
    yield f"{_stamp(boot + 9)} NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {host.driver}"
    for event in events(host, t, all_since_boot=True):
        yield f"{_stamp(event['at'])} NVRM: {told(event)}"


def _stamp(at: float) -> str:
    return f"[{datetime.fromtimestamp(at, UTC):%a %b %d %H:%M:%S %Y}]"


def _bus(host: DemoHost, hello: Message) -> Iterator[str]:
    yield f"00:00.0 Host bridge ({SIMULATED})"
    for bus in hello["devices"]["pci_bus_id"]:
        yield f"{bus[9:].lower()} 3D controller: NVIDIA Corporation {host.model.name}"
