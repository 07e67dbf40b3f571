"""`gputop actions`: plans that a crash or a closed terminal left unfinished, and hosts that are drained."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gputop.cli import diagnostics
from gputop.cli.diagnostics import Exit
from gputop.cli.interrupt import run_until_signal

if TYPE_CHECKING:
    from gputop.actions.journal import Story
    from gputop.cli.options import Selection
    from gputop.domain.action import Outcome, Seen
    from gputop.domain.record import Lease


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what to do with an unfinished plan")
    choice = group.add_mutually_exclusive_group()
    choice.add_argument("--resume", metavar="PLAN", help="go on with it; what was called is not called again")
    choice.add_argument("--roll-back", metavar="PLAN", help="undo what it did; also a finished power cap")
    choice.add_argument("--forget", metavar="PLAN", help="leave its hosts as they are")
    group.add_argument("--allow-actions", action="store_true", help="leave read-only mode for this command")
    group = parser.add_argument_group("the list, where no plan is named")
    group.add_argument("--look", action="store_true", help="ask the hosts where they stand now")
    group.add_argument("--format", choices=("text", "json"), default="text", help="default: text")


def run(args: argparse.Namespace) -> int:
    from gputop.actions.journal import finished, folder_of, unfinished
    from gputop.actions.statefile import foreign
    from gputop.domain.action import ActionKind
    from gputop.settings import locations

    folder = locations.state_folder()
    if (why := foreign(folder, folder_of(folder))) is not None:
        return diagnostics.fail(f"plans and drained hosts cannot be told: {why}", code=Exit.NOTHING)
    stories = unfinished(folder)
    if args.hosts or args.literal_hosts:
        return diagnostics.fail(
            '"gputop actions" takes plans, not hosts', "gputop actions --resume PLAN --allow-actions"
        )
    wanted = args.resume or args.roll_back or args.forget
    if wanted is None:
        return _list(args, stories)
    story = next((one for one in stories if one.plan.id == wanted), None)
    if story is None and args.roll_back:
        story = finished(locations.state_folder(), wanted)
        if story is not None and story.plan.request.kind is not ActionKind.POWER_CAP:
            return diagnostics.fail(f'"{wanted}" is finished', "only a finished power cap can be undone")
    if story is None:
        return diagnostics.fail(f'there is no unfinished plan "{wanted}"', '"gputop actions" lists them')
    return _forget(args, story) if args.forget else run_until_signal(_finish(args, story))


def _forget(args: argparse.Namespace, story: Story) -> int:
    """Asks no host and needs no inventory: both may be gone."""
    from gputop import wiring
    from gputop.actions.audit import AuditFailed, AuditLog, who_acts
    from gputop.actions.forgetting import forget, left_behind
    from gputop.actions.journal import InUse, JournalFailed
    from gputop.cli.act import story_of
    from gputop.domain.clock import SystemClock
    from gputop.settings import locations

    folder = locations.state_folder()
    try:
        forget(story, AuditLog(wiring.audit_path(folder), who_acts()), folder, SystemClock())
    except (AuditFailed, JournalFailed, InUse) as failure:
        return diagnostics.fail(str(failure), code=Exit.REFUSED)
    _print(args, story_of(story.plan.id) or story, ())
    for host in story.plan.hosts:
        diagnostics.say(f"{host.host}: {left_behind(story, host)}")
    return Exit.DONE


def _list(args: argparse.Namespace, stories: list[Story]) -> int:
    import msgspec

    from gputop.actions.journal import in_progress
    from gputop.actions.lease import leases
    from gputop.catalog.text import clean
    from gputop.cli.options import formatted
    from gputop.domain.clock import SystemClock
    from gputop.export.acts import leases_document, leases_text, plan_document
    from gputop.settings import locations

    folder = locations.state_folder()
    held, running = leases(folder), in_progress(folder)
    seen = _look(args, held, [*running, *stories]) if args.look else None
    if isinstance(seen, Exit):
        return seen
    if args.format == "json":
        document = {
            "schema": "gputop-actions/1",
            "unfinished": [plan_document(story.plan) for story in stories],
            "in_progress": [plan_document(story.plan) for story in running],
            "leases": leases_document(held, seen),
            "now": None if seen is None else msgspec.to_builtins(seen),
        }
        print(formatted(document, "json"), end="")
    else:
        for word, some in (("in progress", running), ("unfinished", stories)):
            for story in some:
                print(f"{word}: {story.plan.id}  {_where(story)}")
                for host in story.plan.hosts:
                    if (one := (seen or {}).get(host.host)) is not None:
                        print(f"     {host.host} now: {clean(one.now) or one.state.value}")
        print(leases_text(held, SystemClock().now(), seen), end="")
        if not (running or stories or held):
            diagnostics.say("no unfinished plans, nothing drained from here")
        if stories:
            _say_ways(args, stories[0].plan.id if len(stories) == 1 else "PLAN")
    silent = seen is not None and any(one.state.value == "unknown" for one in seen.values())
    return Exit.PARTIAL if silent else Exit.DONE


def _say_ways(args: argparse.Namespace, plan: str) -> None:
    from gputop.cli.act import command_for

    for way, what in (("--resume", "go on"), ("--roll-back", "undo"), ("--forget", "leave as it is")):
        diagnostics.say(f"  {what:<16}{command_for(args, way, plan)}")


def _look(args: argparse.Namespace, held: list[Lease], stories: list[Story]) -> dict[str, Seen] | Exit:
    """Where the hosts of `held` and `stories` stand now, by the inventories that their plans were made with."""
    from gputop.actions.journal import finished
    from gputop.cli.act import opened
    from gputop.settings import locations

    plans = [*stories, *filter(None, (finished(locations.state_folder(), lease.plan) for lease in held))]
    files = dict.fromkeys(file for story in plans for file in story.inventory)
    hosts = [lease.host for lease in held] + [host.host for story in stories for host in story.plan.hosts]
    names = list(dict.fromkeys(hosts))
    if not names:
        return {}
    chosen = _selection(args, names, list(files))
    if isinstance(chosen, Exit):
        return chosen

    async def ask() -> dict[str, Seen]:
        async with opened(chosen, names, allowed=False) as acts:
            return await acts.seen(names)

    return asyncio.run(ask())


def _where(story: Story) -> str:
    """How far each host is, in a few words."""
    parts = []
    for host in story.plan.hosts:
        ended = [step for step in host.steps if (host.host, step.id) in story.ended]
        begun = [step for step in host.steps if (host.host, step.id) in story.began and step not in ended]
        outcome = story.outcomes.get(host.host)
        where = outcome.state.value if outcome is not None else f"{len(ended)} of {len(host.steps)} steps"
        parts.append(f"{host.host}: {where}" + (f', in "{begun[0].title}"' if begun and outcome is None else ""))
    return "; ".join(parts)


async def _finish(args: argparse.Namespace, story: Story) -> int:
    from gputop.actions.audit import AuditFailed
    from gputop.actions.executor import Stopped
    from gputop.actions.journal import InUse, JournalFailed
    from gputop.cli.act import exit_code, opened, say_interrupted, say_progress, story_of
    from gputop.domain.action import Deny
    from gputop.domain.problem import Problem

    names = [host.host for host in story.plan.hosts]
    chosen = _selection(args, names, list(story.inventory))
    if isinstance(chosen, Exit):
        return chosen
    known = {spec.name for spec in chosen.known}
    strangers = [name for name in names if known and name not in known]
    if strangers:
        return diagnostics.fail(f"not in this inventory: {', '.join(strangers)}", "-f FILE, as when the plan was made")
    allowed = args.allow_actions or chosen.settings.actions.enabled
    try:
        async with opened(chosen, names, allowed=allowed) as acts:
            listen = lambda progress: say_progress(args, progress)  # noqa: E731
            done = await (acts.resume(story, listen=listen) if args.resume else acts.roll_back(story, listen=listen))
    except (AuditFailed, JournalFailed, InUse) as failure:
        return diagnostics.fail(str(failure), code=Exit.REFUSED)
    except asyncio.CancelledError:
        say_interrupted(args, story.plan.id, "--resume" if args.resume else "--roll-back")
        raise
    except Stopped as failure:
        diagnostics.fail(f"stopped in the middle: {failure}")
        now = story_of(story.plan.id) or story
        _print(args, now, tuple(now.outcomes.values()))
        return Exit.PARTIAL
    match done:
        case Deny():
            return diagnostics.fail("refused: gputop is read-only", "--allow-actions", code=Exit.REFUSED)
        case Problem():
            return diagnostics.fail(done.summary, done.hint)
    now = story_of(story.plan.id) or story
    _print(args, now, done)
    if now.closed is None:
        diagnostics.say(f"{story.plan.id} is unfinished still:")
        _say_ways(args, story.plan.id)
    return exit_code(done, waited=True)


def _print(args: argparse.Namespace, story: Story, outcomes: Sequence[Outcome]) -> None:
    from gputop.cli.options import formatted
    from gputop.export.acts import act_document, outcomes_text

    if args.format == "json":
        document = {**act_document(story.plan, None, outcomes), "closed": story.closed}
        print(formatted(document, "json"), end="")
    elif outcomes:
        print(outcomes_text(outcomes), end="")


def _selection(args: argparse.Namespace, names: list[str], files: list[str]) -> Selection | Exit:
    """`names`, from the inventory that is named now, else from the one that their plan was made with."""
    from gputop.cli.options import selection

    own = {"hosts": [], "literal_hosts": names, "inventory": args.inventory or files}
    return selection(argparse.Namespace(**{**vars(args), **own}))
