"""The demo in a real terminal, over real SSH: a newcomer drains hosts, stops and reboots them, and lets them work
again. Everything is marked as simulated, and rows tell the truth at each stage."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gputop.sources.demo.hosts import plan
from gputop.sources.demo.trouble import WELL, condition
from tests.tmux.pane import Pane, screen, wait_for

pytestmark = pytest.mark.tmux

HOSTS = 24


def see(pane: Pane, sign: str, *, after: str = "", seconds: float = 60) -> str:
    """The screen, once it shows `sign`, behind `after`."""
    try:
        wait_for(
            lambda: sign in (pane.text().partition(after)[2] if after else pane.text()), repr(sign), seconds=seconds
        )
    except AssertionError as failure:
        raise AssertionError(f"{failure}\n{pane.text()}") from failure
    return pane.text()


def sound_host() -> str:
    """A host of the demo whose turn to be in trouble does not come soon."""
    now = time.time()
    return next(
        host.name
        for host in plan(hosts=HOSTS)
        if not host.is_mig and all(condition(host, now + seconds) == WELL for seconds in range(-120, 240, 10))
    )


def word(pane: Pane, host: str) -> str:
    """What the row of a host says of its state; empty while there is no such row."""
    found = re.search(rf"^\W* *{host} +(\S+)", pane.text(), re.MULTILINE)
    return found[1] if found else ""


def wait_for_word(pane: Pane, host: str, wanted: str, *, never: str = "", seconds: float = 60) -> None:
    """Until the row says `wanted`; on the way it must not say `never`."""
    seen: list[str] = []

    def look() -> bool:
        seen.append(word(pane, host))
        assert not never or seen[-1] != never, f"the row claims {never}\n{pane.text()}"
        return seen[-1] == wanted

    wait_for(look, f"{host} {wanted}, it said {seen[-1:]}", seconds=seconds)


def confirm(pane: Pane, host: str, *lines: str) -> None:
    """Go through the fields of the dialog that is open, `lines` into those before the phrase: all at once, as somebody
    does who knows them."""
    see(pane, "To confirm, type")
    pane.keys("Tab")
    for line in lines:
        if line:
            pane.tmux("send-keys", "-l", line)
        pane.keys("Enter")
    pane.tmux("send-keys", "-l", host)
    see(pane, f" {host} ", after=f"To confirm, type {host}")
    pane.keys("Enter")
    wait_for(lambda: "To confirm" not in pane.text(), "the dialog to close")


@contextmanager
def demo(columns: int = 110, lines: int = 32) -> Iterator[tuple[Pane, str]]:
    """The demo in a pane, with the cursor on a host in order; and its name."""
    with screen(columns, lines, program=[sys.executable, "-m", "gputop", "demo", "--hosts", str(HOSTS)]) as pane:
        see(pane, "● ")
        host = sound_host()
        wait_for_word(pane, host, "ok")
        assert "acts simulated" in pane.text()
        pane.keys("/")
        see(pane, "words to look for")
        pane.tmux("send-keys", "-l", host)
        pane.keys("Enter")
        see(pane, "1 shown")
        yield pane, host


def drain(pane: Pane, host: str) -> None:
    pane.keys("D")
    assert "simulated: nothing real is touched" in see(pane, "simulate drain")
    confirm(pane, host, "replace NIC", "2h")
    wait_for_word(pane, host, "draining", never="drained")
    wait_for_word(pane, host, "drained")


def resume(pane: Pane, host: str) -> None:
    pane.keys("U")
    see(pane, "simulate resume")
    confirm(pane, host, "done", "")
    wait_for_word(pane, host, "ok", never="degraded")


def back_to_hosts(pane: Pane) -> None:
    """One step at a time: two escapes at once are another key."""
    while " STATE" not in pane.text():
        before = pane.text()
        pane.keys("Escape")
        wait_for(lambda before=before: pane.text() != before, "a step back")


def leave(pane: Pane) -> None:
    pane.keys("q")
    assert pane.exit_code() == 0
    pane.assert_clean()


def test_a_host_of_the_demo_is_drained_for_a_time_and_resumed_through_the_gate() -> None:
    with demo() as (pane, host):
        drain(pane, host)
        assert "drained by" in see(pane, "replace NIC")
        pane.keys("9")
        text = see(pane, "Hosts that take no new work")
        see(pane, "the simulated scheduler says so, asked")
        assert re.search(r"until \d\d:\d\d:\d\d \(", text), text
        back_to_hosts(pane)
        resume(pane, host)
        pane.keys("9")
        text = see(pane, "● Resume")
        assert "Hosts that take no new work" not in text
        pane.keys("Enter")
        assert "link width: ok full" in see(pane, "driver: ok"), "the items of the gate"
        back_to_hosts(pane)
        leave(pane)


def test_a_drained_host_of_the_demo_is_stopped_and_started_and_is_still_drained_then() -> None:
    with demo() as (pane, host):
        drain(pane, host)
        pane.keys("X")
        assert "simulated: nothing real is touched" in see(pane, "simulate stop")
        assert "simulated: there is no bill" in pane.text()
        confirm(pane, host, "new fans")
        wait_for_word(pane, host, "stopped")
        see(pane, "✕")
        pane.keys("O")
        assert "no reading of now" in see(pane, "simulate start")
        confirm(pane, host, "")
        wait_for_word(pane, host, "starting", never="drained")
        wait_for_word(pane, host, "drained")
        resume(pane, host)
        leave(pane)


def test_a_drained_host_of_the_demo_is_rebooted_and_proven_by_another_boot() -> None:
    with demo() as (pane, host):
        pane.keys("B")
        text = see(pane, "not drained")
        assert 'drain it first ("Drain instead" below)' in text
        pane.keys("Left", "Enter")
        see(pane, f"Drain {host}")
        see(pane, "simulate drain")
        pane.keys("Escape")
        wait_for(lambda: "To confirm" not in pane.text(), "the dialog to close")
        drain(pane, host)
        pane.keys("B")
        see(pane, "simulate reboot")
        confirm(pane, host, "new kernel")
        wait_for_word(pane, host, "rebooting", never="ok")
        pane.keys("9")
        see(pane, "● verified, drained")
        pane.keys("Enter")
        assert "a new boot" in see(pane, "boot_id: ")
        back_to_hosts(pane)
        wait_for_word(pane, host, "drained")
        resume(pane, host)
        leave(pane)


def test_what_is_typed_right_behind_tab_in_a_terminal_lands_in_the_next_field() -> None:
    with demo() as (pane, host):
        pane.keys("D")
        see(pane, "To confirm, type")
        pane.tmux("send-keys", "Tab", "f", "a", "n", "Tab", "3", "h", "Tab", *host)
        text = see(pane, f" {host} ", after=f"To confirm, type {host}")
        assert re.search(r"Reason +fan ", text), text
        assert re.search(r"For +3h ", text), text
        pane.keys("Escape")
        wait_for(lambda: "To confirm" not in pane.text(), "the dialog to close")
        leave(pane)


def test_quitting_while_an_act_is_under_way_asks_in_the_demo_too() -> None:
    with demo() as (pane, host):
        pane.keys("D")
        confirm(pane, host, "fan", "")
        wait_for_word(pane, host, "draining")
        pane.keys("q")
        assert "1 act under way. Nothing more of it is begun" in see(pane, "the next demo knows nothing of it")
        pane.keys("Enter")
        wait_for(lambda: "the next demo" not in pane.text(), "the dialog to close")
        pane.keys("q")
        see(pane, "the next demo knows nothing")
        pane.keys("Right", "Enter")
        assert pane.exit_code() == 0
        pane.assert_clean()
