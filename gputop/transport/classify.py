"""What an exception means, in words for a person. The one place that turns errors of the network and of asyncssh into
link states; told apart by type, errno and SSH code, never by their text."""

from __future__ import annotations

import errno
import os
import socket
from dataclasses import dataclass, field
from enum import IntEnum

import asyncssh
from msgspec.structs import replace

from gputop.domain.link import LinkFailure, LinkState
from gputop.domain.plural import counted
from gputop.domain.problem import Problem, ProblemKind

DETAIL_CHARS = 2000
SAID_CHARS = 80


class Phase(IntEnum):
    """How far a login came."""

    REACHING = 0
    """No stream to the server yet."""
    INTRODUCING = 1
    """A stream, but the server did not say its version yet."""
    KEY_EXCHANGE = 2
    AUTHENTICATION = 3
    SESSION = 4


@dataclass(slots=True)
class Attempt:
    """One login as far as it came."""

    target: str
    """`user@address:port`."""
    limit_seconds: float = 10.0
    """What the phase that ran out of time had."""
    phase: Phase = Phase.REACHING
    jump: str | None = None
    """The last jump host; `None`: reached directly."""
    proxy: bool = False
    proxy_said: bytes = b""
    greeting: bytes = b""
    """The first bytes that came from the server: of its version, or of what it says instead."""
    banner: str = ""
    """What the server printed before authentication."""
    rejection: Problem | None = None
    """Set when the host key was judged and not taken."""
    revoked_known: bool = False
    """known_hosts has revoked keys for the host."""
    asked: list[str] = field(default_factory=list)
    """Methods the server still wanted when we had nothing left for them."""
    keys_offered: int = 0
    has_open_key: bool = False
    """One of them needs no passphrase."""
    encrypted: list[str] = field(default_factory=list)
    """Key files that need a passphrase nobody gives, and that the server takes, or that cannot be shown to it."""
    why_locked: str = ""
    """Why the first of them stays locked; empty: nobody was asked."""
    unreadable: list[str] = field(default_factory=list)
    agent_trouble: str | None = None
    has_person: bool = False
    """Somebody can be asked, and is again when they say so."""
    answers_given: int = 0
    """Times that a person answered the server."""
    is_asking: bool = False
    """A person is being asked now."""
    has_given_up: bool = False
    """The person did not answer."""

    @property
    def was_personal(self) -> bool:
        """The login had to do with a person."""
        return self.is_asking or self.has_given_up or self.answers_given > 0

    @property
    def said_instead(self) -> str:
        """`: ` and the first line of a server that did not say its version; empty when it said nothing else."""
        line = _first_line(self.greeting.decode(errors="replace"))
        return f": {line}" if line and not line.startswith("SSH-2") else ""

    @property
    def address(self) -> str:
        return self.target.rpartition("@")[2]


_MORE_FILES = "raise the limit of open files (ulimit -n), or watch fewer hosts"

OF_ERRNO: dict[int, tuple[ProblemKind, str, str]] = {
    errno.ECONNREFUSED: (
        ProblemKind.CONNECTION_REFUSED,
        "connection refused by {address}",
        "is sshd running there? check address and port",
    ),
    errno.ETIMEDOUT: (
        ProblemKind.TIMED_OUT,
        "no answer from {address}",
        "is it switched on? a firewall on the way drops packets",
    ),
    errno.EHOSTUNREACH: (ProblemKind.NO_ROUTE, "no route to {address}", "is it switched on? check network and VPN"),
    errno.ENETUNREACH: (ProblemKind.NO_ROUTE, "no route to {address}", "check this machine's own network and VPN"),
    errno.EMFILE: (ProblemKind.TOO_MANY_FILES, "gputop may open no more files", _MORE_FILES),
    errno.ENFILE: (ProblemKind.TOO_MANY_FILES, "this machine may open no more files", _MORE_FILES),
    errno.EADDRNOTAVAIL: (
        ProblemKind.NO_ROUTE,
        "{address} cannot be reached from this address",
        "check BindAddress in ssh_config",
    ),
}
"""Kind, summary and hint of what connect(2) says, here or on a jump host."""

_OF_WORDS = {os.strerror(number): number for number in OF_ERRNO}
"""sshd reports its own connect(2) to us as the C library's words only: the channel's code is the same for all."""


