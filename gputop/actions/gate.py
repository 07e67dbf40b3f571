"""The gate a host passes before it takes work again. Pure; what was not looked at is said to be not checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gputop.actions.faults import KernelLog, after, faults_of, told_once
from gputop.domain.action import Check, CheckState, GateItem
from gputop.domain.host import Host
from gputop.domain.reading import Frame
from gputop.domain.record import Ack
from gputop.health.xid import Catalog

GATE_SECONDS = 60.0
DIAGNOSIS_SECONDS = 300.0
"""For `dcgmi diag -r 1`, on top."""

OK, BAD, NOT_CHECKED = "ok", "bad", "not-checked"


def gate_items(
    host: Host | None,
    peers: Sequence[Host],
    log: KernelLog | None,
    catalog: Catalog,
    diagnosis: GateItem | None = None,
    ack: Ack | None = None,
    devices_before: int | None = None,
) -> tuple[GateItem, ...]:
    """Every item of the gate. `log`: of this boot; `None`: could not be read. `diagnosis`: what `dcgmi` said. `ack`:
    which faults somebody knows of. `devices_before`: at earlier drains, as far as is known."""
    frame = host.frame if host is not None else None
    if host is None or frame is None:
        return (GateItem(name="reading", state=BAD, summary="no fresh reading"),)
    return (
        _devices(host, frame, devices_before),
        _xids(host, frame, log, catalog, ack),
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
        summary = f"{'; '.join(bad)}{note}; --override REASON sets this aside"
        return Check(state=CheckState.BLOCKED, summary=summary, left=tuple(bad), values=values)
    return Check(state=CheckState.DONE, summary=f"{len(items) - len(unchecked)} items ok{note}", values=values)


def _devices(host: Host, frame: Frame, before: int | None) -> GateItem:
    wanted = host.spec.expect_devices
    states = [frame.value("state", position) for position in range(len(frame.devices))]
    good = sum(state in ("ok", "excluded") for state in states)
    if good < len(states):
        return GateItem(name="devices", state=BAD, summary=f"{good} of {len(states)} answer")
    if wanted is None and before is not None and good < before:
        summary = f"{good} of {before} at an earlier drain; expect_devices in the inventory says what is right"
        return GateItem(name="devices", state=BAD, summary=summary)
    if wanted is None:
        return GateItem(name="devices", state=NOT_CHECKED, summary=f"{good} answer, the inventory expects no number")
    if good != wanted:
        return GateItem(name="devices", state=BAD, summary=f"{good} of {wanted}")
    return GateItem(name="devices", state=OK, summary=f"{good} of {wanted}")


def _xids(host: Host, frame: Frame, log: KernelLog | None, catalog: Catalog, ack: Ack | None) -> GateItem:
    faults = faults_of(host, log, catalog)
    since = "boot"
    if ack is not None and ack.boot_id == frame.facts.boot_id:
        faults = after(faults, ack.through_seconds)
        since = f"ack by {ack.by} at {ack.at:%Y-%m-%d %H:%M} UTC: {ack.reason}"
    if faults:
        summary = f"{told_once(faults)}: where that is known and seen to, gputop ack {host.name}"
        return GateItem(name="xid", state=BAD, summary=summary)
    if log is None:
        return GateItem(name="xid", state=NOT_CHECKED, summary="the kernel log cannot be read")
    if not log.whole:
        summary = "the kernel log does not reach back to the boot; no fatal Xid in what is left of it"
        return GateItem(name="xid", state=NOT_CHECKED, summary=summary)
    return GateItem(name="xid", state=OK, summary=f"no fatal Xid since {since}")


def _pending(frame: Frame) -> GateItem:
    columns = [
        frame.column(name) for name in ("remapped_rows_pending", "remapped_rows_failed", "retired_pages_pending")
    ]
    told = [
        [column[position] for column in columns if column is not None and column[position] is not None]
        for position in range(len(frame.devices))
    ]
    if any(map(any, told)):
        return GateItem(name="remap", state=BAD, summary="rows or pages are pending, or a remap failed")
    silent = [f"GPU {device.index}" for device, values in zip(frame.devices, told, strict=True) if not values]
    if silent or not told:
        who = ", ".join(silent) if 0 < len(silent) < len(told) else "the devices"
        verb = "does" if who in silent else "do"
        return GateItem(name="remap", state=NOT_CHECKED, summary=f"{who} {verb} not tell")
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
    usual, most = others.most_common(1)[0]
    if others[own] < most:
        return GateItem(name="driver", state=BAD, summary=f"{own}, its group has {usual}")
    return GateItem(name="driver", state=OK, summary=own)
