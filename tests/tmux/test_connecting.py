"""gputop in a real terminal against real SSH servers that nobody knows yet, or that ask: answered by keys."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest
import yaml

from tests.needs import missing, need
from tests.ssh.fleet import CODE, ONE_STEP, PASSWORD, TWO_STEPS, Fleet, new_folder
from tests.tmux.pane import Pane, screen, wait_for

pytestmark = [pytest.mark.tmux, pytest.mark.sshd]

T = TypeVar("T")
NVML = Path(__file__).parents[1] / "fixtures" / "nvml"


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    need("sshd", "needs OpenSSH's server: make services")
    need("gcc")
    folder = new_folder()
    raised = Fleet(folder / "fleet")
    try:
        if not raised.own_users:
            missing("needs root and mount namespaces, for servers with passwords")
        yield raised
    finally:
        raised.stop()
        shutil.rmtree(folder, ignore_errors=True)


def raise_servers(fleet: Fleet) -> Path:
    """Servers of every kind, and the inventory that names them."""
    for name in ("fake_nvml.c", "h100x8.conf"):
        shutil.copy(NVML / name, fleet.folder)
    library = fleet.folder / "libnvidia-ml.so.1"
    argv = ["gcc", "-shared", "-fPIC", "-o", str(library), str(fleet.folder / "fake_nvml.c"), "-lpthread"]
    subprocess.run(argv, check=True)
    locked = fleet.make_key("id_locked", passphrase="secret").with_suffix(".pub").read_text()
    plays = {"environment": f"FAKE_NVML={fleet.folder / 'h100x8.conf'}", "known": False}
    fleet.add("new-1", **plays)
    fleet.add("new-2", **plays)
    fleet.add("locked-1", authorized=locked, **plays)
    fleet.add("locked-2", authorized=locked, **plays)
    fleet.add("gate", authorized="", pam=ONE_STEP, **plays)
    fleet.add("inner", **plays)
    fleet.add("codes", authorized="", pam=TWO_STEPS, **plays)
    changed = fleet.add("changed", **plays)
    other = fleet.make_key("other").with_suffix(".pub").read_text()
    fleet.known_hosts.write_text(f"[127.0.0.1]:{changed.port} {other}")
    hosts = [{"name": server.name, "address": "127.0.0.1", "port": server.port} for server in fleet.servers]
    next(host for host in hosts if host["name"] == "inner")["jump"] = "gate"
    inventory = {
        "defaults": {
            "user": fleet.user,
            "identity": [str(fleet.key), str(fleet.folder / "id_locked")],
            "known_hosts": str(fleet.known_hosts),
            "ssh_config": None,
            "host_keys": "ask",
            "nvml_library": str(library),
        },
        "hosts": hosts,
    }
    path = fleet.folder / "inventory.yaml"
    path.write_text(yaml.safe_dump(inventory))
    return path


def until(pane: Pane, probe: Callable[[], T], what: str) -> T:
    """The first true answer of `probe`; the screen is told where there is none."""
    try:
        return wait_for(probe, what, seconds=40)
    except AssertionError as failure:
        raise AssertionError(f"{failure}\n{pane.text()}") from failure


def see(pane: Pane, sign: str) -> str:
    """The screen, once it shows `sign`."""
    until(pane, lambda: sign in pane.text(), repr(sign))
    return pane.text()


def focused(pane: Pane) -> str:
    """The label of the button that has the focus: it is drawn in bold."""
    drawn = pane.tmux("capture-pane", "-p", "-e").splitlines()
    last = next((line for line in reversed(drawn) if "Not now" in line or "Skip" in line), "")
    found = re.search(r"\x1b\[1m(?:\x1b\[[0-9;]*m)*([^\x1b]+)", last)
    return found[1].strip() if found else ""


def press(pane: Pane, label: str) -> None:
    """Go to a button and press it. Keys that come before a dialog can have been read do nothing, so they are pressed
    again."""
    wait_for(lambda: focused(pane), "a button with the focus")
    for _ in range(20):
        before = focused(pane)
        if before == label:
            break
        pane.keys("Right")
        with suppress(AssertionError):
            wait_for(lambda before=before: focused(pane) != before, "the focus to move", seconds=2)
    assert focused(pane) == label
    pane.keys("Enter")


def answer(pane: Pane, sign: str, words: str) -> None:
    """Type an answer, once `sign` is shown and typing counts."""
    see(pane, sign)

    label = sign if sign.endswith(":") else "Passphrase"
    written = re.compile(rf"{re.escape(label)} +(?:•|{re.escape(words[0])})")

    def is_typed() -> bool:
        pane.tmux("send-keys", "-l", words[0])
        return written.search(pane.text()) is not None

    wait_for(is_typed, "the first letter to count")
    pane.keys("C-u")  # what was typed to find that out
    wait_for(lambda: written.search(pane.text()) is None, "the line to be empty")
    pane.tmux("send-keys", "-l", words)
    pane.keys("Enter")


def accept_if_asked(pane: Pane) -> str:
    """The screen, after the host key of the host behind the gate was accepted, if that is asked just now."""
    if "Accept 1 host key?" in pane.text() and focused(pane):
        press(pane, "Accept it")
        wait_for(lambda: "Accept 1 host key?" not in pane.text(), "the key to be accepted")
    return pane.text()


def each(pane: Pane, *questions: tuple[str, str]) -> Iterator[str]:
    """The words of each of `questions` (who asks, and what) once it is asked, in whichever order they come."""
    left = list(questions)

    def is_asked() -> tuple[str, str] | None:
        text = accept_if_asked(pane)
        return next((one for one in left if f"Login to {one[0]}" in text and f"│ {one[1]}" in text), None)

    while left:
        found = until(pane, is_asked, f"one of {left}")
        left.remove(found)
        yield found[1]


def test_hosts_that_nobody_knows_or_that_ask_come_up_by_answers_alone(fleet: Fleet, home: Path) -> None:
    inventory = raise_servers(fleet)
    program = [sys.executable, "-m", "gputop", "--debug", "--inventory", str(inventory)]
    with screen(120, 36, program=program) as pane:
        see(pane, "Accept 6 host keys?")
        shown = pane.text()
        for server in fleet.servers:
            known = fleet.folder / server.name / "hostkey_ed25519.pub"
            print_of = subprocess.run(["ssh-keygen", "-lf", known], capture_output=True, text=True, check=True).stdout
            is_asked = server.name not in ("inner", "changed")
            assert (print_of.split()[1] in shown) is is_asked, server.name
        press(pane, "Accept all 6")
        answer(pane, "Passphrase", "wrong")
        see(pane, "wrong: it does not open the key")
        answer(pane, "2 more tries", "secret")
        for sign in each(pane, ("gate", "Password:"), ("codes", "Password:"), ("codes", "Verification code:")):
            answer(pane, sign, CODE if sign == "Verification code:" else PASSWORD)
        for name in ("new-1", "new-2", "locked-1", "locked-2", "gate", "inner", "codes"):
            until(pane, lambda name=name: re.search(rf"● {name} +ok ", accept_if_asked(pane)), f"{name} in order")
        assert re.search(r"✕ changed +host key", pane.text())
        assert "host key changed" in pane.text()
        pane.keys("q")
        assert pane.exit_code() == 0
        pane.assert_clean()
        own = home / ".config" / "gputop" / "known_hosts"
        lines = sorted(own.read_text().splitlines(keepends=True))
        assert lines == sorted(server.known_hosts_line() for server in fleet.servers if server.name != "changed")
        files = [path for folder in (home, pane.folder) for path in folder.rglob("*") if path.is_file()]
        assert [path for path in files if PASSWORD.encode() in path.read_bytes()] == []
