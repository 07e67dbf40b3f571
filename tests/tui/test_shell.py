"""`s`: when no shell can be opened, one line says why. (With real terminals and servers: tests/tmux.)"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gputop.domain.link import LinkFailure, LinkState
from gputop.domain.problem import Problem, ProblemKind
from tests.tui.builders import until
from tests.tui.stage import Stage

SIZE = (120, 36)
FAILURE = Problem(kind=ProblemKind.SSH_CONFIG, summary="ssh_config: line 3: bad\x1b[31m")


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Stage]:
    return lambda **fields: Stage(tmp_path, **fields)


async def failing(host: str) -> LinkFailure:
    return LinkFailure(state=LinkState.UNREACHABLE, problem=FAILURE)


async def test_why_a_host_cannot_be_reached_is_said_in_one_line(make: Callable[..., Stage]) -> None:
    stage = make()
    stage.desk.shell_on = failing
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.press("s")
        await until(pilot, lambda: "no shell on gpu-01: ssh_config: line 3: bad[31m" in stage.shown())


async def test_of_several_marked_hosts_none_gets_a_shell(make: Callable[..., Stage]) -> None:
    stage = make()
    stage.desk.shell_on = failing
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.press("space", "space", "s")
        await until(pilot, lambda: "a shell opens on one host; 2 are marked" in stage.shown())


async def test_a_page_without_a_host_and_a_screen_without_servers_say_so(make: Callable[..., Stage]) -> None:
    stage = make()
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.press("s")
        await until(pilot, lambda: "there is no host to log in to here" in stage.shown())
        stage.desk.shell_on = failing
        await pilot.press("question_mark", "s")
        await until(pilot, lambda: "no host here: go to one" in stage.shown())


async def test_a_shell_needs_a_terminal(make: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    stage = make()

    async def ssh(host: str) -> tuple[str, ...]:
        return ("/usr/bin/ssh", "--", host)

    stage.desk.shell_on = ssh
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.press("s")
        await until(pilot, lambda: "no shell on gpu-01: this is no terminal" in stage.shown())


async def test_read_only_mode_has_no_say_in_a_login(make: Callable[..., Stage]) -> None:
    stage = make(allowed=False)
    stage.desk.shell_on = failing
    async with stage.app.run_test(size=SIZE) as pilot:
        await pilot.press("s")
        await until(pilot, lambda: "no shell on gpu-01: ssh_config" in stage.shown())
