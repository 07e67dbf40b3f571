"""The demo in a real terminal, over real SSH: a newcomer drains a host and lets it work again."""

from __future__ import annotations

import re
import sys
import time

import pytest

from gputop.sources.demo.hosts import plan
from gputop.sources.demo.trouble import WELL, condition
from tests.tmux.pane import Pane, screen, wait_for

pytestmark = pytest.mark.tmux

HOSTS = 16


def see(pane: Pane, sign: str) -> str:
    """The screen, once it shows `sign`."""
    try:
        wait_for(lambda: sign in pane.text(), repr(sign), seconds=40)
    except AssertionError as failure:
        raise AssertionError(f"{failure}\n{pane.text()}") from failure
    return pane.text()


def sound_host() -> str:
    """A host of the demo whose turn to be in trouble does not come soon."""
    now = time.time()
    soon = [now + seconds for seconds in range(-90, 180, 10)]
    return next(
        host.name
        for host in plan(hosts=HOSTS)
        if not host.is_mig and all(condition(host, moment) == WELL for moment in soon)
    )


def confirm(pane: Pane, host: str, reason: str) -> None:
    see(pane, "To confirm, type")
    pane.keys("Tab")
    pane.tmux("send-keys", "-l", reason)
    pane.keys("Tab")
    pane.tmux("send-keys", "-l", host)
    see(pane, f"To confirm, type {host}")
    wait_for(lambda: re.search(rf"type {host} +{host} ", pane.text()), "the phrase to be typed")
    pane.keys("Enter")
    wait_for(lambda: "To confirm" not in pane.text(), "the dialog to close")


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
        confirm(pane, host, "done")
        pane.keys("9")
        assert re.search(r"resume +\S+ +(verified|unverified|failed|pending)", see(pane, "● resume "))
        pane.keys("Escape")
        see(pane, "STATE")
        pane.keys("q")
        assert pane.exit_code() == 0
        pane.assert_clean()
