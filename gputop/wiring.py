"""The composition root: the only place that picks implementations.

Importing this module is cheap; asyncssh is loaded when a collector with SSH hosts is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gputop.domain.backend import CommandPower
from gputop.domain.clock import SystemClock
from gputop.domain.host import Endpoint, HostSpec
from gputop.domain.link import LinkFailure
from gputop.fleet.collector import Collector
from gputop.ports import Clock, Person, PowerProvider, Runner, Scheduler, Source, Transport

if TYPE_CHECKING:
    from gputop.actions.acts import Acts
    from gputop.actions.desk import Desk
    from gputop.actions.here import Trace
    from gputop.actions.plan import BackEnds
    from gputop.fleet.observer import FleetObserver
    from gputop.health.xid import Catalog
    from gputop.readers.load import Recording
    from gputop.transport.runner import ProgramRunner
    from gputop.transport.share import Shared

FILES_PER_HOST = 4
"""A socket; with a ProxyCommand a pair of them, a pipe and the program."""
FILES_BESIDE = 256
"""For ssh -G, names, keys, the agent, the terminal."""


@dataclass(frozen=True, slots=True)
class Ways:
    """How hosts are reached: what one user of it has learned of them, and what a person has answered, holds for all."""

    ssh: Shared
    local: Shared


def make_ways(
    specs: Sequence[HostSpec],
    *,
    handshakes_per_hop: int = 8,
    handshakes_total: int = 32,
    clock: Clock | None = None,
    person: Person | None = None,
) -> Ways:
    """`specs`: every host, since jump hosts may be named after any of them. `person`: who can be asked; `None`: nobody,
    and a host that needs an answer says so."""
    from gputop.transport.share import Shared

    def ssh() -> Transport:
        from gputop.transport.limits import allow_open_files
        from gputop.transport.ssh import SshTransport

        allow_open_files(FILES_PER_HOST * sum(not spec.local for spec in specs) + FILES_BESIDE)
        return SshTransport(
            specs,
            clock=clock or SystemClock(),
            handshakes_per_hop=handshakes_per_hop,
            handshakes_total=handshakes_total,
            person=person,
        )

    def local() -> Transport:
        from gputop.transport.process import ProcessTransport

        return ProcessTransport()

    return Ways(ssh=Shared(ssh), local=Shared(local))


async def locate(specs: Sequence[HostSpec], known: Sequence[HostSpec]) -> dict[str, Endpoint | LinkFailure]:
    """How `specs` are reached, by what they themselves and ssh_config say; nothing is connected to. `known`: hosts that
    their jump hosts may be named after."""
    import asyncio

    transport = make_ways((*known, *specs)).ssh.take()
    try:
        found = await asyncio.gather(*(transport.locate(spec) for spec in specs))
    finally:
        await transport.close()
    return {spec.name: each for spec, each in zip(specs, found, strict=True)}


def make_collector(
    specs: Sequence[HostSpec],
    *,
    known: Sequence[HostSpec] = (),
    handshakes_per_hop: int = 8,
    handshakes_total: int = 32,
    source: str = "ssh",
    clock: Clock | None = None,
    ways: Ways | None = None,
) -> Collector:
    """A Collector over `specs`: local ones through a subprocess, all others over SSH.

    `known`: further hosts that jump hosts may be named after. `source` is what the JSON output calls it (`ssh` or
    `demo`). `ways`: shared with others; it knows its hosts and limits itself."""
    from gputop.sources.agent import AgentSource

    clock = clock or SystemClock()
    ways = ways or make_ways(
        [*known, *specs], handshakes_per_hop=handshakes_per_hop, handshakes_total=handshakes_total, clock=clock
    )
    sources: list[Source] = []
    remote = [spec for spec in specs if not spec.local]
    local = [spec for spec in specs if spec.local]
    if remote:
        sources.append(AgentSource(source, ways.ssh.take(), remote, clock))
    if local:
        sources.append(AgentSource("local", ways.local.take(), local, clock))
    return Collector(sources, clock, catalog=xid_catalog())


def make_file_collector(recordings: Sequence[Recording], *, clock: Clock | None = None) -> Collector:
    """A Collector over recordings of tools."""
    from gputop.sources.file import FileSource

    clock = clock or SystemClock()
    return Collector([FileSource(recordings, clock)], clock, catalog=xid_catalog())


def xid_catalog() -> Catalog:
    """gputop's catalog of Xids with what the user changes; without that when the user's file has mistakes, which a
    command says before it comes here."""
    from gputop.health.catalog import default_catalog, load
    from gputop.settings.locations import xid_file

    catalog = load(xid_file())
    return default_catalog() if isinstance(catalog, list) else catalog


def make_runner(
    specs: Sequence[HostSpec],
    *,
    handshakes_per_hop: int = 8,
    handshakes_total: int = 32,
    clock: Clock | None = None,
    ways: Ways | None = None,
) -> tuple[ProgramRunner, Transport]:
    """What runs programs here and on `specs`, and the transport under it; close both, the runner first. `ways`: shared
    with others."""
    from gputop.transport.runner import ProgramRunner

    ways = ways or make_ways(
        specs, handshakes_per_hop=handshakes_per_hop, handshakes_total=handshakes_total, clock=clock
    )
    ssh, local = ways.ssh.take(), ways.local.take()
    return ProgramRunner({spec.name: local if spec.local else ssh for spec in specs}, specs), ssh


def make_acts(
    specs: Sequence[HostSpec],
    observer: FleetObserver,
    runner: Runner,
    *,
    allowed: bool,
    relock_seconds: float | None,
    state_folder: Path,
    trace: Trace,
    clock: Clock | None = None,
    to_syslog: bool = True,
    simulator: str | None = None,
) -> Acts:
    """Plans and carries out acts on `specs`, which are all hosts of the inventory."""
    from socket import gethostname

    from gputop.actions.ack import AckActor, read_ack
    from gputop.actions.acts import Acts
    from gputop.actions.audit import AuditLog, who_acts
    from gputop.actions.executor import Executor
    from gputop.actions.hostlock import HostLocks
    from gputop.actions.journal import is_closed
    from gputop.actions.lock import ActionLock
    from gputop.actions.onhost import HookActor, HostActor
    from gputop.ports import Actor
    from gputop.settings.locations import SHARED_LOCKS

    clock = clock or SystemClock()
    by_name = {spec.name: spec for spec in specs}
    back_ends = make_back_ends(specs, runner, clock, simulator)
    host_actor = HostActor(observer, runner, by_name, partial(read_ack, state_folder), xid_catalog())
    ack_actor = AckActor(state_folder)
    locks = HostLocks(runner, clock, gethostname(), partial(is_closed, state_folder))
    hook_actor = HookActor(runner)
    audit = AuditLog(audit_path(state_folder), who_acts(), to_syslog=to_syslog)

    def actor_of(host: str, actor: str) -> Actor:
        ends = back_ends[host]
        match actor:
            case "scheduler":
                return ends.scheduler
            case "power" if ends.power is not None:
                return ends.power
            case "system" if ends.system is not None:
                return ends.system
            case "hook":
                return hook_actor
            case "ack":
                return ack_actor
        return host_actor

    return Acts(
        specs=by_name,
        back_ends=back_ends,
        observer=observer,
        runner=runner,
        host_actor=host_actor,
        executor=Executor(
            actor_of,
            host_actor.identify,
            audit,
            state_folder,
            clock,
            locks=locks if simulator is None else None,
            shared_locks=SHARED_LOCKS,
        ),
        audit=audit,
        lock=ActionLock(clock, allowed=allowed, relock_seconds=relock_seconds),
        clock=clock,
        state_folder=state_folder,
        trace=trace,
    )


def make_desk(
    specs: Sequence[HostSpec],
    collector: Collector,
    *,
    allowed: bool,
    relock_seconds: float,
    state_folder: Path,
    inventory: Sequence[str] = (),
    handshakes_per_hop: int = 8,
    handshakes_total: int = 32,
    simulator: str | None = None,
    ways: Ways | None = None,
) -> Desk:
    """Acts for a screen that shows what `collector` reads. `specs`: all hosts of the inventory. `simulator`: the demo's
    program that stands for a scheduler; nothing real is touched then. `ways`: those of `collector`."""
    from gputop.actions.desk import Desk
    from gputop.fleet.observer import FleetObserver

    clock = SystemClock()
    runner, transport = make_runner(
        specs, handshakes_per_hop=handshakes_per_hop, handshakes_total=handshakes_total, clock=clock, ways=ways
    )
    observer = FleetObserver(collector, clock)

    by_name = {spec.name: spec for spec in specs}

    async def shell_on(host: str) -> tuple[str, ...] | LinkFailure:
        from gputop.transport.process import ProcessTransport

        spec = by_name[host]
        return await (ProcessTransport() if spec.local else transport).shell(spec)

    async def close() -> None:
        await runner.close()
        await transport.close()

    acts = make_acts(
        specs,
        observer,
        runner,
        allowed=allowed,
        relock_seconds=relock_seconds,
        state_folder=state_folder,
        trace=transport.trace,
        clock=clock,
        to_syslog=simulator is None,
        simulator=simulator,
    )
    return Desk(
        acts,
        accept=observer.accept,
        close=close,
        state_folder=state_folder,
        audit_path=audit_path(state_folder),
        inventory=inventory,
        may_unlock=allowed,
        simulated=simulator is not None,
        shell_on=shell_on,
    )


def audit_path(state_folder: Path) -> Path:
    return state_folder / "audit.jsonl"


def make_back_ends(
    specs: Sequence[HostSpec], runner: Runner, clock: Clock, simulator: str | None = None
) -> Mapping[str, BackEnds]:
    """The scheduler and the power provider of each host; hosts with equal settings share one."""
    from gputop.actions.plan import BackEnds

    by_name = {spec.name: spec for spec in specs}
    schedulers: dict[object, Scheduler] = {}
    providers: dict[str, PowerProvider] = {}
    found = {}

    def provider(kind: str) -> PowerProvider:
        if kind not in providers:
            providers[kind] = _make_power(kind, by_name, runner, clock)
        return providers[kind]

    for spec in specs:
        scheduler = schedulers.get(spec.scheduler)
        if scheduler is None:
            scheduler = schedulers[spec.scheduler] = _make_scheduler(spec, by_name, runner, clock, simulator)
        kind = "ssh" if spec.power is None else str(type(spec.power).__struct_config__.tag)
        cannot_reboot = isinstance(spec.power, CommandPower) and not spec.power.reboot
        system = provider("ssh") if cannot_reboot else None
        found[spec.name] = BackEnds(scheduler=scheduler, power=provider(kind), system=system)
    return found


def _make_scheduler(
    spec: HostSpec, specs: Mapping[str, HostSpec], runner: Runner, clock: Clock, simulator: str | None
) -> Scheduler:
    from gputop.domain.backend import Kubernetes, Slurm
    from gputop.schedulers.none import MarkerScheduler

    if simulator is not None:
        from gputop.schedulers.simulated import SimulatedScheduler

        return SimulatedScheduler(simulator, runner, clock)
    match spec.scheduler:
        case Slurm():
            from gputop.schedulers.slurm import SlurmScheduler

            return SlurmScheduler(spec.scheduler, runner, clock)
        case Kubernetes():
            from gputop.schedulers.kubernetes import KubernetesScheduler

            return KubernetesScheduler(spec.scheduler, runner, clock)
    return MarkerScheduler(specs, runner, clock)


def _make_power(kind: str, specs: Mapping[str, HostSpec], runner: Runner, clock: Clock) -> PowerProvider:
    match kind:
        case "command":
            from gputop.power.command import CommandPowerProvider

            return CommandPowerProvider(specs, runner, clock)
        case "ipmi":
            from gputop.power.ipmi import IpmiPowerProvider

            return IpmiPowerProvider(specs, runner, clock)
        case "ec2":
            from gputop.power.ec2 import Ec2PowerProvider

            return Ec2PowerProvider(runner, clock)
        case "redfish":
            from gputop.power.redfish import RedfishPowerProvider

            return RedfishPowerProvider(specs, runner, clock)
    from gputop.power.ssh import SshPowerProvider

    return SshPowerProvider(runner, clock)
