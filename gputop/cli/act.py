"""`gputop drain`, `resume`, `stop` and the other acts: print the plan; with `--yes`, carry it out."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from gputop.cli import diagnostics
from gputop.cli.diagnostics import Exit
from gputop.cli.interrupt import run_until_signal

if TYPE_CHECKING:
    from gputop.actions.acts import Acts, Proposal
    from gputop.actions.journal import Story
    from gputop.cli.options import Selection
    from gputop.domain.action import ActionRequest, Outcome, Progress

NEED_REASON = ("drain", "stop", "reboot", "reset", "ack")
LONGEST_SECONDS = 30 * 86400.0
PEERS = 3
"""Hosts of the same group that are looked at for comparison before a resume."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kind = parser.get_default("act")
    group = parser.add_argument_group("the act")
    group.add_argument("--reason", metavar="TEXT", default="", help="why; goes into the audit log")
    group.add_argument("--yes", action="store_true", help="do it; without, the plan is printed and nothing is done")
    group.add_argument("--allow-actions", action="store_true", help="leave read-only mode for this command")
    group.add_argument("--dry-run", action="store_true", help="print the plan, whatever else is said")
    group.add_argument(
        "--override", metavar="REASON", default="", help="go on where a check may be set aside; says why"
    )
    group.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    group.add_argument("--deadline", metavar="TIME", help="longest wait, such as 30m or 12h")
    if kind in ("drain", "reboot"):
        group.add_argument(
            "--no-wait", action="store_true", help="return when it was asked for, without waiting; exit code 0 then"
        )
    if kind in ("drain", "resume", "stop", "reboot"):
        group.add_argument(
            "--consent", metavar="WORD", action="append", default=[], help="agree to what the plan names by this word"
        )
    if kind in ("drain", "cordon"):
        group.add_argument("--for", metavar="TIME", dest="lease", help="how long it is to stay so, such as 2h")
    if kind == "stop":
        group.add_argument("--hibernate", action="store_true", help="keep the memory, where the provider can")
    if kind == "signal":
        group.add_argument("--pid", metavar="PID", help="the process")
        group.add_argument("--signal", choices=("INT", "TERM", "KILL"), default="TERM", help="default: TERM")
    if kind in ("reset", "power-cap"):
        group.add_argument("--gpu", metavar="GPU", action="append", default=[], help="index or UUID; may be repeated")
    if kind == "power-cap":
        group.add_argument("--watts", metavar="WATTS", help="the new limit")
    if kind == "message":
        group.add_argument("--text", metavar="TEXT", default="", help="what to say")
    if kind in ("cancel", "requeue"):
        group.add_argument(
            "--job",
            metavar="JOB",
            action="append",
            default=[],
            help="job id, or one task of an array: 4711_3; may be repeated",
        )


def run(args: argparse.Namespace) -> int:
    from gputop.cli.options import selection
    from gputop.domain.action import MOST_CHARACTERS

    if not args.hosts and not args.literal_hosts:
        return diagnostics.fail("no hosts named: nothing is done, and never all of them", f"gputop {args.act} HOST …")
    for option in ("reason", "override", "text"):
        value = getattr(args, option, "")
        if not _is_text(value):
            return diagnostics.fail(f"--{option} is not UTF-8 text")
        if len(value) > MOST_CHARACTERS:
            return diagnostics.fail(f"--{option} has {len(value):,} characters, the most is {MOST_CHARACTERS}")
    if args.act in NEED_REASON and not args.reason.strip():
        beside = ", and to the scheduler or into the marker on the host" if args.act == "drain" else ""
        return diagnostics.fail(f"{args.act} needs --reason TEXT", f"it goes into the audit log{beside}")
    chosen = selection(args)
    if isinstance(chosen, Exit):
        return chosen
    known = {spec.name for spec in chosen.known}
    strangers = [spec.name for spec in chosen.specs if known and spec.name not in known]
    if strangers:
        return diagnostics.fail(
            f"not in the inventory: {', '.join(strangers)}",
            "whether it is protected and what schedules and powers it is not known: name it as the inventory does",
        )
    request = _request(args, chosen)
    if isinstance(request, Exit):
        return request
    code = run_until_signal(_act(args, chosen, request))
    _remind()
    return code


