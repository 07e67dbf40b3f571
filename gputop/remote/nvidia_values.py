"""The words of nvidia-smi, the same in all its outputs: what stands for no value, for an error, for a mode."""

from functools import lru_cache
from typing import Any, Callable, Dict, List, Optional, Tuple

from gputop.remote import cells
from gputop.remote.sample import DEVICE_KEYS, Row, problem

ERROR_CELLS = (
    # what a cell says in place of a value; kind of the problem; state of the device; summary
    ("gpu is lost", "device-lost", "lost", "the GPU is lost: the driver gets no answer from it"),
    ("gpu requires reset", "requires-reset", None, "the GPU must be reset before it can be used again"),
    ("requires reset", "requires-reset", None, "the GPU must be reset before it can be used again"),
    ("reset required", "requires-reset", None, "the GPU must be reset before it can be used again"),
    ("insufficient permissions", "permission", None, "some values may not be read by this account"),
    ("no permission", "permission", None, "some values may not be read by this account"),
    ("unknown error", "device-error", None, "the driver answers with errors for this GPU"),
    ("err!", "device-error", None, "the driver answers with errors for this GPU"),
    ("error", "device-error", None, "the driver answers with errors for this GPU"),
    ("timeout", "device-error", None, "the driver did not answer in time for this GPU"),
    ("gpu is inaccessible", "device-error", None, "the GPU does not let itself be read"),
    ("gpu access blocked", "device-error", None, "the operating system blocks access to this GPU"),
    ("corrupted inforom", "inforom-corrupted", None, "the infoROM of the GPU is corrupted"),
)

HINTS = {
    "device-lost": "reboot the server; when it comes back lost, check power, slot and cooling",
    "requires-reset": "stop what uses it, then: nvidia-smi --gpu-reset -i INDEX; or reboot",
    "permission": "read it as root, or ask for access to the performance counters",
    "device-error": "look for Xid lines in the kernel log",
    "inforom-corrupted": "the GPU works on; ask the vendor about it when errors follow",
}


@lru_cache(maxsize=1024)
def cell_error(cell: Optional[str]) -> Optional[Tuple[str, Optional[str], str]]:
    """Kind of problem, state of the device, summary, when `cell` holds an error in place of a value."""
    word = cells.bare(cell)
    if not word or word[0].isdigit():
        return None
    for token, kind, state, summary in ERROR_CELLS:
        if word.startswith(token):
            return kind, state, summary
    return None


