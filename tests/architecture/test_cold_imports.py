"""Commands that print a line must not wait for libraries that they do not use."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"textual", "asyncssh", "rich", "cryptography", "ClusterShell", "yaml"}

LIST_MODULES = """
import sys
from gputop.__main__ import main
sys.argv[:] = ["gputop", *sys.argv[1:]]
try:
    main()
except SystemExit as left:
    assert not left.code, left.code
finally:
    names = sorted({name.partition(".")[0] for name in sys.modules})
    sys.stderr.write("\\nMODULES " + " ".join(names))
"""


def loaded(*argv: str) -> set[str]:
    ran = subprocess.run(
        [sys.executable, "-c", LIST_MODULES, *argv], capture_output=True, text=True, timeout=60, check=True
    )
    return set(ran.stderr.rpartition("MODULES ")[2].split())


@pytest.mark.parametrize("argv", [["--version"], ["--help"], ["snapshot", "--help"]], ids=" ".join)
def test_a_command_that_prints_a_line_loads_no_heavy_library(argv: list[str]) -> None:
    assert loaded(*argv) & HEAVY == set()


def test_the_list_of_keys_loads_the_settings_and_no_screen() -> None:
    assert loaded("keys") & {"textual", "asyncssh"} == set()


def test_importing_gputop_imports_nothing_else_of_it() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", "import gputop, sys; print(*(n for n in sys.modules if n.startswith('gputop')))"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ran.stdout.split() == ["gputop"]
