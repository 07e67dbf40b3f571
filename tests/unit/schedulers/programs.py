"""A runner that answers from a table, for schedulers without their programs."""

from __future__ import annotations

from gputop.domain.call import CommandResult, RunHere, RunOn, command_of
from gputop.domain.problem import Problem, ProblemKind

LOST = CommandResult(lost=Problem(kind=ProblemKind.CONNECTION_LOST, summary="connection lost"))
SILENT = CommandResult(exit_status=None)


def said(stdout: str = "", stderr: str = "", exit_status: int | None = 0, **fields: bool) -> CommandResult:
    return CommandResult(exit_status=exit_status, stdout=stdout.encode(), stderr=stderr.encode(), **fields)


class Programs:
    """The first pair whose words all stand in the command line answers; nothing that fits is a test's mistake."""

    def __init__(self, *answers: tuple[str, CommandResult]) -> None:
        self.answers = list(answers)
        self.calls: list[RunHere | RunOn] = []

    async def run(self, call: RunHere | RunOn, *, deadline_seconds: float) -> CommandResult:
        assert deadline_seconds > 0
        self.calls.append(call)
        line = command_of(call)
        for words, answer in self.answers:
            if all(word in line for word in words.split()):
                return answer
        raise AssertionError(f"nobody answers {line}")
