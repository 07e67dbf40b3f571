"""What the programs of acts do on a host of the demo fleet, and print. They are told apart by what gputop asks them;
what they change goes into the notes of `ordered`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from gputop.sources.demo.hosts import SIMULATED, DemoHost
from gputop.sources.demo.log import events, told
from gputop.sources.demo.messages import Message
from gputop.sources.demo.ordered import Orders, note_order

LEAST_SHARE = 0.3
"""Of its default limit is the lowest that a device takes."""


class Said(Struct, frozen=True, kw_only=True):
    """What a program printed, and how it ended."""

    out: str = ""
    error: str = ""
    status: int = 0


def run(
    argv: Sequence[str], host: DemoHost, greeting: Message, frame: Message, folder: Path, t: float, orders: Orders
) -> Said | None:
    """`None`: none of an act. `greeting` and `frame`: what the host's agent would say now."""
    script = argv[2] if list(argv[:2]) == ["sh", "-c"] and len(argv) > 2 else ""
    facts = greeting["facts"]
    if list(argv) == ["cat", "/proc/sys/kernel/random/boot_id"]:
        return Said(out=f"{facts['boot_id']}\n")
    if "boot_id" in script:
        return Said(out=f"{facts['boot_id']}\n{facts['machine_id']}\n")
    if "NSpid" in script:
        return _process(argv[4:], host, frame, folder, t)
    if "wall" in script:
        users = {user for user in frame["processes"].get("user", []) if user}
        return Said(out=f"told {len(users)} of {len(users)} terminals\n" if users else "nobody is logged in\n")
    if "dmesg" in script and "dmesg -T" not in script:
        return Said(out="".join(f"{line}\n" for line in _kernel_log(host, frame, t)))
    if "systemctl is-active" in script or "/proc/[0-9]*/fd" in script:
        return Said()
    if argv and argv[0] == "nvidia-smi":
        return _smi(argv, host, greeting, folder, t, orders)
    return None


def _kernel_log(host: DemoHost, frame: Message, t: float) -> Iterator[str]:
    """As dmesg prints it: of this boot, times since it."""
    boot = t - frame["host"]["uptime_seconds"]
    yield f"[    0.000000] Linux version {host.kernel} ({SIMULATED})"
    for event in events(host, t, all_since_boot=True):
        if event["at"] >= boot:
            yield f"[{event['at'] - boot:12.6f}] NVRM: {told(event)}"


def _process(words: Sequence[str], host: DemoHost, frame: Message, folder: Path, t: float) -> Said:
    """Look at a process: `PID`; or signal it: `PID TICKS USER SIGNAL`."""
    table = frame["processes"]
    if not words or not words[0].isdecimal() or int(words[0]) not in table["pid"]:
        return Said(error=f"no process has the number {words[0] if words else ''}\n", status=3)
    row = table["pid"].index(int(words[0]))
    ticks, user = str(table["started_ticks"][row]), table["user"][row]
    if len(words) == 1:
        return Said(out=f"{ticks} {user} 1\n{table['command'][row]}\n")
    if list(words[1:3]) != [ticks, user]:
        return Said(error="another process has this number now\n", status=4)
    note_order(folder, host.name, t, "ended", words[0])
    return Said()


def _smi(argv: Sequence[str], host: DemoHost, greeting: Message, folder: Path, t: float, orders: Orders) -> Said | None:
    """A power limit, a reset; `None` where it only tells."""
    names = greeting["devices"]["uuid"]
    chosen = [argv[argv.index("-i") + 1]] if "-i" in argv else names
    if unknown := [name for name in chosen if name not in names]:
        return Said(error=f"No devices were found: {unknown[0]}\n", status=6)
    most = host.model.limit_watts
    if "-pl" in argv:
        watts = float(argv[argv.index("-pl") + 1])
        if not LEAST_SHARE * most <= watts <= most:
            text = f"Provided power limit {watts:.2f} W is not a valid power limit which should be between "
            return Said(error=f"{text}{LEAST_SHARE * most:.2f} W and {most:.2f} W\n", status=2)
        for name in chosen:
            note_order(folder, host.name, t, "limit", name, f"{watts:g}")
        return Said(out="".join(f"Power limit for GPU {name} was set to {watts:.2f} W.\n" for name in chosen))
    if "--gpu-reset" in argv:
        for name in chosen:
            note_order(folder, host.name, t, "reset", name)
        return Said(out="".join(f"GPU {name} was successfully reset.\n" for name in chosen))
    if "--query-gpu=power.limit" in argv:
        return Said(out="".join(f"{orders.limits.get(name, most):.2f}\n" for name in chosen))
    return None
