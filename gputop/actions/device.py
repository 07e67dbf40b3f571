"""Steps of acts on single devices, processes and people of a host, and the scripts that look first. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from gputop.domain.action import ActionRequest, Goal, ProcessTarget, Signal, Step
from gputop.domain.call import CommandResult, RunOn
from gputop.domain.reading import Device
from gputop.probes.bundle import AGENT_WORDS

UNITS = (
    "nvidia-persistenced",
    "nvidia-dcgm",
    "dcgm",
    "dcgm-exporter",
    "nvidia-dcgm-exporter",
    "nvidia-fabricmanager",
    "display-manager",
)
"""systemd units that hold devices, in the order in which they are stopped before a reset."""

FABRIC_UNIT = "nvidia-fabricmanager"
DISPLAY_UNIT = "display-manager"

LOOK_AT_UNITS = (
    'for unit in "$@"; do systemctl is-active --quiet "$unit" 2>/dev/null && echo "$unit"; done; '
    "[ -e /dev/nvidia-nvswitchctl ] && echo nvswitch; :"
)
"""Prints those of its arguments that run (without systemd, none does), and whether the devices hang at an NVSwitch."""

LOOK_AT_HOLDERS = (
    "tries=$1; while :; do found=$(ls -ln /proc/[0-9]*/fd 2>/dev/null | "
    "awk '/^\\/proc\\// { split($0, part, \"/\"); pid = part[3] } / -> \\/dev\\/nvidia[0-9]+$/ { print pid, $NF }' | "
    "sort -u); tries=$((tries - 1)); "
    '[ -n "$found" ] && [ "$tries" -gt 0 ] || break; sleep 1; done; '
    'printf "%s\\n" "$found" | while read -r pid device; do [ -n "$pid" ] || continue; '
    'kind=other; case $(tr "\\0" " " <"/proc/$pid/cmdline" 2>/dev/null) in '
    f'*"{AGENT_WORDS}"*) kind=agent ;; esac; '
    'printf "%s %s %s %s %s\\n" "$kind" "$pid" "${device#/dev/nvidia}" "$(stat -c %U "/proc/$pid" 2>/dev/null)" '
    '"$(cat "/proc/$pid/comm" 2>/dev/null)"; done'
)
"""Prints what has devices open, as far as this account can see: KIND PID MINOR USER NAME. gputop's own agent, whosever,
is of the kind `agent`. Its argument: how often it looks, with a second between, until nothing has."""

_READ = (
    'line=$(cat "/proc/$1/stat" 2>/dev/null) || { echo "no process has the number $1" >&2; exit 3; }; '
    'pid=$1; user=$(stat -c %U "/proc/$1"); levels=$(sed -n "s/^NSpid://p" "/proc/$1/status" | wc -w); '
)
"""`pid`, `user`, `levels` (of PID namespaces from here down) and `line` (of /proc/PID/stat) of process `$1`."""

_TICKS = (
    '; set -- ${line##*) }; ticks=${20}; if [ "$1" = Z ]; then echo "process $pid has ended already" >&2; exit 3; fi; '
)
"""Field 22 of the line: the program's name before it may hold anything, so it is cut off at its last parenthesis. A
zombie has ended, whatever its parent makes of it."""

LOOK_AT_PROCESS = f'{_READ}:{_TICKS}printf "%s %s %s\\n" "$ticks" "$user" "$levels"; tr "\\0" " " <"/proc/$pid/cmdline"'

SEND = (
    f"{_READ}wanted_ticks=$2; wanted_user=$3; name=$4{_TICKS}"
    'if [ "$ticks" != "$wanted_ticks" ]; then echo "another process has this number now" >&2; exit 4; fi; '
    'if [ "$user" != "$wanted_user" ]; then echo "it belongs to $user now" >&2; exit 5; fi; '
    'if [ "$levels" != 1 ]; then echo "it belongs to another PID namespace" >&2; exit 6; fi; '
    'if [ "$(id -un)" = "$user" ] || [ "$(id -u)" = 0 ]; then kill -s "$name" "$pid"; '
    'else sudo -n kill -s "$name" "$pid"; fi'
)
"""Arguments: pid, start ticks, owner, signal. All three are looked at right before the signal is sent."""

SECONDS_TO_END = {Signal.INT: 15.0, Signal.TERM: 30.0, Signal.KILL: 15.0}


class DeviceHolder(Struct, frozen=True, kw_only=True):
    """A process that has the file of a device open. Its name is untrusted."""

    pid: int
    minor: int
    user: str
    name: str
    """At most 15 characters of it."""
    is_agent: bool = False
    """It is an agent of gputop: ours, which lets go before a reset, or another's."""

    def words(self, index: int) -> str:
        return f"{self.name or 'a process'} (pid {self.pid}) of {self.user or 'nobody known'} has GPU {index} open"


class ProcessFound(Struct, frozen=True, kw_only=True):
    """What `LOOK_AT_PROCESS` prints."""

    target: ProcessTarget
    levels: int
    """PID namespaces from the login's own down to the process's; 1: the same one."""


def read_process(pid: int, result: CommandResult) -> ProcessFound | None:
    """`None` when there is no such process, or the output is not what it should be."""
    first, _, command = result.text.partition("\n")
    words = first.split()
    if not result.ok or len(words) != 3 or not words[0].isdecimal() or not words[2].isdecimal():
        return None
    target = ProcessTarget(pid=pid, started_ticks=int(words[0]), user=words[1], command=command.strip()[:500])
    return ProcessFound(target=target, levels=int(words[2]))


