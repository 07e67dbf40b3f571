"""What others say of a host, with when they were asked: scheduler, power provider, and gputop's own records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gputop.actions.books import history
from gputop.actions.desk import Desk
from gputop.actions.enquiries import Enquiry
from gputop.actions.lease import leases
from gputop.actions.state import act_state
from gputop.domain.host import Host
from gputop.domain.instance import Instance
from gputop.domain.job import NodeState
from gputop.domain.record import AuditRecord, Lease
from gputop.export.groups import Group, Item, span
from gputop.export.told_groups import acts_group, instance_group, scheduler_group
from gputop.tui.draw import remote
from gputop.tui.look import Look

RECORDS_READ = 500
RECORDS_SHOWN = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What stands in gputop's own files about a host."""

    leases: Sequence[Lease] = ()
    records: Sequence[AuditRecord] = ()
    """Oldest first."""


def remembered(desk: Desk, host: str) -> Remembered:
    """Reads the leases, and the end of the audit log."""
    records = [record for record in history(desk.audit_path, RECORDS_READ) if record.host == host]
    return Remembered(
        leases=[lease for lease in leases(desk.state_folder) if lease.host == host],
        records=records[:RECORDS_SHOWN][::-1],
    )


def told_groups(desk: Desk | None, host: Host, own: Remembered, look: Look) -> list[Group]:
    """Scheduler, instance, acts."""
    if desk is None:
        nothing = "not asked: nothing to ask"
        return [Group("Scheduler", (), absence=nothing), Group("Instance", (), absence=nothing),
                Group("Acts", (), absence="not known here")]  # fmt: skip
    enquiries = desk.acts.enquiries
    asked, powered = enquiries.known(host.name, "scheduler"), enquiries.known(host.name, "instance")
    node = asked.answer if isinstance(asked.answer, NodeState) else None
    instance = powered.answer if isinstance(powered.answer, Instance) else None
    state = act_state(host, node, instance)
    return [
        _dated(scheduler_group(node, state, look.as_of, look.zone, own.leases), asked, look),
        _dated(instance_group(instance), powered, look),
        acts_group(own.records, look.as_of, look.zone),
    ]


def _dated(group: Group, enquiry: Enquiry, look: Look) -> Group:
    """With when it was asked, that it is being asked, and why there is no newer answer."""

    def ago(at: object) -> str:
        return f"{span(max(0.0, (look.as_of - at).total_seconds()))} ago"  # type: ignore[operator]

    if enquiry.is_asking and enquiry.answer is None:
        return Group(group.title, (), absence="being asked …")
    age = f"asked {ago(enquiry.answered_for)}" if enquiry.answered_for is not None else ""
    if enquiry.is_asking:
        age += ", being asked again"
    items = group.items
    if enquiry.trouble and not enquiry.is_asking:
        failed = Item("no answer", remote(enquiry.trouble), f"asked {ago(enquiry.asked_at)}; F5 asks again", "warn")
        items = (failed, *items)
    return Group(group.title, items, age, group.absence)
