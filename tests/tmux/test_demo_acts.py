"""The demo in a real terminal, over real SSH: a newcomer drains a host and lets it work again."""

from __future__ import annotations

import re
import sys
import time

import pytest

from gputop.sources.demo.hosts import plan
from gputop.sources.demo.messages import frame
from gputop.sources.demo.trouble import WELL, condition
from tests.tmux.pane import Pane, screen, wait_for

pytestmark = pytest.mark.tmux

HOSTS = 24


def see(pane: Pane, sign: str, *, after: str = "") -> str:
    """The screen, once it shows `sign`, behind `after`."""
    try:
        wait_for(lambda: sign in (pane.text().partition(after)[2] if after else pane.text()), repr(sign), seconds=40)
    except AssertionError as failure:
        raise AssertionError(f"{failure}\n{pane.text()}") from failure
    return pane.text()


def sound_host() -> str:
    """A host of the demo whose turn to be in trouble does not come soon, and whose work goes on for a while: a plan
    counts for the work that it shows."""
    now = time.time()
    return next(
        host.name
        for host in plan(hosts=HOSTS)
        if not host.is_mig
        and all(condition(host, now + seconds) == WELL for seconds in range(-90, 180, 10))
        and len({str(frame(host, now + seconds, 1)["processes"].get("pid")) for seconds in range(0, 60, 2)}) == 1
    )


def confirm(pane: Pane, host: str, *lines: str) -> None:
    """Type `lines` into what is asked before the phrase, then the phrase."""
    see(pane, "To confirm, type")
    for line in (*lines, host):
        before = fields(pane)
        pane.keys("Tab")
        wait_for(lambda before=before: fields(pane) != before, "the next field")
        pane.tmux("send-keys", "-l", line)
        see(pane, f" {line} ", after="Reason")
    see(pane, f" {host} ", after=f"To confirm, type {host}")
    if len(lines) > 1:
        wait_for(lambda: "fit for work" not in pane.text(), "the plan without the check that was set aside")
    pane.keys("Enter")
    wait_for(lambda: "To confirm" not in pane.text(), "the dialog to close")


def fields(pane: Pane) -> list[str]:
    """The lines of the dialog that are typed into, with their colors: they tell where the focus is."""
    drawn = pane.tmux("capture-pane", "-p", "-e").splitlines()
    return [line for line in drawn if any(name in line for name in ("Reason", "Set aside", "To confirm", "Cancel"))]


def test_a_host_of_the_demo_is_drained_and_resumed() -> None:
    with screen(100, 30, program=[sys.executable, "-m", "gputop", "demo", "--hosts", str(HOSTS)]) as pane:
        see(pane, "● ")
        host = sound_host()
        wait_for(lambda: re.search(rf"● {host} +ok ", pane.text()), f"{host} in order")
        assert "acts simulated" in pane.text()
        pane.keys("/")
        see(pane, "words to look for")
        pane.tmux("send-keys", "-l", host)
        pane.keys("Enter")
        see(pane, "1 shown")
        pane.keys("D")
        assert "simulated: nothing real is touched" in see(pane, "simulate drain")
        confirm(pane, host, "replace NIC")
        see(pane, "1 act under way")
        pane.keys("9")
        see(pane, "● verified, drained")
        see(pane, "by ")
        assert "replace NIC" in pane.text()
        pane.keys("Escape")
        assert " drained " in see(pane, "STATE")
        pane.keys("U")
        see(pane, "simulate resume")
        confirm(pane, host, "done", "another driver than its group, on purpose")
        pane.keys("9")
        assert "verified, active" in see(pane, "● resume ")
        pane.keys("Escape")
        see(pane, "STATE")
        pane.keys("q")
        assert pane.exit_code() == 0
        pane.assert_clean()
