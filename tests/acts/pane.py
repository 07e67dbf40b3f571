"""The screen in a real terminal, on real machines, driven as a person does."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.tmux.pane import Pane, screen, wait_for

SIZE = (120, 36)
SECONDS = 60.0


@contextmanager
def gputop_on(
    inventory: Path, *hosts: str, state: Path, allowed: bool = True, size: tuple[int, int] = SIZE
) -> Iterator[Pane]:
    """gputop on `hosts` of the inventory, once each of them has answered."""
    program = [sys.executable, "-m", "gputop", "-f", str(inventory), *hosts]
    program += ["--allow-actions"] if allowed else []
    with screen(*size, program=program, XDG_STATE_HOME=str(state)) as pane:
        for host in hosts:
            see(pane, rf"{host} +(ok|degraded|drained) ", as_pattern=True)
        yield pane


def see(pane: Pane, sign: str, *, as_pattern: bool = False, seconds: float = SECONDS) -> str:
    """The screen, once it shows `sign`."""
    pattern = re.compile(sign if as_pattern else re.escape(sign))
    try:
        wait_for(lambda: pattern.search(pane.text()), repr(sign), seconds=seconds)
    except AssertionError as failure:
        raise AssertionError(f"{failure}\n{pane.text()}") from failure
    return pane.text()


def type_in(pane: Pane, text: str) -> None:
    pane.tmux("send-keys", "-l", text)


def focused(pane: Pane) -> str:
    """The label of the button that has the focus, which is drawn in bold; empty: none has."""
    drawn = pane.tmux("capture-pane", "-p", "-e").splitlines()
    last = next((line for line in reversed(drawn) if " Cancel " in re.sub(r"\x1b\[[0-9;]*m", "", line)), "")
    found = re.search(r"\x1b\[(?:[0-9;]*;)?1(?:;[0-9;]*)?m(?:\x1b\[[0-9;]*m)*([^\x1b]+)", last)
    return found[1].strip() if found else ""


def press(pane: Pane, label: str) -> None:
    """Go to a button and press it. A key from before the dialog can have been read does nothing, so it is pressed
    again."""
    for _ in range(20):
        before = focused(pane)
        if before == label:
            pane.keys("Enter")
            return
        pane.keys("Right")
        try:
            wait_for(lambda before=before: focused(pane) != before, "the focus to move", seconds=2)
        except AssertionError:
            continue
    raise AssertionError(f"no button {label}\n{pane.text()}")


def confirm(pane: Pane, phrase: str, *fields: str) -> None:
    """Fill in the plan that is shown, and let it be done."""
    fill_in(pane, phrase, *fields)
    pane.keys("Enter")
    closed(pane)


def fill_in(pane: Pane, phrase: str, *fields: str) -> None:
    """Type `fields`, those before the phrase, and the phrase."""
    see(pane, "To confirm, type")
    pane.keys("Tab")
    for text in fields:
        type_in(pane, text)
        pane.keys("Enter")
    type_in(pane, phrase)
    see(pane, rf"To confirm, type {phrase} +{phrase} ", as_pattern=True)


def closed(pane: Pane) -> None:
    """Until no dialog is open."""
    try:
        wait_for(lambda: " Cancel " not in pane.text(), "the dialog to close")
    except AssertionError as failure:
        raise AssertionError(f"{failure}\n{pane.text()}") from failure


def cancel(pane: Pane) -> None:
    pane.keys("Escape")
    closed(pane)


def back(pane: Pane) -> None:
    """To the table. One step at a time: two escapes at once are another key."""
    while "  1 Hosts  2 GPUs  " not in pane.text():
        before = pane.text()
        pane.keys("Escape")
        wait_for(lambda before=before: pane.text() != before, "a step back")


def leave(pane: Pane) -> None:
    back(pane)
    pane.keys("C-c")
    assert pane.exit_code() == 0
    pane.assert_clean()
