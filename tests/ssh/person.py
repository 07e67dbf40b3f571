"""Somebody who answers, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from gputop.domain.question import Declined, HostKeyQuestion, LoginQuestion, PassphraseQuestion

Value = TypeVar("Value")
Answers = list[str] | Declined


async def _accept(question: HostKeyQuestion) -> bool:
    return True


async def _no_passphrase(question: PassphraseQuestion) -> str | None:
    return None


async def _nothing(question: LoginQuestion) -> Answers:
    return Declined.THIS


@dataclass
class ScriptedPerson:
    """Implements `ports.Person` by three functions, and remembers what it was asked."""

    on_key: Callable[[HostKeyQuestion], Awaitable[bool]] = _accept
    on_passphrase: Callable[[PassphraseQuestion], Awaitable[str | None]] = _no_passphrase
    on_login: Callable[[LoginQuestion], Awaitable[Answers]] = _nothing
    keys: list[HostKeyQuestion] = field(default_factory=list)
    passphrases: list[PassphraseQuestion] = field(default_factory=list)
    logins: list[LoginQuestion] = field(default_factory=list)
    open: int = 0
    """Questions that are asked now."""
    most: int = 0
    """The most logins that asked at a time."""
    withdrawn: int = 0
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by every question."""

    async def accepts(self, question: HostKeyQuestion) -> bool:
        self.keys.append(question)
        return await self._asked(self.on_key(question))

    async def passphrase(self, question: PassphraseQuestion) -> str | None:
        self.passphrases.append(question)
        return await self._asked(self.on_passphrase(question))

    async def answers(self, question: LoginQuestion) -> Answers:
        self.logins.append(question)
        self.most = max(self.most, self.open + 1)
        return await self._asked(self.on_login(question))

    async def _asked(self, answer: Awaitable[Value]) -> Value:
        self.open += 1
        self.asked.set()
        try:
            return await answer
        except asyncio.CancelledError:
            self.withdrawn += 1
            raise
        finally:
            self.open -= 1
