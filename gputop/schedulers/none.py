"""Hosts without a scheduler: a marker that launchers can honor, words to the people, and what a site's policy adds.

The marker is `/run/gputop/drain.json`: who, why, since and until when, and how the host was before, so that a resume
undoes what a drain did and nothing else. A reboot removes it. Every command line is fixed but for what stands in the
policy, so that sudoers can name it exactly; texts travel on standard input.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import Struct, structs

from gputop.domain.action import ActionRequest, Block, Check, CheckState, Goal, Step
from gputop.domain.call import Performed, RunOn
from gputop.domain.host import Host, HostSpec
from gputop.domain.job import AdminState, NodeState
from gputop.ports import Clock, Runner
from gputop.transport.runner import perform, shown, trouble

MARKER = "/run/gputop/drain.json"
NOLOGIN = "/run/nologin"
MARK_STEP = "marker.write"
LOOK_SECONDS = 15.0

LOOK = f"if [ -e {MARKER} ]; then echo marked; cat {MARKER}; else echo free; fi"

LOOK_BEFORE = (
    f"if [ -e {NOLOGIN} ]; then echo closed; else echo open; fi; "
    'for unit; do echo "$unit $(systemctl is-active "$unit" 2>/dev/null)"; done'
)
"""Whether people may log in, and the state of each unit that is named: what a drain would change."""

LOOK_AT_UNIT = 'systemctl is-active "$1" || [ $? != 1 ]'
"""Exit status 1: systemd does not answer, and nothing is known."""

TELL = (
    'told=$(cat); lines() { printf "%s\\n" "$told" | while IFS= read -r line; do '
    'case $line in "$1:"*) printf "%s\\n" "${line#"$1:"}" ;; esac; done; }; '
    'seen=$(who) || { echo "who is logged in cannot be found out" >&2; exit 1; }; '
    '[ -n "$seen" ] || { echo "nobody is logged in"; exit 0; }; '
    'root=; if [ "$(id -u)" = 0 ]; then lines all | wall || exit 1; root=yes; '
    "elif lines all | sudo -n wall 2>/dev/null; then root=yes; else lines all | wall || exit 1; fi; "
    'printf "%s\\n" "$seen" | { all=0; lost=0; missed=; while read -r user tty rest; do all=$((all + 1)); '
    'if [ -z "$root" ] && [ ! -g "$(command -v wall)" ] && [ ! -w "/dev/$tty" ]; then '
    'lost=$((lost + 1)); missed="$missed, $user on $tty"; continue; fi; '
    'own=$(lines "of $user"); [ -n "$own" ] || continue; '
    'if [ "$(id -u)" != 0 ] && printf "%s\\n" "$own" | sudo -n write "$user" "$tty" 2>/dev/null; then :; '
    'elif ! printf "%s\\n" "$own" | write "$user" "$tty" 2>/dev/null; then '
    'missed="$missed, $user on $tty of what runs of theirs"; fi; done; '
    'echo "told $((all - lost)) of $all terminals${missed:+; not told: ${missed#, }}"; [ "$lost" -lt "$all" ]; }'
)
"""Standard input: lines `all:text` for everybody, `of USER:text` for the terminals of one user. Many systems have taken
the right to write to others from `wall` and `write`: then root's is asked for, and whom nobody could tell is said. It
fails when that is everybody."""


_RUNNING = frozenset({"active", "activating", "reloading", "refreshing"})
"""States of a unit that is at work, or comes back by itself."""
_UNIT = re.compile(r"[A-Za-z0-9_@:][A-Za-z0-9_@:.\\-]*")
"""A name of systemd's, which is no option and no path."""
_OF_MARKER = frozenset({Goal.MARKED, Goal.UNMARKED, Goal.CORDONED})
_STOPPED = frozenset({"inactive", "failed", "unknown"})
_MODE_WORDS = {"default": "DEFAULT", "exclusive-process": "EXCLUSIVE_PROCESS", "prohibited": "PROHIBITED"}

_Holds = Callable[[str], bool]


