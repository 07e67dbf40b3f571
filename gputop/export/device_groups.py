"""All that is known of one device, in groups. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from gputop.catalog import format as show
from gputop.catalog.format import ABSENT
from gputop.catalog.text import clean
from gputop.catalog.words import COMPUTE_MODES, RECOVERY_ACTIONS, THROTTLE_REASONS, ranked
from gputop.domain.host import Host
from gputop.export.groups import (
    WIDE,
    Group,
    Item,
    Tone,
    age_words,
    count,
    item,
    memory,
    not_known,
    percent,
    watts,
    yes_no,
)
from gputop.fleet.attribution import unattributed_bytes
from gputop.fleet.occupancy import BUSY_UTILIZATION_PERCENT, FRESH, has_values, occupancies

NEAR_CELSIUS = 4.0
"""So far below the temperature at which it slows down, a device is said to be near it."""

STATES = {
    "ok": "answers",
    "lost": "lost: it was there and does not answer",
    "error": "answers only with errors",
    "excluded": "taken out by the administrator",
}

OCCUPANCIES = {"busy": "busy", "idle": "idle", "unknown": "not known whether busy or idle"}


class _Values:
    """The values of one device that say something about now."""

    def __init__(self, host: Host, position: int) -> None:
        self.frame = host.frame
        self.position = position
        self.state = str(self.frame.value("state", position)) if self.frame is not None else "error"
        self.is_readable = self.state == "ok" and has_values(host)
        self.asked: list[str] = []
        """Metrics that were looked at."""

    def __getitem__(self, metric: str) -> Any:
        self.asked.append(metric)
        return self.frame.value(metric, self.position) if self.frame is not None and self.is_readable else None


def device_groups(host: Host, position: int, as_of: datetime) -> list[Group]:
    """The device at `position` of the newest frame, which there must be."""
    values = _Values(host, position)
    absence = "not reported by this device"
    if not has_values(host):
        absence = not_known(host)
    elif not values.is_readable:
        absence = f"not known: the device is {values.state}"
    groups = [_identity(host, position)]
    for title, items in (
        ("Load", _load),
        ("Memory", _memory),
        ("Power", _power),
        ("Temperature", _temperature),
        ("Clocks", _clocks),
        ("Links", _links),
        ("ECC errors", _ecc),
        ("Memory repair and recovery", _repair),
        ("Modes and partitions", _modes),
    ):
        values.asked = []
        found = tuple(items(values))
        groups.append(Group(title, found, age_words(host, as_of, values.asked), absence))
    return groups


def _identity(host: Host, position: int) -> Group:
    frame = host.frame
    assert frame is not None
    device = frame.devices[position]
    state = str(frame.value("state", position))
    is_fresh = host.link.state in FRESH
    node = f"/dev/nvidia{device.minor_number}" if device.vendor == "nvidia" else str(device.minor_number)
    return Group(
        "Identity",
        (
            item("index", device.index),
            item("state", STATES.get(state, state), tone="" if state == "ok" else "bad",
                 note="" if is_fresh else "when it was last heard"),
            item("model", device.model),
            item("made by", device.vendor),
            item("UUID", device.uuid),
            item("PCI address", device.pci_bus_id),
            item("serial", device.serial),
            item("device node", None if device.minor_number is None else node),
            item("used", OCCUPANCIES[occupancies(host)[position]]),
        ),
    )  # fmt: skip


def _load(values: _Values) -> Iterator[Item]:
    yield item("utilization", values["utilization_percent"], percent, "of the time")
    yield item("memory bus", values["memory_utilization_percent"], percent, "of the time")
    yield item("encoder", values["encoder_utilization_percent"], percent)
    yield item("decoder", values["decoder_utilization_percent"], percent)
    yield item("performance", values["performance_state"], note="of P0, the fastest, to P15")


def _memory(values: _Values) -> Iterator[Item]:
    used, total = values["memory_used_bytes"], values["memory_total_bytes"]
    known = used is not None or total is not None
    share = f"{show.percent(100 * used / total)} full" if used is not None and total else ""
    yield item("used", show.memory_pair(used, total, width=WIDE) if known else None, note=share)
    yield item("reserved", values["memory_reserved_bytes"], memory, "by the driver, apart from used")
    yield _held(values)
    yield _unattributed(values)
    used, total = values["bar1_used_bytes"], values["bar1_total_bytes"]
    known = used is not None or total is not None
    yield item("BAR1", f"{show.memory(used)} of {show.memory(total)}" if known else None)


UNLISTED = "the list of processes could not be read"


def _held(values: _Values) -> Item:
    if not values["processes_known"]:
        return Item("by processes", ABSENT, UNLISTED if values.is_readable else "")
    assert values.frame is not None
    sizes = [process.memory_used_bytes for process in values.frame.processes_of(values.position)]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        lacking = f"{len(sizes) - len(known)} of {len(sizes)} do not tell"
        return Item("by processes", f"at least {memory(sum(known))}" if known else ABSENT, lacking)
    return Item("by processes", memory(sum(known)) if known else "none", f"{len(known)} of them" if known else "")


def _unattributed(values: _Values) -> Item:
    frame = values.frame if values.is_readable else None
    size = unattributed_bytes(frame, values.position) if frame is not None else None
    if size is None:
        return Item("unattributed", ABSENT)
    if not size:
        return Item("unattributed", "none")
    return Item("unattributed", memory(size), "held by no process that can be seen", "warn")


def _power(values: _Values) -> Iterator[Item]:
    draw, limit = values["power_watts"], values["power_limit_watts"]
    usual = values["power_default_limit_watts"]
    yield item("draw", draw, watts, f"{show.percent(100 * draw / limit)} of its limit" if draw and limit else "")
    yield item("average", values["power_average_watts"], watts)
    yield item("instant", values["power_instant_watts"], watts)
    capped = limit is not None and usual is not None and limit < usual - 0.5
    note = f"capped: by default it may draw {watts(usual)}" if capped else ""
    yield item("limit", limit, watts, note, "warn" if capped else "")
    yield item("default limit", usual, watts)
    yield item("energy", values["energy_joules"], lambda joules: show.energy(joules, width=WIDE),
               "since the driver was loaded")  # fmt: skip


def _celsius(value: float) -> str:
    return show.celsius(value, width=WIDE)


def _temperature(values: _Values) -> Iterator[Item]:
    now, slow = values["temperature_celsius"], values["temperature_slowdown_celsius"]
    note, tone = "", ""
    if now is not None and slow is not None:
        left = slow - now
        note = f"{left:.0f} degrees below slowdown" if left > 0 else "where it slows down, or above"
        tone = "bad" if left <= 0 else "warn" if left <= NEAR_CELSIUS else ""
    yield item("GPU", now, _celsius, note, tone)  # type: ignore[arg-type]
    yield item("memory", values["memory_temperature_celsius"], _celsius)
    yield item("slows down at", slow, _celsius)
    yield item("shuts down at", values["temperature_shutdown_celsius"], _celsius)
    yield item("fan", values["fan_percent"], percent)


def _clocks(values: _Values) -> Iterator[Item]:
    for label, metric in (("SM", "sm_clock"), ("memory", "memory_clock")):
        now, most = values[f"{metric}_mhz"], values[f"{metric}_max_mhz"]
        note = f"of {show.gigahertz(most)} at most" if most is not None else ""
        yield item(label, now, show.gigahertz, note)
    reasons = values["throttle_reasons"]
    if reasons is None:
        yield Item("held down by", ABSENT)
    elif not reasons:
        yield Item("held down by", "nothing")
    for number, name in enumerate(ranked(reasons or [])):
        reason = THROTTLE_REASONS.get(name)
        label = "" if number else "held down by"
        if reason is None:
            yield item(label, name, note="a reason that gputop does not know", tone="warn")
        else:
            yield Item(label, reason.sentence, "", "" if reason.is_calm else "warn")


def _rate(value: float) -> str:
    return show.rate(value, width=WIDE)


def _links(values: _Values) -> Iterator[Item]:
    yield _pcie(values)
    yield item("PCIe sends", values["pcie_tx_bytes_per_second"], _rate)
    yield item("PCIe receives", values["pcie_rx_bytes_per_second"], _rate)
    replays = values["pcie_replay_count"]
    yield item("PCIe replays", replays, count, "packets sent again; what counts is whether it grows" if replays else "")
    active, total = values["nvlink_links_active"], values["nvlink_links_total"]
    if active is None and total is None:
        yield Item("NVLink", ABSENT)
    else:
        down = active is not None and total is not None and active < total
        links = "link" if total == 1 else "links"
        text = f"{ABSENT if active is None else active} of {ABSENT if total is None else total} {links} up"
        yield Item("NVLink", text, f"{total - active} down" if down else "", "warn" if down else "")
    yield item("NVLink sends", values["nvlink_tx_bytes_per_second"], _rate)
    yield item("NVLink receives", values["nvlink_rx_bytes_per_second"], _rate)
    errors = values["nvlink_error_count"]
    yield item("NVLink errors", errors, count, "since the driver was loaded" if errors else "", _alarm(errors, "warn"))


def _pcie(values: _Values) -> Item:
    generation, most_generation = values["pcie_generation"], values["pcie_generation_max"]
    width, most_width = values["pcie_width"], values["pcie_width_max"]
    if generation is None and width is None:
        return Item("PCIe", ABSENT)
    text = " ".join(part for part in (f"gen {generation}" if generation is not None else "",
                                      f"x{width}" if width is not None else "") if part)  # fmt: skip
    narrow = width is not None and most_width is not None and width < most_width
    slow = generation is not None and most_generation is not None and generation < most_generation
    busy = (values["utilization_percent"] or 0.0) >= BUSY_UTILIZATION_PERCENT
    if narrow:
        return Item("PCIe", text, f"degraded: it has {most_width} lanes", "warn")
    if slow and busy:
        return Item("PCIe", text, f"degraded: below gen {most_generation} although it is busy", "warn")
    if slow:
        return Item("PCIe", text, f"of gen {most_generation}; down while idle is normal")
    full = most_generation is not None and most_width is not None
    return Item("PCIe", text, "full speed" if full else "")


def _alarm(number: float | None, tone: Tone) -> Tone:
    return tone if number else ""


def _ecc(values: _Values) -> Iterator[Item]:
    mode, pending = values["ecc_mode"], values["ecc_pending_mode"]
    changes = pending is not None and mode is not None and pending != mode
    yield item("ECC", mode, note=f"{pending} after the next reset" if changes else "", tone="warn" if changes else "")
    for label, kind, tone in (("corrected", "corrected", ""), ("uncorrected", "uncorrected", "bad")):
        volatile, ever = values[f"ecc_{kind}_volatile"], values[f"ecc_{kind}_aggregate"]
        yield item(label, volatile, count, "since the driver was loaded", _alarm(volatile, tone))  # type: ignore[arg-type]
        weaker: Tone = "warn" if tone else ""
        yield item(f"{label}, ever", ever, count, "", _alarm(ever, weaker))


def _repair(values: _Values) -> Iterator[Item]:
    action = values["recovery_action"]
    yield item("driver asks for", action, lambda name: RECOVERY_ACTIONS.get(name, name),
               tone="" if action in (None, "none") else "bad")  # fmt: skip
    yield item("remapped rows", values["remapped_rows_uncorrected"], count, "for uncorrectable errors",
               _alarm(values["remapped_rows_uncorrected"], "warn"))  # fmt: skip
    yield item("", values["remapped_rows_corrected"], count, "for corrected errors")
    pending, failed = values["remapped_rows_pending"], values["remapped_rows_failed"]
    yield item("remap pending", pending, yes_no, "a reset of the GPU completes it" if pending else "",
               "warn" if pending else "")  # fmt: skip
    yield item("remap failed", failed, yes_no, "no spare rows: have it replaced" if failed else "",
               "bad" if failed else "")  # fmt: skip
    single, double = values["retired_pages_single_bit"], values["retired_pages_double_bit"]
    yield item("retired pages", double, count, "for double-bit errors", _alarm(double, "warn"))
    yield item("", single, count, "for single-bit errors")
    pending = values["retired_pages_pending"]
    yield item("retirement pending", pending, yes_no, "the next reboot completes it" if pending else "",
               "warn" if pending else "")  # fmt: skip


def _modes(values: _Values) -> Iterator[Item]:
    compute, persistence = values["compute_mode"], values["persistence_mode"]
    yield item("compute mode", compute, lambda name: COMPUTE_MODES.get(name, name))
    yield item("persistence", persistence, lambda on: "on" if on else "off",
               "" if persistence else "the driver may unload between jobs")  # fmt: skip
    yield item("MIG", values["mig_mode"])
    frame = values.frame
    for number, part in enumerate(frame.partitions_of(values.position) if frame and values.is_readable else ()):
        size = show.memory_pair(part.memory_used_bytes, part.memory_total_bytes, width=WIDE)
        busy = "" if part.utilization_percent is None else f", {percent(part.utilization_percent)} busy"
        ids = [f"GPU instance {part.gpu_instance_id}" if part.gpu_instance_id is not None else "", part.uuid or ""]
        name = " ".join(filter(None, (part.kind, str(part.index), part.profile)))
        label = "" if number else "partitions"
        yield Item(label, clean(f"{name}  {size}{busy}"), clean(", ".join(filter(None, ids))))
