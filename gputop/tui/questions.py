"""What is asked now, between the connections that ask and the screen that shows it. Knows nothing of Textual."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gputop.domain.question import Declined, HostKeyQuestion, LoginQuestion, PassphraseQuestion

Question = TypeVar("Question")
Answer = TypeVar("Answer")


@dataclass(eq=False, slots=True)
class Asked(Generic[Question, Answer]):
    """One question, until it is answered or withdrawn."""

    question: Question
    future: asyncio.Future[Answer]

    @property
    def is_open(self) -> bool:
        return not self.future.done()

    def answer(self, answer: Answer) -> None:
        """Nothing happens to one that was withdrawn meanwhile."""
        if self.is_open:
            self.future.set_result(answer)


AskedKey = Asked[HostKeyQuestion, bool]
AskedPassphrase = Asked[PassphraseQuestion, str | None]
AskedLogin = Asked[LoginQuestion, list[str] | Declined]


@dataclass
class Questions:
    """Implements `ports.Person`: whoever looks at the screen."""

    keys: list[AskedKey] = field(default_factory=list)
    """Oldest first, here and below."""
    passphrases: list[AskedPassphrase] = field(default_factory=list)
    logins: list[AskedLogin] = field(default_factory=list)
    changed: Callable[[], None] = lambda: None
    """Called whenever there is another question, or one less."""

    async def accepts(self, question: HostKeyQuestion) -> bool:
        return await self._ask(self.keys, question)

    async def passphrase(self, question: PassphraseQuestion) -> str | None:
        return await self._ask(self.passphrases, question)

    async def answers(self, question: LoginQuestion) -> list[str] | Declined:
        return await self._ask(self.logins, question)

    @property
    def count(self) -> int:
        """Questions that wait for an answer, and logins that will ask once another is over."""
        logins = [asked for asked in self.logins if asked.is_open]
        others = max((asked.question.others() for asked in logins), default=0)
        rest: list[AskedKey | AskedPassphrase] = [*self.keys, *self.passphrases]
        return sum(asked.is_open for asked in rest) + len(logins) + others

    async def _ask(self, among: list[Asked[Question, Answer]], question: Question) -> Answer:
        asked: Asked[Question, Answer] = Asked(question, asyncio.get_running_loop().create_future())
        among.append(asked)
        self.changed()
        try:
            return await asked.future
        finally:
            among.remove(asked)
            self.changed()
