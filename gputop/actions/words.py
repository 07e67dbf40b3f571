"""What people type into a request. It goes into logs, terminals, markers and schedulers that others read: one line,
without controls, direction overrides and invisible characters, and not without end."""

from __future__ import annotations

from msgspec import structs

from gputop.catalog.text import clean
from gputop.domain.action import MOST_CHARACTERS, ActionRequest
from gputop.domain.problem import Problem, ProblemKind

WORDS = ("reason", "override", "text")


def one_line(text: str) -> str:
    return clean(text).strip()


def in_plain_words(request: ActionRequest) -> ActionRequest | Problem:
    """The request that is planned."""
    words = {name: one_line(getattr(request, name)) for name in WORDS}
    for name, text in words.items():
        if len(text) > MOST_CHARACTERS:
            summary = f"the {name} has {len(text):,} characters, the most is {MOST_CHARACTERS}"
            return Problem(kind=ProblemKind.INTERNAL, summary=summary)
    return structs.replace(request, **words)
