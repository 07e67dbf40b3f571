"""The fake NVML library and the fake nvidia-smi."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.remote.agents import FIXTURES, NvmlFixture, nvml_library


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the fake library is compiled to."""
    return tmp_path_factory.mktemp("nvml")


@pytest.fixture
def library(libraries: Path) -> str:
    return str(nvml_library(libraries))


@pytest.fixture
def nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NvmlFixture:
    """What the fake library answers: eight H100."""
    fixture = NvmlFixture(tmp_path / "nvml.conf")
    monkeypatch.setenv("FAKE_NVML", str(fixture.path))
    return fixture


class SmiFixture:
    """What the fake nvidia-smi answers; changes count from its next sample on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state: dict[str, Any] = {"gpus": [_gpu(0, "97", "70123"), _gpu(1, "[N/A]", "4")]}
        self.set()

    @property
    def gpus(self) -> list[dict[str, str]]:
        return [dict(gpu) for gpu in self._state["gpus"]]

    def set(self, **values: Any) -> None:
        """`None` takes a key away."""
        self._state.update(values)
        self._state = {key: value for key, value in self._state.items() if value is not None}
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(self._state))
        new.replace(self._path)


def _gpu(index: int, utilization: str, used: str) -> dict[str, str]:
    return {
        "index": str(index),
        "uuid": f"GPU-00000000-0000-4000-8000-00000000000{index}",
        "pci.bus_id": f"00000000:0{index + 1}:00.0",
        "name": "NVIDIA H100 80GB HBM3",
        "count": "2",
        "driver_version": "550.90.07",
        "utilization.gpu": utilization,
        "memory.used": used,
        "memory.total": "81559",
        "temperature.gpu": "41",
        "power.draw": "388.54",
        "clocks_throttle_reasons.active": "0x0000000000000004",
        "pstate": "P0",
        "mig.mode.current": "Disabled",
        "ecc.errors.uncorrected.volatile.total": "3",
        "compute_mode": "Exclusive_Process",
    }


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmiFixture:
    """The fake nvidia-smi, first in PATH."""
    fixture = SmiFixture(tmp_path / "smi.json")
    monkeypatch.setenv("FAKE_SMI", str(tmp_path / "smi.json"))
    monkeypatch.setenv("PATH", f"{FIXTURES / 'nvidia_smi'}:{os.environ['PATH']}")
    return fixture
