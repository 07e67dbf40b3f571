"""Our side of one login: judges the host key, answers for a person, notes how far it came."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

import asyncssh

from gputop.domain.host import HostKeyPolicy
from gputop.domain.problem import Problem, ProblemKind
from gputop.transport.classify import Attempt, Phase
from gputop.transport.hostkeys import Entry, Judgement, KnownHosts, Verdict, judge, judge_authority, rejection
from gputop.transport.route import Hop

BANNER_CHARS = 2048


class Prompter(Protocol):
    """Asks a person what a server wants to know."""

    async def answers(
        self, host: str, title: str, text: str, questions: Sequence[tuple[str, bool]]
    ) -> list[str] | None:
        """One answer per question (its words, and whether the answer may be seen); `None`: the person gave up.

        All words come from the server and are untrusted."""
        ...


class Client(asyncssh.SSHClient):
    """Callbacks of one asyncssh connection."""

    def __init__(
        self,
        hop: Hop,
        attempt: Attempt,
        known: KnownHosts,
        *,
        timer: asyncio.Timeout,
        prompter: Prompter | None = None,
    ) -> None:
        self.attempt = attempt
        self.connection: asyncssh.SSHClientConnection | None = None
        self.ended: tuple[Exception | None] | None = None
        """Why the connection ended, once it has; `(None,)` when the server closed it in order."""
        self._hop = hop
        self._known = known
        self._timer = timer
        self._prompter = prompter
        resolved = hop.resolved
        self._name = resolved.host_key_alias or resolved.hostname
        self._port = 22 if resolved.host_key_alias else resolved.port
        self.entries: list[Entry] = known.entries(self._name, self._port, resolved.known_hosts)
        self._accepted: asyncssh.SSHKey | None = None
        self._given_up = False

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self.connection = conn

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = (exc,)

    def note_version(self) -> None:
        """Note in the attempt whether the server said its version: asyncssh has no callback for that."""
        said = self.connection is not None and self.connection.get_extra_info("server_version") is not None
        if said and self.attempt.phase is Phase.INTRODUCING:
            self.attempt.phase = Phase.KEY_EXCHANGE

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        algorithm, blob = key.algorithm.decode(), key.public_data
        verdict = judge(self.entries, algorithm, blob)
        if verdict.judgement is Judgement.TRUSTED:
            return True
        if verdict.judgement is Judgement.UNKNOWN and self._hop.host_keys is HostKeyPolicy.ACCEPT_NEW:
            self._accepted = key
            return True
        return self._reject(verdict, algorithm, blob)

    def validate_host_ca_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        algorithm, blob = key.algorithm.decode(), key.public_data
        verdict = judge_authority(self.entries, blob)
        return verdict.judgement is Judgement.TRUSTED or self._reject(verdict, algorithm, blob)

    def _reject(self, verdict: Verdict, algorithm: str, blob: bytes) -> bool:
        resolved = self._hop.resolved
        self.attempt.rejection = rejection(
            verdict,
            host=self._name,
            port=self._port,
            algorithm=algorithm,
            blob=blob,
            checking=resolved.checking,
            bad_lines=self._known.bad_lines(resolved.known_hosts),
            add_to=next(iter(resolved.known_hosts), str(self._known.own)),
            direct=self.attempt.jump is None and not self.attempt.proxy and resolved.host_key_alias is None,
        )
        return False

    def begin_auth(self, username: str) -> None:
        self.attempt.phase = Phase.AUTHENTICATION
        if self._accepted is not None:  # only now has the server proved that it holds the key
            self._keep(self._accepted)

    def _keep(self, key: asyncssh.SSHKey) -> None:
        """A new key that cannot be remembered is not accepted: the next login would accept any other one."""
        try:
            self._known.accept(self._name, self._port, key.algorithm.decode(), key.public_data)
        except OSError as error:
            self.attempt.rejection = Problem(
                kind=ProblemKind.HOST_KEY_UNKNOWN,
                summary=f"the new host key cannot be written to {self._known.own}: {error.strerror}",
                hint="make room for it there, or correct the rights of the folder",
            )
            raise asyncssh.HostKeyNotVerifiable("not remembered") from error

    def auth_completed(self) -> None:
        self.attempt.phase = Phase.SESSION

    def auth_banner_received(self, msg: str, lang: str) -> None:
        self.attempt.banner = (self.attempt.banner + msg)[-BANNER_CHARS:]

    def public_key_auth_requested(self) -> None:
        self.attempt.asked.append("publickey")

    async def password_auth_requested(self) -> str | None:
        answers = await self._ask("password", "", "", [(f"Password for {self.attempt.target}: ", False)])
        return answers[0] if answers else None

    def kbdint_auth_requested(self) -> str | None:
        if self._prompter is None or self._given_up:
            self.attempt.asked.append("keyboard-interactive")
            return None
        return ""

    async def kbdint_challenge_received(
        self, name: str, instructions: str, lang: str, prompts: Sequence[tuple[str, bool]]
    ) -> list[str] | None:
        if not prompts:
            return []
        return await self._ask("keyboard-interactive", name, instructions, prompts)

    async def _ask(self, method: str, title: str, text: str, questions: Sequence[tuple[str, bool]]) -> list[str] | None:
        """A person may take as long as the server allows: our own limit does not run meanwhile."""
        if self._prompter is None or self._given_up:
            self.attempt.asked.append(method)
            return None
        until = self._timer.when()
        self._timer.reschedule(None)
        answers = await self._prompter.answers(self._hop.name, title, text, questions)
        self._timer.reschedule(until and asyncio.get_running_loop().time() + self.attempt.limit_seconds)
        if answers is None:
            self._given_up = True
            self.attempt.asked.append(method)
        return answers