def classify(error: BaseException, attempt: Attempt) -> LinkFailure:
    """Link state and problem for `error`, met by `attempt`."""
    match error:
        case asyncssh.HostKeyNotVerifiable():
            return _host_key(error, attempt)
        case asyncssh.PermissionDenied():
            return refused(attempt)
        case asyncssh.KeyExchangeFailed():
            return _failure(
                LinkState.UNREACHABLE,
                ProblemKind.KEY_EXCHANGE_FAILED,
                f"{attempt.address} and gputop have no algorithm in common",
                detail=error.reason,
                hint="an old server: allow its algorithms in ssh_config (KexAlgorithms, Ciphers, HostKeyAlgorithms)",
            )
        case asyncssh.ConnectionLost() | asyncssh.DisconnectError() | ConnectionError() if attempt.is_asking:
            return _failure(
                LinkState.AUTH_FAILED,
                ProblemKind.PASSWORD_REQUIRED,
                f"{attempt.address} ended the login while it waited for your answer",
                detail=str(error),
                hint="F5 asks again; its sshd waits for LoginGraceTime, mostly 2 minutes",
            )
        case asyncssh.ConnectionLost() | ConnectionResetError() | BrokenPipeError():
            return _lost(error, attempt)
        case asyncssh.DisconnectError() if attempt.phase is Phase.AUTHENTICATION and attempt.answers_given:
            return refused(attempt)
        case asyncssh.DisconnectError() if attempt.phase is Phase.AUTHENTICATION:
            return _failure(
                LinkState.AUTH_FAILED,
                ProblemKind.AUTH_REFUSED,
                f"{attempt.address} ended the login after {counted(attempt.keys_offered, 'key')}",
                detail=error.reason,
                hint="too many keys for this server: name the right one (identity:, or IdentitiesOnly in ssh_config)",
            )
        case asyncssh.DisconnectError() if attempt.phase <= Phase.INTRODUCING:
            return _no_ssh(attempt, error.reason)
        case asyncssh.DisconnectError():
            return _failure(
                LinkState.UNREACHABLE,
                ProblemKind.CONNECTION_LOST,
                f"connection to {attempt.address} ended: {_first_line(error.reason)}",
                detail=error.reason,
                hint="the server's own log (sshd) says why",
            )
        case asyncssh.ChannelOpenError():
            return _channel(error, attempt)
        case TimeoutError() if error.errno is None:
            return _timed_out(attempt)
        case socket.gaierror():
            return _failure(
                LinkState.UNREACHABLE,
                ProblemKind.NAME_UNKNOWN,
                f"name not known: {attempt.address.rpartition(':')[0]}",
                detail=error.strerror,
                hint="check the spelling; is it a name of ssh_config, or of another network or VPN?",
            )
        case OSError():
            return _os_error(error.errno, error.strerror or str(error), attempt)
        case _:
            return _failure(
                LinkState.UNREACHABLE,
                ProblemKind.INTERNAL,
                f"unexpected error: {type(error).__name__}",
                detail=str(error),
                hint="a bug in gputop; run with --debug --log-file FILE and report it",
            )


def through_jump(failure: LinkFailure, jump: str) -> LinkFailure:
    """`failure` of a jump host as its targets show it. Kinds that a person must act on stay as they are."""
    problem = failure.problem
    summary = problem.summary if problem.summary.startswith("jump host ") else f"jump host {jump}: {problem.summary}"
    kind = ProblemKind.JUMP_FAILED if failure.state is LinkState.UNREACHABLE else problem.kind
    return LinkFailure(state=failure.state, problem=replace(problem, kind=kind, summary=summary))


def lost_session(error: BaseException | None, attempt: Attempt) -> LinkFailure:
    """Why a connection that worked broke; `None`: the server closed it."""
    if error is None:
        error = asyncssh.ConnectionLost("")
    return classify(error, attempt)


def no_shell(error: asyncssh.ChannelOpenError | None) -> LinkFailure:
    """The server logged us in but runs nothing for us."""
    return _failure(
        LinkState.UNSUPPORTED,
        ProblemKind.NO_SHELL,
        "logged in, but the server runs no command for this account",
        detail=error.reason if error else None,
        hint="the account needs a shell (not nologin) and no ForceCommand",
    )


