"""The gate a host passes before it takes work again. Pure; what was not looked at is said to be not checked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from gputop.domain.action import Check, CheckState, GateItem
from gputop.domain.host import Host
from gputop.domain.reading import Frame
from gputop.health.xid import Catalog

FATAL = frozenset({"reset", "reboot", "rma"})
"""What the catalog of Xids asks for after a fatal one: a device that has had it since boot does not get work."""

_XID = re.compile(r"NVRM: Xid \(([^)]*)\): (\d+)([^\n]*)")

OK, BAD, NOT_CHECKED = "ok", "bad", "not-checked"


def gate_items(
    host: Host | None,
    peers: Sequence[Host],
    kernel_log: str | None,
    catalog: Catalog,
    diagnosis: GateItem | None = None,
) -> tuple[GateItem, ...]:
    """Every item of the gate. `kernel_log`: of this boot; `None`: could not be read. `diagnosis`: what `dcgmi` said."""
    frame = host.frame if host is not None else None
    if host is None or frame is None:
        return (GateItem(name="reading", state=BAD, summary="no fresh reading"),)
    return (
        _devices(host, frame),
        _xids(host, kernel_log, catalog),
        _pending(frame),
        _width(frame),
        _driver(host, frame, peers),
        diagnosis or GateItem(name="dcgmi diag", state=NOT_CHECKED, summary="not asked for"),
    )


def passes(items: Sequence[GateItem]) -> Check:
    """Bad items block; items that were not checked do not."""
    bad = [f"{item.name}: {item.summary}" for item in items if item.state == BAD]
    unchecked = [item.name for item in items if item.state == NOT_CHECKED]
    note = f" (not checked: {', '.join(unchecked)})" if unchecked else ""
    values = {item.name: f"{item.state} {item.summary}".strip() for item in items}
    if bad:
        return Check(state=CheckState.BLOCKED, summary="; ".join(bad) + note, left=tuple(bad), values=values)
    return Check(state=CheckState.DONE, summary=f"{len(items) - len(unchecked)} items ok{note}", values=values)


def _devices(host: Host, frame: Frame) -> GateItem:
    wanted = host.spec.expect_devices
    states = [frame.value("state", position) for position in range(len(frame.devices))]
    good = sum(state in ("ok", "excluded") for state in states)
    if good < len(states):
        return GateItem(name="devices", state=BAD, summary=f"{good} of {len(states)} answer")
    if wanted is None:
        return GateItem(name="devices", state=NOT_CHECKED, summary=f"{good} answer, the inventory expects no number")
    if good != wanted:
        return GateItem(name="devices", state=BAD, summary=f"{good} of {wanted}")
    return GateItem(name="devices", state=OK, summary=f"{good} of {wanted}")


def _xids(host: Host, kernel_log: str | None, catalog: Catalog) -> GateItem:
    fatal = {
        f"Xid {match[2]} on {match[1]}": None
        for match in _XID.finditer(kernel_log or "")
        if catalog.severity("xid", int(match[2]), match[3]) in FATAL
    }
    fatal |= {
        f"{event.kind} {event.code or ''} on {event.pci_bus_id or 'a device'}": None
        for event in host.events
        if event.severity in FATAL and (kernel_log is None or event.kind != "xid")
    }
    if fatal:
        return GateItem(name="xid", state=BAD, summary=", ".join(fatal))
    if kernel_log is None:
        return GateItem(name="xid", state=NOT_CHECKED, summary="the kernel log cannot be read")
    return GateItem(name="xid", state=OK, summary="no fatal Xid since boot")


def _pending(frame: Frame) -> GateItem:
    columns = [
        frame.column(name) for name in ("remapped_rows_pending", "remapped_rows_failed", "retired_pages_pending")
    ]
    known = [value for column in columns if column is not None for value in column if value is not None]
    if any(known):
        return GateItem(name="remap", state=BAD, summary="rows or pages are pending, or a remap failed")
    if not known:
        return GateItem(name="remap", state=NOT_CHECKED, summary="the devices do not tell")
    return GateItem(name="remap", state=OK, summary="nothing pending")


def _width(frame: Frame) -> GateItem:
    widths, most = frame.column("pcie_width"), frame.column("pcie_width_max")
    pairs = [
        (device.index, width, full)
        for device, width, full in zip(frame.devices, widths or (), most or (), strict=False)
        if width is not None and full is not None
    ]
    narrow = [f"GPU {index} x{width} of x{full}" for index, width, full in pairs if width < full]
    if narrow:
        return GateItem(name="link width", state=BAD, summary=", ".join(narrow))
    if len(pairs) < len(frame.devices):
        return GateItem(name="link width", state=NOT_CHECKED, summary="the devices do not tell")
    return GateItem(name="link width", state=OK, summary="full")


def _driver(host: Host, frame: Frame, peers: Sequence[Host]) -> GateItem:
    own = frame.facts.driver_version
    groups = set(host.spec.groups)
    others = Counter(
        peer.frame.facts.driver_version
        for peer in peers
        if peer.name != host.name and peer.frame is not None and groups & set(peer.spec.groups)
        if peer.frame.facts.driver_version is not None
    )
    if own is None or not others:
        return GateItem(name="driver", state=NOT_CHECKED, summary="no other host of its groups to compare with")
    usual, _ = others.most_common(1)[0]
    if own != usual:
        return GateItem(name="driver", state=BAD, summary=f"{own}, its group has {usual}")
    return GateItem(name="driver", state=OK, summary=own)
