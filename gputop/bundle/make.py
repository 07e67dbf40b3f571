"""Makes a bundle: gathers from several hosts at once, and has the file written."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from msgspec import structs

from gputop.actions.acts import Acts
from gputop.actions.audit import AuditFailed, read_records
from gputop.actions.lease import leases
from gputop.bundle import bug_report
from gputop.bundle.collect import AUDIT_RECORDS, Listen, gather
from gputop.bundle.items import Gathered, Item, Order, Progress
from gputop.bundle.write import Known, Made, NotWritten, folder_name, write_bundle
from gputop.domain.record import AuditRecord, Lease
from gputop.fleet.series import SeriesStore
from gputop.transport.thread import in_thread

HOSTS_AT_ONCE = 8


class Bundler:
    """Makes bundles of the hosts of `acts`."""

    def __init__(
        self, acts: Acts, *, state_folder: Path, audit_path: Path, series: SeriesStore | None, source: str
    ) -> None:
        """`series`: what was seen of the hosts before. `source`: as in the JSON output."""
        self._acts = acts
        self._state_folder = state_folder
        self._audit_path = audit_path
        self._series = series
        self._source = source

    def default_name(self) -> str:
        return f"{folder_name(self._acts.clock.now())}.tar.gz"

    async def make(self, order: Order, target: Path | None, listen: Listen) -> Made | NotWritten:
        """`target`: a file that is not there yet; `None`: one named after the time, in the current folder. Cancelling
        it leaves no file."""
        made_at = self._acts.clock.now()
        records = await in_thread(self._records, "gputop-audit")
        held = await in_thread(lambda: leases(self._state_folder), "gputop-leases")
        places = asyncio.Semaphore(HOSTS_AT_ONCE)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._gathered(name, order, made_at, records, held, places, listen))
                for name in order.hosts
            ]
        gathered = [task.result() for task in tasks]
        known = await self._acts.observer.known(list(self._acts.specs))
        is_wanted = True

        def write() -> Made | NotWritten:
            known_names = Known(specs=self._acts.specs, hosts=known)
            return write_bundle(
                gathered, known_names, order, made_at, source=self._source, target=target, is_wanted=lambda: is_wanted
            )

        try:
            return await in_thread(write, "gputop-bundle")
        finally:
            is_wanted = False

    async def _gathered(
        self,
        name: str,
        order: Order,
        made_at: datetime,
        records: Sequence[AuditRecord] | str,
        held: Sequence[Lease],
        places: asyncio.Semaphore,
        listen: Listen,
    ) -> Gathered:
        own = records
        if not isinstance(records, str):
            own = [record for record in records if record.host == name][-AUDIT_RECORDS:]
        async with places:
            found = await gather(
                self._acts, name, own, self._series, listen, [lease for lease in held if lease.host == name]
            )
            if order.bug_report:
                found = structs.replace(found, items=(*found.items, await self._report(name, made_at, found, listen)))
        listen(Progress(host=name, doing="done", is_over=True, answered=found.answered))
        return found

    def _records(self) -> list[AuditRecord] | str:
        """The audit log, or why it cannot be read."""
        try:
            return list(read_records(self._audit_path))
        except OSError as error:
            return f"{self._audit_path}: {error.strerror}"

    async def _report(self, name: str, made_at: datetime, found: Gathered, listen: Listen) -> Item:
        if not found.answered:
            return bug_report.left_out("not asked: the host does not answer")

        def tell(doing: str) -> None:
            listen(Progress(host=name, doing=doing, takes_long=True))

        try:
            return await bug_report.bug_report(self._acts, self._acts.specs[name], folder_name(made_at), tell)
        except AuditFailed as failure:
            return bug_report.left_out(f"{failure}: nothing was done")
