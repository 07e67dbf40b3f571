"""What acts have made of hosts of the demo fleet: pure functions that change the messages of a host.

The server's `simulate` program leaves a file for each order; nothing but the demo's own numbers follows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct

from gputop.sources.demo.hosts import DemoHost
from gputop.sources.demo.messages import Message, boot_id

FOLDER = "acts"
PROGRAM = "simulate"

SCRIPT = """#!/bin/sh
# The simulated scheduler and power of gputop's demo. It writes files beside itself and touches nothing real.
cd "${0%/*}/acts" || exit 1
case "$1" in
  state) if [ -e "$2.drained" ]; then echo drained; cat "$2.drained"; else echo schedulable; fi ;;
  drain) printf '%s\\n%s\\n' "$3" "$4" > "$2.drained" ;;
  resume) rm -f "$2.drained" ;;
  status) if [ -e "$2.off" ]; then echo stopped; else echo running; fi ;;
  stop) : > "$2.off" ;;
  start | reboot) rm -f "$2.off" "$2.drained"; : > "$2.booted" ;;
  *) echo "unknown order $1" >&2; exit 2 ;;
esac
"""

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
    return Orders(drained_at=drained, is_off=(folder / f"{host}.off").exists(), booted_at=booted)


def _changed(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return None


def ordered_hello(message: Message, host: DemoHost, orders: Orders) -> Message:
    if orders.booted_at is None:
        return message
    return message | {"facts": message["facts"] | {"boot_id": boot_id(host, orders.booted_at)}}


ZEROED = ("utilization_percent", "memory_utilization_percent", "encoder_utilization_percent",
          "decoder_utilization_percent", "memory_used_bytes", "pcie_tx_bytes_per_second", "pcie_rx_bytes_per_second",
          "nvlink_tx_bytes_per_second", "nvlink_rx_bytes_per_second")  # fmt: skip
POWERS = ("power_watts", "power_average_watts", "power_instant_watts")
IDLE_SHARE = 0.11
"""Of its limit is what an idle device draws."""


def ordered_frame(message: Message, host: DemoHost, orders: Orders, t: float) -> Message:
    """The frame without the work that has ended."""
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


def _without(table: Message, empty: list[bool]) -> Message:
    """The rows of devices that are not empty."""
    kept = [not empty[index] for index in table["device_index"]]
    return {name: [value for value, keep in zip(values, kept, strict=True) if keep] for name, values in table.items()}


def _unused(table: Message, empty: list[bool]) -> Message:
    used = table.get("memory_used_bytes")
    if used is None:
        return table
    values = [0 if empty[index] else value for index, value in zip(table["device_index"], used, strict=True)]
    return table | {"memory_used_bytes": values}
