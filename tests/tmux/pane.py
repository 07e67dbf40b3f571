"""A real terminal: one tmux server with one pane, driven from a test."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tests.needs import need

ROOT = Path(__file__).resolve().parents[2]
SHOW = ROOT / "tests" / "tmux" / "show.py"
DEADLINE_SECONDS = 20.0

MODES = ("1000", "1002", "1003", "1006", "1004", "1015", "1016", "2004", "2026", "2048", "1049")
"""Terminal modes that must be off when a program has ended."""


class Pane:
    """A shell in a pane that runs one program and then waits."""

    def __init__(self, folder: Path, tmux: str) -> None:
        self.folder = folder
        self._tmux = tmux
        self._socket = str(folder / "tmux.sock")

    def tmux(self, *words: str) -> str:
        command = [self._tmux, "-S", self._socket, "-f", "/dev/null", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout

    def start(self, program: Sequence[str], columns: int, lines: int, environment: dict[str, str]) -> None:
        settings = "".join(f"export {name}={shlex.quote(value)}; " for name, value in environment.items())
        script = self.folder / "run.sh"
        script.write_text(
            f"{settings}stty -g > before\n{shlex.join(program)}\necho $? > code\nstty -g > after\n"
            "echo ENDED\nexec sleep 600\n"
        )
        size = ("-x", str(columns), "-y", str(lines))
        self.tmux("new-session", "-d", *size, "-c", str(self.folder), "sh", str(script))
        self.tmux("set-option", "-g", "status", "off")
        self.tmux("set-option", "-g", "escape-time", "10")
        self.tmux("pipe-pane", f"cat >> {shlex.quote(str(self.folder / 'output'))}")

    def close(self) -> None:
        self.tmux("kill-server")

    def keys(self, *names: str) -> None:
        for name in names:
            self.tmux("send-keys", name)

    def resize(self, columns: int, lines: int) -> None:
        self.tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def text(self) -> str:
        return self.tmux("capture-pane", "-p")

    def program(self) -> int:
        """Process id of the program in the pane."""
        shell = self.tmux("display", "-p", "#{pane_pid}").strip()
        children = Path(f"/proc/{shell}/task/{shell}/children")
        found = wait_for(lambda: children.read_text().split(), "the program to start")
        return int(found[0])

    def flags(self) -> dict[str, str]:
        names = ("alternate_on", "cursor_flag", "mouse_any_flag", "mouse_sgr_flag", "wrap_flag", "keypad_flag")
        values = self.tmux("display", "-p", " ".join(f"#{{{name}}}" for name in names)).split()
        return dict(zip(names, values, strict=True))

    def exit_code(self) -> int:
        """The program's exit code, once it has ended."""
        path = self.folder / "code"
        return int(wait_for(lambda: path.exists() and path.read_text(), "the program to end"))

    def assert_clean(self) -> None:
        """The terminal is as it was before the program."""
        wait_for(lambda: "ENDED" in self.text(), "the shell to go on")
        flags = self.flags()
        expected = {"alternate_on": "0", "cursor_flag": "1", "mouse_any_flag": "0", "mouse_sgr_flag": "0",
                    "wrap_flag": "1", "keypad_flag": "0"}  # fmt: skip
        assert flags == expected
        assert (self.folder / "after").read_text() == (self.folder / "before").read_text()
        assert modes_left_on((self.folder / "output").read_bytes()) == []


def modes_left_on(output: bytes) -> list[str]:
    """Of `MODES` those that were switched on last."""
    state: dict[str, bool] = {}
    for numbers, letter in re.findall(rb"\x1b\[\?([0-9;]+)([hl])", output):
        for number in numbers.decode().split(";"):
            state[number] = letter == b"h"
    return [mode for mode in MODES if state.get(mode)]


T = TypeVar("T")


def wait_for(probe: Callable[[], T], what: str, *, seconds: float = DEADLINE_SECONDS) -> T:
    """The first true answer of `probe`; fails after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        try:
            found = probe()
        except FileNotFoundError:
            found = None  # type: ignore[assignment]
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds:g} s for {what}")
        time.sleep(0.05)


@contextmanager
def screen(
    columns: int, lines: int, *options: str, program: Sequence[str] | None = None, **environment: str
) -> Iterator[Pane]:
    """A pane in which the screen is drawn."""
    tmux = need("tmux")
    with tempfile.TemporaryDirectory(prefix="gputop-tmux-") as name:
        pane = Pane(Path(name), tmux)
        words = [sys.executable, str(SHOW), *options] if program is None else [*program]
        variables = {"PYTHONPATH": str(ROOT), "HOME": name, "LANG": "C.UTF-8", "TERM": "tmux-256color"} | environment
        try:
            pane.start(words, columns, lines, variables | {"PATH": os.environ["PATH"]})
            yield pane
        finally:
            pane.close()