def _remind() -> None:
    """What somebody meant to come back to."""
    from gputop.actions.journal import unfinished
    from gputop.actions.lease import is_over, leases
    from gputop.catalog.text import counted
    from gputop.domain.clock import SystemClock
    from gputop.settings import locations

    folder, now = locations.state_folder(), SystemClock().now()
    for lease in leases(folder):
        if is_over(lease, now):
            until = f"{lease.until:%Y-%m-%d %H:%M} UTC"
            diagnostics.say(f"reminder: {lease.host} was to be drained until {until} only: gputop resume {lease.host}")
    if stories := unfinished(folder):
        diagnostics.say(f"reminder: {counted(len(stories), 'unfinished plan')}: gputop actions")


def _is_text(value: str) -> bool:
    """Whether a word of the command line can be written down; Python lets other bytes through as lone surrogates."""
    return not any("\ud800" <= c <= "\udfff" for c in value)


def _request(args: argparse.Namespace, chosen: Selection) -> ActionRequest | Exit:
    from gputop.actions.audit import real_user
    from gputop.cli.options import seconds
    from gputop.domain.action import CONSENTS, ActionKind, ActionRequest, ProcessTarget, Signal
    from gputop.domain.clock import SystemClock

    may_be_agreed = CONSENTS.get(ActionKind(args.act), ())
    for word in getattr(args, "consent", ()):
        if word not in may_be_agreed:
            return diagnostics.fail(
                f'--consent "{word}" is nothing that {args.act} asks for', f"known: {', '.join(may_be_agreed)}"
            )

    deadline = lease = None
    if getattr(args, "deadline", None) is not None:
        deadline = seconds("--deadline", args.deadline, longest=LONGEST_SECONDS)
        if isinstance(deadline, Exit):
            return deadline
    if getattr(args, "lease", None) is not None:
        lease = seconds("--for", args.lease, longest=LONGEST_SECONDS)
        if isinstance(lease, Exit):
            return lease
    process = signal = watts = None
    if args.act == "signal":
        if args.pid is None or not (args.pid.isascii() and args.pid.isdigit() and 1 < int(args.pid) < 2**22):
            return diagnostics.fail("signal needs --pid PID, a number above 1")
        if len(chosen.specs) != 1:
            return diagnostics.fail("signal takes one host")
        process = ProcessTarget(pid=int(args.pid), started_ticks=0, user="")
        signal = Signal(args.signal)
    if args.act == "power-cap":
        if args.watts is None or not (args.watts.isascii() and args.watts.isdigit() and 0 < int(args.watts) < 10_000):
            return diagnostics.fail("power-cap needs --watts WATTS, a whole number")
        watts = float(args.watts)
    if args.act == "reboot" and args.no_wait and len(chosen.specs) != 1:
        return diagnostics.fail(
            "reboot --no-wait takes one host", "of several, the first must be back before the others are begun"
        )
    if args.act == "message" and not args.text.strip():
        return diagnostics.fail("message needs --text TEXT")
    if args.act in ("cancel", "requeue") and not args.job:
        return diagnostics.fail(f"{args.act} needs --job JOB")
    return ActionRequest(
        kind=ActionKind.HIBERNATE if getattr(args, "hibernate", False) else ActionKind(args.act),
        hosts=tuple(spec.name for spec in chosen.specs),
        reason=args.reason.strip(),
        by=real_user(),
        deadline_seconds=deadline,
        wait=not getattr(args, "no_wait", False),
        until=SystemClock().now() + timedelta(seconds=lease) if lease is not None else None,
        consents=frozenset(getattr(args, "consent", ())),
        override=args.override.strip(),
        devices=tuple(getattr(args, "gpu", ())),
        watts=watts,
        signal=signal,
        process=process,
        text=getattr(args, "text", ""),
        jobs=tuple(getattr(args, "job", ())),
    )