class Gathering:
    """Fills one row from cells, and remembers the errors that stood in place of values."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self._errors: Dict[str, Tuple[str, Optional[str], str]] = {}
        self._values = 0

    def put(self, key: str, cell: Optional[str], convert: Callable[[Optional[str]], Any]) -> None:
        """Set `key` from `cell`, unless it has a value already; an error in the cell is a problem of the device."""
        if cell is None:
            return
        value = None
        error = cell_error(cell)
        if error is not None:
            self._errors.setdefault(error[0], (cell.strip(), error[1], error[2]))
        else:
            value = convert(cell)
        if value is not None and self.row.get(key) is None:
            self.row[key] = value
            self._values += key not in IDENTITY

    def finish(self) -> Row:
        """The row with its problems and its state."""
        problems = self.row.setdefault("problems", [])
        if "device-lost" in self._errors:  # what else goes wrong follows from it
            self._errors = {"device-lost": self._errors["device-lost"]}
        for kind in sorted(self._errors):
            said, state, summary = self._errors[kind]
            problems.append(problem(kind, summary, "nvidia-smi says: " + said, HINTS.get(kind)))
            if state is not None:
                self.row["state"] = state
        if "device-error" in self._errors and not self._values and "state" not in self.row:
            self.row["state"] = "error"
        return self.row


IDENTITY = frozenset(DEVICE_KEYS)


def mib(cell: Optional[str]) -> Optional[int]:
    """Memory in bytes; a bare number is in MiB."""
    return cells.size(cell, 1 << 20)


def kib_per_second(cell: Optional[str]) -> Optional[float]:
    """PCIe throughput: NVML counts 1024 bytes, nvidia-smi writes `KB/s`."""
    value = cells.number(cell)
    return value * 1024 if value is not None and value >= 0 else None


def celsius(cell: Optional[str]) -> Optional[float]:
    """A temperature that a sensor can have."""
    value = cells.number(cell)
    return value if value is not None and -100 < value < 300 else None


def amount(cell: Optional[str]) -> Optional[float]:
    """A number of 0 or more."""
    value = cells.number(cell)
    return value if value is not None and value >= 0 else None


def mode(cell: Optional[str]) -> Optional[str]:
    """`enabled` or `disabled`."""
    word = cells.bare(cell)
    return {"enabled": "enabled", "on": "enabled", "disabled": "disabled", "off": "disabled"}.get(word)


def switch(cell: Optional[str]) -> Optional[bool]:
    """Whether something is on."""
    word = cells.bare(cell)
    if word in ("enabled", "on", "yes", "active", "1"):
        return True
    if word in ("disabled", "off", "no", "not active", "0"):
        return False
    return None


def performance_state(cell: Optional[str]) -> Optional[str]:
    """`P0` to `P15`."""
    word = (cell or "").strip().upper()
    return word if word[:1] == "P" and word[1:].isdigit() and int(word[1:]) < 16 else None


def compute_mode(cell: Optional[str]) -> Optional[str]:
    """As docs/reference/json.md words it; `Exclusive_Process`, `Exclusive Process`, `E. Process` and `Default`."""
    word = cells.bare(cell).replace("_", " ").replace(".", "")
    return {
        "default": "default",
        "0": "default",
        "exclusive thread": "exclusive-process",
        "e thread": "exclusive-process",
        "prohibited": "prohibited",
        "exclusive process": "exclusive-process",
        "e process": "exclusive-process",
    }.get(word)


def recovery_action(cell: Optional[str]) -> Optional[str]:
    """What the driver asks for; words that this version does not know are `other`."""
    word = cells.bare(cell).replace("_", " ")
    if word in ("", "n/a", "not supported", "function not found", "requested functionality has been deprecated"):
        return None
    known = {
        "none": "none",
        "reset": "gpu-reset",
        "gpu reset": "gpu-reset",
        "reboot": "node-reboot",
        "node reboot": "node-reboot",
        "drain p2p": "drain-p2p",
        "drain and reset": "drain-and-reset",
    }
    return known.get(word, "other")


REASONS = (
    # the names that throttle reasons have in nvidia-smi's outputs, all punctuation left out
    ("gpuidle", "idle"),
    ("idle", "idle"),
    ("applicationsclockssetting", "app_clocks"),
    ("swpowercap", "sw_power_cap"),
    ("hwthermalslowdown", "hw_thermal"),
    ("hwpowerbrakeslowdown", "hw_power_brake"),
    ("hwslowdown", "hw_slowdown"),
    ("syncboost", "sync_boost"),
    ("swthermalslowdown", "sw_thermal"),
    ("displayclockssetting", "display_clocks"),
    ("displayclocksetting", "display_clocks"),
)
REASON_BITS = (
    (0x1, "idle"),
    (0x2, "app_clocks"),
    (0x4, "sw_power_cap"),
    (0x8, "hw_slowdown"),
    (0x10, "sync_boost"),
    (0x20, "sw_thermal"),
    (0x40, "hw_thermal"),
    (0x80, "hw_power_brake"),
    (0x100, "display_clocks"),
)


@lru_cache(maxsize=1024)
def reason(name: str) -> Optional[str]:
    """The throttle reason that a field's name ends in."""
    letters = "".join(letter for letter in name.lower() if letter.isalnum())
    for ending, word in REASONS:
        if letters.endswith(ending):
            return word
    return None


def reasons_of_mask(cell: Optional[str]) -> Optional[List[str]]:
    """The active throttle reasons of `0x0000000000000004`."""
    word = cells.bare(cell)
    try:
        mask = int(word, 16) if word.startswith("0x") else None
    except ValueError:
        mask = None
    return None if mask is None else [name for bit, name in REASON_BITS if mask & bit]


def process_kind(cell: Optional[str]) -> Optional[str]:
    """`C`, `G`, `C+G`; `M+C` is a compute process under MPS."""
    letters = set((cell or "").strip().upper().split("+"))
    compute, graphics = bool(letters & {"C", "M"}), "G" in letters
    if letters - {"C", "G", "M"}:
        return None
    return "both" if compute and graphics else "compute" if compute else "graphics" if graphics else None


def settle_power(row: Row) -> None:
    """`power_watts` where only instant or average power is known."""
    if row.get("power_watts") is None:
        instant, average = row.get("power_instant_watts"), row.get("power_average_watts")
        value = instant if instant is not None else average
        if value is not None:
            row["power_watts"] = value


def total(values: List[Optional[int]]) -> Optional[int]:
    """The sum of what is known; `None` of nothing known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def same_bus(one: Optional[str], other: Optional[str]) -> bool:
    """Whether two bus ids mean the same device: `00000000:3B:00.0` is `0000:3b:00`."""
    return one is not None and other is not None and bus_key(one) == bus_key(other)


def bus_key(bus_id: str) -> str:
    """Domain, bus and device in one spelling; the function is left out."""
    parts = bus_id.strip().lower().split(".")[0].split(":")
    if len(parts) < 3:
        parts = ["0", *parts]
    return ":".join([parts[0].lstrip("0"), *parts[1:]])
