from __future__ import annotations

import errno
import os
import socket
from typing import Any

import asyncssh
import pytest

from gputop.domain.link import LinkState
from gputop.domain.problem import Problem, ProblemKind
from gputop.transport.classify import Attempt, Phase, classify, lost_session, no_shell, through_jump

KEY_CHANGED = Problem(kind=ProblemKind.HOST_KEY_CHANGED, summary="changed", hint="look")


def os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def channel(code: int, number: int | None = None) -> asyncssh.ChannelOpenError:
    return asyncssh.ChannelOpenError(code, os.strerror(number) if number else "words nobody knows")


REFUSED, FAILED = asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, asyncssh.OPEN_CONNECT_FAILED
UNREACHABLE, THROTTLED, AUTH = LinkState.UNREACHABLE, LinkState.THROTTLED, LinkState.AUTH_FAILED
REJECTED = LinkState.HOST_KEY_REJECTED

TABLE: list[tuple[BaseException, dict[str, Any], LinkState, ProblemKind]] = [
    (os_error(errno.ECONNREFUSED), {}, UNREACHABLE, ProblemKind.CONNECTION_REFUSED),
    (os_error(errno.EHOSTUNREACH), {}, UNREACHABLE, ProblemKind.NO_ROUTE),
    (os_error(errno.ENETUNREACH), {}, UNREACHABLE, ProblemKind.NO_ROUTE),
    (os_error(errno.ETIMEDOUT), {}, UNREACHABLE, ProblemKind.TIMED_OUT),
    (os_error(errno.EMFILE), {}, UNREACHABLE, ProblemKind.TOO_MANY_FILES),
    (socket.gaierror(socket.EAI_NONAME, "not known"), {}, UNREACHABLE, ProblemKind.NAME_UNKNOWN),
    (TimeoutError(), {"phase": Phase.REACHING}, UNREACHABLE, ProblemKind.TIMED_OUT),
    (TimeoutError(), {"phase": Phase.INTRODUCING}, UNREACHABLE, ProblemKind.TIMED_OUT),
    (TimeoutError(), {"phase": Phase.AUTHENTICATION}, UNREACHABLE, ProblemKind.TIMED_OUT),
    (asyncssh.ConnectionLost("x"), {"phase": Phase.INTRODUCING}, THROTTLED, ProblemKind.CONNECTION_DROPPED),
    (os_error(errno.ECONNRESET), {"phase": Phase.INTRODUCING}, THROTTLED, ProblemKind.CONNECTION_DROPPED),
    (
        asyncssh.ConnectionLost("x"),
        {"phase": Phase.INTRODUCING, "proxy": True, "proxy_said": b"nc: \xff no"},
        UNREACHABLE,
        ProblemKind.PROXY_FAILED,
    ),
    (
        asyncssh.DisconnectError(2, "Too many banner lines"),
        {"phase": Phase.INTRODUCING},
        UNREACHABLE,
        ProblemKind.PROTOCOL,
    ),
    (TimeoutError(), {"phase": Phase.INTRODUCING, "greeting": b"220 mail\r\n"}, UNREACHABLE, ProblemKind.PROTOCOL),
    (asyncssh.ConnectionLost("x"), {"phase": Phase.KEY_EXCHANGE}, UNREACHABLE, ProblemKind.CONNECTION_LOST),
    (asyncssh.ConnectionLost("x"), {"phase": Phase.SESSION}, UNREACHABLE, ProblemKind.CONNECTION_LOST),
    (asyncssh.KeyExchangeFailed("x"), {"phase": Phase.KEY_EXCHANGE}, UNREACHABLE, ProblemKind.KEY_EXCHANGE_FAILED),
    (asyncssh.ProtocolError("x"), {"phase": Phase.KEY_EXCHANGE}, UNREACHABLE, ProblemKind.CONNECTION_LOST),
    (
        asyncssh.DisconnectError(2, "Too many authentication failures"),
        {"phase": Phase.AUTHENTICATION, "keys_offered": 6},
        AUTH,
        ProblemKind.AUTH_REFUSED,
    ),
    (asyncssh.PermissionDenied("x"), {"asked": ["publickey"], "keys_offered": 2}, AUTH, ProblemKind.AUTH_REFUSED),
    (
        asyncssh.PermissionDenied("x"),
        {"asked": ["publickey", "password"], "keys_offered": 1},
        AUTH,
        ProblemKind.AUTH_REFUSED,
    ),
    (asyncssh.PermissionDenied("x"), {"asked": ["password"]}, AUTH, ProblemKind.PASSWORD_REQUIRED),
    (
        asyncssh.PermissionDenied("x"),
        {"asked": ["keyboard-interactive"], "keys_offered": 1},
        AUTH,
        ProblemKind.PASSWORD_REQUIRED,
    ),
    (asyncssh.PermissionDenied("x"), {"asked": ["publickey", "password"]}, AUTH, ProblemKind.PASSWORD_REQUIRED),
    (asyncssh.PermissionDenied("x"), {"asked": ["publickey"], "encrypted": ["/k"]}, AUTH, ProblemKind.KEY_ENCRYPTED),
    (
        asyncssh.PermissionDenied("x"),
        {"asked": ["publickey"], "unreadable": ["/k: no"]},
        AUTH,
        ProblemKind.KEY_UNREADABLE,
    ),
    (asyncssh.PermissionDenied("x"), {"answers_given": 3, "encrypted": ["/k"]}, AUTH, ProblemKind.PASSWORD_REQUIRED),
    (asyncssh.PermissionDenied("x"), {"has_given_up": True}, AUTH, ProblemKind.PASSWORD_REQUIRED),
    (
        asyncssh.DisconnectError(2, "Too many authentication failures"),
        {"phase": Phase.AUTHENTICATION, "answers_given": 2},
        AUTH,
        ProblemKind.PASSWORD_REQUIRED,
    ),
    (
        asyncssh.ConnectionLost("x"),
        {"phase": Phase.AUTHENTICATION, "is_asking": True},
        AUTH,
        ProblemKind.PASSWORD_REQUIRED,
    ),
    (
        os_error(errno.ECONNRESET),
        {"phase": Phase.AUTHENTICATION, "is_asking": True},
        AUTH,
        ProblemKind.PASSWORD_REQUIRED,
    ),
    (asyncssh.PermissionDenied("x"), {}, AUTH, ProblemKind.AUTH_REFUSED),
    (asyncssh.HostKeyNotVerifiable("x"), {"rejection": KEY_CHANGED}, REJECTED, ProblemKind.HOST_KEY_CHANGED),
    (asyncssh.HostKeyNotVerifiable("x"), {"revoked_known": True}, REJECTED, ProblemKind.HOST_KEY_REVOKED),
    (asyncssh.HostKeyNotVerifiable("x"), {}, REJECTED, ProblemKind.HOST_KEY_UNKNOWN),
    (channel(REFUSED), {"jump": "b"}, UNREACHABLE, ProblemKind.FORWARDING_REFUSED),
    (channel(FAILED, errno.ECONNREFUSED), {"jump": "b"}, UNREACHABLE, ProblemKind.CONNECTION_REFUSED),
    (channel(FAILED, errno.ETIMEDOUT), {"jump": "b"}, UNREACHABLE, ProblemKind.TIMED_OUT),
    (channel(FAILED), {"jump": "b"}, UNREACHABLE, ProblemKind.NO_ROUTE),
    (channel(asyncssh.OPEN_RESOURCE_SHORTAGE), {"jump": "b"}, UNREACHABLE, ProblemKind.JUMP_FAILED),
    (ValueError("a {bug}"), {}, UNREACHABLE, ProblemKind.INTERNAL),
]


