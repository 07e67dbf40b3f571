"""The gate knows the whole fleet, whoever is named: what it refuses of a host does not depend on who is watched."""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from gputop.actions.acts import Acts, Proposal
from gputop.actions.audit import AuditLog, Who
from gputop.actions.executor import Executor
from gputop.actions.lock import ActionLock
from gputop.actions.onhost import HostActor
from gputop.actions.plan import BackEnds
from gputop.domain.action import ActionKind, Deny
from gputop.domain.call import CommandResult, RunHere, RunOn
from gputop.domain.host import Host, HostSpec, Way
from gputop.schedulers.none import MarkerScheduler
from tests.fakes.acts import FastClock, LabPower, a_host, a_request

NAMES = ("a", "b", "c", "d")
KINDS = st.sampled_from([ActionKind.DRAIN, ActionKind.CORDON, ActionKind.STOP, ActionKind.REBOOT])


class Fleet:
    """A Runner and an Observer of hosts that are reached through others, and some of which are one machine."""

    def __init__(self, ways: Mapping[str, frozenset[str]], machines: Mapping[str, str], protected: set[str]) -> None:
        self.ways, self.machines = ways, machines
        self.hosts: dict[str, Host] = {name: a_host(name, protected=name in protected) for name in NAMES}
        self.watched: set[str] = set()

    async def trace(self, spec: HostSpec) -> Way:
        return Way(place=spec.name, through=self.ways[spec.name])

    async def run(self, call: RunHere | RunOn, *, deadline_seconds: float) -> CommandResult:
        assert isinstance(call, RunOn)
        machine = self.machines[call.host]
        boot = uuid.uuid5(uuid.NAMESPACE_DNS, machine)
        said = f"{boot}\n{machine}\n" if "boot_id" in " ".join(call.argv) else "free\n"
        return CommandResult(exit_status=0, stdout=said.encode(), host_key=f"SHA256:{machine}")

    async def look(self, hosts: Sequence[str]) -> Mapping[str, Host]:
        self.watched = set(hosts)
        return await self.known(hosts)

    async def known(self, hosts: Sequence[str]) -> Mapping[str, Host]:
        return {name: self.hosts[name] for name in hosts if name in self.watched}

    async def let_go(self, hosts: Sequence[str]) -> None:
        pass


def acts_on(fleet: Fleet, folder: Path) -> Acts:
    clock, specs = FastClock(), {name: host.spec for name, host in fleet.hosts.items()}
    scheduler, actor = MarkerScheduler(specs, fleet, clock), HostActor(fleet, fleet, specs)
    audit = AuditLog(folder / "audit.jsonl", Who(user="ann"), to_syslog=False)

    def actor_of(host: str, name: str) -> Any:
        return scheduler if name == "scheduler" else actor

    return Acts(
        specs=specs,
        back_ends=dict.fromkeys(specs, BackEnds(scheduler=scheduler, power=LabPower())),
        observer=fleet,
        runner=fleet,
        host_actor=actor,
        executor=Executor(actor_of, actor.identify, audit, folder, clock),
        audit=audit,
        lock=ActionLock(clock, allowed=True),
        clock=clock,
        state_folder=folder,
        trace=fleet.trace,
    )


async def refusals(acts: Acts, kind: ActionKind, hosts: Sequence[str]) -> dict[str, set[str]]:
    """The guards that refuse each of `hosts` for what it is."""
    found = await acts.propose(structs.replace(a_request(kind, *hosts), override="it burns"))
    assert isinstance(found, Proposal)
    refused = found.verdict.refusals if isinstance(found.verdict, Deny) else ()
    own = [one for one in refused if one.guard in ("protected", "jump-host")]
    return {name: {one.guard for one in own if one.host == name} for name in hosts}


@given(
    KINDS,
    st.fixed_dictionaries({name: st.frozensets(st.sampled_from(NAMES), max_size=2) for name in NAMES}),
    st.fixed_dictionaries({name: st.sampled_from(["one", "two", name, name]) for name in NAMES}),
    st.sets(st.sampled_from(NAMES), max_size=2),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True),
)
@settings(deadline=None, max_examples=150)
def test_what_nothing_may_be_done_to_is_refused_whoever_else_is_named(
    kind: ActionKind,
    ways: dict[str, frozenset[str]],
    machines: dict[str, str],
    protected: set[str],
    named: list[str],
) -> None:
    ways = {name: through - {name} for name, through in ways.items()}
    fleet = Fleet(ways, machines, protected)
    jumps = {name for through in ways.values() for name in through}
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(refusals(acts_on(fleet, Path(folder)), kind, named))
    for name in named:
        selves = {other for other in NAMES if machines[other] == machines[name]}
        wanted = {"protected"} if selves & protected else set()
        wanted |= {"jump-host"} if selves & jumps else set()
        assert found[name] == wanted, (name, selves)
