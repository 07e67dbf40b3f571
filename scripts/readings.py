"""The tables of docs/reference/readings.md, made from what the readers get out of the recordings of the tests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from gputop.readers.recognize import FORMATS, recognize
from gputop.readers.text import plain
from gputop.remote.sample import Row, Sample
from gputop.remote.vendors import VENDORS, Tool

FIXTURES = Path(__file__).resolve().parents[1] / "tests" / "fixtures"
RECORDINGS, MACHINES = FIXTURES / "recordings", FIXTURES / "machines"

GROUPS: dict[str, tuple[str, ...]] = {
    # heading: keys of a row; one of them is enough
    "bus id": ("pci_bus_id",),
    "uuid": ("uuid",),
    "util": ("utilization_percent",),
    "memory": ("memory_used_bytes", "memory_total_bytes"),
    "temp": ("temperature_celsius",),
    "mem temp": ("memory_temperature_celsius",),
    "fan": ("fan_percent",),
    "power": ("power_watts",),
    "limit": ("power_limit_watts",),
    "clocks": ("sm_clock_mhz", "memory_clock_mhz"),
    "reasons": ("throttle_reasons",),
    "PCIe": ("pcie_generation", "pcie_width", "pcie_tx_bytes_per_second", "pcie_replay_count"),
    "links": ("nvlink_links_active", "nvlink_links_total", "nvlink_error_count"),
    "ECC": ("ecc_mode", "ecc_corrected_volatile", "ecc_uncorrected_volatile"),
    "parts": ("partitions",),
    "processes": ("processes_known",),
}


def readings() -> str:
    """One line a recording that names devices: tool, version, and each group of values."""
    samples = [(path, *told) for path in paths() if (told := _read(path)) is not None]
    offered = defaultdict(set)
    for _, name, sample in samples:
        offered[name] |= {group for group in GROUPS if _is_read(sample["devices"], group)}
    lines = [
        "| tool | recording | " + " | ".join(GROUPS) + " |",
        "|---|---|" + ":-:|" * len(GROUPS),
    ]
    for path, name, sample in sorted(samples, key=lambda one: (_place(one[1]), one[0].name)):
        if not sample["devices"]:
            continue
        marks = [
            "●" if _is_read(sample["devices"], group) else "○" if group in offered[name] else "" for group in GROUPS
        ]
        lines.append(f"| {name} | {path.stem} | " + " | ".join(marks) + " |")
    return "\n".join(lines)


def live() -> str:
    """One line a vendor's tool: what the agent gets out of it, on the recorded machines of the tests."""
    lines = ["| vendor | tool | " + " | ".join(GROUPS) + " |", "|---|---|" + ":-:|" * len(GROUPS)]
    for vendor in VENDORS.values():
        for tool in vendor.tools:
            rows = [row for machine in sorted(MACHINES.iterdir()) for row in _live_rows(tool, machine / "commands")]
            marks = ["●" if _is_read(rows, group) else "" for group in GROUPS]
            lines.append(f"| {vendor.title} | {tool.programs[0]} | " + " | ".join(marks) + " |")
    return "\n".join(lines)


def _live_rows(tool: Tool, commands: Path) -> list[Row]:
    programs = [(tool.programs[0], ask.arguments) for ask in tool.asks]
    if tool.stream is not None:
        programs.append(((tool.stream.programs or tool.programs)[0], tool.stream.arguments(1.0)))
    texts = [text for program, arguments in programs if (text := _recorded(commands, program, arguments)) is not None]
    rows: list[Row] = tool.read(texts)["devices"] if texts else []
    return rows


def _recorded(commands: Path, program: str, arguments: tuple[str, ...]) -> str | None:
    """The recording whose name the command begins with, the longest."""
    command = "_".join([program, *arguments])
    fitting = [path for path in commands.glob("*.txt") if command.startswith(path.stem)]
    return max(fitting, key=lambda path: len(path.stem)).read_text() if fitting else None


def paths() -> Iterator[Path]:
    for path in sorted(RECORDINGS.glob("*/*")):
        if path.is_file() and path.suffix != ".md":
            yield path


def _read(path: Path) -> tuple[str, Sample] | None:
    text = plain(path.read_bytes())
    known = recognize(text)
    return None if known is None else (known.name, known.read(text))


def _place(name: str) -> int:
    return next(at for at, known in enumerate(FORMATS) if known.name == name)


def _is_read(rows: list[Row], group: str) -> bool:
    """Whether some device has a value. No throttle reason is one; no process and no partition is none."""
    cells = [(key, row[key]) for row in rows for key in GROUPS[group] if row.get(key) is not None]
    return any(value != [] or key == "throttle_reasons" for key, value in cells if value is not False)