@pytest.mark.parametrize(("error", "fields", "state", "kind"), TABLE)
def test_every_error_has_its_state_its_kind_one_line_and_a_next_step(
    error: BaseException, fields: dict[str, Any], state: LinkState, kind: ProblemKind
) -> None:
    failure = classify(error, Attempt(target="ops@192.0.2.1:22", **fields))
    assert (failure.state, failure.problem.kind) == (state, kind)
    assert failure.problem.summary
    assert "\n" not in failure.problem.summary
    assert failure.problem.hint


def test_what_a_server_says_instead_of_its_version_is_repeated() -> None:
    attempt = Attempt(target="a@b:22", phase=Phase.INTRODUCING, greeting=b"\r\nExceeded MaxStartups\r\nbye")
    assert classify(asyncssh.ConnectionLost("x"), attempt).problem.summary.endswith("at once: Exceeded MaxStartups")
    assert classify(TimeoutError(), attempt).problem.summary.endswith("does not speak SSH: Exceeded MaxStartups")


def test_the_last_line_of_a_proxy_command_is_repeated() -> None:
    attempt = Attempt(target="a@b:22", phase=Phase.INTRODUCING, proxy=True, proxy_said=b"trying\nnc: no route\n")
    assert classify(asyncssh.ConnectionLost("x"), attempt).problem.summary.endswith(": nc: no route")