@asynccontextmanager
async def opened(chosen: Selection, hosts: Sequence[str], *, allowed: bool) -> AsyncIterator[Acts]:
    """What acts on the hosts of `chosen`, watching `hosts`; everything is closed at the end."""
    from gputop import wiring
    from gputop.domain.clock import SystemClock
    from gputop.fleet.observer import FleetObserver
    from gputop.settings import locations

    clock = SystemClock()
    specs = {spec.name: spec for spec in (*chosen.known, *chosen.specs)}
    shakes = chosen.settings.handshakes
    collector = wiring.make_collector(
        [specs[name] for name in hosts],
        known=tuple(specs.values()),
        handshakes_per_hop=shakes.per_hop,
        handshakes_total=shakes.total,
        clock=clock,
    )
    runner, transport = wiring.make_runner(
        tuple(specs.values()), handshakes_per_hop=shakes.per_hop, handshakes_total=shakes.total, clock=clock
    )
    observer = FleetObserver(collector, clock)

    async def watch() -> None:
        async for update in collector.updates():
            observer.accept(update.fleet)

    watching = asyncio.create_task(watch())
    try:
        yield wiring.make_acts(
            tuple(specs.values()),
            observer,
            runner,
            allowed=allowed,
            relock_seconds=None,
            state_folder=locations.state_folder(),
            trace=transport.trace,
            clock=clock,
        )
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await runner.close()
        await transport.close()


def watched(chosen: Selection, act: str) -> list[str]:
    """The hosts of the act, and those that they are compared or counted with."""
    names = [spec.name for spec in chosen.specs]
    known = {spec.name: spec for spec in chosen.known}
    for spec in chosen.specs:
        for group in spec.groups:
            members = [name for name, other in known.items() if group in other.groups and name not in names]
            if spec.policy.min_active:
                names += members
            elif act == "resume":
                names += members[:PEERS]
    return names


async def _act(args: argparse.Namespace, chosen: Selection, request: ActionRequest) -> int:
    from gputop.domain.problem import Problem

    allowed = args.allow_actions or chosen.settings.actions.enabled
    async with opened(chosen, watched(chosen, args.act), allowed=allowed) as acts:
        try:
            proposal = await acts.propose(request)
        except asyncio.CancelledError:
            diagnostics.say("interrupted; nothing was done")
            raise
        if isinstance(proposal, Problem):
            return diagnostics.fail(proposal.summary, proposal.hint)
        if args.dry_run or not args.yes:
            _print(args, proposal, None)
            diagnostics.say(f"nothing was done; {_with_yes(proposal)}")
            return Exit.DONE
        return await _carry_out(args, chosen, acts, proposal)


def _with_yes(proposal: Proposal) -> str:
    """What would come of it otherwise. The exit code is that of a plan: it was made, whatever it says of its hosts."""
    from gputop.domain.action import Deny

    verdict = proposal.verdict
    guards = {refusal.guard for refusal in verdict.refusals} if isinstance(verdict, Deny) else set()
    if guards - {"read-only"}:
        return f"--yes would be refused ({', '.join(sorted(guards - {'read-only'}))})"
    return f"--yes{' --allow-actions' if guards else ''} does it"


