"""What the user's own ssh set-up says about a host: `ssh -G`, read into a typed value.

OpenSSH does the parsing (Include, Match, tokens, /etc/ssh/ssh_config); what the inventory says beats it. Without an ssh
program the inventory and OpenSSH's defaults stand alone.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import pwd
import re
import shlex
import signal
import socket
from asyncio.subprocess import PIPE
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gputop.domain.host import HostSpec
from gputop.domain.problem import Problem, ProblemKind
from gputop.transport.once import Once
from gputop.transport.spawn import signal_group, spawn

CONCURRENT = 8
"""`ssh -G` takes some milliseconds; a `Match exec` in it as long as it likes."""
LIMIT_SECONDS = 10.0

Options = dict[str, list[str]]
"""The output of `ssh -G`: keyword in lower case -> its values in order."""

BUILT_IN: Options = {
    "identityfile": [f"~/.ssh/id_{kind}" for kind in ("rsa", "ecdsa", "ecdsa_sk", "ed25519", "ed25519_sk")],
    "userknownhostsfile": ["~/.ssh/known_hosts ~/.ssh/known_hosts2"],
    "globalknownhostsfile": ["/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"],
}
"""OpenSSH's own defaults, for a machine without it."""

FAMILIES = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}


class Query(Struct, frozen=True, kw_only=True):
    """What `ssh -G` is asked; its answer depends on nothing else."""

    alias: str
    user: str | None = None
    port: int | None = None
    files: tuple[str, ...] | None = None
    """`None`: the user's own set-up; `()`: none."""


class Resolved(Struct, frozen=True, kw_only=True):
    """How to reach one host, with every token expanded."""

    alias: str
    """What was asked for."""
    hostname: str
    port: int = 22
    user: str
    identities: tuple[str, ...] = ()
    identities_chosen: bool = False
    """Named by the inventory or ssh_config, not the default list."""
    identities_only: bool = False
    certificates: tuple[str, ...] = ()
    agent: str | None = None
    """Path of the agent's socket; `None`: no agent."""
    jump: tuple[str, ...] = ()
    """First hop first, as written."""
    proxy_command: str | None = None
    known_hosts: tuple[str, ...] = ()
    host_key_alias: str | None = None
    host_key_algorithms: tuple[str, ...] = ()
    """`()` here and below: not chosen by the user."""
    ciphers: tuple[str, ...] = ()
    macs: tuple[str, ...] = ()
    kex: tuple[str, ...] = ()
    family: int = socket.AF_UNSPEC
    bind_address: str | None = None
    connect_timeout_seconds: float | None = None
    keepalive_seconds: float | None = None
    keepalive_count: int = 3
    checking: str = "ask"
    """StrictHostKeyChecking as ssh_config has it; gputop's own policy is the inventory's `host_keys`."""

    @property
    def target(self) -> str:
        """`user@address:port`."""
        return f"{self.user}@{at_port(self.hostname, self.port)}"


