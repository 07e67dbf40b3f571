"""The journal of a plan: what was begun and what has ended, so that the next start can go on, roll back or forget.

One file a plan below the state folder, append-only and synced. A lock per host keeps two plans from crossing; a lock
on the journal tells a plan that is carried out right now from one whose process has died.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from gputop.actions.sharing import SHARING, may_go_beside
from gputop.actions.statefile import append_line, open_own, own_folder, read_own
from gputop.catalog.text import clean
from gputop.domain.action import ActionKind, Goal, Outcome, Plan, StepResult
from gputop.domain.record import HostEnded, JournalEntry, PlanClosed, PlanOpened, StepBegan, StepEnded

DRAINS_LOOKED_AT = 200
"""The newest of all hosts, to find those of one."""
DRAINS_COUNTED = 5

log = logging.getLogger(__name__)


class JournalFailed(Exception):
    """It could not be written; the message says why."""


class InUse(Exception):
    """Another process is at work; the message names the host or the plan."""


class Story(Struct, kw_only=True):
    """What a journal tells."""

    plan: Plan
    inventory: tuple[str, ...] = ()
    began: set[tuple[str, str]] = set()
    """(host, step) whose call may have been made."""
    ended: dict[tuple[str, str], StepResult] = {}
    """The newest result of each (host, step)."""
    outcomes: dict[str, Outcome] = {}
    closed: str | None = None
    """How it was closed; `None`: unfinished."""


class Journal:
    """The file of one plan. Each method returns once the entry is on the disk, or raises `JournalFailed`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, entry: JournalEntry) -> None:
        try:
            append_line(self.path, msgspec.json.encode(entry) + b"\n")
        except OSError as error:
            raise JournalFailed(f"the journal {self.path} cannot be written: {error.strerror}") from error


def folder_of(state_folder: Path) -> Path:
    return state_folder / "plans"


def journal_of(state_folder: Path, plan_id: str) -> Journal:
    return Journal(folder_of(state_folder) / f"{plan_id}.jsonl")


def read_story(path: Path) -> Story | None:
    """What the journal at `path` tells; `None` when its first entry is not whole (nothing was begun then). A last line
    cut short by a crash counts as not written: what it tells of is looked at again. A journal that others may have
    written is not believed."""
    decoder: msgspec.json.Decoder[JournalEntry] = msgspec.json.Decoder(JournalEntry)
    story: Story | None = None
    try:
        lines = read_own(path).splitlines()
    except OSError as error:
        log.warning("a journal is left out: %s", error.strerror)
        return None
    for line in lines:
        try:
            entry = decoder.decode(line)
        except msgspec.DecodeError:
            continue
        match entry:
            case PlanOpened():
                story = story or Story(plan=entry.plan, inventory=entry.inventory, began=set(), ended={}, outcomes={})
            case _ if story is None:
                continue
            case StepBegan():
                story.began.add((entry.host, entry.step))
            case StepEnded():
                story.ended[entry.host, entry.result.step] = entry.result
            case HostEnded():
                story.outcomes[entry.outcome.host] = entry.outcome
            case PlanClosed():
                story.closed = entry.how
    return story


def open_stories(state_folder: Path, closed: set[str] | None = None) -> tuple[list[Story], list[Story]]:
    """Plans that are not closed, oldest first: those that a living process carries out now, and those that nobody does.
    `closed`: names of journals known to be closed for good; those that are found to be so are added."""
    under_way: list[Story] = []
    left: list[Story] = []
    known = closed if closed is not None else set()
    for path in sorted(folder_of(state_folder).glob("*.jsonl")):
        if path.name in known:
            continue
        story = None if _is_closed(path) else read_story(path)
        if story is not None and story.closed is None:
            (under_way if _is_locked(path) else left).append(story)
        elif story is not None or _is_closed(path):
            known.add(path.name)
    return under_way, left


def unfinished(state_folder: Path) -> list[Story]:
    """Plans that nobody carries out and nobody closed, oldest first."""
    return open_stories(state_folder)[1]


def in_progress(state_folder: Path) -> list[Story]:
    """Plans that a living process carries out now."""
    return open_stories(state_folder)[0]


def finished(state_folder: Path, plan_id: str) -> Story | None:
    """The story of a plan that was carried out to its end; `None` when there is none of that name."""
    story = read_story(folder_of(state_folder) / f"{plan_id}.jsonl") if re.fullmatch(r"[\w-]+", plan_id) else None
    return story if story is not None and story.closed == "finished" else None


def is_closed(state_folder: Path, plan_id: str) -> bool:
    """Whether there is a plan of that name, and nothing of it is left to do."""
    path = folder_of(state_folder) / f"{plan_id}.jsonl"
    return re.fullmatch(r"[\w-]+", plan_id) is not None and _is_closed(path)