async def _carry_out(args: argparse.Namespace, chosen: Selection, acts: Acts, proposal: Proposal) -> int:
    from gputop.actions.acts import Expired, NotConfirmed
    from gputop.actions.audit import AuditFailed
    from gputop.actions.executor import Stopped
    from gputop.actions.guards import phrase_for
    from gputop.actions.journal import InUse, JournalFailed
    from gputop.domain.action import Deny
    from gputop.domain.problem import Problem

    def listen(progress: Progress) -> None:
        args.begun = progress.plan  # it may have been made again
        say_progress(args, progress)

    try:
        done = await acts.carry_out(proposal, typed=phrase_for(proposal.plan), inventory=chosen.files, listen=listen)
    except (AuditFailed, JournalFailed, InUse) as failure:
        hint = 'see "gputop actions", or try again when that has ended' if isinstance(failure, InUse) else None
        return diagnostics.fail(f"{failure}: nothing was done", hint, code=Exit.REFUSED)
    except asyncio.CancelledError:
        say_interrupted(args, getattr(args, "begun", proposal.plan.id))
        raise
    except Stopped as failure:
        hint = 'what was begun stands in "gputop actions"'
        diagnostics.fail(f"stopped in the middle: {failure}", hint)
        if args.format == "json":
            story = story_of(getattr(args, "begun", proposal.plan.id))
            _print(args, proposal, tuple(story.outcomes.values()) if story is not None else ())
        return Exit.PARTIAL
    match done:
        case Deny():
            if args.format == "text":  # JSON is of what was done, or would be
                _print(args, proposal, None)
            for refusal in done.refusals:
                where = f"{refusal.host}: " if refusal.host is not None else ""
                diagnostics.fail(f"refused ({refusal.guard}): {where}{refusal.summary}", refusal.hint)
            return Exit.REFUSED
        case Problem():
            return diagnostics.fail(done.summary, done.hint)
        case Expired():
            if args.format == "text":
                _print(args, done.proposal, None)
            why = "; ".join(done.changes)
            return diagnostics.fail(f"since the plan was made, {why}: nothing was done", code=Exit.REFUSED)
        case NotConfirmed():
            return diagnostics.fail("a reason is needed: nothing was done", "--reason TEXT")
    _print(args, proposal, done)
    return exit_code(done, waited=proposal.plan.request.wait)


def story_of(plan_id: str) -> Story | None:
    """What the journal tells of a plan; `None`: it was not begun."""
    from gputop.actions.journal import folder_of, read_story
    from gputop.settings import locations

    return read_story(folder_of(locations.state_folder()) / f"{plan_id}.jsonl")


def say_interrupted(args: argparse.Namespace, plan_id: str, how: str = "--resume") -> None:
    if story_of(plan_id) is None:
        diagnostics.say("interrupted; nothing was done")
    else:
        diagnostics.say(f"interrupted; this goes on: {command_for(args, how, plan_id)}")


REACHING = (("user", "--user"), ("port", "--port"), ("jump", "--jump"), ("ssh_config", "--ssh-config"))
"""Options that a plan does not keep. Its inventory it does."""


def command_for(args: argparse.Namespace, how: str, plan_id: str) -> str:
    """`gputop actions --resume PLAN --allow-actions`, whole: the hosts are reached as `args` say."""
    import shlex

    words = ["gputop", "actions", how, plan_id, *([] if how == "--forget" else ["--allow-actions"])]
    for name, option in REACHING:
        if (value := getattr(args, name)) is not None:
            words += [option, value]
    for path in args.identity or ():
        words += ["--identity", path]
    return shlex.join(words)


def say_progress(args: argparse.Namespace, progress: Progress) -> None:
    """What happens, on standard error; each line once."""
    from gputop.export.acts import progress_text

    line = progress_text(progress)
    if line is not None and getattr(args, "last_line", None) != line:
        args.last_line = line
        diagnostics.say(line)


def exit_code(outcomes: Sequence[Outcome], *, waited: bool) -> Exit:
    """0: all verified; where nobody was to wait (`--no-wait`) also asked for, which is all that was to be done."""
    from gputop.domain.action import OutcomeState

    good = {OutcomeState.VERIFIED} if waited else {OutcomeState.VERIFIED, OutcomeState.PENDING}
    return Exit.DONE if all(outcome.state in good for outcome in outcomes) else Exit.PARTIAL


def _print(args: argparse.Namespace, proposal: Proposal, outcomes: Sequence[Outcome] | None) -> None:
    from gputop.cli.options import formatted
    from gputop.export.acts import act_document, outcomes_text, plan_text

    if args.format == "json":
        print(formatted(act_document(proposal.plan, proposal.verdict, outcomes), "json"), end="")
    elif outcomes is None:
        print(plan_text(proposal.plan, proposal.verdict), end="")
    else:
        print(outcomes_text(outcomes), end="")
