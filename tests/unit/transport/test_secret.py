"""Passwords by their places."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.domain.problem import Problem, ProblemKind
from gputop.transport.secret import read_secret


def test_a_variable_and_a_file_of_ones_own_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BMC_PASSWORD", " two words ")
    path = tmp_path / "password"
    path.write_text("from a file\n")
    path.chmod(0o600)
    assert read_secret("env:BMC_PASSWORD") == " two words "
    assert read_secret(f"file:{path}") == "from a file"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_file_that_others_may_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "password"
    path.write_text("secret")
    path.chmod(mode)
    problem = read_secret(f"file:{path}")
    assert isinstance(problem, Problem)
    assert (problem.kind, problem.hint) == (ProblemKind.PERMISSION, f"chmod 600 {path}")


@pytest.mark.parametrize("place", ["env:NO_SUCH_VARIABLE", "file:/no/such/file", "hunter2", ""])
def test_what_is_no_place_is_a_problem_that_does_not_repeat_it(place: str) -> None:
    problem = read_secret(place)
    assert isinstance(problem, Problem)
    assert "hunter2" not in f"{problem}"
