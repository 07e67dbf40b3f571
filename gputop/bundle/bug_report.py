"""The vendor's own report, the one thing in a bundle that does not only read: `nvidia-bug-report.sh` runs as root, for
minutes, asks a driver that may be sick, and writes a file, which is fetched and removed again.

So it is for whoever may act: refused in read-only mode and on protected hosts, and written to the audit log before it
is run and after.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gputop.actions.acts import Acts
from gputop.actions.audit import AuditLog
from gputop.actions.raw_tools import RawTool
from gputop.bundle.items import Item, Packed
from gputop.domain.action import ActionKind
from gputop.domain.call import CommandResult, RunOn
from gputop.domain.host import HostSpec
from gputop.domain.record import AuditEvent, AuditRecord
from gputop.ports import Clock
from gputop.transport.runner import trouble

COMMAND = "sudo -n nvidia-bug-report.sh"
"""Exactly this, without arguments: an exact line in sudoers allows it."""
PATH = "tools/nvidia-bug-report.log.gz"
WHAT = "the vendor's own report"

MAKE_SECONDS = 600.0
LOOK_SECONDS = 30.0
PIECE_BYTES = 2 * 1024 * 1024
MOST_BYTES = 64 * 1024 * 1024

READ_ONLY = "gputop is read-only: --allow-actions"
PROTECTED = "the inventory protects this host"

_FOLDER = re.compile(r"/tmp/gputop-bug-report\.[A-Za-z0-9]{6,}")
_MAKE_FOLDER = "umask 077; mktemp -d /tmp/gputop-bug-report.XXXXXXXXXX"
_RUN = (
    'cd "$1" || exit 1; '
    'program=$(command -v nvidia-bug-report.sh) || { echo "it is not on this host" >&2; exit 127; }; '
    'if [ "$(id -u)" = 0 ]; then exec "$program" >/dev/null; else exec sudo -n "$program" >/dev/null; fi'
)
_PIECE = 'tail -c "+$2" "$1/nvidia-bug-report.log.gz" | head -c "$3"'
_LOOK = 'wc -c < "$1/nvidia-bug-report.log.gz"'


async def bug_report(acts: Acts, spec: HostSpec, plan: str, tell: Callable[[str], None]) -> Item:
    """Have the report made on a host, and fetch it. Raises `AuditFailed` when that could not be written down, and then
    nothing was done. `plan`: the name of the bundle, for the audit log."""
    guard, refusal = ("protected", PROTECTED) if spec.protected else ("read-only", READ_ONLY)
    if spec.protected or not acts.lock.allowed:
        note(acts.audit, acts.clock, spec.name, plan, AuditEvent.REFUSED, guard, refusal)
        return left_out(refusal)
    note(acts.audit, acts.clock, spec.name, plan, AuditEvent.INTENT)
    began = acts.clock.monotonic()
    tell(f"{COMMAND}, up to {MAKE_SECONDS / 60:g} min")
    state, item = "unverified", left_out("given up; it may go on on the host")
    try:
        item = await _made(acts, spec.name, tell)
        state = "verified" if item.body is not None else "failed"
    finally:
        seconds = acts.clock.monotonic() - began
        said, status = item.problem or "", item.exit_status
        note(acts.audit, acts.clock, spec.name, plan, AuditEvent.OUTCOME, state, said, status, seconds)
    return item


async def _made(acts: Acts, host: str, tell: Callable[[str], None]) -> Item:
    folder = await _shell(acts, host, _MAKE_FOLDER)
    place = folder.text.strip()
    if not folder.ok or _FOLDER.fullmatch(place) is None:
        failure = trouble(folder)
        return left_out(failure.summary if failure is not None else "no temporary folder could be made")
    try:
        result = await _shell(acts, host, _RUN, place, seconds=MAKE_SECONDS)
        failure = trouble(result)
        if failure is not None:
            late = "; it may go on on the host" if result.exit_status in (None, 124, 137) else ""
            return left_out(f"{failure.summary}{late}", exit_status=result.exit_status)
        tell("fetching the report")
        return await _fetched(acts, host, place)
    finally:
        await _shell(acts, host, 'rm -rf -- "$1"', place)


async def _fetched(acts: Acts, host: str, place: str) -> Item:
    size = await _shell(acts, host, _LOOK, place)
    if not size.ok or not size.text.strip().isdigit():
        return left_out(f"it made no report that may be read: {size.error_text.strip()}", exit_status=0)
    wanted = min(int(size.text), MOST_BYTES)
    content = b""
    while len(content) < wanted:
        piece = await _shell(acts, host, _PIECE, place, str(len(content) + 1), str(PIECE_BYTES))
        if not piece.ok or not piece.stdout:
            failure = trouble(piece)
            why = failure.summary if failure is not None else "it became shorter"
            return left_out(f"it was made, but not fetched: {why}", exit_status=0)
        content += piece.stdout
    is_cut = int(size.text) > MOST_BYTES
    problem = f"only its first {MOST_BYTES // 1024**2} MiB" if is_cut else None
    return Item(path=PATH, what=WHAT, command=COMMAND, exit_status=0, body=Packed(content=content[:MOST_BYTES]),
                truncated=is_cut, problem=problem)  # fmt: skip


async def _shell(acts: Acts, host: str, script: str, *words: str, seconds: float = LOOK_SECONDS) -> CommandResult:
    argv = RawTool(("sh", "-c", script, "sh", *words), WHAT).argv
    return await acts.runner.run(RunOn(host=host, argv=argv), deadline_seconds=seconds)


def left_out(problem: str, exit_status: int | None = None) -> Item:
    """The report is not there, and why."""
    return Item(path=PATH, what=WHAT, command=COMMAND, exit_status=exit_status, problem=problem)


def note(
    audit: AuditLog,
    clock: Clock,
    host: str,
    plan: str,
    event: AuditEvent,
    result: str | None = None,
    summary: str = "",
    exit_status: int | None = None,
    seconds: float | None = None,
) -> None:
    """Write down what is done, or is not. Raises `AuditFailed`."""
    audit.write(
        AuditRecord(
            time=clock.now(),
            event=event,
            plan=plan,
            act=ActionKind.BUG_REPORT,
            host=host,
            reason="incident bundle",
            command=f"{host}: {COMMAND}",
            result=result,
            exit_status=exit_status,
            duration_seconds=seconds,
            summary=summary,
        )
    )
