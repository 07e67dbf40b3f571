"""Programs for a person at a terminal: in a pane of tmux beside us, or in our own terminal."""

from __future__ import annotations

import asyncio
import os
import signal
import termios
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from gputop.transport.spawn import signal_group, spawn

TMUX_SECONDS = 5.0
"""A tmux that does not answer by then does not answer."""
WIDE_COLUMNS = 160
"""In a terminal of so many, two panes stand side by side."""
END_SECONDS = 1.0
"""How long a program gets to give the terminal back."""
SSH_FAILED = 255
"""The exit status of ssh itself; all others come from the shell on the other side."""

ALSO_PASSED = ("SSH_AUTH_SOCK", "KRB5CCNAME")
"""Variables that a new pane gets from us: tmux may know others, and ours are those that reach the host."""

HOLD = """\
said=$1 failed=$2; shift 2
"$@"; code=$?
if [ "$code" -eq "$failed" ]; then printf '\\n%s' "$said"; read -r _; fi
exit "$code"
"""
"""A pane whose program fails with status `$2` stays open until Enter, so that its words can be read."""


async def in_tmux(argv: Sequence[str], environment: Mapping[str, str], columns: int) -> bool:
    """Run `argv` in a new pane beside ours, in a new window where there is no room; whether that was possible.

    tmux is given words, never a line for a shell."""
    pane = environment.get("TMUX_PANE")
    if not environment.get("TMUX") or not pane:
        return False
    passed = [f"{name}={value}" for name in ALSO_PASSED if (value := environment.get(name))]
    held = ["/bin/sh", "-c", HOLD, "gputop", "This was ssh. Enter closes the pane.", str(SSH_FAILED), *argv]
    words = [_kept_whole(word) for word in ("env", *passed, *held)]
    side = ("-h",) if columns >= WIDE_COLUMNS else ()
    for order in (("split-window", *side, "-t", pane), ("new-window",)):
        if await _tmux([*order, "--", *words], environment):
            return True
    return False


async def _tmux(words: Sequence[str], environment: Mapping[str, str]) -> bool:
    try:
        process = await spawn("tmux", *words, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, env=environment)
    except OSError:
        return False
    try:
        async with asyncio.timeout(TMUX_SECONDS):
            await process.communicate()
    except TimeoutError:
        return False
    finally:
        if process.returncode is None:
            signal_group(process, signal.SIGKILL)
            await process.wait()
    return process.returncode == 0


def _kept_whole(word: str) -> str:
    """tmux takes a semicolon at the end of a word for the end of its command."""
    return f"{word[:-1]}\\;" if word.endswith(";") else word


async def in_terminal(argv: Sequence[str], *, input: int, output: int) -> int | None:
    """Run `argv` in the terminal that is open as `input` and `output`; its exit status, `None` when a signal ended it.
    Raises `OSError` when it cannot be started. It shares our process group, so that ctrl-z stops both."""
    modes = _modes(input)
    process = await spawn(*argv, stdin=input, stdout=output, stderr=output, own_session=False)
    try:
        status = await process.wait()
    finally:
        if process.returncode is None:
            await _end(process)
        _take_back(input, modes)
    return status if status >= 0 else None


async def wait_for_enter(words: str, *, input: int, output: int) -> None:
    """Show `words` until somebody presses Enter."""
    script = "printf '\\n%s' \"$1\"; read -r _"
    await in_terminal(("/bin/sh", "-c", script, "gputop", words), input=input, output=output)


def tell(text: bytes, output: int) -> None:
    """Write to a terminal that is not drawn on now."""
    with suppress(OSError):
        os.write(output, text)


def _modes(terminal: int) -> list[Any] | None:
    try:
        return termios.tcgetattr(terminal)
    except termios.error:
        return None


def _take_back(terminal: int, modes: list[Any] | None) -> None:
    """Be in the foreground again, and with the modes from before: what was killed restores nothing."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        os.tcsetpgrp(terminal, os.getpgrp())
        if modes is not None:
            termios.tcsetattr(terminal, termios.TCSADRAIN, modes)
    except (OSError, termios.error):
        pass  # the terminal is gone
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


async def _end(process: asyncio.subprocess.Process) -> None:
    for number in (signal.SIGHUP, signal.SIGKILL):
        with suppress(ProcessLookupError):
            process.send_signal(number)
        with suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await process.wait()
                return