def test_what_a_jump_host_could_not_reach_names_the_jump_host() -> None:
    attempt = Attempt(target="ops@192.0.2.1:22", jump="bastion")
    assert "bastion" in classify(channel(FAILED, errno.ECONNREFUSED), attempt).problem.summary
    assert "bastion" in classify(channel(REFUSED), attempt).problem.summary


def test_the_trouble_of_a_jump_host_is_its_targets_trouble_and_named_once() -> None:
    refused = classify(os_error(errno.ECONNREFUSED), Attempt(target="ops@192.0.2.1:22"))
    once = through_jump(refused, "inner")
    assert once.problem.kind is ProblemKind.JUMP_FAILED
    assert once.problem.summary.startswith("jump host inner: ")
    assert through_jump(once, "outer").problem.summary == once.problem.summary


def test_a_host_key_or_login_refused_at_a_jump_host_keeps_its_kind() -> None:
    failure = through_jump(
        classify(asyncssh.HostKeyNotVerifiable("x"), Attempt(target="a@b:22", rejection=KEY_CHANGED)), "b"
    )
    assert (failure.state, failure.problem.kind) == (LinkState.HOST_KEY_REJECTED, ProblemKind.HOST_KEY_CHANGED)


def test_a_stale_agent_is_named_when_the_login_fails() -> None:
    attempt = Attempt(target="a@b:22", asked=["publickey"], agent_trouble="no ssh agent at /x any more")
    assert "/x" in (classify(asyncssh.PermissionDenied("x"), attempt).problem.hint or "")


def test_an_encrypted_key_names_the_command_that_opens_it() -> None:
    attempt = Attempt(target="a@b:22", asked=["publickey"], encrypted=["/home/me/.ssh/id"], keys_offered=1)
    assert "ssh-add /home/me/.ssh/id" in (classify(asyncssh.PermissionDenied("x"), attempt).problem.hint or "")


def test_a_session_that_the_server_closed_in_order_is_lost_too() -> None:
    failure = lost_session(None, Attempt(target="a@b:22", phase=Phase.SESSION))
    assert (failure.state, failure.problem.kind) == (LinkState.UNREACHABLE, ProblemKind.CONNECTION_LOST)


def test_a_server_that_runs_nothing_is_unsupported() -> None:
    failure = no_shell(channel(asyncssh.OPEN_REQUEST_SESSION_FAILED))
    assert (failure.state, failure.problem.kind) == (LinkState.UNSUPPORTED, ProblemKind.NO_SHELL)
