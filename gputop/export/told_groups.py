"""What a scheduler and a power provider say of a host, in groups. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo

from gputop.catalog import format as show
from gputop.catalog.text import clean, counted
from gputop.catalog.words import ACT_STATES, ADMIN_STATES, POD_FATES, POWER_STATES
from gputop.domain.action import Block, HostActState
from gputop.domain.instance import Instance, PowerState
from gputop.domain.job import AdminState, Job, NodeState, PodFate
from gputop.domain.record import AuditRecord, Lease
from gputop.export.groups import Group, Item, Tone, item, moment, span

SCHEDULERS = {
    "none": "none: a marker on the host says whether it is drained",
    "slurm": "Slurm",
    "kubernetes": "Kubernetes",
    "simulated": "simulated, of the demo",
}

PROVIDERS = {
    "ssh": "its own operating system, over SSH",
    "command": "programs of the site",
    "ec2": "Amazon EC2",
    "redfish": "its BMC, by Redfish",
    "ipmi": "its BMC, by IPMI",
}

WORDLESS = frozenset({"none", "ssh"})
"""Back ends that have no words of their own for it: what they say is gputop's."""

TAKING = frozenset({AdminState.SCHEDULABLE})


def scheduler_group(
    node: NodeState | None,
    state: HostActState,
    as_of: datetime,
    zone: tzinfo | None,
    leases: Sequence[Lease] = (),
) -> Group:
    """`leases`: what gputop remembers of its own drains of the host. `state`: where it stands, devices included."""
    if node is None:
        return Group("Scheduler", (), absence="not asked")
    return Group("Scheduler", tuple(_scheduler(node, state, leases, as_of, zone)))


def _scheduler(
    node: NodeState, state: HostActState, leases: Sequence[Lease], as_of: datetime, zone: tzinfo | None
) -> Iterator[Item]:
    yield Item("scheduler", clean(SCHEDULERS.get(node.scheduler, node.scheduler)))
    if node.block is not None:
        yield from _block("cannot tell", node.block)
    if node.scheduler != "none":
        yield item("node", node.node)
    tone: Tone = "" if node.admin in TAKING else "warn"
    yield item("says", ADMIN_STATES[node.admin], note=_own_words(node.scheduler, node.raw, node.admin.value), tone=tone)
    yield Item("stands", state.value, ACT_STATES[state], "" if state is HostActState.ACTIVE else "warn")
    if node.cordoned or node.reason or node.by or node.since:
        yield item("reason", node.reason)
        yield item("by", node.by)
        yield item("since", moment(node.since, as_of, zone))
    for lease in leases:
        until = f"until {moment(lease.until, as_of, zone)}" if lease.until else "without an end"
        yield Item("lease", clean(f"drained by {lease.by} {until}"), clean(lease.reason))
    if node.booted_at is not None:
        yield item("booted", moment(node.booted_at, as_of, zone))
    if node.controller:
        yield Item("controller", "yes", "the scheduler itself depends on it; acts are refused", "warn")
    yield from _jobs(node, as_of, zone)
    yield from _pods(node)


def _own_words(who: str, raw: str, ours: str) -> str:
    """What a scheduler or a provider calls it, where that is another word: `"POWERING_DOWN" in its own words`."""
    return f'"{raw}" in its own words' if raw not in ("", ours) and who not in WORDLESS else ""


def _jobs(node: NodeState, as_of: datetime, zone: tzinfo | None) -> Iterator[Item]:
    if not node.jobs and node.block is None and node.scheduler == "slurm":
        yield Item("jobs", "none")
    for number, job in enumerate(node.jobs):
        words = [job.handle, job.user or "nobody known", job.state, job.partition, job.name]
        yield Item("" if number else "jobs", clean("  ".join(filter(None, words))), _left(job, as_of, zone))


