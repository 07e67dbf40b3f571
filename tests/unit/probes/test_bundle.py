"""The agent as one payload, and the command that runs it."""

from __future__ import annotations

import shutil
import subprocess
import zlib
from importlib.metadata import distribution
from pathlib import Path

import pytest

from gputop.probes.bundle import bundle, command, parse_command

SHELLS = ("sh", "bash", "dash", "busybox sh", "zsh", "ksh", "tcsh", "csh", "fish")


def test_the_payload_holds_the_unmodified_binding_and_every_module_of_the_agent() -> None:
    source = zlib.decompress(bundle().payload).decode("ascii")
    pynvml = Path(str(distribution("nvidia-ml-py").locate_file("pynvml.py"))).read_text(encoding="utf-8")
    assert ascii(pynvml) in source
    for module in Path(__file__).parents[3].joinpath("gputop", "remote").glob("*.py"):
        if module.stem not in ("__init__", "loader"):
            assert f"'gputop.remote.{module.stem}'" in source


def test_the_payload_is_made_once_and_the_same_each_time() -> None:
    assert bundle() is bundle()
    assert len(bundle().digest) == 16


def test_a_command_line_can_be_read_back() -> None:
    assert parse_command(command(1234, "cafe")) == (1234, "cafe")
    assert parse_command(command(1234, "cafe", "/opt/my python/bin/python3")) == (1234, "cafe")


@pytest.mark.parametrize(
    "line", ["", "ls", "exec /bin/sh -c 'echo' gputop 1 t", "'", command(1, "t").replace("-S", "")]
)
def test_another_command_line_is_none_of_ours(line: str) -> None:
    assert parse_command(line) is None


def test_the_command_line_has_no_character_that_a_login_shell_would_take_amiss() -> None:
    line = command(1, "cafe")
    _, script, _ = line.split("'")
    assert not set(script) & set("!\\\n'")
    assert len(line) < 1000


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shutil.which(shell.split()[0])])
def test_it_runs_from_the_login_shell(shell: str) -> None:
    payload = bundle().payload
    ran = subprocess.run(
        [*shell.split(), "-c", command(len(payload), "cafe")],
        input=payload + b"options {}\nstop\n",
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert ran.stdout.splitlines() == [b"cafe", b'cafe {"k":"bye","reason":"stop"}']
    assert ran.returncode == 0


def test_where_no_python_is_new_enough_the_exit_status_says_so(tmp_path: Path) -> None:
    for name in ("python3", "python"):
        old = tmp_path / name
        old.write_text("#!/bin/sh\nexit 1\n")
        old.chmod(0o755)
    line = command(1, "cafe").replace("/usr/", "/nowhere/").replace("/opt/", "/nowhere/")
    ran = subprocess.run(
        ["/bin/sh", "-c", line],
        input=b"x",
        capture_output=True,
        env={"PATH": str(tmp_path), "HOME": str(tmp_path)},
        timeout=30,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (96, b"cafe\n")
