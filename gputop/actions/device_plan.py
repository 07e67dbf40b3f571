"""Plans of acts on devices and processes: reset, signal, power cap. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from gputop.actions.device import DISPLAY_UNIT, power_cap_steps, reset_steps, signal_steps
from gputop.actions.evidence import Evidence, Work, no_answer
from gputop.actions.verify import MIB
from gputop.domain.action import ActionRequest, Block, Loss, LossKind
from gputop.domain.host import Host
from gputop.domain.reading import Device, Frame


def _chosen(request: ActionRequest, host: Host) -> list[tuple[str, int]] | Block:
    """Key and index of the devices that are asked for; by key or by index."""
    devices = host.frame.devices if host.frame is not None else ()
    if not devices:
        return no_answer("no device answers")
    if request.devices_of:
        names = {device.key: device for device in devices}
        wanted = request.devices_of.get(host.name, ())
        if not wanted:
            return Block(kind="no-device", summary="none of its devices was chosen")
    else:
        names = {name: device for device in devices for name in (device.key, str(device.index))}
        wanted = request.devices or tuple(device.key for device in devices)
    unknown = [name for name in wanted if name not in names]
    if unknown:
        return Block(kind="no-device", summary=f"it has no device {', '.join(unknown)} now")
    return [(device.key, device.index) for device in dict.fromkeys(names[name] for name in wanted)]


def plan_reset(request: ActionRequest, evidence: Evidence) -> Work:
    host = evidence.host
    chosen = _chosen(request, host)
    if isinstance(chosen, Block) or host.frame is None:
        return (), (), (chosen if isinstance(chosen, Block) else no_answer("no reading"),), ()
    keys = {key for key, _ in chosen}
    devices = [device for device in host.frame.devices if evidence.nvswitch or device.key in keys]
    keys = {device.key for device in devices}
    positions = {position for position, device in enumerate(host.frame.devices) if device.key in keys}
    silent = tuple(_silent(host, host.frame, positions))
    blocks = [] if request.override else list(silent)
    holders = [process for process in host.frame.processes if process.device_index in positions]
    holders = [process for process in holders if not _restored(process.name, evidence.units)]
    for process in holders:
        who = process.user or "nobody known"
        summary = f"{process.name or 'a process that cannot be seen'} (pid {process.pid}) of {who} holds it"
        blocks.append(Block(kind="device-busy", summary=summary, hint="drain it, or signal the process"))
    blocks += _held_open(devices, evidence, {process.pid for process in holders})
    losses: tuple[Loss, ...] = ()
    if DISPLAY_UNIT in evidence.units:
        losses = (Loss(kind=LossKind.DISPLAY, summary="the desktop and all its programs end"),)
    notes = ["settings such as power limits and compute modes may go back to their defaults"]
    if request.override:
        notes += [f"{block.summary}: set aside" for block in silent]
    if evidence.nvswitch:
        notes.append("NVSwitch: all GPUs are reset together")
    together = len(devices) == len(host.frame.devices)
    steps = reset_steps(host.name, devices, evidence.units, together=together)
    return steps, losses, tuple(blocks), tuple(notes)


def _held_open(devices: Sequence[Device], evidence: Evidence, told: Collection[int]) -> Iterator[Block]:
    """Programs that have a device open without computing on it; the driver tells of none of them."""
    by_minor = {device.minor_number: device for device in devices}
    others = evidence.host.frame.devices if evidence.host.frame is not None else ()
    known = {device.minor_number for device in others}
    for holder in evidence.holders:
        device = by_minor.get(holder.minor if holder.minor in known else None)  # else a silent one, if any is
        is_fine = holder.is_agent or holder.pid in told or _restored(holder.name, evidence.units)
        if device is not None and not is_fine:
            yield Block(kind="device-busy", summary=holder.words(device.index), hint="end it first")


def _silent(host: Host, frame: Frame, positions: Collection[int]) -> Iterator[Block]:
    """Devices that do not tell who uses them, as one does that needs a reset, or whose memory is in use by nobody who
    can be seen. The driver refuses to reset a device that any process has open, so whoever says why may go on."""
    hint = "--override REASON: the driver itself refuses while a process has it open"
    for position in sorted(positions):
        index, used = frame.devices[position].index, frame.value("memory_used_bytes", position)
        if not frame.value("processes_known", position):
            yield Block(kind="device-busy", summary=f"GPU {index} does not tell its processes", hint=hint)
        if used is None:
            yield Block(kind="device-busy", summary=f"GPU {index} does not tell its memory", hint=hint)
        elif used > host.spec.policy.idle_memory_bytes and all(p.device_index != position for p in frame.processes):
            summary = f"GPU {index}: {used // MIB:,} MiB in use without a process that can be seen"
            yield Block(kind="device-busy", summary=summary, hint=f"drain it; look into its containers; or {hint}")


COMM_CHARACTERS = 15
"""Of a program's name are kept by the kernel."""

