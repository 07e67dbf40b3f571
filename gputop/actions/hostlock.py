"""A lock on the host itself, so that operators who share nothing but the host do not cross.

Who begins an act leaves a small file in a folder where every account of the host may, and then looks whether others lie
there. Nobody takes another's away: of two who come at the same time each sees the other's, and at most one goes on. A
file counts for as long as its act may last, and for one boot. Files have names that nobody can foresee and links are
never followed. An act that does not need the host to itself leaves none, and only looks. It is a word between
operators, no barrier: any account of the host can leave such a file, and who it was is shown.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from gputop import ports
from gputop.actions.journal import InUse, locked
from gputop.actions.sharing import SHARING, may_go_beside
from gputop.catalog.text import clean
from gputop.domain.action import ActionKind, Plan
from gputop.domain.call import RunOn
from gputop.domain.record import Holder
from gputop.ports import Clock, Runner

LOOK_SECONDS = 15.0
LEAVE_SECONDS = 5.0
"""A host that was switched off has no lock any more, and nobody waits for it."""
MARGIN_SECONDS = 120.0
"""For what no deadline of a step covers: looks, connections."""
HALF_SECONDS = 60.0
"""A file that says nothing was left by somebody who is writing it, or died doing so."""

FOLDERS = "/run/lock /dev/shm /tmp"
"""The first that everybody may write to, and where nobody can take away another's files."""

_OWN = (
    'for file in "$dir"/gputop-act.*; do [ -f "$file" ] && [ ! -L "$file" ] && [ -O "$file" ] || continue; '
    '[ "$(sed -n 2p "$file")" = "$plan" ] && rm -f -- "$file"; done; '
)

_OTHERS = (
    'echo "boot $boot"; now=$(date +%s); '
    f"for dir in {FOLDERS}; do "
    'for file in "$dir"/gputop-act.*; do [ -f "$file" ] && [ ! -L "$file" ] && [ "$file" != "$own" ] || continue; '
    'printf "held %s %s " "$(stat -c %U "$file")" "$((now - $(stat -c %Y "$file")))"; '
    'head -c 4000 "$file" | tr "\\n" " "; echo; done; done'
)

TAKE = (
    f"plan=$1; seconds=$2; for dir in {FOLDERS} none; do "
    '[ -d "$dir" ] && [ -k "$dir" ] && [ -w "$dir" ] && break; done; '
    '[ "$dir" != none ] || { echo nowhere; exit 0; }; '
    f"{_OWN}"
    'boot=$(cat /proc/sys/kernel/random/boot_id); fresh=$(mktemp "$dir/.gputop-act.XXXXXXXXXX") || exit 1; '
    '{ printf "%s\\n%s\\n%s\\n" "$boot" "$plan" "$seconds"; cat; } >"$fresh" && chmod 644 "$fresh" || exit 1; '
    'own=$dir/gputop-act.${fresh##*.}; mv -- "$fresh" "$own" || exit 1; '
    f"{_OTHERS}"
)
"""Arguments: plan, and for how many seconds it may last; who it is on standard input. Prints `boot ID`, and of every
other file `held ACCOUNT AGE BOOT PLAN SECONDS JSON`."""

LOOK = f"boot=$(cat /proc/sys/kernel/random/boot_id); own=; {_OTHERS}"
"""Prints the same of every file, and changes nothing."""

LEAVE = f'plan=$1; for dir in {FOLDERS}; do [ -d "$dir" ] || continue; {_OWN}done; :'


