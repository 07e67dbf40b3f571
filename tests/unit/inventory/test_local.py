"""Whether this machine has devices of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.inventory.local import has_devices, local_spec


@pytest.mark.parametrize(
    "sign",
    ["dev/nvidia0", "dev/nvidiactl", "proc/driver/nvidia", "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "dev/kfd"],
)
def test_any_sign_of_a_device_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sign: str) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not has_devices(tmp_path)
    (tmp_path / sign).parent.mkdir(parents=True)
    (tmp_path / sign).touch()
    assert has_devices(tmp_path)


def test_the_tool_on_the_path_or_the_library_elsewhere_is_a_sign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp_path}/lib")
    assert not has_devices(tmp_path)
    (tmp_path / "nvidia-smi").touch(mode=0o755)
    assert has_devices(tmp_path)
    (tmp_path / "nvidia-smi").unlink()
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libnvidia-ml.so.1").touch()
    assert has_devices(tmp_path)


def test_this_machine_is_watched_without_ssh() -> None:
    spec = local_spec(3.0)
    assert spec.local
    assert spec.name
    assert spec.interval_seconds == 3.0