_UNIT_PROGRAMS = {
    "nvidia-persistenced": ("nvidia-persistenced",),
    "nvidia-dcgm": ("nv-hostengine",),
    "dcgm": ("nv-hostengine",),
    "dcgm-exporter": ("dcgm-exporter",),
    "nvidia-dcgm-exporter": ("dcgm-exporter",),
    "nvidia-fabricmanager": ("nv-fabricmanager",),
    "display-manager": ("Xorg", "Xwayland", "gnome-shell", "gdm-x-session", "sddm", "lightdm"),
}


def _restored(name: str | None, units: Sequence[str]) -> bool:
    """Whether a process ends, and comes back, with a unit that the reset stops and starts."""
    program = (name or "").rpartition("/")[2]
    known = [each for unit in units for each in _UNIT_PROGRAMS.get(unit, ())]
    return program in known or program in (each[:COMM_CHARACTERS] for each in known)


def plan_signal(request: ActionRequest, evidence: Evidence) -> Work:
    process, signal = request.process, request.signal
    found = evidence.process
    if process is None or signal is None:
        return (), (), (Block(kind="no-process", summary="no process was named"),), ()
    frame = evidence.host.frame
    readings = [one for one in (frame.processes if frame is not None else ()) if one.pid == process.pid]
    if readings and all(one.name is None and one.user is None and one.started_ticks is None for one in readings):
        summary = f"only the number of process {process.pid} is known: in its PID namespace it means another process"
        return (), (), (Block(kind="other-namespace", summary=summary, hint="use its container's own tools"),), ()
    if found is None:
        return (), (), (Block(kind="no-process", summary=f"no process with the number {process.pid} is seen"),), ()
    if found.levels != 1:
        summary = f"process {process.pid} belongs to another PID namespace"
        return (), (), (Block(kind="other-namespace", summary=summary, hint="use its container's own tools"),), ()
    target = found.target
    starts = {one.started_ticks for one in readings if one.started_ticks is not None}
    chosen = {process.started_ticks} if process.started_ticks else set()
    if (chosen | starts) - {target.started_ticks}:
        summary = f"another process has the number {process.pid} now"
        return (), (), (Block(kind="no-process", summary=summary, hint="look at the list again"),), ()
    if process.user and process.user != target.user:
        summary = f"process {process.pid} belongs to {target.user} now, not to {process.user}"
        return (), (), (Block(kind="no-process", summary=summary, hint="look at the list again"),), ()
    losses = (
        Loss(
            kind=LossKind.PROCESS,
            summary=f"{target.command or 'process'} (pid {target.pid}) of {target.user}",
            user=target.user,
        ),
    )
    doubt = "when the process that was chosen had started is not known: see that this is the one you mean"
    return signal_steps(evidence.host.name, target, signal), losses, (), () if chosen | starts else (doubt,)


def plan_power_cap(request: ActionRequest, evidence: Evidence) -> Work:
    host = evidence.host
    chosen = _chosen(request, host)
    if isinstance(chosen, Block) or host.frame is None:
        return (), (), (chosen if isinstance(chosen, Block) else no_answer("no reading"),), ()
    if request.watts is None:
        return (), (), (Block(kind="no-watts", summary="no power limit was named"),), ()
    limits = host.frame.column("power_limit_watts") or [None] * len(host.frame.devices)
    before = {device.key: limit for device, limit in zip(host.frame.devices, limits, strict=True)}
    steps = power_cap_steps(host.name, chosen, [before[key] for key, _ in chosen], request.watts)
    notes = tuple(f"GPU {index} now: {before[key]:g} W" for key, index in chosen if before[key] is not None)
    return steps, (), (), notes
