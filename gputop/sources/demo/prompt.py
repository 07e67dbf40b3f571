"""A shell on a simulated host, for whoever opens one: a prompt, and a few commands that answer. Nothing real is run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

from gputop.sources.demo.hosts import SIMULATED

Answer = Callable[[list[str]], tuple[int, str]]
"""A command to its exit status and output."""

GREETING = (
    "{host} is " + SIMULATED + ". What you type is run nowhere.\n"
    "It knows nvidia-smi, nvidia-smi -q, dmesg, lspci, hostname, uname, uptime, exit.\n"
)
LONGEST_LINE = 1000

_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|.)")
"""A key that is not a character, such as an arrow."""


class Prompt:
    """Takes what somebody types and gives what they see. Ended by `exit` or ctrl-d."""

    def __init__(self, host: str, answer: Answer, *, echoes: bool) -> None:
        """`echoes`: a terminal is on the other side, which shows only what it is sent."""
        self.is_over = False
        self.status = 0
        self._host = host
        self._answer = answer
        self._echoes = echoes
        self._line = ""

    @property
    def prompt(self) -> str:
        return f"{self._host}$ " if self._echoes else ""

    def begin(self) -> str:
        return self._on_terminal(GREETING.format(host=self._host)) + self.prompt

    def typed(self, text: str) -> str:
        """What is shown after `text` was typed."""
        return "".join(self._key(key) for key in _SEQUENCE.sub("", text) if not self.is_over)

    def interrupted(self) -> str:
        self._line = ""
        return "^C\r\n" + self.prompt

    def _key(self, key: str) -> str:
        match key:
            case "\r" | "\n":
                return self._echo("\r\n") + self._run()
            case "\x03":
                return self.interrupted()
            case "\x04" if not self._line:
                self.is_over = True
                return self._echo("exit\r\n")
            case "\x7f" | "\b":
                shown = "\b \b" if self._line else ""
                self._line = self._line[:-1]
                return self._echo(shown)
            case "\x15":
                erased, self._line = len(self._line), ""
                return self._echo("\b \b" * erased)
        if not key.isprintable() or len(self._line) >= LONGEST_LINE:
            return ""
        self._line += key
        return self._echo(key)

    def _run(self) -> str:
        line, self._line = self._line.strip(), ""
        try:
            words = shlex.split(line)
        except ValueError as error:
            self.status, said = 2, f"{error}\n"
        else:
            if words[:1] in (["exit"], ["logout"]):
                self.is_over = True
                return ""
            self.status, said = self._answer(words) if words else (self.status, "")
        return self._on_terminal(said) + self.prompt

    def _echo(self, text: str) -> str:
        return text if self._echoes else ""

    def _on_terminal(self, text: str) -> str:
        return text.replace("\n", "\r\n") if self._echoes else text
