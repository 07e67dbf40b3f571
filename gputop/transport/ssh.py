"""Transport over SSH: logs in, with jump hosts shared between all hosts behind them."""

from __future__ import annotations

import asyncio
import logging
import shutil
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random

import asyncssh

from gputop.domain.host import Endpoint, HostSpec
from gputop.domain.link import NOT_RETRIED, LinkFailure, LinkState
from gputop.domain.problem import Problem, ProblemKind
from gputop.ports import Clock
from gputop.transport.classify import Attempt, Phase, classify, lost_session, no_shell, through_jump
from gputop.transport.client import Client, Prompter
from gputop.transport.gate import HANDSHAKES_PER_HOP, HANDSHAKES_TOTAL, Gate, backoff_seconds
from gputop.transport.hostkeys import KnownHosts, fingerprint
from gputop.transport.keys import AskPassphrase, Keyring
from gputop.transport.once import Once
from gputop.transport.options import connection_options
from gputop.transport.program import SshProgram
from gputop.transport.reach import Proxy, connect_socket, introduced
from gputop.transport.resolve import Resolver
from gputop.transport.route import Hop, Route, endpoint, find_route
from gputop.transport.shell import ssh_command
from gputop.transport.sshconfig import SshConfig, at_port
from gputop.transport.tunnel import Tunnel

CONNECT_SECONDS = 10.0
"""For reaching a server, and again for its first word; ConnectTimeout of ssh_config beats it."""
LOGIN_SECONDS = 30.0
"""For key exchange and authentication together."""
START_SECONDS = 15.0
CLOSE_SECONDS = 0.5

logger = logging.getLogger(__name__)


