"""Transport over SSH: logs in, with jump hosts shared between all hosts behind them."""

from __future__ import annotations

import asyncio
import logging
import shutil
import socket
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random

import asyncssh

from gputop.domain.host import Endpoint, HostSpec, Way
from gputop.domain.link import NOT_RETRIED, LinkFailure, LinkState
from gputop.domain.problem import Problem, ProblemKind
from gputop.domain.question import Declined
from gputop.ports import Clock, Person, Told
from gputop.transport.asking import Asking, Interview, key_of
from gputop.transport.classify import Attempt, Phase, classify, lost_session, no_shell, through_jump
from gputop.transport.client import Client
from gputop.transport.gate import HANDSHAKES_PER_HOP, HANDSHAKES_TOTAL, Gate, backoff_seconds
from gputop.transport.hostkeys import KnownHosts, fingerprint
from gputop.transport.keys import Keyring, LockedPair, Offer
from gputop.transport.needed import Need, PersonNeeded
from gputop.transport.once import Once
from gputop.transport.options import connection_options
from gputop.transport.program import SshProgram
from gputop.transport.reach import Proxy, connect_socket, introduced
from gputop.transport.resolve import Resolver
from gputop.transport.route import Hop, Route, endpoint, find_route, way
from gputop.transport.shell import ssh_command
from gputop.transport.sshconfig import SshConfig, at_port
from gputop.transport.tunnel import Tunnel
from gputop.transport.waits import Key, Waits

CONNECT_SECONDS = 10.0
"""For reaching a server, and again for its first word; ConnectTimeout of ssh_config beats it."""
LOGIN_SECONDS = 30.0
"""For key exchange and authentication together."""
START_SECONDS = 15.0
CLOSE_SECONDS = 0.5
CHANNELS = 5
"""Programs at a time on one connection. sshd has room for 10 (MaxSessions), and counts one that has ended a moment
longer than we do."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Place:
    """For one channel of a connection."""

    room: asyncio.Semaphore
    is_taken: bool = False

    async def take(self) -> None:
        await self.room.acquire()
        self.is_taken = True

    def leave(self) -> None:
        """Idempotent."""
        if self.is_taken:
            self.is_taken = False
            self.room.release()


class Login:
    """One login to one server."""

    def __init__(
        self,
        route: Route,
        connection: asyncssh.SSHClientConnection,
        client: Client,
        jump: Login | None,
        proxy: Proxy | None,
    ) -> None:
        self.ssh = connection
        self.is_by_person = client.attempt.answers_given > 0
        """A person answered the server: another login would ask again."""
        self._jump_name = route[-2].name if len(route) > 1 else ""
        self._client = client
        self._jump = jump
        self._proxy = proxy
        self._room = asyncio.Semaphore(CHANNELS)
        self._closing = False

    @property
    def lost(self) -> LinkFailure | None:
        """Why it broke; `None` while it lives or when we closed it."""
        if self._closing or self._client.ended is None:
            return None
        if self._jump is not None and (jump_lost := self._jump.lost) is not None:
            return through_jump(jump_lost, self._jump_name)
        return lost_session(self._client.ended[0], self._client.attempt)

    @property
    def host_key(self) -> str | None:
        key = self.ssh.get_server_host_key()
        return fingerprint(key.public_data) if key is not None else None

    @property
    def alive(self) -> bool:
        return not self._closing and self._client.ended is None

    async def start(self, command: str) -> SshProgram | LinkFailure:
        """Run `command`, once there is room for another channel."""
        place = _Place(self._room)
        program = SshProgram(lambda: self.lost, place.leave)
        await place.take()
        try:
            async with asyncio.timeout(START_SECONDS):
                await self.ssh.create_session(
                    lambda: program, command, encoding=None, request_pty=False, env={}, send_env=()
                )
        except asyncssh.ChannelOpenError as refused:
            place.leave()
            return self.lost or no_shell(refused)
        except (OSError, asyncssh.Error) as error:
            place.leave()
            self._client.attempt.limit_seconds = START_SECONDS
            return self.lost or classify(error, self._client.attempt)
        except BaseException:
            place.leave()
            raise
        return program

    async def close(self) -> None:
        self._closing = True
        try:
            self.ssh.close()
            async with asyncio.timeout(CLOSE_SECONDS):
                await self.ssh.wait_closed()
        except TimeoutError:
            self.ssh.abort()
        finally:
            if self._proxy is not None:
                await self._proxy.close()


class SshConnection:
    """A login as one of its users has it. Implements `ports.Connection`."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._programs: set[SshProgram] = set()

    @property
    def ssh(self) -> asyncssh.SSHClientConnection:
        return self._login.ssh

    @property
    def lost(self) -> LinkFailure | None:
        return self._login.lost

    @property
    def host_key(self) -> str | None:
        return self._login.host_key

    @property
    def alive(self) -> bool:
        return self._login.alive

    async def start(self, command: str) -> SshProgram | LinkFailure:
        self._programs = {program for program in self._programs if not program.has_ended}
        program = await self._login.start(command)
        if isinstance(program, SshProgram):
            self._programs.add(program)
        return program

    async def close(self) -> None:
        if not self._login.is_by_person:
            await self._login.close()
            return
        # A login that a person had to answer for stays for the next user; what runs for this one ends.
        programs, self._programs = self._programs, set()
        await asyncio.gather(*(program.close() for program in programs))


