"""Who may import whom: the contracts of pyproject.toml, and Python 3.6 for the agent."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from tests.architecture.tree import PACKAGE, ROOT, modules, name_of, parse

BIN = Path(sys.executable).parent

STDLIB_OF_THE_AGENT = frozenset(sys.stdlib_module_names) - {"dataclasses", "contextvars", "zoneinfo", "tomllib"}
"""The standard library of Python 3.6, as far as it has not been removed since."""

ALSO_SENT = {"pynvml", "gputop"}
"""What travels in the payload beside the agent's own modules."""


def test_the_import_contracts_hold() -> None:
    ran = subprocess.run(
        [BIN / "lint-imports", "--no-cache", "--config", ROOT / "pyproject.toml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_agent_runs_on_python_3_6() -> None:
    ran = subprocess.run(
        [BIN / "vermin", "--quiet", "--no-tips", "--violations", "--eval-annotations", "-t=3.6-", PACKAGE / "remote"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_agent_imports_the_standard_library_and_pynvml_only() -> None:
    found = [
        f"{name_of(path)}:{node.lineno}: {name}"
        for path in modules(PACKAGE / "remote")
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
        if name.partition(".")[0] not in STDLIB_OF_THE_AGENT | ALSO_SENT
        or (name.startswith("gputop") and not name.startswith("gputop.remote"))
    ]
    assert not found, "\n".join(found)
