"""The genuine nvidia-smi on the fake library: what the real program prints is read as NVML says it.

Optional, for it may not be stored in the project: `scripts/genuine_smi.sh DIR`, then GPUTOP_GENUINE_NVIDIA_SMI=DIR.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import asdict

from gputop.domain.problem import ProblemKind
from tests.needs import need
from tests.remote.agents import FIXTURES, NvmlFixture, talking
from tests.remote.test_both_ways import through_nvml

_PRIVATE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
/* The program calls one private function; that one is the genuine library's. */
int nvmlInternalGetExportTable(const void **table, const void *id) {
  static void *genuine;
  if (!genuine) genuine = dlopen(getenv("FAKE_NVML_GENUINE"), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  int (*ask)(const void **, const void *) = genuine ? dlsym(genuine, "nvmlInternalGetExportTable") : 0;
  return ask ? ask(table, id) : 13;
}
int nvmlDeviceGetIndex(void *device, unsigned *index) { *index = (unsigned)(long)device - 1; return 0; }
int nvmlDeviceIsMigDeviceHandle(void *device, unsigned *is) { *is = (long)device >= 1000; return 0; }
int nvmlEventSetCreate(void **set) { *set = (void *)8; return 0; }
int nvmlEventSetFree(void *set) { return 0; }
int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set) { return 0; }
"""


def functions_of(library: Path) -> set[str]:
    said = subprocess.run(
        [need("nm"), "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    names = {line.split()[2].partition("@")[0] for line in said.splitlines() if " T " in line}
    return {name for name in names if name.startswith("nvml")}


@pytest.fixture
def genuine(libraries: Path, library: str, nvml: NvmlFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Puts the genuine program first in PATH, on the fake library; its version."""
    folder = Path(os.environ.get("GPUTOP_GENUINE_NVIDIA_SMI", "/nowhere"))
    found = sorted(folder.glob("libnvidia-ml.so.*.*"))
    if not found or not (folder / "nvidia-smi").exists():
        pytest.skip("optional: needs the genuine nvidia-smi (scripts/genuine_smi.sh, GPUTOP_GENUINE_NVIDIA_SMI)")
    version = found[0].name.partition(".so.")[2]
    missing = functions_of(found[0]) - functions_of(Path(library))
    missing -= {name for name in missing if f"int {name}(" in _PRIVATE}
    source = tmp_path / "rest.c"
    source.write_text(_PRIVATE + "".join(f"int {name}() {{ return 3; }}\n" for name in sorted(missing)))
    whole = tmp_path / "libnvidia-ml.so.1"
    fake = FIXTURES / "nvml" / "fake_nvml.c"
    soname = f"-Wl,-soname,{whole.name}"
    command = [need("gcc"), "-shared", "-fPIC", "-w", soname, "-o", str(whole), str(fake), str(source), "-lpthread"]
    subprocess.run([*command, "-ldl"], check=True, timeout=60)
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\nLD_LIBRARY_PATH={tmp_path} FAKE_NVML_GENUINE={found[0].resolve()} "
        f'exec {(folder / "nvidia-smi").resolve()} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    nvml.set(driver=version)
    return version


NOT_ON_THE_FAKE = {"processes_known", "throttle_reasons"}
"""What the program reads by calls that the fake library does not have."""
READ = (
    *("utilization_percent", "memory_used_bytes", "memory_total_bytes", "memory_reserved_bytes", "temperature_celsius"),
    *("memory_temperature_celsius", "power_watts", "power_average_watts", "power_instant_watts", "power_limit_watts"),
    *("sm_clock_mhz", "sm_clock_max_mhz", "performance_state", "compute_mode", "persistence_mode", "mig_mode"),
    *("pcie_generation", "pcie_width_max", "pcie_replay_count", "bar1_used_bytes", "bar1_total_bytes"),
    *("ecc_mode", "ecc_corrected_aggregate", "ecc_uncorrected_volatile", "encoder_utilization_percent"),
)


async def test_what_the_genuine_program_prints_is_what_nvml_says(genuine: str, nvml: NvmlFixture, library: str) -> None:
    nvml.set(gpu__3__nvmlDeviceGetTotalEccErrors__error=3, gpu__3__ecc_dram=5, gpu__3__ecc_sram=2, gpu__1__fan=30)
    one = await through_nvml(library)
    async with talking() as talk:
        other = await talk.until(
            lambda frame: frame.value("bar1_used_bytes", 0) and frame.value("ecc_mode", 0) and frame.partitions
        )
    assert other.route == "nvidia-smi"
    assert (other.facts.driver_version, other.facts.cuda_version) == (genuine, one.facts.cuda_version)
    assert [asdict(device) for device in other.devices] == [asdict(device) for device in one.devices]
    assert [part.uuid for part in other.partitions] == [part.uuid for part in one.partitions]
    assert [name for name in READ if other.value(name, 0) is None] == []
    for position in range(8):
        left, right = asdict(one.reading(position)), asdict(other.reading(position))
        told = {name: value for name, value in right.items() if value is not None and name not in NOT_ON_THE_FAKE}
        assert told == {name: left[name] for name in told}, f"device {position}"


async def test_a_lost_device_is_told_in_its_words(genuine: str, nvml: NvmlFixture) -> None:
    nvml.set(gpu__2__error=15)
    async with talking() as talk:
        frame = await talk.until(lambda frame: frame.problems or frame.device_problems)
    told = [*frame.problems, *(problem for problems in frame.device_problems.values() for problem in problems)]
    assert ProblemKind.DEVICE_LOST in [problem.kind for problem in told]
