"""What acts have made of hosts of the demo fleet: functions that change the messages of a host.

The server's `simulate` program leaves a file for each order, and so do the programs that hosts seem to run; nothing but
the demo's own numbers follows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import Struct

from gputop.sources.demo.hosts import DemoHost
from gputop.sources.demo.messages import Message, boot_id, uuids
from gputop.sources.demo.trouble import Condition

FOLDER = "acts"
PROGRAM = "simulate"

SCRIPT = """#!/bin/sh
# The simulated scheduler and power of gputop's demo. It writes files beside itself and touches nothing real.
cd "${0%/*}/acts" || exit 1
case "$1" in
  state) if [ -e "$2.drained" ]; then echo drained; cat "$2.drained"; else echo schedulable; fi ;;
  states) for file in *.drained; do [ -e "$file" ] && echo "${file%.drained}" && head -n 2 "$file"; done; : ;;
  drain) printf '%s\\n%s\\n' "$3" "$4" > "$2.drained" ;;
  resume) rm -f "$2.drained" ;;
  status) if [ -e "$2.off" ]; then echo stopped; else echo running; fi ;;
  stop) : > "$2.off" ;;
  start | reboot) rm -f "$2.off"; : > "$2.booted" ;;
  *) echo "unknown order $1" >&2; exit 2 ;;
esac
"""
"""As Slurm does, it remembers what is drained over a boot."""

BOOT_SECONDS = 8.0
QUIET_SECONDS = 25.0
"""After a boot nothing runs for so long."""
FIRST_END_SECONDS = 5.0
NEXT_END_SECONDS = 1.5
"""When the work on the first device, and on each further one, has ended after a drain."""


class Orders(Struct, frozen=True, kw_only=True):
    """Of one host. Times are Unix times."""

    drained_at: float | None = None
    is_off: bool = False
    booted_at: float | None = None
    ended: frozenset[int] = frozenset()
    """Processes that a signal has ended."""
    limits: dict[str, float] = {}
    """Power limits in watts that were set, by device."""
    reset_at: dict[str, float] = {}
    """When devices were reset."""

    def is_away(self, t: float) -> bool:
        return self.is_off or (self.booted_at is not None and t < self.booted_at + BOOT_SECONDS)

    def is_empty(self, position: int, t: float) -> bool:
        """Whether nothing runs on the device at `position`."""
        if self.booted_at is not None and t < self.booted_at + BOOT_SECONDS + QUIET_SECONDS:
            return True
        if self.drained_at is None:
            return False
        return t >= self.drained_at + FIRST_END_SECONDS + NEXT_END_SECONDS * position


NONE = Orders()


def read_orders(folder: Path, host: str) -> Orders:
    """As the files in `folder` say."""
    drained, booted = _changed(folder / f"{host}.drained"), _changed(folder / f"{host}.booted")
    kept = [words for words in _lines(folder / f"{host}.done") if booted is None or float(words[0]) > booted]
    return Orders(
        drained_at=drained,
        is_off=(folder / f"{host}.off").exists(),
        booted_at=booted,
        ended=frozenset(int(words[2]) for words in kept if words[1] == "ended"),
        limits={words[2]: float(words[3]) for words in kept if words[1] == "limit"},
        reset_at={words[2]: float(words[0]) for words in kept if words[1] == "reset"},
    )


def note_order(folder: Path, host: str, t: float, *words: str) -> None:
    """`ended PID`, `limit DEVICE WATTS` or `reset DEVICE`, at Unix time `t`; a boot undoes it."""
    with (folder / f"{host}.done").open("a", encoding="utf-8") as file:
        file.write(f"{t:.3f} {' '.join(words)}\n")


def _lines(path: Path) -> list[list[str]]:
    try:
        return [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    except FileNotFoundError:
        return []


def ordered_trouble(trouble: Condition, orders: Orders, devices: Sequence[str]) -> Condition:
    """What is still wrong: a boot brings back what was lost or faulty, and a reset a device that asked for it."""
    since = trouble.since or 0.0
    booted = orders.booted_at is not None and orders.booted_at > since
    at = trouble.faulty_device
    was_reset = at is not None and at < len(devices) and orders.reset_at.get(devices[at], 0.0) > since
    if not booted and not was_reset:
        return trouble
    lost = None if booted else trouble.lost_device
    return replace(trouble, lost_device=lost, fault=None, faulty_device=None)


def _changed(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return None


def ordered_hello(message: Message, host: DemoHost, orders: Orders, t: float) -> Message:
    """The static facts, of the newest boot once that is over."""
    if orders.booted_at is None or orders.is_away(t):
        return message
    return message | {"facts": message["facts"] | {"boot_id": boot_id(host, orders.booted_at)}}


ZEROED = ("utilization_percent", "memory_utilization_percent", "encoder_utilization_percent",
          "decoder_utilization_percent", "memory_used_bytes", "pcie_tx_bytes_per_second", "pcie_rx_bytes_per_second",
          "nvlink_tx_bytes_per_second", "nvlink_rx_bytes_per_second")  # fmt: skip
POWERS = ("power_watts", "power_average_watts", "power_instant_watts")
IDLE_SHARE = 0.11
"""Of its limit is what an idle device draws."""


def ordered_frame(message: Message, host: DemoHost, orders: Orders, t: float) -> Message:
    """The frame without the work that has ended, and with the limits that were set."""
    message = _limited(message, host, orders)
    columns = message["columns"]
    empty = [orders.is_empty(position, t) for position in range(len(columns["state"]))]
    if not any(empty):
        return message
    changed: dict[str, list[Any]] = {}
    for name in (*ZEROED, *POWERS, "throttle_reasons"):
        if name in columns:
            idle: Any = ["idle"] if name == "throttle_reasons" else 0
            if name in POWERS:
                idle = round(IDLE_SHARE * host.model.limit_watts, 1)
            changed[name] = [
                idle if gone and value is not None else value for value, gone in zip(columns[name], empty, strict=True)
            ]
    return message | {
        "columns": columns | changed,
        "processes": _without(message["processes"], empty),
        "partitions": _unused(message["partitions"], empty),
    }


def _limited(message: Message, host: DemoHost, orders: Orders) -> Message:
    """Without processes that were ended, and with no more power than devices may draw."""
    if not orders.limits and not orders.ended:
        return message
    columns = dict(message["columns"])
    limits = [orders.limits.get(name) for name in uuids(host)[: len(columns["state"])]]
    for name in POWERS:
        if name in columns:
            pairs = zip(columns[name], limits, strict=True)
            columns[name] = [value if None in (value, limit) else min(value, limit) for value, limit in pairs]
    if "power_limit_watts" in columns:
        pairs = zip(columns["power_limit_watts"], limits, strict=True)
        columns["power_limit_watts"] = [(value and limit) or value for value, limit in pairs]
    processes = message["processes"]
    left = [pid not in orders.ended for pid in processes["pid"]]
    return message | {"columns": columns, "processes": _kept(processes, left)}


def _without(table: Message, empty: list[bool]) -> Message:
    """The rows of devices that are not empty."""
    return _kept(table, [not empty[index] for index in table["device_index"]])


def _kept(table: Message, kept: list[bool]) -> Message:
    return {name: [value for value, keep in zip(values, kept, strict=True) if keep] for name, values in table.items()}


def _unused(table: Message, empty: list[bool]) -> Message:
    used = table.get("memory_used_bytes")
    if used is None:
        return table
    values = [0 if empty[index] else value for index, value in zip(table["device_index"], used, strict=True)]
    return table | {"memory_used_bytes": values}
