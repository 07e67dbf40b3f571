"""The whole way over real OpenSSH to servers on whose PATH programs replay the tools of vendors."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gputop.domain.link import LinkState
from gputop.domain.problem import ProblemKind
from gputop.export.to_json import to_json
from tests.fakes.recorded_machine import REPLAY
from tests.ssh.conftest import Servers
from tests.ssh.fleet import Server
from tests.ssh.test_fleet import row, watch

pytestmark = pytest.mark.sshd

FIXTURES = Path(__file__).parents[1] / "fixtures"


def add(servers: Servers, name: str, programs: list[str], commands: Path) -> Server:
    """A server on which `programs` print what is in `commands`."""
    folder = servers.fleet.folder / name
    server = servers.fleet.add(name, environment=f"REPLAY={folder / 'commands'} FAKE_SMI={folder / 'smi.json'}")
    shutil.copytree(commands, folder / "commands")
    (folder / "bin").mkdir()
    for program in programs:
        shutil.copy(REPLAY, folder / "bin" / program)
    return server


@pytest.fixture
def fleet_of_vendors(servers: Servers) -> Iterator[dict[str, Server]]:
    machines = FIXTURES / "machines"
    made = {
        "amd": add(servers, "amd", ["amd-smi"], machines / "amd-mi300x" / "commands"),
        "ascend": add(servers, "ascend", ["npu-smi"], machines / "ascend-910b" / "commands"),
        "hung": add(servers, "hung", ["npu-smi"], machines / "ascend-910b" / "commands"),
        "garbled": add(servers, "garbled", ["amd-smi"], machines / "amd-mi300x" / "commands"),
        "nvidia": add(servers, "nvidia", [], machines / "amd-mi300x" / "commands"),
        "both": add(servers, "both", ["amd-smi"], machines / "amd-mi300x" / "commands"),
    }
    (made["hung"].folder / "commands" / "npu-smi_info.hang").touch()
    for file in (made["garbled"].folder / "commands").glob("*.txt"):
        file.write_bytes(b'{"gpu_data": [\xff\x00 {"gpu": [[[')
    gpu = {
        "index": "0", "uuid": "GPU-00000000-0000-4000-8000-000000000000", "pci.bus_id": "00000000:3B:00.0",
        "name": "NVIDIA H100 80GB HBM3", "count": "1", "driver_version": "550.90.07", "utilization.gpu": "97",
        "memory.used": "70123", "memory.total": "81559", "power.draw": "388.54",
    }  # fmt: skip
    for name in ("nvidia", "both"):
        shutil.copy(FIXTURES / "nvidia_smi" / "nvidia-smi", made[name].folder / "bin" / "nvidia-smi")
        (made[name].folder / "smi.json").write_text(json.dumps({"gpus": [gpu], "apps": []}))
    try:
        yield made
    finally:
        for server in made.values():
            server.stop()
            servers.fleet.servers.remove(server)


async def test_each_vendor_comes_as_the_same_document_and_a_sick_tool_is_one_clear_row(
    servers: Servers, fleet_of_vendors: dict[str, Server], tmp_path: Path
) -> None:
    fleet = await watch([servers.spec(server) for server in fleet_of_vendors.values()], tmp_path)
    assert {host.name: row(host) for host in fleet} == {
        "amd": (LinkState.OK, None),
        "ascend": (LinkState.DEGRADED, ProblemKind.DEVICE_ERROR),
        "hung": (LinkState.DEGRADED, ProblemKind.PROBE_HUNG),
        "garbled": (LinkState.DEGRADED, ProblemKind.TOOL_FAILED),
        "nvidia": (LinkState.OK, None),
        "both": (LinkState.OK, None),
    }
    hosts = {host["name"]: host for host in json.loads(to_json(fleet))["hosts"]}
    assert {name: host["route"] for name, host in hosts.items()} == {
        "amd": "amd-smi",
        "ascend": "npu-smi",
        "hung": "npu-smi",
        "garbled": "amd-smi",
        "nvidia": "nvidia-smi",
        "both": "nvidia-smi",
    }
    assert told(hosts["amd"]) == [("amd", "AMD Instinct MI300X", 97, 702), ("amd", "AMD Instinct MI300X", 40, 320)]
    assert [part["kind"] for part in hosts["amd"]["devices"][1]["partitions"]] == ["xcp", "xcp"]
    assert hosts["amd"]["driver_version"] == "6.16.6"
    assert told(hosts["ascend"]) == [("huawei", "910B3", 60, 182), ("huawei", "910B3", 0, 95.2)]
    assert hosts["ascend"]["devices"][1]["problems"][0]["summary"] == "health: Alarm"
    assert told(hosts["nvidia"]) == [("nvidia", "NVIDIA H100 80GB HBM3", 97, 388.54)]
    assert told(hosts["both"]) == told(hosts["nvidia"]) + told(hosts["amd"])
    assert hosts["hung"]["devices"] == hosts["garbled"]["devices"] == []
    assert hosts["hung"]["memory_total_bytes"] == hosts["amd"]["memory_total_bytes"]


def told(host: dict[str, Any]) -> list[tuple[object, ...]]:
    keys = ("vendor", "model", "utilization_percent", "power_watts")
    return [tuple(device[key] for key in keys) for device in host["devices"]]
