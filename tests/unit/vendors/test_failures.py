"""What shells and tools say in place of an answer: a problem, never a device."""

from __future__ import annotations

import pytest

from gputop.readers.recognize import read_text

SAID = [
    ("bash: hy-smi: command not found...", "hy-smi", "tool-missing"),
    ("/bin/sh: 1: mthreads-gmi: not found", "mthreads-gmi", "tool-missing"),
    ("sh: line 1: /opt/rocm/bin/rocm-smi: No such file or directory", "rocm-smi", "tool-missing"),
    ("zsh: command not found: amd-smi", "amd-smi", "tool-missing"),
    ("fish: Unknown command: npu-smi", "npu-smi", "tool-missing"),
    ("sudo: hl-smi: command not found", "hl-smi", "tool-missing"),
    ("env: 'npu-smi': No such file or directory", "npu-smi", "tool-missing"),
    ("timeout: failed to run command ‘hl-smi’: No such file or directory", "hl-smi", "tool-missing"),
    ("Command 'rocm-smi' not found, but can be installed with:\nsudo apt install rocm-smi", "rocm-smi", "tool-missing"),
    ('exec: "xpu-smi": executable file not found in $PATH', "xpu-smi", "tool-missing"),
    ("sh: 1: xpu-smi: Permission denied", "xpu-smi", "permission"),
    ("WARNING: User is missing the following required groups: render. amd-smi", "amd-smi", "permission"),
    ("dcmi module initialize failed. ret is -8005", "npu-smi", "driver-not-loaded"),
    ("dcmi model initialized failed, because the device is used. ret is -8020", "npu-smi", "tool-failed"),
    ("ERROR:root:Driver not initialized (amdgpu not found in modules)", "rocm-smi", "driver-not-loaded"),
    ("AmdSmiLibraryException: 34 | AMDSMI_STATUS_DRIVER_NOT_LOADED amdsmi_cli", "amd-smi", "driver-not-loaded"),
    ("ERROR:root:Unable to detect any GPU devices, check amdgpu version and module status", "amd-smi", "no-devices"),
    ("neuron-ls: error: No neuron device found", "neuron", "no-devices"),
    ("Can not find a device: GPU '123123' Error code: -3", "amd-smi", "tool-failed"),
    ("WARNING: No JSON data to report", "rocm-smi", "tool-failed"),
    ("Error: Level Zero Initialization Error", "xpu-smi", "tool-failed"),
]


@pytest.mark.parametrize(("text", "route", "kind"), SAID)
def test_a_failure_is_a_problem_of_its_tool(text: str, route: str, kind: str) -> None:
    sample = read_text(text + "\n")
    assert sample["devices"] == []
    assert [(sample["route"], problem["kind"]) for problem in sample["problems"]] == [(route, kind)]
    assert sample["problems"][0]["detail"] == text