def read_holders(result: CommandResult) -> tuple[DeviceHolder, ...]:
    """Those that can be seen; a look that failed sees none."""
    found = []
    for line in result.text.splitlines() if result.ok else ():
        kind, _, rest = line.partition(" ")
        words = rest.split(" ", 3)
        if len(words) == 4 and words[0].isdecimal() and words[1].isdecimal():
            pid, minor, user, name = words
            found.append(DeviceHolder(pid=int(pid), minor=int(minor), user=user, name=name, is_agent=kind == "agent"))
    return tuple(found)


def look_at_holders(host: str, tries: int = 1) -> RunOn:
    return RunOn(host=host, argv=("sh", "-c", LOOK_AT_HOLDERS, "sh", str(tries)))


def look_at_process(host: str, pid: int) -> RunOn:
    return RunOn(host=host, argv=("sh", "-c", LOOK_AT_PROCESS, "sh", str(pid)))


def look_at_units(host: str) -> RunOn:
    return RunOn(host=host, argv=("sh", "-c", LOOK_AT_UNITS, "sh", *UNITS))


def signal_steps(host: str, process: ProcessTarget, signal: Signal) -> tuple[Step, ...]:
    argv = (str(process.pid), str(process.started_ticks), process.user, signal.value)
    return (
        Step(
            id=f"signal.{signal.value.lower()}.{process.pid}",
            actor="host",
            title=f"send {signal.value} to {process.pid}",
            call=RunOn(host=host, argv=("sh", "-c", SEND, "sh", *argv)),
            goal=Goal.PROCESS_GONE,
            wanted={"pid": str(process.pid), "ticks": str(process.started_ticks)},
            deadline_seconds=SECONDS_TO_END[signal],
            poll_seconds=0.5,
            repeatable=False,
            waits=True,
            why_no_undo="a signal cannot be taken back",
        ),
    )


def power_cap_steps(
    host: str, devices: Sequence[tuple[str, int]], before_watts: Sequence[float | None], watts: float
) -> tuple[Step, ...]:
    """`devices`: key and index of each; `before_watts`: its limit now, to come back to."""
    steps = []
    for (key, index), before in zip(devices, before_watts, strict=True):
        undo = _cap(host, key, index, before, None) if before is not None else None
        steps.append(_cap(host, key, index, watts, undo, before))
    return tuple(steps)


def _cap(host: str, key: str, index: int, watts: float, undo: Step | None, before: float | None = None) -> Step:
    return Step(
        id=f"power-cap.{watts:g}.{index}",
        actor="host",
        title=f"GPU {index} to {watts:g} W",
        call=RunOn(host=host, argv=("nvidia-smi", "-i", key, "-pl", f"{watts:g}"), sudo=True),
        goal=Goal.POWER_LIMIT,
        wanted={"device": key, "watts": f"{watts:g}"},
        before={} if before is None else {"watts": f"{before:g}"},
        undo=undo,
        why_no_undo="" if undo is not None else "the limit before is not known",
    )


def reset_steps(host: str, devices: Sequence[Device], units: Sequence[str], *, together: bool) -> tuple[Step, ...]:
    """Stop what holds the devices, reset, start it again whatever came of the reset.

    `together`: all devices of the host at once, which NVSwitch needs, and for which one line in sudoers is enough."""
    stops = [_unit(host, unit, "stop") for unit in units]
    starts = [_unit(host, unit, "start") for unit in reversed(units)]
    each: list[tuple[tuple[str, ...], str, Sequence[Device]]] = [((), "all GPUs", devices)]
    if not together:
        each = [(("-i", _for_smi(device)), f"GPU {device.index}", (device,)) for device in devices]
    resets = [
        Step(
            id=f"reset.{position}",
            actor="host",
            title=f"reset {name}",
            call=RunOn(host=host, argv=("nvidia-smi", "--gpu-reset", *which), sudo=True),
            goal=Goal.DEVICES_RESET,
            wanted={
                "devices": ",".join(device.key for device in its),
                "minors": ",".join(f"{device.minor_number}" for device in its if device.minor_number is not None),
            },
            deadline_seconds=180,
            check_first=False,
            repeatable=False,
            why_no_undo="a reset cannot be taken back",
        )
        for position, (which, name, its) in enumerate(each)
    ]
    return (*stops, *resets, *starts)


def _for_smi(device: Device) -> str:
    """What nvidia-smi knows it by; a device that has fallen silent may have kept its number alone."""
    return device.uuid or device.pci_bus_id or str(device.index)


def _unit(host: str, unit: str, verb: str, prefix: str = "") -> Step:
    starts = verb == "start"
    return Step(
        id=f"{prefix}holder.{verb}.{unit}",
        actor="host",
        title=f"{verb} {unit}",
        call=RunOn(host=host, argv=("systemctl", verb, unit), sudo=True),
        goal=Goal.HOLDERS_RESTORED if starts else Goal.HOLDERS_STOPPED,
        wanted={"unit": unit},
        always=starts,
        undo=None if starts else _unit(host, unit, "start", "undo."),
    )


def message_lines(request: ActionRequest) -> str:
    """Standard input of the step that tells people."""
    flat = "".join(c if c.isprintable() else " " for c in request.text)
    return f"all:Message from {request.by}: {flat}\n"