def at_port(address: str, port: int) -> str:
    """`address:port`, an IPv6 address in brackets."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def parse(text: str) -> Options:
    """The output of `ssh -G`."""
    options: Options = {}
    for line in text.splitlines():
        keyword, _, value = line.strip().partition(" ")
        if keyword:
            options.setdefault(keyword.lower(), []).append(value.strip())
    return options


def resolved(query: Query, options: Options, defaults: Options, environment: Mapping[str, str]) -> Resolved:
    """`options` of `ssh -G` as a value; what equals `defaults` counts as not chosen."""

    def first(keyword: str) -> str | None:
        value = next(iter(options.get(keyword, ())), "")
        return None if value.lower() in ("", "none") else value

    hostname = first("hostname") or query.alias
    port = int(first("port") or query.port or 22)
    user = first("user") or query.user or _account().pw_name
    key_alias, jump = first("hostkeyalias"), first("proxyjump")
    tokens = _tokens(query.alias, hostname, port, user, key_alias, jump or "")

    def paths(values: Sequence[str]) -> tuple[str, ...]:
        expanded = (expand_path(value, tokens, environment) for value in values if value.lower() != "none")
        return tuple(dict.fromkeys(expanded))

    def chosen(keyword: str) -> tuple[str, ...]:
        values = options.get(keyword, [])
        return () if values == defaults.get(keyword, values) else tuple(_listed(values))

    identity_files = options.get("identityfile") or BUILT_IN["identityfile"]
    known_hosts = [
        path
        for keyword in ("userknownhostsfile", "globalknownhostsfile")
        for value in options.get(keyword, BUILT_IN[keyword])
        for path in value.split()
    ]
    command = first("proxycommand")
    keepalive = float(first("serveraliveinterval") or 0)
    return Resolved(
        alias=query.alias,
        hostname=hostname,
        port=port,
        user=user,
        identities=paths(identity_files),
        identities_chosen=identity_files != defaults.get("identityfile", BUILT_IN["identityfile"]),
        identities_only=first("identitiesonly") == "yes",
        certificates=paths(options.get("certificatefile", [])),
        agent=_agent(options.get("identityagent", []), tokens, environment),
        jump=tuple(hop.strip() for hop in (jump or "").split(",") if hop.strip()),
        proxy_command=_substitute(command, tokens) if command and not jump else None,
        known_hosts=paths(known_hosts),
        host_key_alias=key_alias,
        host_key_algorithms=chosen("hostkeyalgorithms"),
        ciphers=chosen("ciphers"),
        macs=chosen("macs"),
        kex=chosen("kexalgorithms"),
        family=FAMILIES.get(first("addressfamily") or "any", socket.AF_UNSPEC),
        bind_address=first("bindaddress"),
        connect_timeout_seconds=float(first("connecttimeout") or 0) or None,
        keepalive_seconds=keepalive or None,
        keepalive_count=int(first("serveralivecountmax") or 3) or 3,
        checking=first("stricthostkeychecking") or "ask",
    )


def with_inventory(found: Resolved, spec: HostSpec) -> Resolved:
    """`found`, with all that the inventory says about the host in its place. User and port were part of the query."""
    if spec.identity:
        found = replace(found, identities=spec.identity, identities_chosen=True, certificates=())
    if spec.known_hosts is not None:
        found = replace(found, known_hosts=spec.known_hosts)
    if spec.jump is not None:
        # A host that stands in its own chain (`defaults: {jump: [bastion]}`) is reached by the hops before it.
        chain = spec.jump[: spec.jump.index(spec.name)] if spec.name in spec.jump else spec.jump
        found = replace(found, jump=chain, proxy_command=None)
    return found


def hop_spec(hop: str, target: HostSpec) -> HostSpec:
    """The jump host written as `[user@]host[:port]` or `ssh://[user@]host[:port]`, for reaching `target`.

    Keys, known_hosts and ssh_config of the target count for it too."""
    text = hop.removeprefix("ssh://").rstrip("/")
    user, _, rest = text.rpartition("@")
    bracketed = re.fullmatch(r"\[([^\]]+)\](?::(\d+))?", rest)
    host, port = (bracketed[1], bracketed[2]) if bracketed else (rest, None)
    if bracketed is None and rest.count(":") == 1:
        host, _, port = rest.partition(":")
    return HostSpec(
        name=hop,
        address=host,
        port=int(port) if port and port.isdigit() else None,
        user=user or None,
        identity=target.identity,
        known_hosts=target.known_hosts,
        ssh_config=target.ssh_config,
        host_keys=target.host_keys,
    )


class SshConfig:
    """Asks `ssh -G`, once per question."""

    def __init__(self, program: str = "ssh") -> None:
        self._program = program
        self._running = asyncio.Semaphore(CONCURRENT)
        self._answers: Once[Query, Options | Problem | None] = Once()

    async def resolve(self, spec: HostSpec) -> Resolved | Problem:
        """How to reach `spec`, without following its jumps."""
        query = Query(alias=spec.address or spec.name, user=spec.user, port=spec.port, files=spec.ssh_config)
        defaults = await self._ask(Query(alias="localhost", files=()))
        # Without files the answer is the same for all hosts but for these three: no process for each of a thousand.
        answer = _without(defaults, "hostname", "user", "port") if query.files == () else await self._ask(query)
        if isinstance(answer, Problem):
            return answer
        environment = dict(os.environ)
        if answer is None or defaults is None or isinstance(defaults, Problem):
            return with_inventory(resolved(query, answer or BUILT_IN, BUILT_IN, environment), spec)
        return with_inventory(resolved(query, answer, defaults, environment), spec)

    def forget(self) -> None:
        """Ask anew from now on: the files may have been edited."""
        self._answers.forget()

    async def close(self) -> None:
        """End the questions still open."""
        await self._answers.close()

    async def _ask(self, query: Query) -> Options | Problem | None:
        """`None`: there is no ssh program."""
        return await self._answers.get(
            query, lambda: self._run(query), usable=lambda answer: not isinstance(answer, Problem)
        )

    async def _run(self, query: Query) -> Options | Problem | None:
        argv, config = _command_line(self._program, query)
        async with self._running:
            try:
                process = await spawn(*argv, stdin=PIPE, stdout=PIPE, stderr=PIPE)
            except FileNotFoundError:
                return None
            except OSError as error:
                return _config_problem(f"{self._program} could not be started: {error.strerror}", "")
            try:
                async with asyncio.timeout(LIMIT_SECONDS):
                    out, said = await process.communicate(config)
            except TimeoutError:
                return _config_problem(
                    f"ssh -G did not answer within {LIMIT_SECONDS:g} s", "a `Match exec` in it that hangs is likely"
                )
            finally:
                if process.returncode is None:
                    signal_group(process, signal.SIGKILL)
                    await process.wait()
        if process.returncode != 0:
            lines = [line for line in said.decode(errors="replace").splitlines() if "Pseudo-terminal" not in line]
            return _config_problem(lines[0].strip() if lines else "ssh -G failed", "\n".join(lines))
        return parse(out.decode(errors="replace"))


def _command_line(program: str, query: Query) -> tuple[list[str], bytes]:
    """The command and what it reads from standard input: several files become one by Include, never on disk."""
    argv, config = [program, "-G"], b""
    if query.files is not None:
        match query.files:
            case ():
                argv += ["-F", os.devnull]
            case (single,):
                argv += ["-F", single]
            case several:
                argv += ["-F", "/dev/stdin"]
                config = "".join(f'Include "{os.path.abspath(path)}"\n' for path in several).encode()
    if query.user:
        argv += ["-l", query.user]
    if query.port:
        argv += ["-p", str(query.port)]
    return [*argv, "--", query.alias], config


def _without(options: Options | Problem | None, *keywords: str) -> Options | Problem | None:
    if isinstance(options, dict):
        return {keyword: values for keyword, values in options.items() if keyword not in keywords}
    return options


def _config_problem(summary: str, detail: str) -> Problem:
    return Problem(
        kind=ProblemKind.SSH_CONFIG,
        summary=f"ssh_config: {summary}",
        detail=detail[:2000] or None,
        hint="correct the ssh_config (try `ssh -G HOST`)",
    )


def _account() -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(os.getuid())
    except KeyError:  # a container that runs as a bare number
        name = os.environ.get("USER") or os.environ.get("LOGNAME") or str(os.getuid())
        home = os.environ.get("HOME", "/")
        return pwd.struct_passwd((name, "", os.getuid(), os.getgid(), "", home, "/bin/sh"))


def _tokens(alias: str, hostname: str, port: int, user: str, key_alias: str | None, jump: str) -> dict[str, str]:
    """The `%` tokens of ssh_config(5)."""
    account, here = _account(), socket.gethostname()
    return {
        "%": "%",
        "d": account.pw_dir,
        "h": hostname,
        "i": str(account.pw_uid),
        "j": jump,
        "k": key_alias or alias,
        "L": here.partition(".")[0],
        "l": here,
        "n": alias,
        "p": str(port),
        "r": user,
        "u": account.pw_name,
        "C": hashlib.sha1(f"{here}{hostname}{port}{user}{jump}".encode(), usedforsecurity=False).hexdigest(),
    }


def _substitute(text: str, tokens: Mapping[str, str]) -> str:
    return re.sub(r"%(.)", lambda found: tokens.get(found[1], found[0]), text)


def expand_path(path: str, tokens: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """`path` with tokens, `${VARIABLE}` and `~` expanded. `~` is the home of the password database, as for ssh."""
    path = re.sub(r"\$\{(\w+)\}", lambda found: environment.get(found[1], found[0]), path)
    path = _substitute(path, tokens)
    if path == "~" or path.startswith("~/"):
        return tokens["d"] + path[1:]
    return str(Path(path).expanduser()) if path.startswith("~") else path


def _agent(values: Sequence[str], tokens: Mapping[str, str], environment: Mapping[str, str]) -> str | None:
    named = values[0] if values else "SSH_AUTH_SOCK"
    if named.lower() == "none":
        return None
    if named == "SSH_AUTH_SOCK":
        return environment.get("SSH_AUTH_SOCK") or None
    if re.fullmatch(r"\$\w+", named):
        return environment.get(named[1:]) or None
    return expand_path(named, tokens, environment)


def _listed(values: Sequence[str]) -> list[str]:
    return [name for value in values for part in shlex.split(value) for name in part.split(",") if name]
