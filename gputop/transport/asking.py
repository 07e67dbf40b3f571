"""The one person, and the many logins that need an answer: each thing is asked once, one login asks at a time, and what
was not answered is not asked again before the person says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

from msgspec import structs

from gputop.domain.link import LinkFailure, LinkState
from gputop.domain.problem import Problem, ProblemKind
from gputop.domain.question import Declined, HostKeyQuestion, LoginQuestion, PassphraseQuestion, Prompt
from gputop.ports import Person
from gputop.transport.classify import Attempt, refused
from gputop.transport.hostkeys import KnownHosts, file_name, fingerprint
from gputop.transport.keys import Keyring
from gputop.transport.needed import AnotherAsks, LockedKey, Need, NewHostKey
from gputop.transport.route import Route
from gputop.transport.sshconfig import at_port
from gputop.transport.thread import in_thread
from gputop.transport.waits import Key, Waits, awaited

PASSPHRASE_TRIES = 3
"""As with ssh."""
SAID_CHARS = 200


class Turns:
    """Lets one login at a time ask, in the order they came."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._waiting: list[Key] = []

    async def take(self, key: Key) -> None:
        self._waiting.append(key)
        try:
            await self._lock.acquire()
        finally:
            self._waiting.remove(key)

    def leave(self) -> None:
        self._lock.release()

    @property
    def is_free(self) -> bool:
        return not self._lock.locked() and not self._waiting

    def others(self, key: Key) -> int:
        """Logins to other servers than `key` that wait."""
        return len(set(self._waiting) - {key})


@dataclass(eq=False, slots=True)
class _Unlocking:
    """A key file whose passphrase is being asked for, and the logins that wait for it."""

    task: asyncio.Task[None]
    keys: list[Key]


class Interview:
    """The questions of one login."""

    def __init__(self, asking: Asking, route: Route) -> None:
        self._asking = asking
        self._route = route
        self._key = key_of(route)
        self._has_turn = False
        self._is_over = False
        self._told = AsyncExitStack()

    async def begin(self) -> bool:
        """Whether the login may ask now: nobody else does, it was not declined, and nobody made it meanwhile."""
        asking, key = self._asking, self._key
        is_wanted = not asking.is_declined(key) and not asking.is_made(key)
        if not self._has_turn and asking.turns.is_free and is_wanted:
            await self._asking.turns.take(self._key)
            self._has_turn = True
        return self._has_turn

    async def wait(self) -> None:
        """Wait until the login may ask."""
        if not self._has_turn:
            await self._asking.turns.take(self._key)
            self._has_turn = True

    def leave(self) -> None:
        """Let another login ask."""
        if self._has_turn:
            self._has_turn = False
            self._asking.turns.leave()

    async def end(self) -> None:
        self._is_over = True
        self.leave()
        await self._hush()

    async def answers(
        self, text: str, prompts: Sequence[tuple[str, bool]], *, is_kbdint: bool, was_refused: bool
    ) -> list[str] | Declined:
        """What the person answers to the words of the server."""
        await self._hush()
        asking, hop = self._asking, self._route[-1]
        question = LoginQuestion(
            host=hop.name,
            target=hop.resolved.target,
            jump=self._route[-2].name if len(self._route) > 1 else None,
            text=text,
            prompts=tuple(Prompt(words=words, is_shown=is_shown) for words, is_shown in prompts),
            is_kbdint=is_kbdint,
            was_refused=was_refused,
            hosts=lambda: asking.waits.hosts(self._key),
            others=lambda: asking.turns.others(self._key),
            is_over=lambda: self._is_over,
        )
        assert asking.person is not None
        problem = awaited(f"{hop.resolved.target} asks for a password or a code")
        async with asking.waits.waiting(self._key, hop.name, problem):
            return await asking.person.answers(question)

    async def tell(self, words: str) -> None:
        """The server said something that asks for no answer here: to press a button on a telephone, perhaps."""
        await self._hush()
        hop = self._route[-1]
        said = " ".join(words.split())
        problem = Problem(kind=ProblemKind.ANSWER_AWAITED, summary=f"{hop.resolved.target} says: {said}"[:SAID_CHARS])
        await self._told.enter_async_context(self._asking.waits.waiting(self._key, hop.name, problem))

    async def _hush(self) -> None:
        """What was told last holds no more."""
        await self._told.aclose()

    def decline(self, declined: Declined) -> None:
        """The person does not answer this login."""
        self._asking.decline(self._key, declined)


