"""Hosts without a scheduler: a marker that launchers can honor, words to the people, and what a site's policy adds.

The marker is `/run/gputop/drain.json`: who, why, since and until when. A reboot removes it. Every command line is fixed
but for what stands in the policy, so that sudoers can name it exactly; texts travel on standard input.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from gputop.domain.action import ActionRequest, Block, Check, CheckState, Goal, Step
from gputop.domain.call import CommandResult, Performed, RunOn
from gputop.domain.host import Host, HostSpec
from gputop.domain.job import AdminState, NodeState
from gputop.ports import Clock, Runner
from gputop.transport.runner import perform, trouble

MARKER = "/run/gputop/drain.json"
NOLOGIN = "/run/nologin"
MARK_STEP = "marker.write"
LOOK_SECONDS = 15.0

LOOK = f"if [ -e {MARKER} ]; then cat {MARKER}; else echo none; fi"

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


_MODE_WORDS = {"default": "DEFAULT", "exclusive-process": "EXCLUSIVE_PROCESS", "prohibited": "PROHIBITED"}

_Holds = Callable[[str], bool]


class Marker(Struct, frozen=True, kw_only=True):
    """The contents of the marker. Launchers may rely on the names."""

    by: str
    reason: str
    since: datetime
    until: datetime | None = None
    compute_mode: str | None = None
    """That of all devices before, in the words of `DeviceReading`; `None`: not known, or not the same for all."""
    gputop: int = 1
    """Version of this layout."""


class MarkerScheduler:
    """Implements `ports.Scheduler`, `CanDrain`, `CanCordon` and `CanResume` for hosts whose work people start."""

    name = "none"

    def __init__(self, specs: Mapping[str, HostSpec], runner: Runner, clock: Clock) -> None:
        """`specs`: by host name, for their policies."""
        self._specs = specs
        self._runner = runner
        self._clock = clock
        self._modes: dict[str, str | None] = {}
        """Compute mode to come back to: the marker's, else that of the newest frame."""
        self._work: dict[str, tuple[tuple[str, str], ...]] = {}
        """Owner and words of each process on a device, to tell people what of theirs runs."""

    async def observe(self, hosts: Sequence[Host]) -> Mapping[str, NodeState]:
        nodes = await asyncio.gather(*(self._observe(host) for host in hosts))
        return {node.host: node for node in nodes}

    async def _observe(self, host: Host) -> NodeState:
        now = self._clock.now()
        marker = await self._marker(host.name)
        if isinstance(marker, Block):
            return NodeState(host=host.name, scheduler=self.name, block=marker, observed_at=now)
        self._work[host.name] = _describe_work(host)
        self._modes[host.name] = marker.compute_mode if marker is not None else _common_mode(host)
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
            by=marker.by,
            since=marker.since,
            observed_at=now,
        )

    async def _marker(self, host: str) -> Marker | Block | None:
        call = RunOn(host=host, argv=("sh", "-c", LOOK))
        result = await self._runner.run(call, deadline_seconds=LOOK_SECONDS)
        if (problem := trouble(result)) is not None:
            return Block(kind="no-answer", summary=f"its drain marker cannot be read: {problem.summary}")
        return _read_marker(result)

    def cordon_steps(self, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block:
        if node.cordoned:
            return ()
        return (self._mark(node, request), *self._tell(node, request))

    def drain_steps(self, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block:
        policy = self._specs[node.host].policy
        host = node.host
        steps = [] if node.cordoned else [self._mark(node, request), *self._tell(node, request)]
        if policy.compute_mode and (before := self._modes.get(host)) is not None:
            steps.append(_compute_mode(host, "prohibited", _compute_mode(host, before)))
        for unit in policy.stop_units:
            steps.append(_unit(host, unit, "stop", _unit(host, unit, "start")))
        if policy.nologin:
            steps.append(_logins(host, closed=True))
        return tuple(steps)

    def resume_steps(self, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block:
        policy = self._specs[node.host].policy
        host = node.host
        steps = []
        if policy.nologin:
            steps.append(_logins(host, closed=False))
        for unit in reversed(policy.stop_units):
            steps.append(_unit(host, unit, "start"))
        if policy.compute_mode:
            steps.append(_compute_mode(host, self._modes.get(host) or "default"))
        steps.append(_unmark(host))
        return tuple(steps)

    def _mark(self, node: NodeState, request: ActionRequest) -> Step:
        assert node.observed_at is not None
        mode = self._modes.get(node.host)
        marker = Marker(
            by=request.by, reason=request.reason, since=node.observed_at, until=request.until, compute_mode=mode
        )
        text = msgspec.json.encode(marker).decode()
        argv = ("install", "-D", "-m", "0644", "/dev/stdin", MARKER)
        return Step(
            id=MARK_STEP,
            actor="scheduler",
            title="write the drain marker",
            call=RunOn(host=node.host, argv=argv, stdin=f"{text}\n", sudo=True),
            goal=Goal.MARKED,
            wanted={"marker": text},
            undo=_unmark(node.host, f"undo.{MARK_STEP}"),
        )

    def _tell(self, node: NodeState, request: ActionRequest) -> tuple[Step, ...]:
        if not self._specs[node.host].policy.wall:
            return ()
        until = f" until {request.until:%Y-%m-%d %H:%M} UTC" if request.until else ""
        lines = [f"all:{node.host} is being drained by {request.by}{until}: {_flat(request.reason)}"]
        lines.append("all:Please start nothing new. Work that runs now may go on.")
        lines += [f"of {user}:Still yours here: {what}" for user, what in self._work.get(node.host, ())]
        return (tell_step("scheduler", node.host, "\n".join(lines) + "\n"),)

    async def check(self, host: str, step: Step) -> Check:
        match step.goal:
            case Goal.MARKED | Goal.UNMARKED | Goal.CORDONED | Goal.SCHEDULABLE:
                return await self._check_marker(host, step)
            case Goal.COMPUTE_MODE:
                query = ("nvidia-smi", "--query-gpu=compute_mode", "--format=csv,noheader")
                return await self._check_text(host, query, lambda text: _all_lines(text, step.wanted["compute_mode"]))
            case Goal.UNITS_STOPPED | Goal.UNITS_STARTED:
                look = ("sh", "-c", 'systemctl is-active "$1" || :', "sh", step.wanted["unit"])
                up = step.goal is Goal.UNITS_STARTED
                return await self._check_text(host, look, lambda text: (text.strip() == "active") is up)
            case Goal.LOGINS_CLOSED | Goal.LOGINS_OPEN:
                test = ("sh", "-c", f"if [ -e {NOLOGIN} ]; then echo closed; else echo open; fi")
                word = "closed" if step.goal is Goal.LOGINS_CLOSED else "open"
                return await self._check_text(host, test, lambda text: text.strip() == word)
        return Check(state=CheckState.UNKNOWN, summary="cannot be looked at")

    async def _check_marker(self, host: str, step: Step) -> Check:
        marker = await self._marker(host)
        if isinstance(marker, Block):
            return Check(state=CheckState.UNKNOWN, summary=marker.summary)
        if step.goal in (Goal.UNMARKED, Goal.SCHEDULABLE):
            state = CheckState.DONE if marker is None else CheckState.NOT_DONE
            return Check(state=state, summary="no marker" if marker is None else f"marked by {marker.by}")
        if step.goal is Goal.CORDONED:
            if marker is None:
                return Check(state=CheckState.BLOCKED, summary="the marker is gone: it takes new work")
            return Check(state=CheckState.DONE, summary=f"marked by {marker.by}")
        if marker is None:
            return Check(state=CheckState.NOT_DONE, summary="no marker")
        if marker != msgspec.json.decode(step.wanted["marker"], type=Marker):
            return Check(state=CheckState.BLOCKED, summary=f"{marker.by} has drained it meanwhile: {marker.reason}")
        return Check(state=CheckState.DONE, summary="marked")

    async def _check_text(self, host: str, argv: tuple[str, ...], holds: _Holds) -> Check:
        result = await self._runner.run(RunOn(host=host, argv=argv), deadline_seconds=LOOK_SECONDS)
        if (problem := trouble(result)) is not None:
            return Check(state=CheckState.UNKNOWN, summary=problem.summary)
        said = result.text.strip()
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


def _unmark(host: str, step_id: str = "marker.remove") -> Step:
    return Step(
        id=step_id,
        actor="scheduler",
        title="remove the drain marker",
        call=RunOn(host=host, argv=("rm", "-f", MARKER), sudo=True),
        goal=Goal.UNMARKED,
        why_no_undo="drain it again",
    )


def _compute_mode(host: str, wanted: str, undo: Step | None = None) -> Step:
    return Step(
        id=f"compute-mode.{wanted}",
        actor="scheduler",
        title=f"compute mode {wanted}",
        call=RunOn(host=host, argv=("nvidia-smi", "-c", _MODE_WORDS[wanted]), sudo=True),
        goal=Goal.COMPUTE_MODE,
        wanted={"compute_mode": wanted},
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


def _read_marker(result: CommandResult) -> Marker | None:
    text = result.text.strip()
    if text == "none":
        return None
    try:
        return msgspec.json.decode(text, type=Marker)
    except msgspec.DecodeError:
        epoch = datetime.fromtimestamp(0, UTC)
        return Marker(by="somebody", reason=f"a marker that is not gputop's: {_flat(text)[:200]}", since=epoch)


def _describe_work(host: Host) -> tuple[tuple[str, str], ...]:
    if host.frame is None:
        return ()
    return tuple(
        (process.user, f"{_flat(process.name or 'a process')} (pid {process.pid}, GPU {process.device_index})")
        for process in host.frame.processes
        if process.user
    )


def _common_mode(host: Host) -> str | None:
    modes = set((host.frame.column("compute_mode") if host.frame is not None else None) or ())
    mode = modes.pop() if len(modes) == 1 else None
    return mode if mode in _MODE_WORDS else None


def _flat(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def _all_lines(text: str, wanted: str) -> bool:
    modes = [line.strip().lower().replace("_", "-") for line in text.splitlines() if line.strip()]
    return bool(modes) and all(mode == wanted for mode in modes)
