"""Every seam of gputop as a Protocol. Implementations are picked in `gputop.wiring` alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

from gputop.domain.action import ActionRequest, Block, Check, Plan, Step
from gputop.domain.call import CommandResult, Performed, RunHere, RunOn
from gputop.domain.event import SourceEvent
from gputop.domain.host import Endpoint, Host, HostSpec, Way
from gputop.domain.instance import Instance
from gputop.domain.job import NodeState
from gputop.domain.link import LinkFailure
from gputop.domain.problem import Problem
from gputop.domain.question import Declined, HostKeyQuestion, LoginQuestion, PassphraseQuestion
from gputop.domain.record import Holder


class Clock(Protocol):
    def now(self) -> datetime:
        """The wall clock, timezone-aware UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class Source(Protocol):
    """Yields what it learns about hosts until cancelled. Never raises for a host's trouble."""

    @property
    def name(self) -> str:
        """`ssh`, `local`, `demo`, …: the `source` of the JSON output."""
        ...

    def events(self) -> AsyncIterator[SourceEvent]: ...

    def retry(self, hosts: Collection[str], *, by_person: bool = True) -> None:
        """Ask these hosts again now: a waiting or refused connection is tried at once. `by_person`: what a person did
        not answer before is asked again too."""
        ...

    async def let_go(self, hosts: Collection[str]) -> None:
        """End what runs on these hosts, and start nothing there before `retry`. Returns when it has ended."""
        ...

    def set_interval(self, seconds: float) -> None:
        """Time between two frames, from now on, for all hosts."""
        ...


class RemoteProcess(Protocol):
    """One program running on a host. Bytes in, bytes out."""

    async def write(self, data: bytes) -> None:
        """Send to its standard input. Raises `ConnectionError` when it is gone."""
        ...

    async def read(self) -> bytes:
        """The next piece of standard output, at most 64 KiB; `b""` at its end. Never raises for a lost connection:
        that is an end."""
        ...

    async def close(self) -> int | None:
        """End it (EOF, then kill), free the channel; its exit status, `None` when there was none. Idempotent."""
        ...

    @property
    def stderr_tail(self) -> bytes:
        """The last 8 KiB of standard error."""
        ...

    @property
    def lost(self) -> LinkFailure | None:
        """Why the connection under it broke; `None` while it lives or when the program ended by itself."""
        ...


class Connection(Protocol):
    """An authenticated connection to one host."""

    @property
    def host_key(self) -> str | None:
        """Fingerprint (`SHA256:…`) of the key that the server proved to hold; `None`: there was no server."""
        ...

    async def start(self, command: str) -> RemoteProcess | LinkFailure:
        """Run `command` by the account's shell, without a terminal."""
        ...

    async def close(self) -> None:
        """Close it and every channel on it. Idempotent."""
        ...


class Person(Protocol):
    """Somebody who can be asked. Cancelling a question withdraws it."""

    async def accepts(self, question: HostKeyQuestion) -> bool:
        """Whether exactly this key is the server's."""
        ...

    async def passphrase(self, question: PassphraseQuestion) -> str | None:
        """`None`: go on without that key."""
        ...

    async def answers(self, question: LoginQuestion) -> list[str] | Declined:
        """One answer per prompt."""
        ...


Told = Callable[[Problem | None], Awaitable[None]]
"""Hears what a login waits for a person to do; `None`: it waits no more."""


class Transport(Protocol):
    async def locate(self, spec: HostSpec) -> Endpoint | LinkFailure:
        """How a host would be reached; nothing is connected to."""
        ...

    async def connect(self, spec: HostSpec, told: Told | None = None) -> Connection | LinkFailure:
        """Reach a host; an error is a value. Cancelling it leaves nothing open. It may take as long as a person does:
        `told` hears of that."""
        ...

    async def trace(self, spec: HostSpec) -> Way | LinkFailure:
        """What a host would be reached through; nothing is connected to."""
        ...

    async def shell(self, spec: HostSpec) -> tuple[str, ...] | LinkFailure:
        """The program that gives a person a shell on the host in a terminal; nothing is run."""
        ...

    def forget(self, *, by_person: bool = True) -> None:
        """Forget waiting times and failures: it is to be tried now. `by_person`: what a person did not answer is asked
        again too."""
        ...

    async def close(self) -> None:
        """Close shared connections (jump hosts)."""
        ...


class Runner(Protocol):
    """Runs programs, here or on a host (over SSH, behind `sudo -n` where the call says so)."""

    async def run(self, call: RunHere | RunOn, *, deadline_seconds: float) -> CommandResult:
        """Run it to its end; an error is a value. At the deadline it is ended and counts as lost. Output is bytes, at
        most 4 MiB of it; no exit status is a failure."""
        ...