@dataclass(frozen=True, slots=True)
class _Unasked:
    """A login that ended because a person is to be asked before it can be made."""

    need: Need
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class _Refused:
    """A jump host that could not be had, and until when nobody tries again."""

    failure: LinkFailure
    until: float


class SshTransport:
    """Implements `ports.Transport`."""

    def __init__(
        self,
        hosts: Sequence[HostSpec],
        *,
        clock: Clock,
        handshakes_per_hop: int = HANDSHAKES_PER_HOP,
        handshakes_total: int = HANDSHAKES_TOTAL,
        connect_seconds: float = CONNECT_SECONDS,
        login_seconds: float = LOGIN_SECONDS,
        own_known_hosts: Path | None = None,
        ssh_program: str = "ssh",
        person: Person | None = None,
        random: Random | None = None,
    ) -> None:
        """`hosts`: those that jump hosts may be named after. `own_known_hosts`: where accepted keys are written;
        `None`: in the user's config folder. `person`: who can be asked; `None`: nobody, and nothing is."""
        self._hosts = {spec.name: spec for spec in hosts}
        self._clock = clock
        self._random = random or Random()
        self._gate = Gate(clock, per_hop=handshakes_per_hop, total=handshakes_total, random=self._random)
        self._connect_seconds = connect_seconds
        self._login_seconds = login_seconds
        self._ssh_program = ssh_program
        self._config = SshConfig(ssh_program)
        self._resolver = Resolver(clock)
        self._known = KnownHosts(own_known_hosts)
        self._keyring = Keyring()
        self._waits = Waits()
        self._asking = Asking(person, self._known, self._keyring, self._waits, self._is_made)
        self._jumps: Once[Key, Login | _Refused] = Once()
        self._jump_connections: dict[Key, Login] = {}
        self._jump_failures: dict[Key, int] = {}
        self._by_person: dict[Key, Login] = {}
        """Logins that a person answered for: kept, since another one would ask again."""
        self._orphans: set[asyncio.Task[None]] = set()

    async def locate(self, spec: HostSpec) -> Endpoint | LinkFailure:
        route = await find_route(spec, self._hosts, self._config)
        return route if isinstance(route, LinkFailure) else endpoint(route)

    async def trace(self, spec: HostSpec) -> Way | LinkFailure:
        """What a host would be reached through; nothing is connected to."""
        route = await find_route(spec, self._hosts, self._config)
        return route if isinstance(route, LinkFailure) else way(route)

    async def shell(self, spec: HostSpec) -> tuple[str, ...] | LinkFailure:
        route = await find_route(spec, self._hosts, self._config)
        if isinstance(route, LinkFailure):
            return route
        program = shutil.which(self._ssh_program)
        if program is None:
            missing = Problem(kind=ProblemKind.TOOL_MISSING, summary=f"there is no {self._ssh_program} on this machine")
            return LinkFailure(state=LinkState.UNSUPPORTED, problem=missing)
        command = ssh_command(program, route, self._known.own)
        return LinkFailure(state=LinkState.UNSUPPORTED, problem=command) if isinstance(command, Problem) else command

    async def connect(self, spec: HostSpec, told: Told | None = None) -> SshConnection | LinkFailure:
        route = await find_route(spec, self._hosts, self._config)
        if isinstance(route, LinkFailure):
            return route
        async with self._waits.listening(key_of(route), spec.name, told):
            outcome = await self._connect(route)
        return SshConnection(outcome) if isinstance(outcome, Login) else outcome

    def forget(self, *, by_person: bool = True) -> None:
        """Forget waiting times, failures and what ssh_config said: it is to be tried now. `by_person`: what a person
        did not answer is asked again too."""
        self._config.forget()
        self._gate.forget()
        self._jump_failures.clear()
        self._jumps.forget()
        if by_person:
            self._asking.forget()

    async def close(self) -> None:
        """Close the jump connections and end all that runs for them. Idempotent."""
        await self._jumps.close()
        await self._asking.close()
        for login in (*self._by_person.values(), *reversed(self._jump_connections.values())):
            await login.close()
        self._by_person.clear()
        self._jump_connections.clear()
        for task in tuple(self._orphans):
            task.cancel()
        await asyncio.gather(*self._orphans, return_exceptions=True)
        await self._config.close()
        await self._resolver.close()

    async def _connect(self, route: Route) -> Login | LinkFailure:
        """Log in, as often as it takes until a person has answered all that is asked."""
        key = key_of(route)
        locked: set[str] = set()
        async with self._asking.interview(route) as interview:
            while True:
                if self._is_made(key):
                    return self._by_person[key]
                jump: Login | LinkFailure | None = None
                if len(route) > 1:
                    if interview is not None and not self._is_open(key_of(route[:-1])):
                        interview.leave()  # the jump host may have to ask first
                    jump = await self._jump(route[:-1])
                if isinstance(jump, LinkFailure):
                    return jump
                outcome = await self._log_in(route, jump, interview, locked)
                if isinstance(outcome, _Unasked):
                    failure = await self._asking.settle(outcome.need, route, outcome.attempt, interview, locked)
                    if failure is not None:
                        return failure
                    continue
                if isinstance(outcome, Login) and outcome.is_by_person:
                    self._by_person[key] = outcome
                return outcome

    async def _jump(self, route: Route) -> Login | LinkFailure:
        """The shared connection to the last hop of `route`: the living one, or one that all who ask now wait for."""
        key = key_of(route)
        outcome = await self._jumps.get(key, lambda: self._open_jump(key, route), usable=self._is_usable)
        return outcome.failure if isinstance(outcome, _Refused) else outcome

    def _is_made(self, key: Key) -> bool:
        login = self._by_person.get(key)
        return login is not None and login.alive

    def _is_open(self, key: Key) -> bool:
        jump = self._jump_connections.get(key)
        return jump is not None and jump.alive

    def _is_usable(self, outcome: Login | _Refused) -> bool:
        return self._clock.monotonic() < outcome.until if isinstance(outcome, _Refused) else outcome.alive

    async def _open_jump(self, key: Key, route: Route) -> Login | _Refused:
        old = self._jump_connections.get(key)
        if old is not None and old.alive:
            return old
        if old is not None:
            del self._jump_connections[key]
            await old.close()
        outcome = await self._connect(route)
        if isinstance(outcome, Login):
            self._jump_connections[key] = outcome
            self._jump_failures.pop(key, None)
            return outcome
        failures = self._jump_failures[key] = self._jump_failures.get(key, 0) + 1
        pause = float("inf") if outcome.state in NOT_RETRIED else backoff_seconds(failures, self._random)
        return _Refused(through_jump(outcome, route[-1].name), self._clock.monotonic() + pause)

    async def _log_in(
        self, route: Route, jump: Login | None, interview: Interview | None, locked: Collection[str]
    ) -> Login | LinkFailure | _Unasked:
        """`locked`: key files that the server takes and nobody opens."""
        resolved = route[-1].resolved
        attempt = Attempt(
            target=resolved.target,
            jump=route[-2].name if jump is not None else None,
            proxy=resolved.proxy_command is not None,
            has_person=interview is not None,
        )
        server = " > ".join(at_port(hop.resolved.hostname, hop.resolved.port) for hop in route)
        try:
            login = await self._try(route, jump, attempt, server, interview, locked)
        except PersonNeeded as needed:
            self._gate.passed(server)
            return _Unasked(needed.need, attempt)
        except (OSError, asyncssh.Error) as error:
            if jump is not None and (jump_lost := jump.lost) is not None:
                return through_jump(jump_lost, route[-2].name)
            failure = classify(error, attempt)
            if failure.state is LinkState.THROTTLED:
                self._gate.dropped(server)
            if interview is not None and failure.state is LinkState.AUTH_FAILED and attempt.was_personal:
                interview.decline(Declined.THIS)
            logger.debug("%s: %s %s", route[-1].name, type(error).__name__, failure.problem.summary)
            return failure
        self._gate.passed(server)
        return login

    async def _try(
        self,
        route: Route,
        jump: Login | None,
        attempt: Attempt,
        server: str,
        interview: Interview | None,
        locked: Collection[str],
    ) -> Login:
        """Reach, wait for the server's first word, then shake hands and log in. Places at the gate are taken as late
        as possible, so that dead hosts do not keep living ones waiting."""
        hop = route[-1]
        limit = attempt.limit_seconds = hop.resolved.connect_timeout_seconds or self._connect_seconds
        async with AsyncExitStack() as places, AsyncExitStack() as opened:
            await places.enter_async_context(self._gate.hop(server))
            async with asyncio.timeout(limit):
                stream = await self._reach(hop, jump, attempt, opened)
            attempt.phase = Phase.INTRODUCING
            async with asyncio.timeout(limit):
                attempt.greeting = await (
                    stream.introduced() if isinstance(stream, Tunnel) else introduced(_socket(stream))
                )
            if jump is not None:
                first = route[0].resolved
                await places.enter_async_context(self._gate.hop(at_port(first.hostname, first.port)))
            await places.enter_async_context(self._gate.handshake())
            async with self._keyring.offer(hop.resolved, self._asking.may_unlock, locked) as offer:
                connection, client = await self._shake_hands(
                    hop, stream, offer, attempt, interview, step_aside=places.aclose
                )
                opened.callback(connection.abort)
            opened.pop_all()
            return Login(route, connection, client, jump, stream if isinstance(stream, Proxy) else None)

    async def _shake_hands(
        self,
        hop: Hop,
        stream: Stream,
        offer: Offer,
        attempt: Attempt,
        interview: Interview | None,
        *,
        step_aside: Callable[[], Awaitable[None]],
    ) -> tuple[asyncssh.SSHClientConnection, Client]:
        """Key exchange and authentication. `step_aside` gives the places at the gate to others."""
        attempt.keys_offered = len(offer.pairs)
        attempt.has_open_key = any(not isinstance(pair, LockedPair) for pair in offer.pairs)
        attempt.encrypted, attempt.unreadable = offer.encrypted, offer.unreadable
        attempt.why_locked = self._asking.why_locked(offer.encrypted[0]) if offer.encrypted else ""
        attempt.agent_trouble = offer.agent_trouble
        attempt.limit_seconds = self._login_seconds
        client: Client | None = None
        try:
            async with asyncio.timeout(self._login_seconds) as timer:
                client = Client(
                    hop,
                    attempt,
                    self._known,
                    timer=timer,
                    interview=interview,
                    step_aside=step_aside,
                    sealed=offer.sealed,
                )
                attempt.revoked_known = any(entry.marker == "revoked" for entry in client.entries)
                connection = await asyncssh.connect(
                    hop.resolved.hostname,
                    hop.resolved.port,
                    **connection_options(hop, client, offer),
                    **({"tunnel": stream} if isinstance(stream, Tunnel) else {"sock": _socket(stream)}),
                )
        finally:
            if client is not None:
                client.note_version()
        return connection, client

    async def _reach(self, hop: Hop, jump: Login | None, attempt: Attempt, opened: AsyncExitStack) -> Stream:
        """A stream to the hop's sshd, closed by `opened`."""
        resolved = hop.resolved
        if jump is not None:
            tunnel = await Tunnel.open(jump.ssh, resolved.hostname, resolved.port, self._orphans)
            opened.callback(tunnel.close)
            return tunnel
        if resolved.proxy_command is not None:
            proxy = await Proxy.start(resolved.proxy_command)
            opened.push_async_callback(_end_proxy, proxy, attempt)
            return proxy
        addresses = await self._resolver.addresses(resolved.hostname, resolved.port, resolved.family)
        sock = await connect_socket(addresses, resolved.bind_address)
        opened.callback(sock.close)
        return sock


Stream = socket.socket | Proxy | Tunnel


async def _end_proxy(proxy: Proxy, attempt: Attempt) -> None:
    await proxy.close()
    attempt.proxy_said = proxy.said


def _socket(stream: socket.socket | Proxy) -> socket.socket:
    return stream.sock if isinstance(stream, Proxy) else stream
