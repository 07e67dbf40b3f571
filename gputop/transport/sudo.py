"""What sudo refuses, told apart, and the line that sudoers lacks.

`sudo -n` says "a password is required" of accounts that it does not know, of commands that it does not allow, and of
those that it allows with a password only. `sudo -n -v` and `sudo -n -l COMMAND`, which change nothing, tell more."""

from __future__ import annotations

from msgspec import structs

from gputop.domain.call import RunOn
from gputop.domain.problem import Problem, ProblemKind
from gputop.ports import Runner

LOOK_SECONDS = 15.0

WANTS_PASSWORD = "sudo wants a password"
REFUSALS = (
    ("a password is required", WANTS_PASSWORD, "give the account a NOPASSWD line for this command"),
    ("a terminal is required", WANTS_PASSWORD, "give the account a NOPASSWD line for this command"),
    ("is not in the sudoers file", "the account is not in sudoers", "add the account to sudoers"),
    ("may not run sudo", "the account is not in sudoers", "add the account to sudoers"),
    ("is not allowed to execute", "sudoers does not allow this command", "add the exact command line to sudoers"),
    ("you must have a tty", "sudo wants a terminal (requiretty)", "add Defaults:ACCOUNT !requiretty to sudoers"),
    ("sudo: not found", "sudo is not installed", "log in as root or install sudo"),
)
"""What sudo says, what it means, what to do."""

_LOOK = (
    "id -un; PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; "
    'command -v -- "$1" || echo "$1"; '
    "said=$(sudo -n -v 2>&1) && { echo not-allowed; exit; }; "
    'case $said in *"may not run sudo"*|*"not in the sudoers"*) echo stranger; exit ;; esac; '
    '[ -n "$1" ] || { echo unknown; exit; }; said=$(sudo -n -l -- "$@" 2>&1) && { echo password; exit; }; '
    'case $said in *"password is required"*) echo unknown ;; *) echo not-allowed ;; esac'
)
"""Prints the account, the program's path, and what sudo makes of the command that it has just refused. (An account none
of whose lines wants a password passes `-v`: then it was no password that was missing.)"""

_MAY_BE_OTHERWISE = frozenset(
    summary for words, summary, _ in REFUSALS if words not in ("you must have a tty", "sudo: not found")
)
"""What is worth a closer look."""

_MEANINGS = {
    "stranger": "{account} is not in sudoers",
    "password": "sudo wants a password of {account} for this command",
    "not-allowed": "sudoers does not allow {account} this command",
    "unknown": "sudo wants a password of {account}, or does not allow this command at all",
}


def refusal(error_text: str, said: str) -> Problem | None:
    """What sudo itself says in `error_text`; `None` where it does not refuse."""
    for words, summary, hint in REFUSALS:
        if words in error_text:
            return Problem(kind=ProblemKind.PERMISSION, summary=summary, detail=said, hint=hint)
    return None


async def explain(runner: Runner, call: RunOn, problem: Problem) -> Problem:
    """`problem` with what sudo really means and the line that it wants, where the host tells."""
    if problem.kind is not ProblemKind.PERMISSION or problem.summary not in _MAY_BE_OTHERWISE:
        return problem
    argv = call.argv if call.sudo else ("",)  # a script that calls sudo itself
    look = RunOn(host=call.host, argv=("sh", "-c", _LOOK, "sh", *argv))
    result = await runner.run(look, deadline_seconds=LOOK_SECONDS)
    words = result.text.splitlines() if result.ok else []
    if len(words) != 3 or words[2] not in _MEANINGS:
        return problem
    account, path, meaning = words
    hint = f"add to sudoers: {sudoers_line(account, (path, *argv[1:]))}" if path.startswith("/") else problem.hint
    return structs.replace(problem, summary=_MEANINGS[meaning].format(account=account), hint=hint)


def sudoers_line(account: str, argv: tuple[str, ...]) -> str:
    """The line that lets `account` run exactly `argv` as root without a password."""
    words = [_escaped(word) for word in argv] if len(argv) > 1 else [*argv, '""']
    return f"{account} ALL=(root) NOPASSWD: {' '.join(words)}"


def _escaped(word: str) -> str:
    return "".join(f"\\{c}" if c in ',:=\\*?[]! \t"#' else c for c in word)
