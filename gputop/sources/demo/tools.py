"""What `nvidia-smi` would print on a host of the demo fleet, made from the same messages as its readings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from gputop.sources.demo.messages import Message

MIB = 1024 * 1024

EXIT_USAGE = 1
EXIT_NO_DEVICE = 6
EXIT_LOST = 15
EXIT_MISMATCH = 18

Row = dict[str, Any]
"""The values of one device."""

_REASONS = (
    ("Idle", "idle"),
    ("Applications Clocks Setting", "app_clocks"),
    ("SW Power Cap", "sw_power_cap"),
    ("HW Slowdown", "hw_slowdown"),
    ("    HW Thermal Slowdown", "hw_thermal"),
    ("    HW Power Brake Slowdown", "hw_power_brake"),
    ("Sync Boost", "sync_boost"),
    ("SW Thermal Slowdown", "sw_thermal"),
    ("Display Clock Setting", "display_clocks"),
)

_LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def nvidia_smi(arguments: Sequence[str], hello: Message, frame: Message) -> tuple[str, int]:
    """What it prints for these arguments, and its exit status."""
    rows = _rows(hello, frame)
    if not rows:
        return "Failed to initialize NVML: Driver/library version mismatch\n", EXIT_MISMATCH
    match arguments:
        case []:
            return _table(hello, rows), _status(rows)
        case ["-q"]:
            return _query(hello, frame, rows, rows)
        case ["-q", "-i", wanted]:
            chosen = [row for row in rows if wanted in (str(row["index"]), row["uuid"], row["pci_bus_id"])]
            if not chosen:
                return "No devices were found\n", EXIT_NO_DEVICE
            return _query(hello, frame, rows, chosen)
        case ["topo", "-m"]:
            return _topology(rows, hello["facts"]["cores"]), 0
        case ["nvlink", "-s"]:
            return "".join(_links(rows)), 0
    return "ERROR: Option is not known to the demo's nvidia-smi.\n", EXIT_USAGE


def _rows(hello: Message, frame: Message) -> list[Row]:
    """One a device: who it is and its values."""
    table = {**hello["devices"], **frame["columns"]}
    return [{name: values[position] for name, values in table.items()} for position in range(len(table["index"]))]


def _status(rows: Sequence[Row]) -> int:
    return EXIT_LOST if any(row["state"] != "ok" for row in rows) else 0


def _query(hello: Message, frame: Message, rows: Sequence[Row], chosen: Sequence[Row]) -> tuple[str, int]:
    facts = hello["facts"]
    at = datetime.fromtimestamp(frame["t"], UTC)
    lines = [
        "",
        "==============NVSMI LOG==============",
        "",
        _line(0, "Timestamp", f"{at:%a %b %e %H:%M:%S %Y}"),
        _line(0, "Driver Version", facts["driver_version"]),
        _line(0, "CUDA Version", facts["cuda_version"]),
        "",
        _line(0, "Attached GPUs", len(rows)),
    ]
    for row in chosen:
        if row["state"] == "ok":
            lines += [f"GPU {row['pci_bus_id']}", *_details(row, frame), ""]
        else:
            why = "GPU is lost.  Reboot the system to recover this GPU" if row["state"] == "lost" else "Unknown Error"
            lines += [f"Unable to determine the device handle for GPU{row['pci_bus_id'][4:]}: {why}", ""]
    return "\n".join(lines) + "\n", _status(chosen)


def _line(depth: int, name: str, value: object) -> str:
    indent = "    " * depth
    return f"{indent}{name:<{42 - len(indent)}}: {'N/A' if value is None else value}"


def _details(row: Row, frame: Message) -> Iterator[str]:
    def value(name: str, unit: str = "") -> str | None:
        found = row.get(name)
        return None if found is None else f"{found:g}{unit}" if isinstance(found, float) else f"{found}{unit}"

    def section(name: str, **values: object) -> Iterator[str]:
        yield f"    {name}"
        for label, found in values.items():
            yield _line(2, label.replace("_", " "), found)

    def mode(name: str) -> str | None:
        found = row.get(name)
        return None if found is None else str(found).capitalize()

    yield _line(1, "Product Name", row["model"])
    yield _line(1, "Persistence Mode", "Enabled" if row.get("persistence_mode") else "Disabled")
    yield from section("MIG Mode", Current=mode("mig_mode"), Pending=mode("mig_mode"))
    yield _line(1, "Serial Number", row["serial"])
    yield _line(1, "GPU UUID", row["uuid"])
    yield _line(1, "Minor Number", row["minor_number"])
    action = row.get("recovery_action")
    yield _line(1, "GPU Recovery Action", None if action is None else action.replace("-", " ").title())
    yield "    PCI"
    yield _line(2, "Bus Id", row["pci_bus_id"])
    yield "        GPU Link Info"
    yield "            PCIe Generation"
    yield _line(4, "Max", value("pcie_generation_max"))
    yield _line(4, "Current", value("pcie_generation"))
    yield "            Link Width"
    yield _line(4, "Max", value("pcie_width_max", "x"))
    yield _line(4, "Current", value("pcie_width", "x"))
    yield _line(2, "Replays Since Reset", value("pcie_replay_count"))
    yield _line(2, "Tx Throughput", _kilobytes(row.get("pcie_tx_bytes_per_second")))
    yield _line(2, "Rx Throughput", _kilobytes(row.get("pcie_rx_bytes_per_second")))
    yield _line(1, "Fan Speed", value("fan_percent", " %"))
    yield _line(1, "Performance State", row.get("performance_state"))
    yield "    Clocks Event Reasons"
    reasons = row.get("throttle_reasons") or []
    for label, name in _REASONS:
        yield _line(2, label, "Active" if name in reasons else "Not Active")
    used, total, reserved = (row.get(f"memory_{part}_bytes") for part in ("used", "total", "reserved"))
    yield from section("FB Memory Usage", Total=_mebibytes(total), Reserved=_mebibytes(reserved), Used=_mebibytes(used))
    bar1 = {part.capitalize(): _mebibytes(row.get(f"bar1_{part}_bytes")) for part in ("total", "used")}
    yield from section("BAR1 Memory Usage", **bar1)
    yield _line(1, "Compute Mode", mode("compute_mode"))
    yield from section("Utilization", Gpu=value("utilization_percent", " %"),
                       Memory=value("memory_utilization_percent", " %"),
                       Encoder=value("encoder_utilization_percent", " %"),
                       Decoder=value("decoder_utilization_percent", " %"))  # fmt: skip
    yield from section("ECC Mode", Current=mode("ecc_mode"), Pending=mode("ecc_pending_mode"))
    yield "    ECC Errors"
    for period in ("volatile", "aggregate"):
        yield f"        {period.capitalize()}"
        for label, kind in (("Correctable", "corrected"), ("Uncorrectable", "uncorrected")):
            yield _line(3, f"SRAM {label}", 0)
            yield _line(3, f"DRAM {label}", value(f"ecc_{kind}_{period}"))
    yield from section("Retired Pages", Single_Bit_ECC=None, Double_Bit_ECC=None, Pending_Page_Blacklist=None)
    yield from section("Remapped Rows", Correctable_Error=value("remapped_rows_corrected"),
                       Uncorrectable_Error=value("remapped_rows_uncorrected"),
                       Pending=_yes(row.get("remapped_rows_pending")),
                       Remapping_Failure_Occurred=_yes(row.get("remapped_rows_failed")))  # fmt: skip
    yield "    Temperature"
    for label, name in (
        ("GPU Current Temp", "temperature_celsius"),
        ("GPU Shutdown Temp", "temperature_shutdown_celsius"),
        ("GPU Slowdown Temp", "temperature_slowdown_celsius"),
        ("Memory Current Temp", "memory_temperature_celsius"),
    ):
        yield _line(2, label, value(name, " C"))
    yield "    GPU Power Readings"
    for label, name in (
        ("Average Power Draw", "power_average_watts"),
        ("Instantaneous Power Draw", "power_watts"),
        ("Current Power Limit", "power_limit_watts"),
        ("Default Power Limit", "power_default_limit_watts"),
    ):
        found = row.get(name)
        yield _line(2, label, None if found is None else f"{found:.2f} W")
    yield from section("Clocks", SM=value("sm_clock_mhz", " MHz"), Memory=value("memory_clock_mhz", " MHz"))
    yield from section("Max Clocks", SM=value("sm_clock_max_mhz", " MHz"), Memory=value("memory_clock_max_mhz", " MHz"))
    yield from _processes(row, frame)


def _processes(row: Row, frame: Message) -> Iterator[str]:
    table = frame["processes"]
    own = [at for at, position in enumerate(table["device_index"]) if position == row["index"]]
    yield "    Processes" if own else _line(1, "Processes", "None")
    for at in own:
        yield _line(2, "GPU instance ID", table["gpu_instance_id"][at])
        yield _line(2, "Compute instance ID", table["compute_instance_id"][at])
        yield _line(2, "Process ID", table["pid"][at])
        yield _line(3, "Type", "C")
        yield _line(3, "Name", table["command"][at])
        yield _line(3, "Used GPU Memory", _mebibytes(table["memory_used_bytes"][at]))


def _kilobytes(rate: float | None) -> str | None:
    return None if rate is None else f"{rate / 1000:.0f} KB/s"


def _mebibytes(size: int | None) -> str | None:
    return None if size is None else f"{size // MIB} MiB"


def _yes(value: bool | None) -> str | None:
    return None if value is None else "Yes" if value else "No"


def _topology(rows: Sequence[Row], cores: int) -> str:
    """Tabs and the underlined head are nvidia-smi's own."""
    names = [f"GPU{row['index']}" for row in rows]
    lines = ["\t\x1b[4m" + "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]) + "\x1b[0m"]
    half = max(1, len(rows) // 2)
    links = next((total for row in rows if (total := row.get("nvlink_links_total"))), None)
    for at in range(len(rows)):
        node = min(1, at // half)
        cells = [" X " if at == other else f"NV{links}" if links else "NODE" if node == min(1, other // half) else "SYS"
                 for other in range(len(rows))]  # fmt: skip
        first = node * cores // 2
        lines.append("\t".join([names[at], *cells, f"{first}-{first + cores // 2 - 1}", str(node), "", "N/A"]))
    return "\n".join(lines) + "\n" + _LEGEND


def _links(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        yield f"GPU {row['index']}: {row['model']} (UUID: {row['uuid']})\n"
        if row["state"] != "ok":
            yield "\t Unable to retrieve NVLink information as GPU is lost\n"
        for link in range(row.get("nvlink_links_active") or 0):
            yield f"\t Link {link}: 26.562 GB/s\n"


def _table(hello: Message, rows: Sequence[Row]) -> str:
    facts = hello["facts"]
    rule = "+" + "-" * 41 + "+" + "-" * 24 + "+" + "-" * 22 + "+"
    head = f"NVIDIA-SMI {facts['driver_version']}   Driver Version: {facts['driver_version']}"
    lines = ["+" + "-" * 89 + "+", f"| {head:<62} CUDA Version: {facts['cuda_version'] or 'N/A':<10} |", rule]
    for row in rows:
        name = f"{row['index']:>3}  {row['model']}"
        mode = "Off" if row.get("persistence_mode") is False else "On"
        corner = f"{row.get('ecc_uncorrected_volatile') or 0:>20}"
        lines.append(f"| {name:<35}{mode:>4} | {row['pci_bus_id']:>18} Off | {corner} |")
        if row["state"] != "ok":
            lines += [f"| {'ERR!':<39} | {'GPU is lost':>22} | {'ERR!':>20} |", rule]
            continue
        use = row.get("utilization_percent")
        left = f"N/A  {row['temperature_celsius']:.0f}C  {row['performance_state']}  " \
               f"{row['power_watts']:.0f}W / {row['power_limit_watts']:.0f}W"  # fmt: skip
        memory = f"{row['memory_used_bytes'] // MIB}MiB / {row['memory_total_bytes'] // MIB}MiB"
        load = "N/A" if use is None else f"{use:.0f}%"
        lines += [f"| {left:<39} | {memory:>22} | {load + '      Default':>20} |", rule]
    return "\n".join(lines) + "\n"