def _failure(
    state: LinkState, kind: ProblemKind, summary: str, *, detail: str | None = None, hint: str | None = None
) -> LinkFailure:
    detail = (detail or "").strip()[:DETAIL_CHARS] or None
    return LinkFailure(state=state, problem=Problem(kind=kind, summary=summary, detail=detail, hint=hint))


def _host_key(error: asyncssh.HostKeyNotVerifiable, attempt: Attempt) -> LinkFailure:
    if attempt.rejection is not None:
        return LinkFailure(state=LinkState.HOST_KEY_REJECTED, problem=attempt.rejection)
    if attempt.revoked_known:
        return _failure(
            LinkState.HOST_KEY_REJECTED,
            ProblemKind.HOST_KEY_REVOKED,
            f"the host key of {attempt.address} is revoked in known_hosts",
            detail=error.reason,
            hint="do not log in; ask whoever revoked it",
        )
    return _failure(
        LinkState.HOST_KEY_REJECTED,
        ProblemKind.HOST_KEY_UNKNOWN,
        f"the host certificate of {attempt.address} is not valid",
        detail=error.reason,
        hint="expired, or made for another name: the server needs a new one",
    )


def refused(attempt: Attempt) -> LinkFailure:
    """Authentication failed; the most useful reason first."""
    agent = f"; {attempt.agent_trouble}" if attempt.agent_trouble else ""
    again = "F5 asks again; or " if attempt.has_person else ""
    asks = "" if attempt.has_person else "; gputop's screen asks for it"
    said = attempt.banner
    if attempt.unreadable:
        said = "\n".join([*attempt.unreadable, said])
    if attempt.answers_given or attempt.has_given_up:
        words = "was not answered" if attempt.has_given_up else "did not take what you answered"
        return _failure(
            LinkState.AUTH_FAILED,
            ProblemKind.PASSWORD_REQUIRED,
            f"{attempt.target} wants a password or a code, and {words}",
            detail=said,
            hint=f"{again}set up a key for it: ssh-copy-id{_port(attempt)}",
        )
    if attempt.encrypted:
        path = attempt.encrypted[0]
        return _failure(
            LinkState.AUTH_FAILED,
            ProblemKind.KEY_ENCRYPTED,
            f"the key {path} is locked: {attempt.why_locked}"
            if attempt.why_locked
            else f"the key {path} needs a passphrase",
            detail=said,
            hint=f"{again}ssh-add {path}{asks}{agent}",
        )
    wants_words = any(method != "publickey" for method in attempt.asked)
    if wants_words and ("publickey" not in attempt.asked or not attempt.keys_offered):
        after = " after the key" if attempt.keys_offered and "publickey" not in attempt.asked else ""
        return _failure(
            LinkState.AUTH_FAILED,
            ProblemKind.PASSWORD_REQUIRED,
            f"{attempt.target} wants a password or a code{after}",
            detail=said,
            hint=f"set up a key for it: ssh-copy-id{_port(attempt)}{asks}{agent}",
        )
    if attempt.unreadable and not attempt.keys_offered:
        return _failure(
            LinkState.AUTH_FAILED,
            ProblemKind.KEY_UNREADABLE,
            f"no usable key: {attempt.unreadable[0]}",
            detail=said,
            hint=f"check the path and the rights of the file{agent}",
        )
    offered = ", ".join(dict.fromkeys(attempt.asked)) or "no method that gputop has"
    return _failure(
        LinkState.AUTH_FAILED,
        ProblemKind.AUTH_REFUSED,
        f"{attempt.target} refused {counted(attempt.keys_offered, 'key')}"
        if attempt.keys_offered
        else f"no key to offer to {attempt.target}",
        detail="\n".join([f"the server takes: {offered}", said]),
        hint=f"is this the right user and key? ssh-copy-id{_port(attempt)} puts your key there{agent}",
    )


def _first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "")[:SAID_CHARS]


def _port(attempt: Attempt) -> str:
    """Arguments of ssh-copy-id for the target."""
    address, _, port = attempt.target.rpartition(":")
    return f" {address}" if port == "22" else f" -p {port} {address}"


