"""What gputop says on standard error, and the exit codes of every command."""

from __future__ import annotations

import sys
from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of every command; docs/reference/json.md explains them."""

    DONE = 0
    """Done, and every host asked answered."""
    PARTIAL = 1
    """Done, but a host or device could not be read, an act failed, could not be verified or (without `--no-wait`)
    waits still, or gputop itself failed."""
    USAGE = 2
    """Usage or configuration error; nothing was done."""
    NOTHING = 3
    """Nothing could be read at all."""
    REFUSED = 4
    """Refused by a guard; nothing was done."""
    INTERRUPTED = 130
    """Ctrl-C."""


LINE_CHARACTERS = 500


def say(text: str) -> None:
    """Write one message for a person to standard error; control characters in it are written as escapes, and lines
    that are too long for people are cut.

    A closed standard error is nobody listening."""
    if sys.stderr is None:
        return
    lines = [line if len(line) <= LINE_CHARACTERS else f"{line[:LINE_CHARACTERS]}…" for line in text.split("\n")]
    shown = "\n".join("".join(c if c.isprintable() else ascii(c)[1:-1] for c in line) for line in lines)
    try:
        print(shown, file=sys.stderr, flush=True)
    except OSError:
        return


def fail(summary: str, hint: str | None = None, *, code: Exit = Exit.USAGE) -> Exit:
    """Say what is wrong and what to do next, one line each; the exit code to return."""
    say(f"gputop: {summary}")
    if hint is not None:
        say(f"        {hint}")
    return code


def suggestion(word: str, known: list[str], *, cutoff: float = 0.6) -> str | None:
    """The known word that `word` most likely stands for; `None` when none is near."""
    from difflib import get_close_matches  # only a mistake needs it

    near = get_close_matches(word, known, n=1, cutoff=cutoff)
    return near[0] if near else None
