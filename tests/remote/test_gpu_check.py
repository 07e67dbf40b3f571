"""The check for real GPUs, on the fake library and a fake nvidia-smi: it proves the check, not the GPUs."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gputop.remote.machine import Machine
from tests.remote.agents import FIXTURES, NvmlFixture
from tests.remote.test_pythons import PYTHONS

FOLDER = Path(__file__).parents[2] / "scripts" / "gpu_check"
RECORDINGS = FIXTURES / "recordings" / "nvidia"
UUID = "GPU-deadbeef-aaaa-bbbb-cccc-123456789abc"


def module(name: str) -> Any:
    """A module of the check, which is no package."""
    spec = importlib.util.spec_from_file_location(f"gpu_check_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def check(what: list[str], library: str, output: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{FIXTURES / 'nvml' / 'bin'}:{os.environ['PATH']}"
    return subprocess.run(
        [*what, "--nvml-library", library, "--interval", "0.2", "--output", str(output)],
        env={**os.environ, "PATH": path, **environment},
        cwd=output.parent,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_packed_into_one_file_it_runs_on_the_oldest_python_and_leaves_no_secrets(
    nvml: NvmlFixture, library: str, tmp_path: Path
) -> None:
    packed, output = tmp_path / "gpu-check.pyz", tmp_path / "out"
    subprocess.run([sys.executable, str(FOLDER), "--pack", str(packed)], check=True, timeout=60)
    nvml.set(gpu__0__uuid=UUID, gpu__0__serial="9876543210987", gpu__5__mig=0)
    python = next(iter(PYTHONS.values()), sys.executable)
    ran = check([python, "-I", "-S", str(packed)], library, output)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "all well" in ran.stdout
    report = json.loads((output / "report.json").read_text())
    assert len(report["devices"]) == 8
    assert {row["verdict"] for row in report["comparison"]} == {"same", "NVML alone"}
    called = {row["call"] for row in report["calls"]}
    assert {"nvmlDeviceGetUtilizationRates()", "nvmlDeviceGetTotalEccErrors(1, 0)"} <= called
    assert all(row["median_ms"] <= row["max_ms"] for row in report["calls"])
    assert {row["field"]: row.get("code") for row in report["fields"] if row["gpu"] == 0}["82"] == 0
    assert report["agent"]["problem"] is None
    assert report["streams"][0]["words"] == "line by line"
    assert "## NVML calls" in (output / "report.md").read_text()
    names = {path.name for path in (output / "fixtures").iterdir()}
    assert {"q-x.xml", "query-gpu.csv", "query-compute-apps.csv", "L.txt", "help-query-gpu.txt"} <= names
    texts = "".join(path.read_text() for path in output.rglob("*") if path.is_file())
    assert UUID not in texts
    assert "9876543210987" not in texts
    assert "[N/A]" in (output / "fixtures" / "query-gpu.csv").read_text()


def test_a_value_that_differs_is_named_and_fails_the_check(nvml: NvmlFixture, library: str, tmp_path: Path) -> None:
    nvml.set(gpu__5__mig=0)
    other = tmp_path / "other.conf"
    other.write_text(nvml.path.read_text() + "gpu.2.power_limit = 500\ngpu.3.recovery_action = 1\n")
    ran = check([sys.executable, str(FOLDER)], library, tmp_path / "out", FAKE_SMI_NVML=str(other))
    assert ran.returncode == 1
    assert "WRONG: power_limit_watts differs: GPU 2: 700.0 by NVML, 500.0 by nvidia-smi" in ran.stdout
    assert "WRONG: recovery_action differs: GPU 3: none by NVML, gpu-reset by nvidia-smi" in ran.stdout
    assert len(re.findall("WRONG", ran.stdout)) == 2


def test_without_a_driver_it_says_what_was_tried(tmp_path: Path) -> None:
    ran = check([sys.executable, str(FOLDER)], "/nowhere/libnvidia-ml.so.1", tmp_path / "out", PATH="/nowhere")
    assert ran.returncode == 1
    assert "WRONG: NVML cannot be used" in ran.stdout
    assert "/nowhere/libnvidia-ml.so.1" in ran.stdout


def test_lines_that_are_held_back_are_told_from_lines_that_come_one_by_one(
    nvml: NvmlFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = module("streams").look
    monkeypatch.setattr(Machine, "find_program", lambda self, names: None)
    program = str(FIXTURES / "nvml" / "bin" / "nvidia-smi")
    plain, without = look(Machine(), program, 0.05)
    assert (plain["words"], without["words"]) == ("line by line", "there is no stdbuf")
    monkeypatch.setenv("FAKE_SMI_BUFFERED", "1")
    assert look(Machine(), program, 0.05)[0]["words"] == "held back"


def test_a_load_that_cannot_be_started_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    load = module("load")
    monkeypatch.setattr(load, "_KINDS", (("one", "import no_such_module_at_all"), ("two", "print('a'); exit(3)")))
    with load.running(1.0) as worker:
        assert worker.pid is None
    assert "no_such_module_at_all" in worker.words
    assert "two: a" in worker.words


def test_a_load_runs_until_it_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    load = module("load")
    ready = "import time; print('ready', flush=True); time.sleep(60)"
    monkeypatch.setattr(load, "_KINDS", (("none", "exit(1)"), ("sleep", ready)))
    with load.running(1.0) as worker:
        assert worker.is_running
        assert worker.words == "sleep"
    assert not worker.is_running


@pytest.mark.parametrize(
    ("fixture", "name", "secrets"),
    [
        ("q.txt", "q_h200_mig-on_driver-590.48.01_load.txt", ["0x737bb8d09327f7d9"]),
        ("table.txt", "table_h100-80gb-hbm3_driver-590.48.01_load.txt", []),
        ("pmon.txt", "pmon_h100-80gb-hbm3_driver-590.48.01_load.txt", []),
        ("query-gpu.csv", "query-gpu_h100-80gb-hbm3_driver-590.48.01_load.csv", []),
    ],
)
def test_outputs_lose_what_belongs_to_one_machine_and_stay_readable(
    fixture: str, name: str, secrets: list[str]
) -> None:
    from gputop.readers.recognize import read_text

    text = (RECORDINGS / name).read_text()
    clean = module("scrub").Scrubber({"devices": []}).text(fixture, text)
    for secret in secrets:
        assert secret in text
        assert secret not in clean
    before, after = read_text(text), read_text(clean)
    for left, right in zip(before["devices"], after["devices"], strict=True):
        assert left.get("memory_used_bytes") == right.get("memory_used_bytes")
        for process, other in zip(left.get("processes", ()), right.get("processes", ()), strict=True):
            assert (process["pid"], process.get("memory_used_bytes")) == (other["pid"], other.get("memory_used_bytes"))
            assert other["name"] in ("program", None)


def test_names_of_programs_may_hold_commas_and_go_all_the_same() -> None:
    text = f"gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n{UUID}, 7, /home/ada/run --a 1, 2, 100 MiB\n"
    assert module("scrub").Scrubber({}).text("query-compute-apps.csv", text).splitlines()[1] == (
        "GPU-00000000-0000-4000-8000-000000000000, 7, program, 100 MiB"
    )