class HostLocks:
    """Takes and leaves them. Implements `ports.HostLocks`."""

    def __init__(
        self, runner: Runner, clock: Clock, bastion: str, is_over: Callable[[str], bool] = lambda _: False
    ) -> None:
        """`bastion`: the name of the machine that gputop runs on. `is_over`: whether a plan is known to be closed: what
        it left behind when it was killed, and then forgotten, holds nothing."""
        self._runner = runner
        self._clock = clock
        self._bastion = bastion
        self._is_over = is_over

    async def take(self, host: str, plan: Plan) -> Holder | None:
        """Say that `plan` acts on `host` now. Who else does, if somebody does: then nothing was taken. A host that does
        not answer, or has no place for it, cannot be asked; the lock of this machine holds all the same."""
        request = plan.request
        holder = Holder(by=request.by, act=request.kind, plan=plan.id, since=self._clock.now(), bastion=self._bastion)
        call = RunOn(
            host=host,
            argv=("sh", "-c", TAKE, "sh", plan.id, str(lasting_seconds(plan))),
            stdin=f"{msgspec.json.encode(holder).decode()}\n",
        )
        result = await self._runner.run(call, deadline_seconds=LOOK_SECONDS)
        found = _holders(result.text, plan)
        others = [other for other in found if not self._is_over(other.plan)]
        for other in found:
            if other not in others:
                await self._leave(host, other.plan)
        if not result.ok or not others:
            return None
        await self.leave(host, plan)
        return others[0]

    async def look(self, host: str, plan: Plan) -> Sequence[Holder]:
        """Who acts on `host` now, but for `plan` itself. A host that does not answer tells of nobody."""
        call = RunOn(host=host, argv=("sh", "-c", LOOK))
        result = await self._runner.run(call, deadline_seconds=LOOK_SECONDS)
        return [other for other in _holders(result.text, plan) if not self._is_over(other.plan)]

    async def leave(self, host: str, plan: Plan) -> None:
        """`plan` acts on `host` no longer. What is left behind where that fails ends by itself."""
        await self._leave(host, plan.id)

    async def _leave(self, host: str, plan_id: str) -> None:
        call = RunOn(host=host, argv=("sh", "-c", LEAVE, "sh", plan_id))
        await self._runner.run(call, deadline_seconds=LEAVE_SECONDS)


@asynccontextmanager
async def held(
    state_folder: Path, plan: Plan, locks: ports.HostLocks | None, shared: Path | None
) -> AsyncIterator[None]:
    """`plan` and its hosts are ours: on this machine, and on the hosts unless its act shares them; then nobody is at
    work on them whom it must keep clear of. Raises `InUse` and `JournalFailed`."""
    act, hosts = plan.request.kind, [host.host for host in plan.hosts]
    with locked(state_folder, plan, shared):
        if locks is None or act is ActionKind.START:  # what is off cannot be asked
            yield
            return
        if act in SHARING:
            found = await asyncio.gather(*(locks.look(host, plan) for host in hosts))
            pairs = [(host, holder) for host, holders in zip(hosts, found, strict=True) for holder in holders]
            if taken := [holding(host, holder) for host, holder in pairs if not may_go_beside(act, holder.act)]:
                raise InUse("; ".join(taken))
            yield
            return
        try:
            holders = await asyncio.gather(*(locks.take(host, plan) for host in hosts))
            taken = [holding(host, holder) for host, holder in zip(hosts, holders, strict=True) if holder]
            if taken:
                raise InUse("; ".join(taken))
            yield
        finally:
            await asyncio.gather(*(locks.leave(host, plan) for host in hosts))


def lasting_seconds(plan: Plan) -> int:
    """The longest that a plan may take: its first host alone, then the others, so many at a time."""
    first, *others = (sum(step.deadline_seconds for step in host.steps) for host in plan.hosts)
    rounds = math.ceil(len(others) / max(1, plan.at_once))
    return math.ceil(first + rounds * max(others, default=0.0) + MARGIN_SECONDS)


def _holders(output: str, plan: Plan) -> list[Holder]:
    """Who else holds a host, by what `TAKE` or `LOOK` printed."""
    return [other for line in output.splitlines() if (other := _other(line, output, plan)) is not None]


def _other(line: str, output: str, plan: Plan) -> Holder | None:
    """Who holds a host by one line of `TAKE`; `None`: it is none, is over, or is the plan's own from before a crash."""
    words = line.split(" ", 6)
    if len(words) < 4 or words[0] != "held":
        return None
    account, age = words[1], _number(words[2])
    boot, seconds = words[3], _number(words[5]) if len(words) > 5 else None
    current = output.partition("boot ")[2].partition("\n")[0]
    if seconds is None:  # half written
        return _unknown(account) if age is None or age < HALF_SECONDS else None
    if boot != current or words[4] == plan.id or (age is not None and age > seconds):
        return None
    try:
        return msgspec.structs.replace(msgspec.json.decode(words[6], type=Holder), account=account)
    except (msgspec.DecodeError, IndexError):
        return _unknown(account)


def _unknown(account: str) -> Holder:
    return Holder(by="somebody", act=None, plan="", since=None, bastion="", account=account)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def holding(host: str, holder: Holder) -> str:
    """Why `host` cannot be had."""
    by, bastion = clean(holder.by), clean(holder.bastion)
    act = f" ({holder.act.value})" if holder.act is not None else ""
    since = f" since {holder.since:%Y-%m-%d %H:%M} UTC" if holder.since is not None else ""
    place = f" from {bastion}" if bastion else ""
    return f"{host}: {by} acts on it{act}{since}{place}, as account {clean(holder.account)} of the host"
