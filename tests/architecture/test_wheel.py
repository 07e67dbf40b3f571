"""The wheel is enough: installed alone, it has its command, its themes and its example inventory."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.architecture.tree import ROOT

BUILD = """
import sys
from hatchling.build import build_wheel
print(build_wheel(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def wheel() -> Iterator[Path]:
    with TemporaryDirectory(prefix="gputop-wheel-") as folder:
        built = subprocess.run(
            [sys.executable, "-c", BUILD, folder], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True
        )
        yield Path(folder) / built.stdout.split()[-1]


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Iterator[Path]:
    """The bin folder of an environment with this wheel, and the libraries that the tests run with beside it."""
    with TemporaryDirectory(prefix="gputop-installed-") as folder:
        venv.create(folder, with_pip=False, symlinks=True)
        home = Path(folder)
        site = next((home / "lib").glob("python3*")) / "site-packages"
        pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "--disable-pip-version-check"]
        subprocess.run(
            [*pip, "install", "--quiet", "--no-deps", "--no-index", "--no-cache-dir", str(wheel)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=120,
            check=True,
        )
        # The libraries come from where the tests run, but not the editable gputop: .pth files are not read there.
        (site / "libraries.pth").write_text(f"import sys; sys.path.extend({library_folders()!r})\n")
        yield home / "bin"


def library_folders() -> list[str]:
    return [path for path in sys.path if path.endswith("site-packages")]


def run(program: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return subprocess.run(
        [program, *argv], cwd="/", env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_wheel_holds_the_package_the_themes_and_the_example(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"gputop/__main__.py", "gputop/py.typed", "gputop/_inventory.example.yaml"} <= names
    assert {f"gputop/_themes/{path.name}" for path in (ROOT / "themes").glob("*.yaml")} <= names
    assert "gputop/_themes/gputop-dark.yaml" in names


def test_the_wheel_holds_every_style_sheet(wheel: Path) -> None:
    sheets = {path.relative_to(ROOT).as_posix() for path in (ROOT / "gputop").rglob("*.tcss")}
    assert sheets
    assert sheets <= set(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_holds_nothing_but_the_package(wheel: Path) -> None:
    heads = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {head for head in heads if not head.endswith(".dist-info")} == {"gputop"}


def test_the_installed_command_runs_from_the_wheel(installed: Path) -> None:
    where = run(installed / "python", "-c", "import gputop; print(gputop.__file__)")
    assert Path(where.stdout.strip()).is_relative_to(installed.parent), where
    assert run(installed / "gputop", "--version").stdout.startswith("gputop ")


def test_the_themes_are_found_from_the_wheel(installed: Path) -> None:
    ran = run(installed / "gputop", "themes")
    assert ran.returncode == 0, ran.stderr
    assert {"gputop-dark", "gputop-light"} <= set(ran.stdout.split())


def test_the_themes_are_found_from_the_checkout() -> None:
    ran = run(Path(sys.executable).parent / "gputop", "themes")
    assert ran.returncode == 0, ran.stderr
    assert {"gputop-dark", "gputop-light"} <= set(ran.stdout.split())


def test_the_example_inventory_is_found_from_the_wheel_and_loads(installed: Path) -> None:
    check_example(installed / "gputop", installed.parent)


def test_the_example_inventory_is_found_from_the_checkout_and_loads() -> None:
    check_example(Path(sys.executable).parent / "gputop", ROOT)


def check_example(program: Path, folder: Path) -> None:
    """A user without an inventory is told where the example is."""
    told = run(program, "hosts", "--inventory", "/missing.yaml").stderr
    example = Path(told.partition(" shows how")[0].split()[-1])
    assert example.is_relative_to(folder), told
    ran = run(program, "hosts", "--inventory", str(example))
    assert ran.returncode == 0, ran.stderr
    assert "gpu-lab" in ran.stdout
