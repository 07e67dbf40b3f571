"""The hops to a host: ProxyJump followed through the inventory and ssh_config."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from gputop.domain.host import Endpoint, HostKeyPolicy, HostSpec, Way
from gputop.domain.link import LinkFailure, LinkState
from gputop.domain.problem import Problem, ProblemKind
from gputop.transport.hostkeys import SSH_PORT
from gputop.transport.sshconfig import Resolved, SshConfig, at_port, hop_spec


class Hop(Struct, frozen=True, kw_only=True):
    """One machine to log in to."""

    name: str
    """As the user wrote it."""
    spec: HostSpec
    """What the inventory says of it; of a hop that it does not know, what holds for the host behind it."""
    resolved: Resolved
    host_keys: HostKeyPolicy

    @property
    def known_as(self) -> tuple[str, int]:
        """Name and port under which known_hosts has it."""
        alias = self.resolved.host_key_alias
        return (alias, SSH_PORT) if alias else (self.resolved.hostname, self.resolved.port)


Route = tuple[Hop, ...]
"""First hop first, the host itself last."""


def endpoint(route: Route) -> Endpoint:
    """`route` in words for the screen."""
    *jumps, last = (hop.resolved for hop in route)
    return Endpoint(address=last.hostname, port=last.port, user=last.user, jump=tuple(jump.target for jump in jumps))


def way(route: Route) -> Way:
    """What `route` leads through. A program that stands between two hops (`ProxyCommand`) may name hosts anywhere: each
    of its words counts."""
    found: set[str] = set()
    for position, hop in enumerate(route):
        own = {bare(hop.name), hop.resolved.alias, hop.resolved.hostname}
        if hop.resolved.proxy_command is not None:
            found |= {bare(word) for word in re.split(r"[\s,='\"]+", hop.resolved.proxy_command)} - own
        if position < len(route) - 1:
            found |= {bare(hop.name), hop.resolved.alias, _place(hop)}
    found = {name.lower() for name in found if name and not is_loopback(name)}
    return Way(place=_place(route[-1]), through=frozenset(found))


def _place(hop: Hop) -> str:
    """Behind an address of this machine there may be a host for each port."""
    address = hop.resolved.hostname.lower()
    return at_port(address, hop.resolved.port) if is_loopback(address) else address


def bare(hop: str) -> str:
    """The host of `user@host:port`."""
    host = hop.rpartition("@")[2]
    if match := re.fullmatch(r"\[(.*)\](?::\d+)?", host):
        return match[1]
    return host.partition(":")[0] if host.count(":") == 1 else host


def is_loopback(address: str) -> bool:
    return address in ("localhost", "::1") or bool(re.fullmatch(r"127\.[0-9.]*", address))


async def find_route(spec: HostSpec, hosts: Mapping[str, HostSpec], config: SshConfig) -> Route | LinkFailure:
    """The hops to `spec`. A jump is a host of the inventory (`hosts`), else a name for ssh_config, else an address.

    The first jump is reached by its own jumps, each further one through the one before it, as with `ssh -J a,b`."""
    found = await _follow(spec, hosts, config, ())
    if isinstance(found, Problem):
        return LinkFailure(state=LinkState.UNREACHABLE, problem=found)
    return found


async def _follow(
    spec: HostSpec, hosts: Mapping[str, HostSpec], config: SshConfig, behind: tuple[str, ...]
) -> Route | Problem:
    if spec.name in behind:
        circle = " > ".join((*behind[behind.index(spec.name) :], spec.name))
        return Problem(
            kind=ProblemKind.SSH_CONFIG,
            summary=f"jump hosts go round in a circle: {circle}",
            hint="correct `jump` in the inventory or ProxyJump in ssh_config",
        )
    behind = (*behind, spec.name)
    found = await config.resolve(spec)
    if isinstance(found, Problem):
        return found
    route: Route = ()
    for position, name in enumerate(found.jump):
        jump = hosts.get(name) or hop_spec(name, spec)
        if position:
            jump = replace(jump, jump=())
        hops = await _follow(jump, hosts, config, behind)
        if isinstance(hops, Problem):
            if hops.summary.startswith("jump "):
                return hops
            return replace(hops, summary=f"jump host {name}: {hops.summary}")
        route += hops
    return (*route, Hop(name=spec.name, spec=spec, resolved=found, host_keys=spec.host_keys))
