"""The agent on every Python that the machine has."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.remote.agents import NvmlFixture, talking


def python_of(version: str) -> str | None:
    """An interpreter of that version: in PATH, or one of pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path("~root" if os.geteuid() == 0 else "~").expanduser() / ".pyenv"))
    candidates = [str(path) for path in sorted(pyenv.glob(f"versions/{version}.*/bin/python3"))]
    found = shutil.which(f"python{version}")
    for python in [*candidates, *([found] if found else [])]:
        said = subprocess.run([python, "-V"], capture_output=True, text=True, check=False).stdout
        if said.startswith(f"Python {version}."):
            return python
    return None


PYTHONS = {version: python for minor in range(6, 14) if (python := python_of(version := f"3.{minor}"))}


@pytest.mark.parametrize(("version", "python"), PYTHONS.items(), ids=PYTHONS)
async def test_the_agent_runs_on(version: str, python: str, nvml: NvmlFixture, library: str) -> None:
    nvml.set(gpu__3__error=15, gpu__1__compute=f"{os.getpid()}:100")
    async with talking(nvml_library=library, python=python) as talk:
        frame = await talk.next()
        assert frame.facts.python_version is not None
        assert frame.facts.python_version.startswith(version + ".")
        assert frame.value("utilization_percent", 0) == 97
        assert frame.value("state", 3) == "lost"
        assert frame.processes[0].pid == os.getpid()
        assert len(frame.partitions) == 2
        await talk.next()