class Marker(Struct, frozen=True, kw_only=True):
    """The contents of the marker. Launchers may rely on the names."""

    by: str
    """Empty: not known, the marker is not gputop's."""
    reason: str
    since: datetime | None = None
    until: datetime | None = None
    compute_modes: dict[str, str] = {}
    """By key of the device, in the words of `DeviceReading`: those before the drain, where it sets others."""
    units: tuple[str, ...] = ()
    """Those that ran before and that the drain stops."""
    nologin: bool = False
    """People could log in before, and the drain closes the door."""
    gputop: int = 1
    """Version of this layout; 0: the marker is not gputop's."""


class Found(Struct, frozen=True, kw_only=True):
    """A host when it was looked at."""

    marker: Marker | None = None
    units: tuple[str, ...] = ()
    """Of those that the policy stops: which run."""
    logins_open: bool = False
    modes: dict[str, str] = {}
    """Compute mode of each device that tells it."""
    devices: frozenset[str] = frozenset()
    work: tuple[tuple[str, str], ...] = ()
    """Owner and words of each process on a device, to tell people what of theirs runs."""


class MarkerScheduler:
    """Implements `ports.Scheduler`, `CanDrain`, `CanCordon` and `CanResume` for hosts whose work people start."""

    name = "none"

    def __init__(self, specs: Mapping[str, HostSpec], runner: Runner, clock: Clock) -> None:
        """`specs`: by host name, for their policies."""
        self._specs = specs
        self._runner = runner
        self._clock = clock
        self._found: dict[str, Found] = defaultdict(Found)

    async def observe(self, hosts: Sequence[Host]) -> Mapping[str, NodeState]:
        nodes = await asyncio.gather(*(self._observe(host) for host in hosts))
        return {node.host: node for node in nodes}

    async def _observe(self, host: Host) -> NodeState:
        now = self._clock.now()
        marker, before = await asyncio.gather(self._marker(host.name), self._before(host.name))
        if isinstance(marker, Block) or isinstance(before, Block):
            block = marker if isinstance(marker, Block) else before
            assert isinstance(block, Block)
            return NodeState(host=host.name, scheduler=self.name, block=block, observed_at=now)
        self._found[host.name] = structs.replace(
            before,
            marker=marker,
            modes=_modes(host),
            devices=frozenset(device.key for device in host.frame.devices) if host.frame is not None else frozenset(),
            work=_describe_work(host),
        )
        if marker is None:
            return NodeState(
                host=host.name,
                scheduler=self.name,
                node=host.name,
                admin=AdminState.SCHEDULABLE,
                raw="no marker",
                cordoned=False,
                observed_at=now,
            )
        return NodeState(
            host=host.name,
            scheduler=self.name,
            node=host.name,
            admin=AdminState.DRAINING,
            raw="marked",
            cordoned=True,
            reason=marker.reason,
            by=marker.by or None,
            since=marker.since,
            observed_at=now,
        )

    async def _marker(self, host: str) -> Marker | Block | None:
        call = RunOn(host=host, argv=("sh", "-c", LOOK))
        result = await self._runner.run(call, deadline_seconds=LOOK_SECONDS)
        if (problem := trouble(result)) is not None:
            return Block(kind="no-answer", summary=f"its drain marker cannot be read: {problem.summary}")
        word, _, text = result.text.partition("\n")
        return None if word == "free" else read_marker(text)

    async def _before(self, host: str) -> Found | Block:
        """What a drain by its policy would change, as it is now."""
        policy = self._specs[host].policy
        if not policy.nologin and not policy.stop_units:
            return Found()
        call = RunOn(host=host, argv=("sh", "-c", LOOK_BEFORE, "sh", *policy.stop_units))
        result = await self._runner.run(call, deadline_seconds=LOOK_SECONDS)
        if (problem := trouble(result)) is not None:
            return Block(kind="no-answer", summary=f"its units and logins cannot be looked at: {problem.summary}")
        logins, _, units = result.text.partition("\n")
        states = (line.partition(" ") for line in units.splitlines())
        return Found(units=tuple(unit for unit, _, state in states if state in _RUNNING), logins_open=logins == "open")

    def cordon_steps(self, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block:
        if node.cordoned:
            return ()
        return (_mark(node.host, None, _marker_of(node, request)), *self._tell(node, request))

    def drain_steps(self, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block:
        policy, host = self._specs[node.host].policy, node.host
        found = self._found[host]
        old = found.marker
        own = policy.compute_mode or policy.nologin or policy.stop_units
        if old is not None and not old.gputop and own:
            summary = "its drain marker is not gputop's: how the host was before cannot be noted there"
            return Block(kind="marker", summary=summary, hint="resume it with --override REASON, then drain it")
        new = words = _marker_of(node, request, old)
        if policy.compute_mode:
            new = structs.replace(new, compute_modes=found.modes | new.compute_modes)
        if policy.nologin:
            new = structs.replace(new, nologin=new.nologin or found.logins_open)
        stopped = (*new.units, *(unit for unit in found.units if unit not in new.units))
        new = structs.replace(new, units=stopped)
        steps = [_mark(host, old, new)] if new != old else []
        if words != old:
            steps += self._tell(node, request)
        if policy.compute_mode:
            steps += _prohibit(host, new.compute_modes, found.devices)
        steps += [_unit(host, unit, "stop", _unit(host, unit, "start")) for unit in policy.stop_units]
        if policy.nologin:
            steps.append(_logins(host, closed=True))
        return tuple(_while_marked(step, new) for step in steps)

    def resume_steps(self, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block:
        """Only as long as the marker is the one that was seen: another one is another person's."""
        host, found = node.host, self._found[node.host]
        steps = []
        if found.marker is not None:
            steps += [_logins(host, closed=False)] if found.marker.nologin else []
            steps += [_unit(host, unit, "start") for unit in reversed(found.marker.units)]
            steps += _restore(host, found.marker.compute_modes, found.devices)
        return tuple(structs.replace(step, before=_as_marked(found.marker)) for step in (*steps, _unmark(host)))

    def _tell(self, node: NodeState, request: ActionRequest) -> tuple[Step, ...]:
        if not self._specs[node.host].policy.wall:
            return ()
        until = f" until {request.until:%Y-%m-%d %H:%M} UTC" if request.until else ""
        lines = [f"all:{node.host} is being drained by {request.by}{until}: {_flat(request.reason)}"]
        lines.append("all:Please start nothing new. Work that runs now may go on.")
        lines += [f"of {user}:Still yours here: {what}" for user, what in self._found[node.host].work]
        return (tell_step("scheduler", node.host, "\n".join(lines) + "\n"),)

    async def check(self, host: str, step: Step) -> Check:
        if step.goal in _OF_MARKER or "marker" in step.before:
            marker = await self._marker(host)
            if isinstance(marker, Block):
                return Check(state=CheckState.UNKNOWN, summary=marker.summary)
            if (check := _judge_marker(step, marker)) is not None:
                return check
        match step.goal:
            case Goal.COMPUTE_MODE:
                only = ("-i", step.wanted["device"]) if "device" in step.wanted else ()
                query = ("nvidia-smi", *only, "--query-gpu=compute_mode", "--format=csv,noheader")
                return await self._check_text(host, query, lambda text: _all_lines(text, step.wanted["compute_mode"]))
            case Goal.UNITS_STOPPED | Goal.UNITS_STARTED:
                look = ("sh", "-c", LOOK_AT_UNIT, "sh", step.wanted["unit"])
                good = _STOPPED if step.goal is Goal.UNITS_STOPPED else {"active"}
                return await self._check_text(host, look, lambda text: text.strip() in good)
            case Goal.LOGINS_CLOSED | Goal.LOGINS_OPEN:
                test = ("sh", "-c", f"if [ -e {NOLOGIN} ]; then echo closed; else echo open; fi")
                word = "closed" if step.goal is Goal.LOGINS_CLOSED else "open"
                return await self._check_text(host, test, lambda text: text.strip() == word)
        return Check(state=CheckState.UNKNOWN, summary="cannot be looked at")

    async def _check_text(self, host: str, argv: tuple[str, ...], holds: _Holds) -> Check:
        result = await self._runner.run(RunOn(host=host, argv=argv), deadline_seconds=LOOK_SECONDS)
        if (problem := trouble(result)) is not None:
            return Check(state=CheckState.UNKNOWN, summary=problem.summary)
        said = result.text.strip()
        if not said:
            summary = shown(result.error_text)[:200] or "no answer"
            return Check(state=CheckState.UNKNOWN, summary=summary)
        return Check(state=CheckState.DONE if holds(result.text) else CheckState.NOT_DONE, summary=said[:200])

    async def perform(self, host: str, step: Step) -> Performed:
        return await perform(self._runner, step)


def tell_step(actor: str, host: str, lines: str) -> Step:
    """Tell the people who are logged in; `lines` as `TELL` reads them."""
    return Step(
        id=f"{actor}.tell",
        actor=actor,
        title="tell people",
        call=RunOn(host=host, argv=("sh", "-c", TELL), stdin=lines),
        goal=Goal.TOLD,
        deadline_seconds=20,
        check_first=False,
        proven_by_exit=True,
        repeatable=False,
        optional=True,
        why_no_undo="words cannot be taken back",
    )


def _marker_of(node: NodeState, request: ActionRequest, old: Marker | None = None) -> Marker:
    """What a drain writes. One's own marker gets the new reason and end; that of somebody else stays theirs."""
    if old is None:
        return Marker(by=request.by, reason=request.reason, since=node.observed_at, until=request.until)
    if old.by != request.by:
        return old
    return structs.replace(old, reason=request.reason or old.reason, until=request.until or old.until)


def _mark(host: str, old: Marker | None, new: Marker, step_id: str = MARK_STEP) -> Step:
    """Write `new` where `old` lies. Its undo brings `old` back."""
    text, undo_id = _text(new), f"undo.{MARK_STEP}"
    undo = None
    if step_id != undo_id:
        undo = _unmark(host, undo_id) if old is None else _mark(host, new, old, undo_id)
        undo = structs.replace(undo, before=_as_marked(new))
    return Step(
        id=step_id,
        actor="scheduler",
        title="write the drain marker",
        call=RunOn(host=host, argv=("install", "-D", "-m", "0644", "/dev/stdin", MARKER), stdin=f"{text}\n", sudo=True),
        goal=Goal.MARKED,
        before=_as_marked(old),
        wanted={"marker": text},
        undo=undo,
    )


def _unmark(host: str, step_id: str = "marker.remove") -> Step:
    return Step(
        id=step_id,
        actor="scheduler",
        title="remove the drain marker",
        call=RunOn(host=host, argv=("rm", "-f", MARKER), sudo=True),
        goal=Goal.UNMARKED,
        why_no_undo="drain it again",
    )


def _while_marked(step: Step, marker: Marker) -> Step:
    """Its undo is made only as long as `marker` is the one that lies there."""
    if step.undo is None or step.goal is Goal.MARKED:
        return step
    return structs.replace(step, undo=structs.replace(step.undo, before=_as_marked(marker)))


def _prohibit(host: str, modes: Mapping[str, str], devices: Collection[str]) -> list[Step]:
    """No new CUDA contexts, on each device whose mode before is known."""
    return [
        _compute_mode(host, "prohibited", device, _compute_mode(host, mode, device, prefix="undo."))
        for device, mode in _together(modes, devices)
    ]


def _restore(host: str, modes: Mapping[str, str], devices: Collection[str]) -> list[Step]:
    return [_compute_mode(host, mode, device) for device, mode in _together(modes, devices)]


def _together(modes: Mapping[str, str], devices: Collection[str]) -> list[tuple[str | None, str]]:
    """Device and mode of each command; one command for all (device `None`) where all devices have the same mode."""
    here = {device: mode for device, mode in modes.items() if device in devices and mode in _MODE_WORDS}
    if len(set(here.values())) == 1 and len(here) == len(devices):
        return [(None, mode) for mode in set(here.values())]
    return list(here.items())


def _compute_mode(host: str, wanted: str, device: str | None, undo: Step | None = None, prefix: str = "") -> Step:
    only = ("-i", device) if device is not None else ()
    return Step(
        id=f"{prefix}compute-mode.{wanted}" + (f".{device}" if device is not None else ""),
        actor="scheduler",
        title=f"compute mode {wanted}" + (f" of {device}" if device is not None else ""),
        call=RunOn(host=host, argv=("nvidia-smi", *only, "-c", _MODE_WORDS[wanted]), sudo=True),
        goal=Goal.COMPUTE_MODE,
        wanted={"compute_mode": wanted, **({"device": device} if device is not None else {})},
        undo=undo,
    )


def _unit(host: str, unit: str, verb: str, undo: Step | None = None) -> Step:
    return Step(
        id=f"unit.{verb}.{unit}",
        actor="scheduler",
        title=f"{verb} {unit}",
        call=RunOn(host=host, argv=("systemctl", verb, unit), sudo=True),
        goal=Goal.UNITS_STARTED if verb == "start" else Goal.UNITS_STOPPED,
        wanted={"unit": unit},
        undo=undo,
    )


def _logins(host: str, *, closed: bool) -> Step:
    opening = Step(
        id="logins.open",
        actor="scheduler",
        title="let people log in again",
        call=RunOn(host=host, argv=("rm", "-f", NOLOGIN), sudo=True),
        goal=Goal.LOGINS_OPEN,
    )
    if not closed:
        return opening
    return Step(
        id="logins.close",
        actor="scheduler",
        title="close logins",
        call=RunOn(
            host=host,
            argv=("install", "-m", "0644", "/dev/stdin", NOLOGIN),
            stdin="This host is being drained; see /run/gputop/drain.json\n",
            sudo=True,
        ),
        goal=Goal.LOGINS_CLOSED,
        undo=opening,
    )


def read_marker(text: str) -> Marker:
    """What a marker says. One that is not gputop's is somebody's all the same."""
    try:
        marker = msgspec.json.decode(text, type=Marker)
        return structs.replace(
            marker,
            since=_time(marker.since),
            until=_time(marker.until),
            units=tuple(unit for unit in marker.units if _UNIT.fullmatch(unit)),
        )
    except msgspec.DecodeError:
        return Marker(by="", reason=f"a marker that is not gputop's: {_flat(text)[:200]}", gputop=0)


def _time(value: datetime | None) -> datetime | None:
    """A time that can be told in any zone: UTC where somebody wrote none; `None` where it is of no such year."""
    if value is None or not 1970 < value.year < 9000:
        return None
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


def _text(marker: Marker) -> str:
    return msgspec.json.encode(marker).decode()


def _as_marked(marker: Marker | None) -> dict[str, str]:
    """`Step.before` of a step that is taken only as long as this marker, or none, lies there."""
    return {"marker": _text(marker) if marker is not None else ""}


def _judge_marker(step: Step, marker: Marker | None) -> Check | None:
    """What the marker says of a step; `None`: nothing against it, and its goal is something else."""
    now = _text(marker) if marker is not None else ""
    marked = f"marked by {marker.by or 'somebody unknown'}" if marker is not None else "no marker"
    match step.goal:
        case Goal.CORDONED if marker is None:
            return Check(state=CheckState.BLOCKED, summary="the marker is gone: it takes new work")
        case Goal.CORDONED:
            return Check(state=CheckState.DONE, summary=marked)
        case Goal.MARKED if now == step.wanted["marker"]:
            return Check(state=CheckState.DONE, summary="marked")
        case Goal.UNMARKED if marker is None:
            return Check(state=CheckState.DONE, summary=marked)
    if marker is not None and now != step.before.get("marker", now):
        summary = f"{marker.by or 'somebody unknown'} has drained it meanwhile: {marker.reason}"
        return Check(state=CheckState.BLOCKED, summary=summary)
    if step.goal is Goal.MARKED and marker is None and step.before.get("marker"):
        return Check(state=CheckState.BLOCKED, summary="somebody has resumed it meanwhile")
    return Check(state=CheckState.NOT_DONE, summary=marked) if step.goal in _OF_MARKER else None


def _describe_work(host: Host) -> tuple[tuple[str, str], ...]:
    if host.frame is None:
        return ()
    return tuple(
        (process.user, f"{_flat(process.name or 'a process')} (pid {process.pid}, GPU {process.device_index})")
        for process in host.frame.processes
        if process.user
    )


def _modes(host: Host) -> dict[str, str]:
    frame = host.frame
    if frame is None:
        return {}
    modes = {device.key: frame.value("compute_mode", at) for at, device in enumerate(frame.devices)}
    return {key: mode for key, mode in modes.items() if mode in _MODE_WORDS}


def _flat(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def _all_lines(text: str, wanted: str) -> bool:
    modes = [line.strip().lower().replace("_", "-") for line in text.splitlines() if line.strip()]
    return bool(modes) and all(mode == wanted for mode in modes)
