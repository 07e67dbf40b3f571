"""The filter line: text to a predicate over rows.

Today a filter is a list of words; a row passes when each word is a part of one of its texts, whatever the case. A word
that begins with `!` must not be found. A language with fields and comparisons can take its place behind the same
function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

Predicate = Callable[[Iterable[str | None]], bool]


def parse_filter(text: str) -> Predicate:
    """A predicate over the searchable texts of one row (name, model, user, label, state, …)."""
    words = text.casefold().split()
    wanted = [word for word in words if not word.startswith("!")]
    unwanted = [word[1:] for word in words if word.startswith("!") and len(word) > 1]

    def passes(texts: Iterable[str | None]) -> bool:
        haystack = "\n".join(part for part in texts if part).casefold()
        return all(word in haystack for word in wanted) and not any(word in haystack for word in unwanted)

    return passes