def _left(job: Job, as_of: datetime, zone: tzinfo | None) -> str:
    """`2 GPUs, since 09:12:00, 5 h 02 m left, on 4 nodes`."""
    parts = []
    if job.gpus is not None:
        parts.append(counted(job.gpus, "GPU"))
    if job.started_at is not None:
        parts.append(f"since {show.clock_time(job.started_at, as_of, zone)}")
    if job.ends_at is not None:
        left = (job.ends_at - as_of).total_seconds()
        parts.append(f"{span(left)} left" if left > 0 else f"over its time limit by {span(-left)}")
    if len(job.nodes) > 1:
        parts.append(f"on {len(job.nodes)} nodes")
    return ", ".join(parts)


def _pods(node: NodeState) -> Iterator[Item]:
    if node.scheduler == "kubernetes" and node.block is None and not node.pods:
        yield Item("pods", "none")
    for number, pod in enumerate(node.pods):
        gpus = counted(pod.gpus, "GPU") if pod.gpus else ""
        words = [f"{pod.namespace}/{pod.name}", pod.user, gpus, pod.owner]
        note = ", ".join([POD_FATES[pod.fate], *pod.concerns, *pod.claims])
        tone: Tone = "warn" if pod.fate is PodFate.NEEDS_CONSENT else ""
        yield Item("" if number else "pods", clean("  ".join(filter(None, words))), clean(note), tone)
    for number, budget in enumerate(node.budgets):
        note = f"{budget.healthy} healthy, {budget.wanted} wanted"
        text = f"{budget.namespace}/{budget.name}: {budget.allowed} may be disrupted now"
        yield Item("" if number else "budgets", clean(text), note, "" if budget.allowed else "warn")


def instance_group(instance: Instance | None) -> Group:
    if instance is None:
        return Group("Instance", (), absence="not asked")
    return Group("Instance", tuple(_instance(instance)))


def _instance(instance: Instance) -> Iterator[Item]:
    if instance.block is not None:
        yield from _block("cannot tell", instance.block)
    yield item("provider", instance.provider, lambda name: PROVIDERS.get(name, name))
    if instance.id:
        yield item("id", instance.id)
    if instance.kind:
        yield item("type", instance.kind)
    tone: Tone = "" if instance.power is PowerState.RUNNING else "warn"
    own = _own_words(instance.provider, instance.raw, instance.power.value)
    yield item("power", POWER_STATES[instance.power], note=own, tone=tone)
    for label, blocks in (
        ("no stop", instance.stop_blocks),
        ("no start", instance.start_blocks),
        ("no reboot", instance.reboot_blocks),
    ):
        for number, block in enumerate(blocks):
            yield from _block("" if number else label, block)
    for number, loss in enumerate(instance.stop_losses):
        yield Item("" if number else "a stop loses", clean(loss.summary), loss.kind.value, "warn")
    stops = {True: "a stop ends it", False: "a stop does not end it", None: "not known whether a stop ends it"}
    yield Item("bill", stops[instance.stops_billing], clean(instance.billing))
    if instance.can_hibernate:
        yield Item("hibernate", "possible")
    for number, note in enumerate(instance.notes):
        yield Item("" if number else "notes", clean(note))
    if instance.console_hint:
        yield item("console", instance.console_hint)


def _block(label: str, block: Block) -> Iterator[Item]:
    yield Item(label, clean(block.summary), clean(block.hint or ""), "warn")


def acts_group(records: Sequence[AuditRecord] | None, as_of: datetime, zone: tzinfo | None) -> Group:
    """What was done with the host, newest first; `records` oldest first, `None`: they could not be read."""
    if records is None:
        return Group("Acts", (), absence="not known: the audit log could not be read")
    return Group(
        "Acts",
        tuple(
            Item(
                show.clock_time(record.time, as_of, zone),
                clean(f"{record.act.value}: {record.result or 'not known'}"),
                clean("  ".join(filter(None, (record.user, record.reason, record.summary)))),
                "" if record.result == "verified" else "warn",
            )
            for record in reversed(records)
        ),
        absence="none in the audit log",
    )