class SshConnection:
    """One login. Implements `ports.Connection`."""

    def __init__(
        self,
        route: Route,
        connection: asyncssh.SSHClientConnection,
        client: Client,
        jump: SshConnection | None,
        proxy: Proxy | None,
    ) -> None:
        self.ssh = connection
        self._jump_name = route[-2].name if len(route) > 1 else ""
        self._client = client
        self._jump = jump
        self._proxy = proxy
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
        program = SshProgram(lambda: self.lost)
        try:
            async with asyncio.timeout(START_SECONDS):
                await self.ssh.create_session(
                    lambda: program, command, encoding=None, request_pty=False, env={}, send_env=()
                )
        except asyncssh.ChannelOpenError as refused:
            return self.lost or no_shell(refused)
        except (OSError, asyncssh.Error) as error:
            self._client.attempt.limit_seconds = START_SECONDS
            return self.lost or classify(error, self._client.attempt)
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
        ask_passphrase: AskPassphrase | None = None,
        prompter: Prompter | None = None,
        random: Random | None = None,
    ) -> None:
        """`hosts`: those that jump hosts may be named after. `own_known_hosts`: where `accept-new` writes; `None`: in
        the user's config folder."""
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
        self._keyring = Keyring(ask_passphrase)
        self._prompter = prompter
        self._jumps: Once[tuple[str, ...], SshConnection | _Refused] = Once()
        self._jump_connections: dict[tuple[str, ...], SshConnection] = {}
        self._jump_failures: dict[tuple[str, ...], int] = {}
        self._orphans: set[asyncio.Task[None]] = set()

    async def locate(self, spec: HostSpec) -> Endpoint | LinkFailure:
        route = await find_route(spec, self._hosts, self._config)
        return route if isinstance(route, LinkFailure) else endpoint(route)

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

    async def connect(self, spec: HostSpec) -> SshConnection | LinkFailure:
        route = await find_route(spec, self._hosts, self._config)
        if isinstance(route, LinkFailure):
            return route
        return await self._connect(route)

    def forget(self) -> None:
        """Forget waiting times, failures and what ssh_config said: a person wants it tried now."""
        self._config.forget()
        self._gate.forget()
        self._jump_failures.clear()
        self._jumps.forget()

    async def close(self) -> None:
        """Close the jump connections and end all that runs for them. Idempotent."""
        await self._jumps.close()
        for jump in reversed(self._jump_connections.values()):
            await jump.close()
        self._jump_connections.clear()
        for task in tuple(self._orphans):
            task.cancel()
        await asyncio.gather(*self._orphans, return_exceptions=True)
        await self._config.close()
        await self._resolver.close()

    async def _connect(self, route: Route) -> SshConnection | LinkFailure:
        jump = await self._jump(route[:-1]) if len(route) > 1 else None
        if isinstance(jump, LinkFailure):
            return jump
        return await self._log_in(route, jump)

    async def _jump(self, route: Route) -> SshConnection | LinkFailure:
        """The shared connection to the last hop of `route`: the living one, or one that all who ask now wait for."""
        key = tuple(hop.resolved.target for hop in route)
        outcome = await self._jumps.get(key, lambda: self._open_jump(key, route), usable=self._is_usable)
        return outcome.failure if isinstance(outcome, _Refused) else outcome

    def _is_usable(self, outcome: SshConnection | _Refused) -> bool:
        return self._clock.monotonic() < outcome.until if isinstance(outcome, _Refused) else outcome.alive

    async def _open_jump(self, key: tuple[str, ...], route: Route) -> SshConnection | _Refused:
        if (old := self._jump_connections.get(key)) is not None and old.alive:
            return old
        if old is not None:
            del self._jump_connections[key]
            await old.close()
        outcome = await self._connect(route)
        if isinstance(outcome, SshConnection):
            self._jump_connections[key] = outcome
            self._jump_failures.pop(key, None)
            return outcome
        failures = self._jump_failures[key] = self._jump_failures.get(key, 0) + 1
        pause = float("inf") if outcome.state in NOT_RETRIED else backoff_seconds(failures, self._random)
        return _Refused(through_jump(outcome, route[-1].name), self._clock.monotonic() + pause)

    async def _log_in(self, route: Route, jump: SshConnection | None) -> SshConnection | LinkFailure:
        resolved = route[-1].resolved
        attempt = Attempt(
            target=resolved.target,
            jump=route[-2].name if jump is not None else None,
            proxy=resolved.proxy_command is not None,
        )
        server = " > ".join(at_port(hop.resolved.hostname, hop.resolved.port) for hop in route)
        try:
            connection = await self._try(route, jump, attempt, server)
        except (OSError, asyncssh.Error) as error:
            if jump is not None and (jump_lost := jump.lost) is not None:
                return through_jump(jump_lost, route[-2].name)
            failure = classify(error, attempt)
            if failure.state is LinkState.THROTTLED:
                self._gate.dropped(server)
            logger.debug("%s: %s %s", route[-1].name, type(error).__name__, failure.problem.summary)
            return failure
        self._gate.passed(server)
        return connection

    async def _try(self, route: Route, jump: SshConnection | None, attempt: Attempt, server: str) -> SshConnection:
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
            offer = await places.enter_async_context(self._keyring.offer(hop.resolved))
            attempt.keys_offered = len(offer.pairs)
            attempt.encrypted, attempt.unreadable = offer.encrypted, offer.unreadable
            attempt.agent_trouble = offer.agent_trouble
            attempt.limit_seconds = self._login_seconds
            client: Client | None = None
            try:
                async with asyncio.timeout(self._login_seconds) as timer:
                    client = Client(hop, attempt, self._known, timer=timer, prompter=self._prompter)
                    attempt.revoked_known = any(entry.marker == "revoked" for entry in client.entries)
                    connection = await asyncssh.connect(
                        hop.resolved.hostname,
                        hop.resolved.port,
                        **connection_options(hop, client, offer),
                        **({"tunnel": stream} if isinstance(stream, Tunnel) else {"sock": _socket(stream)}),
                    )
                    opened.callback(connection.abort)
            finally:
                if client is not None:
                    client.note_version()
            opened.pop_all()
            return SshConnection(route, connection, client, jump, stream if isinstance(stream, Proxy) else None)

    async def _reach(self, hop: Hop, jump: SshConnection | None, attempt: Attempt, opened: AsyncExitStack) -> Stream:
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
