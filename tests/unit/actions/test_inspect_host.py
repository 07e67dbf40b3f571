"""The kernel log that `gputop inspect` asks for."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from gputop.actions.inspect import KERNEL


def asked(folder: Path, *, dmesg: str, journalctl: str) -> tuple[int, str]:
    for name, script in (("dmesg", dmesg), ("journalctl", journalctl)):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    path = {"PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-c", KERNEL], env=path, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_a_log_that_cannot_be_read_is_not_an_empty_one(tmp_path: Path) -> None:
    denied = "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1"
    for journal in ("exit 1", "exit 0", "echo '-- No entries --'", "echo 'no permission' >&2"):
        assert asked(tmp_path, dmesg=denied, journalctl=journal) == (1, ""), journal
    assert asked(tmp_path, dmesg="true", journalctl="true") == (1, "")


def test_the_lines_about_devices_are_told(tmp_path: Path) -> None:
    lines = "echo '[Fri] Linux version 6'; echo '[Fri] NVRM: Xid 79 100%s'"
    assert asked(tmp_path, dmesg=lines, journalctl="exit 1") == (0, "[Fri] NVRM: Xid 79 100%s\n")
    assert asked(tmp_path, dmesg="exit 1", journalctl=lines) == (0, "[Fri] NVRM: Xid 79 100%s\n")
    assert asked(tmp_path, dmesg="echo '[Fri] Linux version 6'", journalctl="exit 1") == (0, "")