@dataclass(slots=True)
class Asking:
    """Asks `person`; `None`: there is nobody."""

    person: Person | None
    known: KnownHosts
    keyring: Keyring
    waits: Waits
    is_made: Callable[[Key], bool]
    """Whether a login that a person answered for stands, to be shared."""
    turns: Turns = field(default_factory=Turns)
    _declined: set[Key | tuple[str, bytes]] = field(default_factory=set)
    """Logins, and host keys by server and key."""
    _locked: dict[str, str] = field(default_factory=dict)
    """Key files that stay locked, and why."""
    _declines_logins: bool = False
    _unlocking: dict[str, _Unlocking] = field(default_factory=dict)
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def forget(self) -> None:
        """What was declined is asked again."""
        self._declined.clear()
        self._locked.clear()
        self._declines_logins = False

    async def close(self) -> None:
        """Withdraw what is still asked."""
        tasks = [unlocking.task for unlocking in self._unlocking.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def may_unlock(self, path: str) -> bool:
        """Whether the passphrase of a key file may be asked for."""
        return self.person is not None and path not in self._locked

    def why_locked(self, path: str) -> str:
        """Why the key in `path` stays locked; empty: nobody was asked."""
        return self._locked.get(path, "")

    def is_declined(self, login: Key) -> bool:
        return self._declines_logins or login in self._declined

    def decline(self, login: Key, declined: Declined) -> None:
        self._declined.add(login)
        self._declines_logins |= declined is Declined.ALL

    @asynccontextmanager
    async def interview(self, route: Route) -> AsyncIterator[Interview | None]:
        """Around all that one login takes; `None`: nobody can be asked."""
        if self.person is None:
            yield None
            return
        interview = Interview(self, route)
        try:
            yield interview
        finally:
            await interview.end()

    async def settle(
        self, need: Need, route: Route, attempt: Attempt, interview: Interview | None, locked: set[str]
    ) -> LinkFailure | None:
        """See to it that `attempt`, which ended for want of an answer, can be made again; else why it is of no use.
        A key file that stays locked is added to `locked`."""
        match need:
            case NewHostKey():
                return await self._host_key(need, route, attempt)
            case LockedKey():
                await self._unlock(need.path, route)
                if not self.keyring.is_locked(need.path):
                    return None
                locked.add(need.path)
                if interview is not None or attempt.has_open_key:
                    return None  # without that key, other keys or a password may be taken
                attempt.encrypted = [need.path]
                return refused(attempt)
            case AnotherAsks():
                assert interview is not None
                key, hop = key_of(route), route[-1]
                problem = Problem(
                    kind=ProblemKind.ANSWER_AWAITED,
                    summary=f"waits for its turn to ask you for a password or a code of {hop.resolved.target}",
                )
                if not self.is_declined(key):
                    async with self.waits.waiting(key, hop.name, problem):
                        await interview.wait()
                if self.is_declined(key):
                    attempt.has_given_up = True
                    return refused(attempt)
                return None

    async def _host_key(self, need: NewHostKey, route: Route, attempt: Attempt) -> LinkFailure | None:
        key, hop = key_of(route), route[-1]
        name, port = hop.known_as
        server = file_name(name, port)
        assert attempt.rejection is not None
        failure = LinkFailure(state=LinkState.HOST_KEY_REJECTED, problem=attempt.rejection)
        if (server, need.blob) in self._declined:
            return failure
        assert self.person is not None
        question = HostKeyQuestion(
            host=hop.name,
            server=server,
            target=at_port(hop.resolved.hostname, hop.resolved.port),
            jump=route[-2].name if len(route) > 1 else None,
            algorithm=need.algorithm,
            fingerprint=fingerprint(need.blob),
            hosts=lambda: self.waits.hosts(key),
        )
        async with self.waits.waiting(key, hop.name, awaited(f"is {fingerprint(need.blob)} the key of {server}?")):
            is_accepted = await self.person.accepts(question)
        if not is_accepted:
            self._declined.add((server, need.blob))
            return failure
        try:
            async with self._writing:  # hundreds may have been accepted at once
                await in_thread(lambda: self.known.accept(name, port, need.algorithm, need.blob), "gputop-known-hosts")
        except OSError as error:
            summary = f"the accepted host key cannot be written to {self.known.own}: {error.strerror}"
            hint = "make room for it there, or correct the rights of the folder"
            return structs.replace(failure, problem=structs.replace(attempt.rejection, summary=summary, hint=hint))
        return None

    async def _unlock(self, path: str, route: Route) -> None:
        """Have the passphrase asked for, once for all logins that wait for it now."""
        key = key_of(route)
        if not self.may_unlock(path) or not self.keyring.is_locked(path):
            return
        unlocking = self._unlocking.get(path)
        if unlocking is None:
            keys: list[Key] = []
            task = asyncio.create_task(self._ask_passphrase(path, keys))
            unlocking = self._unlocking[path] = _Unlocking(task, keys)
        unlocking.keys.append(key)
        try:
            async with self.waits.waiting(key, route[-1].name, awaited(f"the passphrase of {path}")):
                await asyncio.shield(unlocking.task)
        finally:
            unlocking.keys.remove(key)
            if not unlocking.keys:  # nobody waits for it any more
                unlocking.task.cancel()
                if self._unlocking.get(path) is unlocking:
                    del self._unlocking[path]

    async def _ask_passphrase(self, path: str, keys: list[Key]) -> None:
        """Ask until the key opens or the person has enough of it."""

        def hosts() -> tuple[str, ...]:
            return tuple(dict.fromkeys(host for key in keys for host in self.waits.hosts(key)))

        assert self.person is not None
        is_over = False
        question = PassphraseQuestion(
            path=path, wrong=0, said="", tries=PASSPHRASE_TRIES, hosts=hosts, is_over=lambda: is_over
        )
        try:
            while question.wrong < PASSPHRASE_TRIES:
                passphrase = await self.person.passphrase(question)
                if passphrase is None:
                    self._locked[path] = "its passphrase was not given"
                    return
                said = await self.keyring.unlock(path, passphrase)
                if said is None:
                    return
                question = replace(question, wrong=question.wrong + 1, said=said)
            self._locked[path] = f"{PASSPHRASE_TRIES} passphrases did not open it ({question.said})"
        finally:
            is_over = True


def key_of(route: Route) -> Key:
    return tuple(hop.resolved.target for hop in route)
