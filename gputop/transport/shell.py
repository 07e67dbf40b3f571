"""The user's own ssh, told to go where gputop goes: the same machine, by the same hops. Pure.

ssh reads the same ssh_config as ever, so that what a user has set for logins (agent forwarding, say) counts. What
decides which machine answers is said on its command line: address, port, user, hops, host key alias. Keys and
known_hosts of the inventory are added, and the file in which gputop keeps the keys that it accepted itself.
"""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path

from gputop.domain.problem import Problem, ProblemKind
from gputop.transport.route import Hop, Route
from gputop.transport.sshconfig import Resolved

ODD_IN_USER = frozenset("'`\";&<>|(){}")
ODD_IN_HOST = ODD_IN_USER | frozenset("$\\ ")
FAMILIES: dict[int, str] = {socket.AF_INET: "inet", socket.AF_INET6: "inet6"}


def ssh_command(program: str, route: Route, own_known_hosts: Path) -> tuple[str, ...] | Problem:
    """`program` with all that it needs to log in at the end of `route`. Hops are nested ProxyCommands: ProxyJump knows
    neither the keys nor the known_hosts that the inventory has for a hop."""
    command: list[str] = []
    for hop in route:
        if (reason := _unfit(hop)) is not None:
            return Problem(kind=ProblemKind.SSH_CONFIG, summary=f"{hop.name}: {reason}")
        proxy = _proxy(command, hop.resolved) if command else None
        options = [f"{name}={value}" for name, value in _options(hop, own_known_hosts, proxy)]
        command = [program, *_config(hop), *(word for option in options for word in ("-o", option)), "--"]
        command.append(hop.resolved.alias)
    return tuple(command)


def _unfit(hop: Hop) -> str | None:
    """Why a name of `hop` may not be given to ssh: what newer versions of it refuse themselves."""
    resolved = hop.resolved
    hosts = [resolved.alias, resolved.hostname, *filter(None, [resolved.host_key_alias])]
    for word, odd in (*((host, ODD_IN_HOST) for host in hosts), (resolved.user, ODD_IN_USER)):
        if not word or word.startswith("-") or not word.isprintable() or set(word) & odd:
            return f"{word!a} cannot be given to ssh as a name"
    return None


def _config(hop: Hop) -> list[str]:
    """Which ssh_config is read. Several files cannot be named to ssh: what gputop has read in them is said instead."""
    files = hop.spec.ssh_config
    if files is None:
        return []
    return ["-F", os.path.abspath(files[0])] if len(files) == 1 else ["-F", os.devnull]


def _options(hop: Hop, own_known_hosts: Path, proxy: str | None) -> Iterator[tuple[str, str]]:
    spec, resolved = hop.spec, hop.resolved
    is_read = spec.ssh_config is None or len(spec.ssh_config) == 1
    yield "HostName", _literal(resolved.hostname)
    yield "Port", str(resolved.port)
    yield "User", _quoted(resolved.user)
    if resolved.host_key_alias is not None:
        yield "HostKeyAlias", _quoted(resolved.host_key_alias)
    if proxy is not None:
        yield "ProxyCommand", proxy
    elif resolved.proxy_command is None:
        yield "ProxyJump", "none"
    elif not is_read:
        yield "ProxyCommand", resolved.proxy_command.replace("%", "%%")
    if spec.known_hosts is not None or not is_read or own_known_hosts.exists():
        yield "UserKnownHostsFile", " ".join(map(_literal, (*resolved.known_hosts, str(own_known_hosts))))
        yield "GlobalKnownHostsFile", os.devnull
    if spec.identity or (not is_read and resolved.identities_chosen):
        for path in resolved.identities:
            yield "IdentityFile", _literal(path)
    if not is_read:
        yield from _unread(resolved)


def _unread(resolved: Resolved) -> Iterator[tuple[str, str]]:
    """What else an ssh_config says that ssh does not read itself."""
    yield "IdentityAgent", _literal(resolved.agent) if resolved.agent is not None else "none"
    if resolved.identities_only:
        yield "IdentitiesOnly", "yes"
    for path in resolved.certificates:
        yield "CertificateFile", _literal(path)
    if resolved.family in FAMILIES:
        yield "AddressFamily", FAMILIES[resolved.family]
    if resolved.bind_address is not None:
        yield "BindAddress", _quoted(resolved.bind_address)
    for name, values in (
        ("HostKeyAlgorithms", resolved.host_key_algorithms),
        ("Ciphers", resolved.ciphers),
        ("MACs", resolved.macs),
        ("KexAlgorithms", resolved.kex),
    ):
        if values:
            yield name, ",".join(values)


def _proxy(command: list[str], target: Resolved) -> str:
    """The stream to `target` from the hop that `command` logs in to, as a ProxyCommand. A shell reads it."""
    *options, dashes, alias = command
    words = [*options, "-W", f"[{target.hostname}]:{target.port}", dashes, alias]
    return shlex.join(words).replace("%", "%%")


def _quoted(value: str) -> str:
    """A value as ssh_config(5) wants it."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if escaped != value or not value or any(c in " '#=\t" for c in value) else value


def _literal(value: str) -> str:
    """A value in which ssh would expand `%` tokens."""
    return _quoted(value.replace("%", "%%"))
