"""Why a session ended, in words for a person."""

from __future__ import annotations

from msgspec import Struct

from gputop.domain.link import LinkFailure, LinkState
from gputop.domain.problem import Problem, ProblemKind
from gputop.remote.wire import EXIT_NO_PYTHON, EXIT_PAYLOAD_SHORT, EXIT_PROTOCOL

DETAIL_CHARACTERS = 2_000
SAID_CHARACTERS = 80
_LOGIN_FILES = "a login file (.bashrc, .cshrc) that loops, waits or asks something? try `ssh HOST true`"


class Ending(Struct, kw_only=True):
    """What is known when a remote program has ended."""

    interval_seconds: float
    shell: bool = False
    """A line of ours came: the account has a shell that runs what we ask for."""
    hello: bool = False
    bye: str | None = None
    status: int | None = None
    lost: LinkFailure | None = None
    silent: bool = False
    flooding: bool = False
    """It said so much that we do not listen any more."""
    bad_lines: tuple[str, ...] = ()
    said: bytes = b""
    """What came on standard output and was not ours."""
    stderr: bytes = b""

    @property
    def without_python(self) -> bool:
        return self.status == EXIT_NO_PYTHON

    @property
    def try_another_way(self) -> bool:
        """The server lives and has a shell, but the agent never ran."""
        cut_off = self.lost is not None or self.silent or self.flooding
        return self.shell and not self.hello and not cut_off and not self.bad_lines

    @property
    def words(self) -> str | None:
        """What the server said, capped."""
        text = "\n".join(part.decode("utf-8", "replace").strip() for part in (self.said, self.stderr) if part.strip())
        return text[-DETAIL_CHARACTERS:] or None


def agent_failure(ending: Ending) -> LinkFailure:
    """Why there are no more frames from the agent."""
    if (failure := _cut_off(ending)) is not None:
        return failure
    if (ending.bad_lines and not ending.hello) or ending.status == EXIT_PROTOCOL:
        return _failure(ending, ProblemKind.PROTOCOL, "the agent speaks another protocol", "update gputop")
    if ending.status == EXIT_PAYLOAD_SHORT:
        return _failure(ending, ProblemKind.AGENT_FAILED, "the agent arrived incomplete", None)
    if ending.bye is not None:
        return _failure(ending, ProblemKind.AGENT_FAILED, f"the agent ended: {ending.bye}", None)
    how = "killed" if ending.status is None else f"exit status {ending.status}"
    return _failure(ending, ProblemKind.AGENT_FAILED, f"the agent broke off ({how})", None)


def smi_failure(ending: Ending) -> LinkFailure:
    """Why there are no more frames from nvidia-smi, read without an agent."""
    if (failure := _cut_off(ending)) is not None:
        return failure
    how = "killed" if ending.status is None else f"exit status {ending.status}"
    return _failure(ending, ProblemKind.AGENT_FAILED, f"the shell that reads nvidia-smi ended ({how})", None)


def _cut_off(ending: Ending) -> LinkFailure | None:
    """Why it could not even speak to its end."""
    if ending.lost is not None:
        return ending.lost
    if ending.silent:
        return _silent(ending)
    if ending.flooding:
        hint = "it sends far more than was asked for" if ending.shell else _LOGIN_FILES
        return _failure(ending, ProblemKind.PROTOCOL, "the server prints without end", hint)
    return None if ending.shell else _no_shell(ending)


def _silent(ending: Ending) -> LinkFailure:
    if not ending.shell:
        summary = "connected, but the login shell starts nothing"
        return _failure(ending, ProblemKind.AGENT_SILENT, summary, _LOGIN_FILES)
    summary = (
        "connected, but nothing has come for a long time" if ending.hello else "connected, but the agent never spoke"
    )
    return _failure(ending, ProblemKind.AGENT_SILENT, summary, "the server may be overloaded or its disk may hang")


def _no_shell(ending: Ending) -> LinkFailure:
    said = (ending.words or "").partition("\n")[0][:SAID_CHARACTERS]
    problem = Problem(
        kind=ProblemKind.NO_SHELL,
        summary="the account cannot run programs" + (f": {said}" if said else ""),
        detail=ending.words,
        hint="it needs a plain login shell (not nologin, not restricted), no forced command, no `exit` in .bashrc",
    )
    return LinkFailure(state=LinkState.UNSUPPORTED, problem=problem)


def _failure(ending: Ending, kind: ProblemKind, summary: str, hint: str | None) -> LinkFailure:
    detail = "\n".join((*ending.bad_lines[:3], ending.words or ""))[:DETAIL_CHARACTERS].strip() or None
    return LinkFailure(state=LinkState.STALE, problem=Problem(kind=kind, summary=summary, detail=detail, hint=hint))