def _lost(error: BaseException, attempt: Attempt) -> LinkFailure:
    if attempt.proxy and attempt.phase <= Phase.INTRODUCING:
        said = attempt.proxy_said.decode(errors="replace").strip()
        last = _first_line(said.rpartition("\n")[2])
        return _failure(
            LinkState.UNREACHABLE,
            ProblemKind.PROXY_FAILED,
            f"ProxyCommand ended before {attempt.address} answered" + (f": {last}" if last else ""),
            detail=said,
            hint="run the ProxyCommand of ssh_config by hand",
        )
    if attempt.phase <= Phase.INTRODUCING:
        return _failure(
            LinkState.THROTTLED,
            ProblemKind.CONNECTION_DROPPED,
            f"{attempt.address} closes new connections at once{attempt.said_instead}",
            detail=str(error),
            hint="too many at a time (MaxStartups), or this address is banned for a while (fail2ban)",
        )
    return _failure(
        LinkState.UNREACHABLE,
        ProblemKind.CONNECTION_LOST,
        f"connection to {attempt.address} lost" if attempt.phase is Phase.SESSION else f"{attempt.address} hung up",
        detail=str(error),
        hint="gputop connects again by itself",
    )


def _timed_out(attempt: Attempt) -> LinkFailure:
    limit = f"{attempt.limit_seconds:g} s"
    match attempt.phase:
        case Phase.REACHING:
            kind, summary, hint = OF_ERRNO[errno.ETIMEDOUT]
            return _failure(
                LinkState.UNREACHABLE, kind, f"{summary.format(address=attempt.address)} within {limit}", hint=hint
            )
        case Phase.INTRODUCING if attempt.greeting:
            return _no_ssh(attempt, None)
        case Phase.INTRODUCING:
            words = f"{attempt.address} accepts the connection but stays silent for {limit}"
            hint = "is it sshd that listens there? an overloaded or hanging server does this too"
        case Phase.AUTHENTICATION:
            words = f"the login at {attempt.address} took longer than {limit}"
            hint = "a slow directory service (LDAP, DNS of sshd) or an overloaded server"
        case _:
            words = f"{attempt.address} stopped answering for {limit}"
            hint = "an overloaded server, or a network that drops large packets (MTU)"
    return _failure(LinkState.UNREACHABLE, ProblemKind.TIMED_OUT, words, hint=hint)


def _no_ssh(attempt: Attempt, reason: str | None) -> LinkFailure:
    return _failure(
        LinkState.UNREACHABLE,
        ProblemKind.PROTOCOL,
        f"{attempt.address} does not speak SSH{attempt.said_instead}",
        detail=reason,
        hint="run the ProxyCommand of ssh_config by hand" if attempt.proxy else "is that the port of sshd?",
    )


def _channel(error: asyncssh.ChannelOpenError, attempt: Attempt) -> LinkFailure:
    """A jump host could not, or would not, open the way to the target."""
    if error.code == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED:
        return _failure(
            LinkState.UNREACHABLE,
            ProblemKind.FORWARDING_REFUSED,
            f"jump host {attempt.jump} forbids forwarding to {attempt.address}",
            detail=error.reason,
            hint="AllowTcpForwarding or PermitOpen in its sshd_config, or permitopen on the key",
        )
    if error.code == asyncssh.OPEN_CONNECT_FAILED:
        return _os_error(_OF_WORDS.get(error.reason), error.reason, attempt)
    return _failure(
        LinkState.UNREACHABLE,
        ProblemKind.JUMP_FAILED,
        f"jump host {attempt.jump} opens no way to {attempt.address}",
        detail=error.reason,
        hint="the log of the jump host's sshd says why",
    )


def _os_error(number: int | None, words: str, attempt: Attempt) -> LinkFailure:
    kind, summary, hint = OF_ERRNO.get(
        number or 0,
        (
            ProblemKind.NO_ROUTE,
            "{address} cannot be reached: " + words.replace("{", "").replace("}", ""),
            "check address and network",
        ),
    )
    text = summary.format(address=attempt.address)
    if attempt.jump is not None:
        text = f"{text} (from jump host {attempt.jump})"
    return _failure(LinkState.UNREACHABLE, kind, text, detail=words, hint=hint)