class Actor(Protocol):
    """Looks at the goal of a step, and brings it about. The executor alone calls `perform`."""

    async def check(self, host: str, step: Step) -> Check:
        """Whether `step.goal` holds now. Changes nothing, may be called at any time and often. Never raises for the
        other side's trouble: what could not be found out is `UNKNOWN`."""
        ...

    async def perform(self, host: str, step: Step) -> Performed:
        """Make `step.call`, exactly, once. Never called for a `Watch`. For a `RunHere` or `RunOn` this is
        `gputop.transport.runner.perform(runner, step)`."""
        ...


class Scheduler(Actor, Protocol):
    """What gives a host its work. The capabilities below are separate: `isinstance(scheduler, CanDrain)` decides
    whether an act is offered. Their methods are pure: they say which steps would be taken from what was observed, and
    return a `Block` where nothing can be done. The calls of the steps are what the executor hands back to `perform`."""

    @property
    def name(self) -> str:
        """`slurm`, `kubernetes` or `none`."""
        ...

    async def observe(self, hosts: Sequence[Host]) -> Mapping[str, NodeState]:
        """The state of each of `hosts`, by its name in the inventory; one entry for each. What could not be found out
        is a `NodeState` with a `block`. Nodes are matched by name, address or id, never guessed."""
        ...


@runtime_checkable
class CanCordon(Protocol):
    def cordon_steps(self, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block: ...


@runtime_checkable
class CanDrain(Protocol):
    def drain_steps(self, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block:
        """Until the scheduler has nothing left on the host; the plan itself adds hooks before, and the check that the
        devices are empty after. Undo (`Step.undo`) only what was not so before."""
        ...


@runtime_checkable
class CanGlance(Protocol):
    async def glance(self, hosts: Sequence[Host]) -> Mapping[str, NodeState]:
        """Whether `hosts` are given new work, and who said that they are not: a look so cheap that it may be taken all
        the time. What runs on them is not looked at; `admin` tells it only where the scheduler says so unasked."""
        ...


@runtime_checkable
class CanResume(Protocol):
    def resume_steps(self, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block: ...


@runtime_checkable
class CanCancelJobs(Protocol):
    def cancel_steps(self, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block:
        """For `request.jobs`."""
        ...


@runtime_checkable
class CanRequeueJobs(Protocol):
    def requeue_steps(self, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block: ...


@runtime_checkable
class CanRebootNode(Protocol):
    def reboot_steps(self, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block:
        """A reboot that the scheduler carries out, behind its jobs. The plan adds the proof (boot id, first frame)."""
        ...


class PowerProvider(Actor, Protocol):
    """What switches a host on and off. Capabilities are separate, like a scheduler's."""

    @property
    def name(self) -> str:
        """`ec2`, `redfish`, `ipmi`, `command` or `ssh`."""
        ...

    async def observe(self, hosts: Sequence[Host]) -> Mapping[str, Instance]:
        """The state of each of `hosts`, by its name in the inventory; one entry for each, with a `block` where it could
        not be found out. The power state is the provider's word, never "SSH stopped answering"."""
        ...


@runtime_checkable
class CanStop(Protocol):
    def stop_steps(self, instance: Instance, request: ActionRequest) -> tuple[Step, ...] | Block: ...


@runtime_checkable
class CanStart(Protocol):
    def start_steps(self, instance: Instance, request: ActionRequest) -> tuple[Step, ...] | Block:
        """The plan adds the first healthy frame."""
        ...


@runtime_checkable
class CanReboot(Protocol):
    def reboot_steps(self, instance: Instance, request: ActionRequest) -> tuple[Step, ...] | Block:
        """The plan adds the proof (boot id, first frame)."""
        ...


@runtime_checkable
class CanHibernate(Protocol):
    def hibernate_steps(self, instance: Instance, request: ActionRequest) -> tuple[Step, ...] | Block: ...


class HostLocks(Protocol):
    """What keeps two operators from acting on one host at the same time. The executor alone takes and leaves it."""

    async def take(self, host: str, plan: Plan) -> Holder | None:
        """Hold `host` for `plan`; who holds it already, if somebody does. What cannot be asked is not refused."""
        ...

    async def look(self, host: str, plan: Plan) -> Sequence[Holder]:
        """Who holds `host` but for `plan`; nothing is taken. What cannot be asked tells of nobody."""
        ...

    async def leave(self, host: str, plan: Plan) -> None: ...


class Observer(Protocol):
    """A fresh look at hosts, for plans and for what follows a reboot."""

    async def look(self, hosts: Sequence[str]) -> Mapping[str, Host]:
        """Each of `hosts` with a frame that was asked for now; without one where none came."""
        ...

    async def known(self, hosts: Sequence[str]) -> Mapping[str, Host]:
        """Those of `hosts` that are watched anyway, as they were last seen; nothing is asked."""
        ...

    async def let_go(self, hosts: Sequence[str]) -> None:
        """End all that watches `hosts` until the next look: what reads a device has it open."""
        ...
