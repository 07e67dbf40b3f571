"""What acts have left on this machine, whoever carried them out: leases, journals, the end of the audit log. Read again
and again by a program that goes on; plans that are closed are not opened a second time."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec
from msgspec import Struct

from gputop.actions.journal import Story, folder_of, open_stories, read_story
from gputop.actions.lease import leases
from gputop.actions.statefile import open_own
from gputop.domain.record import AuditEvent, AuditRecord, Lease

RECORDS = 200
"""Outcomes and refusals that are kept."""
TAIL_BYTES = 256 * 1024
"""Of the audit log are looked at for them."""


class Page(Struct, frozen=True, kw_only=True):
    """The books at one moment."""

    leases: tuple[Lease, ...] = ()
    under_way: tuple[Story, ...] = ()
    """Plans that a living process carries out, this one included."""
    unfinished: tuple[Story, ...] = ()
    """Plans that nobody carries out and nobody closed, oldest first."""
    history: tuple[AuditRecord, ...] = ()
    """Outcomes and refusals, newest first."""


class Books:
    """Reads them."""

    def __init__(self, state_folder: Path, audit_path: Path) -> None:
        self._state_folder = state_folder
        self._audit_path = audit_path
        self._closed: set[str] = set()
        """Names of journals that are closed for good."""
        self._stories: dict[str, tuple[tuple[int, int], Story | None]] = {}
        self._audited: tuple[tuple[int, int], tuple[AuditRecord, ...]] | None = None
        """Size and time of the audit log when it was read last, and what was found."""

    def read(self) -> Page:
        under_way, unfinished = open_stories(self._state_folder, self._closed)
        return Page(
            leases=tuple(leases(self._state_folder)),
            under_way=tuple(under_way),
            unfinished=tuple(unfinished),
            history=self._history(),
        )

    def story(self, plan_id: str) -> Story | None:
        """What the journal of a plan tells; `None`: it is gone, or was never begun."""
        if not re.fullmatch(r"[\w.-]+", plan_id):
            return None
        path = folder_of(self._state_folder) / f"{plan_id}.jsonl"
        mark = _mark(path)
        if mark is None:
            return None
        known = self._stories.get(plan_id)
        if known is None or known[0] != mark:
            known = self._stories[plan_id] = (mark, read_story(path))
        return known[1]

    def _history(self) -> tuple[AuditRecord, ...]:
        mark = _mark(self._audit_path)
        if mark is None:
            return ()
        if self._audited is None or self._audited[0] != mark:
            self._audited = (mark, tuple(history(self._audit_path, RECORDS)))
        return self._audited[1]


def _mark(path: Path) -> tuple[int, int] | None:
    """By which a file that is only added to is known to be the same; `None`: it is not there."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def history(path: Path, count: int) -> list[AuditRecord]:
    """The last `count` outcomes and refusals of the audit log, newest first; none when there is no log."""
    try:
        with os.fdopen(open_own(path, os.O_RDONLY), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            lines = file.read().splitlines()
    except OSError:
        return []
    decoder = msgspec.json.Decoder(AuditRecord)
    found: list[AuditRecord] = []
    for line in reversed(lines):
        try:
            record = decoder.decode(line)
        except msgspec.DecodeError:
            continue  # cut by a crash, or by where the tail begins
        if record.event in (AuditEvent.OUTCOME, AuditEvent.REFUSED):
            found.append(record)
            if len(found) == count:
                break
    return found
