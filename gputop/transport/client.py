"""Our side of one login: judges the host key, answers for a person, notes how far it came."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import asyncssh

from gputop.domain.host import HostKeyPolicy
from gputop.domain.problem import Problem, ProblemKind
from gputop.domain.question import Declined
from gputop.transport.asking import Interview
from gputop.transport.classify import Attempt, Phase
from gputop.transport.hostkeys import Entry, Judgement, KnownHosts, Verdict, judge, judge_authority, rejection
from gputop.transport.needed import AnotherAsks, LockedKey, NewHostKey, PersonNeeded
from gputop.transport.route import Hop

BANNER_CHARS = 2048
SAID_CHARS = 4096
KBDINT = "keyboard-interactive"
PASSWORD = "password"
LOGIN_TRIES = 3
"""Answers that a server may refuse, as with ssh."""
MOST_PROMPTS = 20
"""A server that wants to know more at once is not after a login."""
ANSWERED_SECONDS = 120.0
"""For what follows an answer: it may be a button on a telephone, for which a server waits this long."""


class Client(asyncssh.SSHClient):
    """Callbacks of one asyncssh connection."""

    def __init__(
        self,
        hop: Hop,
        attempt: Attempt,
        known: KnownHosts,
        *,
        timer: asyncio.Timeout,
        interview: Interview | None = None,
        step_aside: Callable[[], Awaitable[None]] | None = None,
        sealed: Sequence[str] = (),
    ) -> None:
        """`timer`: of the login. `interview`: its way to a person; `step_aside` gives up the places that others need,
        before one is asked. `sealed`: key files that show nothing before their passphrase is known."""
        self.attempt = attempt
        self.connection: asyncssh.SSHClientConnection | None = None
        self.ended: tuple[Exception | None] | None = None
        """Why the connection ended, once it has; `(None,)` when the server closed it in order."""
        self._hop = hop
        self._known = known
        self._timer = timer
        self._interview = interview
        self._step_aside = step_aside
        self._sealed = sealed
        self._name, self._port = hop.known_as
        self.entries: list[Entry] = known.entries(self._name, self._port, hop.resolved.known_hosts)
        self._accepted: asyncssh.SSHKey | None = None
        self._requests: Counter[str] = Counter()
        """How often the server let us begin, by method."""
        self._tries = 0
        """Of these those in which a person was asked."""
        self._is_new = False
        self._was_challenged = False
        self._answered = ""
        """The method of the last answer."""
        self._is_refused = False
        self._said: list[str] = []
        """Words of the server that came without a question."""

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
        policy = self._hop.host_keys
        if verdict.judgement is Judgement.UNKNOWN and policy is HostKeyPolicy.ASK and self._interview is not None:
            self._reject(verdict, algorithm, blob)  # once it is proved that the server holds it
            self._accepted = key
            return True
        if verdict.judgement is Judgement.UNKNOWN and policy is HostKeyPolicy.ACCEPT_NEW:
            self._accepted = key
            return True
        return self._reject(verdict, algorithm, blob)

    def validate_host_ca_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        algorithm, blob = key.algorithm.decode(), key.public_data
        verdict = judge_authority(self.entries, blob)
        return verdict.judgement is Judgement.TRUSTED or self._reject(
            verdict, algorithm, blob, policy=HostKeyPolicy.STRICT
        )

    def _reject(self, verdict: Verdict, algorithm: str, blob: bytes, *, policy: HostKeyPolicy | None = None) -> bool:
        """`policy`: other than the host's own."""
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
            policy=policy or self._hop.host_keys,
            has_person=self._interview is not None,
        )
        return False

    def begin_auth(self, username: str) -> None:
        self.attempt.phase = Phase.AUTHENTICATION
        key = self._accepted
        if key is None:
            return
        # Only now has the server proved that it holds the key.
        if self._hop.host_keys is HostKeyPolicy.ASK:
            raise PersonNeeded(NewHostKey(key.algorithm.decode(), key.public_data))
        self._keep(key)

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
        self._said.append(msg[-BANNER_CHARS:])

    def public_key_auth_requested(self) -> None:
        """The server took no key so far."""
        if self._sealed:
            raise PersonNeeded(LockedKey(self._sealed[0]))
        self.attempt.asked.append("publickey")

    async def password_auth_requested(self) -> str | None:
        if not await self._may_ask(PASSWORD):
            return None
        answers = await self._ask("", [("Password", False)], is_kbdint=False)
        return answers[0] if answers else None

    async def kbdint_auth_requested(self) -> str | None:
        return "" if await self._may_ask(KBDINT) else None

    async def kbdint_challenge_received(
        self, name: str, instructions: str, lang: str, prompts: Sequence[tuple[str, bool]]
    ) -> list[str] | None:
        self._was_challenged = True
        if len(prompts) > MOST_PROMPTS:
            self.attempt.asked.append(KBDINT)
            return None
        words = "\n".join(part for part in (name, instructions) if part.strip())
        if prompts:
            return await self._ask(words, prompts)
        if words and self._interview is not None:
            self._said.append(words)
            await self._interview.tell(words)
            self._give_time()
        return []

    async def _may_ask(self, method: str) -> bool:
        """Whether a person can answer now. Ends the login while another one asks."""
        is_mute = method == KBDINT and self._requests[KBDINT] > 0 and not self._was_challenged
        is_used_up = max(self._tries, self._requests[method]) >= LOGIN_TRIES or is_mute
        if self._interview is None or self.attempt.has_given_up or is_used_up:
            self.attempt.asked.append(method)
            return False
        if not await self._interview.begin():
            self.attempt.asked.append(method)
            raise PersonNeeded(AnotherAsks())
        self._requests[method] += 1
        self._is_new = True
        self._is_refused = method == self._answered
        return True

    async def _ask(
        self, words: str, prompts: Sequence[tuple[str, bool]], *, is_kbdint: bool = True
    ) -> list[str] | None:
        """A person may take as long as the server allows: our own limit does not run meanwhile, nor does anybody else
        wait for our place."""
        assert self._interview is not None
        method = KBDINT if is_kbdint else PASSWORD
        self._tries += self._is_new
        self._is_new = False
        self._limit(None)
        if self._step_aside is not None:
            await self._step_aside()
        text = "\n".join([*self._said, words])[-SAID_CHARS:]
        self._said.clear()
        self.attempt.is_asking = True
        answers = await self._interview.answers(text, prompts, is_kbdint=is_kbdint, was_refused=self._is_refused)
        self.attempt.is_asking = False
        self._is_refused = False
        self._give_time()
        if isinstance(answers, Declined):
            self.attempt.has_given_up = True
            self._interview.decline(answers)
            return None
        self.attempt.answers_given += 1
        self._answered = method
        return answers

    def _give_time(self) -> None:
        self.attempt.limit_seconds = ANSWERED_SECONDS
        self._limit(asyncio.get_running_loop().time() + ANSWERED_SECONDS)

    def _limit(self, when: float | None) -> None:
        with suppress(RuntimeError):  # its time is over already, and with it the login
            self._timer.reschedule(when)
