"""The app on hosts without a scheduler whose acts really go through gate and executor, up to the programs on them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import structs
from textual.pilot import Pilot

from gputop.actions.ack import AckActor, read_ack
from gputop.actions.acts import Acts
from gputop.actions.audit import AuditLog, Who, read_records
from gputop.actions.desk import Desk
from gputop.actions.executor import Executor
from gputop.actions.lock import ActionLock
from gputop.actions.onhost import HostActor
from gputop.actions.plan import BackEnds
from gputop.domain.action import LossKind
from gputop.domain.call import CommandResult, RunHere, RunOn
from gputop.domain.host import Host
from gputop.domain.job import NodeState, Pod, PodFate
from gputop.domain.reading import ProcessReading
from gputop.fleet.collector import Update
from gputop.fleet.fleet import Fleet
from gputop.fleet.series import SeriesStore
from gputop.schedulers.none import MARKER, MarkerScheduler
from gputop.tui.app import GputopApp, ScreenOptions
from gputop.tui.bridge import FleetUpdated
from tests.fakes.acts import BOOT, LabPower, a_host, straight
from tests.fakes.clock import ManualClock
from tests.tui.builders import dark

BOOT_LINE = "[    0.000000] Linux version 6.1.0"


def boot_of(host: str) -> str:
    return BOOT[:-2] + host[-2:]


class Machines:
    """A Runner and an Observer."""

    def __init__(self, names: Sequence[str], clock: ManualClock) -> None:
        self._clock = clock
        self.limits: dict[str, dict[str, float]] = {}
        """Power limits that were set, by host and device."""
        self.alive: dict[tuple[str, int], tuple[int, str]] = {}
        """Start ticks and owner of each (host, pid)."""
        self.markers: dict[str, str] = {}
        self.looked: list[int] = []
        """How much had been changed at each look."""
        self.ran: list[str] = []
        """`WORD HOST` of each program that changed a host."""
        self.hosts: dict[str, Host] = {}
        for name in names:
            host = a_host(name)
            policy = structs.replace(host.spec.policy, wall=False)
            self.hosts[name] = structs.replace(host, spec=structs.replace(host.spec, policy=policy))
        self.kernel_logs: dict[str, str] = {}
        """Of each host that has another one than an ordinary boot leaves."""
        self.answers = asyncio.Event()
        """Cleared: looks wait."""
        self.answers.set()

    def busy(self, name: str, *processes: ProcessReading) -> None:
        host = self.hosts[name]
        frame = structs.replace(host.frame, processes=processes)  # type: ignore[type-var]
        self.hosts[name] = structs.replace(host, frame=frame)

    async def run(self, call: RunHere | RunOn, *, deadline_seconds: float) -> CommandResult:
        assert isinstance(call, RunOn)
        text, said = " ".join(call.argv), ""
        if call.argv[0] == "install" and MARKER in text:
            self.markers[call.host] = call.stdin
            self.ran.append(f"mark {call.host}")
        elif call.argv[:2] == ("rm", "-f"):
            self.markers.pop(call.host, None)
            self.ran.append(f"unmark {call.host}")
        elif "boot_id" in text:
            said = f"{boot_of(call.host)}\nmachine-of-{call.host}\n"
        elif MARKER in text:
            said = f"marked\n{self.markers[call.host]}" if call.host in self.markers else "free\n"
        elif "dmesg" in text:
            said = f"{BOOT_LINE}\n{self.kernel_logs.get(call.host, '')}"
        elif "wall" in text:
            self.ran.append(f"tell {call.host}")
        elif call.argv[0] == "nvidia-smi":
            said = self._smi(call.host, call.argv)
        elif "/proc/$1/stat" in text:
            return self._process(call)
        return CommandResult(exit_status=0, stdout=said.encode())

    def _smi(self, host: str, argv: Sequence[str]) -> str:
        device = argv[argv.index("-i") + 1] if "-i" in argv else "all"
        if "-pl" in argv:
            watts = argv[argv.index("-pl") + 1]
            self.limits.setdefault(host, {})[device] = float(watts)
            self.ran.append(f"cap {host} {device} {watts}")
        elif "--gpu-reset" in argv:
            self.ran.append(f"reset {host} {device}")
        elif "--query-gpu=power.limit" in argv:
            return f"{self.limits.get(host, {}).get(device, 700.0)}\n"
        return ""

    def _process(self, call: RunOn) -> CommandResult:
        """Look at a process, or signal it."""
        pid, *words = call.argv[4:]
        found = self.alive.get((call.host, int(pid)))
        if found is None:
            return CommandResult(exit_status=3, stdout=b"", stderr=b"no process has that number")
        if not words:
            return CommandResult(exit_status=0, stdout=f"{found[0]} {found[1]} 1\npython train.py".encode())
        assert words[:2] == [str(found[0]), found[1]], "a signal to another process than was looked at"
        self.ran.append(f"signal {call.host} {pid} {words[2]}")
        del self.alive[call.host, int(pid)]
        return CommandResult(exit_status=0, stdout=b"")

    async def look(self, hosts: Sequence[str]) -> Mapping[str, Host]:
        await self.answers.wait()
        self.looked.append(len(self.ran))
        now = self._clock.now()
        for name in hosts:
            if (frame := self.hosts[name].frame) is not None:
                values = structs.replace(frame.host, drain_marker=self.markers.get(name, ""))
                frame = structs.replace(frame, sampled_at=now, received_at=now, host=values)
                self.hosts[name] = structs.replace(self.hosts[name], frame=frame)
        return {name: self.hosts[name] for name in hosts}

    async def known(self, hosts: Sequence[str]) -> Mapping[str, Host]:
        return {name: self.hosts[name] for name in hosts}

    async def let_go(self, hosts: Sequence[str]) -> None:
        """Nothing watches these."""


class WithPods(MarkerScheduler):
    """The scheduler of hosts with two pods that a drain must not take without a word."""

    pods: tuple[Pod, ...] = (
        Pod(namespace="lab", name="notebook", fate=PodFate.NEEDS_CONSENT, concerns=(LossKind.UNMANAGED_POD.value,)),
        Pod(namespace="ml", name="cache-0", fate=PodFate.NEEDS_CONSENT, concerns=(LossKind.EMPTY_DIR.value,)),
    )

    async def observe(self, hosts: Sequence[Host]) -> Mapping[str, NodeState]:
        nodes = await super().observe(hosts)
        return {name: structs.replace(node, pods=self.pods) for name, node in nodes.items()}


class Stage:
    """Three hosts, a desk, and the app in front of them."""

    def __init__(
        self,
        folder: Path,
        *,
        allowed: bool = True,
        scheduler_class: type[MarkerScheduler] = MarkerScheduler,
        **options: Any,
    ) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.machines = machines = Machines(["gpu-01", "gpu-02", "gpu-03"], self.clock)
        specs = {name: host.spec for name, host in machines.hosts.items()}
        scheduler = scheduler_class(specs, machines, self.clock)
        host_actor = HostActor(machines, machines, specs, partial(read_ack, folder))
        ack_actor = AckActor(folder)
        audit = AuditLog(folder / "audit.jsonl", Who(user="ann"), to_syslog=False)

        def actor_of(host: str, actor: str) -> Any:
            return {"scheduler": scheduler, "ack": ack_actor}.get(actor, host_actor)

        self.lock = ActionLock(self.clock, allowed=allowed)
        acts = Acts(
            specs=specs,
            back_ends=dict.fromkeys(specs, BackEnds(scheduler=scheduler, power=LabPower())),
            observer=machines,
            runner=machines,
            host_actor=host_actor,
            executor=Executor(actor_of, host_actor.identify, audit, folder, self.clock),
            audit=audit,
            lock=self.lock,
            clock=self.clock,
            state_folder=folder,
            trace=straight,
        )
        self.desk = Desk(acts, accept=lambda _: None, close=self._closed, state_folder=folder,
                         audit_path=folder / "audit.jsonl", may_unlock=allowed)  # fmt: skip
        self.closed = False
        look = ScreenOptions(theme=dark(), zone=UTC, title="test", **options)
        self.app = GputopApp(look, fixed=(self.fleet, SeriesStore()))
        self.app.call_later(self.app.take_desk, self.desk)

    async def _closed(self) -> None:
        self.closed = True

    @property
    def fleet(self) -> Fleet:
        return Fleet(as_of=self.clock.now(), hosts=dict(self.machines.hosts))

    async def tick(self, pilot: Pilot[int]) -> None:
        """Show the machines as they are now."""
        await self.machines.look(list(self.machines.hosts))
        self.app.post_message(FleetUpdated(Update(fleet=self.fleet, changed=frozenset())))
        await pilot.pause()
        await pilot.pause()

    def events(self) -> list[str]:
        return [f"{record.event.value} {record.act.value}" for record in read_records(self.folder / "audit.jsonl")]

    def shown(self) -> str:
        return "\n".join(self.app.screen_lines())