def devices_before(state_folder: Path, host: str) -> int | None:
    """The most devices that `host` had at one of its last drains; `None`: none is on record. A device that has fallen
    off the bus is known to nothing on the host any more."""
    name = f'"host":{msgspec.json.encode(host).decode()}'.encode()
    counts: list[int] = []
    for path in sorted(folder_of(state_folder).glob("*-drain-*.jsonl"), reverse=True)[:DRAINS_LOOKED_AT]:
        story = read_story(path) if name in _bytes(path) else None
        for plan in story.plan.hosts if story is not None else ():
            if plan.host == host:
                devices = [step.wanted["devices"] for step in plan.steps if step.goal is Goal.DEVICES_EMPTY]
                counts += [len(text.split(",")) for text in devices if text]
        if len(counts) >= DRAINS_COUNTED:
            break
    return max(counts, default=None)


def _bytes(path: Path) -> bytes:
    try:
        return read_own(path)
    except OSError:
        return b""


def _is_closed(path: Path) -> bool:
    """Whether its last whole line closes it: years of finished plans need not be read again."""
    try:
        with os.fdopen(open_own(path, os.O_RDONLY), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 200))
            return b'{"type":"closed"' in file.read()
    except OSError:
        return False


@contextmanager
def locked(state_folder: Path, plan: Plan, shared: Path | None = None) -> Iterator[None]:
    """Hold the plan, and its hosts unless its act shares them; raises `InUse` when another process does, and for a
    shared host when what is under way there lets nothing go beside it, `JournalFailed` where no lock can be. `shared`:
    a folder of locks for all users of this machine, where there is one."""
    folder = folder_of(state_folder)
    locks = folder / "locks"
    try:
        for each in (state_folder, folder, locks):
            own_folder(each)
    except OSError as error:
        raise JournalFailed(f"the folder {locks} cannot be used: {error.strerror}") from error
    with ExitStack() as held:
        _hold(held, folder / f"{plan.id}.jsonl", f"plan {plan.id} is carried out by another process")
        for host in sorted({host.host for host in plan.hosts}):  # one order: two plans cannot wait for each other
            name = f"{re.sub(r'[^A-Za-z0-9_.-]', '_', host)}.lock"
            for_all = shared / name if shared is not None and is_for_all(shared) else None
            if plan.request.kind in SHARING:
                _keep_clear(plan.request.kind, locks / name, f"{host}: another plan is at work on it")
                if for_all is not None:
                    _keep_clear(plan.request.kind, for_all, f"{host}: another user of this machine acts on it")
                continue
            descriptor = _hold(held, locks / name, f"{host}: another plan is at work on it", says_who=True)
            _say_who(descriptor, plan)
            if for_all is not None:
                _hold_for_all(held, for_all, host, plan)
        yield


def is_for_all(folder: Path) -> bool:
    """Whether it is a folder where everybody may leave files, and nobody take away another's."""
    try:
        mode = folder.stat().st_mode
    except OSError:
        return False
    return stat.S_ISDIR(mode) and bool(mode & stat.S_ISVTX) and os.access(folder, os.W_OK)


def _hold(held: ExitStack, path: Path, otherwise: str, *, says_who: bool = False) -> int:
    try:
        descriptor = open_own(path, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise JournalFailed(f"{path} cannot be opened: {error.strerror}") from error
    held.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        said = _who_it_says(descriptor) if says_who else ""
        raise InUse(f"{otherwise}{f': {said}' if said else ''}") from error
    return descriptor


def _hold_for_all(held: ExitStack, path: Path, host: str, plan: Plan) -> None:
    """A lock that every user of this machine sees. It says who holds it; it is left behind, and holds nothing then."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        try:
            descriptor = os.open(path, flags)
        except FileNotFoundError:
            descriptor = os.open(path, flags | os.O_CREAT, 0o666)
            os.fchmod(descriptor, 0o666)
    except OSError as error:
        raise JournalFailed(f"{path} cannot be opened: {error.strerror}") from error
    held.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        said = _who_it_says(descriptor)
        raise InUse(f"{host}: another user of this machine acts on it{f': {said}' if said else ''}") from error
    _say_who(descriptor, plan)


def _say_who(descriptor: int, plan: Plan) -> None:
    """In a lock that is held."""
    who = f"{plan.request.by}, {plan.request.kind.value}, plan {plan.id}\n".encode()
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, who, 0)
    except OSError as error:
        raise JournalFailed(f"a lock cannot be written: {error.strerror}") from error


def _who_it_says(descriptor: int) -> str:
    try:
        return clean(os.pread(descriptor, 200, 0).decode("utf-8", "replace")).strip()
    except OSError:  # no plain file
        return ""


def _keep_clear(act: ActionKind, path: Path, otherwise: str) -> None:
    """Nobody holds the lock at `path` who lets no `act` go beside; raises `InUse`. One that says who it is and lets it
    is not tried: to try a lock is to hold it for a moment."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return
    except OSError as error:
        raise JournalFailed(f"{path} cannot be opened: {error.strerror}") from error
    try:
        said = _who_it_says(descriptor)
        if not may_go_beside(act, _act_in(said)):
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise InUse(f"{otherwise}{f': {said}' if said else ''}") from error
    finally:
        os.close(descriptor)


def _act_in(said: str) -> ActionKind | None:
    """Of a lock; who may have a name with commas."""
    words = said.rsplit(", ", 2)
    return next((kind for kind in ActionKind if len(words) == 3 and kind.value == words[1]), None)


def _is_locked(journal: Path) -> bool:
    descriptor = os.open(journal, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
