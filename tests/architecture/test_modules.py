"""Small, documented modules that reach nowhere outside the project."""

from __future__ import annotations

import ast
import re

import pytest

from tests.architecture.tree import ROOT, modules, name_of, parse

LINES = 500
LINES_OF = {"gputop/tui/app.py": 250}
"""Modules with a limit of their own."""

TEXT = {".py", ".md", ".toml", ".yaml", ".yml", ".sh", ".tcss", ".c", ".txt", ".json", ""}
OUTSIDE = re.compile(r"(?<![\w.~-])/work(?:/|\b)|\.\./shared\b")
"""Paths of one machine, which no other machine has."""


def test_a_module_can_be_read_in_one_sitting() -> None:
    long = [
        f"{name_of(path)}: {count} lines of {limit}"
        for path in modules()
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > (limit := LINES_OF.get(name_of(path), LINES))
    ]
    assert not long, "\n".join(long)


def test_every_module_says_what_it_is_for() -> None:
    silent = [name_of(path) for path in modules() if path.stat().st_size and not ast.get_docstring(parse(path))]
    assert not silent, "\n".join(silent)


def test_no_project_file_names_a_place_outside_the_project() -> None:
    own = {"tests/architecture/test_modules.py", ".ci/run"}  # CI may unpack programs that lie beside the checkout
    skipped = {".git", ".venv", ".venv-services", ".hypothesis", "__pycache__", "build", "dist"}
    found = []
    for path in sorted(ROOT.rglob("*")):
        below = path.relative_to(ROOT)
        if skipped.intersection(below.parts) or any(part.endswith("_cache") for part in below.parts):
            continue
        if not path.is_file() or path.suffix not in TEXT or below.as_posix() in own:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        found += [f"{below}: {match.group()}" for match in OUTSIDE.finditer(text)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", ["LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "inventory.example.yaml"])
def test_the_files_that_people_look_for_are_there_and_say_something(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8").strip()


def test_the_license_is_the_whole_apache_license() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_every_folder_of_copied_fixtures_says_where_they_are_from_and_under_which_license() -> None:
    folders = [path for path in (ROOT / "tests").glob("**/fixtures/*") if path.is_dir() and path.name != "__pycache__"]
    assert folders, "no fixture folder: the rule below would hold for nothing"
    silent = [name_of(path) for path in folders if not any((path / name).is_file() for name in ("README.md", "NOTICE"))]
    assert not silent, "\n".join(silent)
