"""Outputs of the same tools by other commands and other versions: each test has the smallest input of the shape."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.readers.recognize import read_text
from gputop.remote.sample import MIB, Sample


def values(sample: Sample, *keys: str) -> list[tuple[Any, ...]]:
    return [tuple(row.get(key) for key in keys) for row in sample["devices"]]


COMMON = """\
        NPU ID                         : 0
        Chip Count                     : 1

        Chip ID                        : 0
        Aicore Usage Rate(%)           : 31
        Aicore curFreq(MHZ)            : 900
        Temperature(C)                 : 46
        NPU Real-time Power(W)         : 69.0

        Chip Name                      : mcu
        Temperature(C)                 : 48
        NPU Real-time Power(W)         : 45.2
"""


def test_ascend_common_information_is_the_accelerators_and_not_the_controllers() -> None:
    assert values(read_text(COMMON), "index", "utilization_percent", "temperature_celsius", "power_watts") == [
        (0, 31, 46, 69)
    ]


def test_ascend_usages_of_two_chips_are_two_devices_whose_number_ends_their_lines() -> None:
    text = "NPU ID : 3\nChip Count : 2\n" + "".join(
        f"HBM Capacity(MB) : 65536\nAicore Usage Rate(%) : {use}\nChip ID : {chip}\n\n"
        for chip, use in ((0, 31), (1, 5))
    )
    assert values(read_text(text), "index", "utilization_percent", "memory_total_bytes") == [
        (6, 31, 65536 * MIB),
        (7, 5, 65536 * MIB),
    ]


def test_ascend_processes_of_a_card_and_its_health() -> None:
    text = "NPU ID : 2\nHealth : Alarm\nProcess id:165 Process name:python       Process memory(MB):177\nChip ID : 0\n"
    [row] = read_text(text)["devices"]
    assert row["processes"] == [{"pid": 165, "name": "python", "memory_used_bytes": 177 * MIB}]
    assert [found["summary"] for found in row["problems"]] == ["health: Alarm"]


def test_the_map_of_ascend_leaves_controllers_out() -> None:
    text = (
        "NPU ID         Chip ID        Chip Logic ID  Chip Name\n"
        "0              0              0              Ascend 910B3\n"
        "0              1              -              Mcu\n"
        "5              0              1              Ascend 910B3\n"
    )
    assert values(read_text(text), "index", "model") == [(0, "Ascend 910B3"), (5, "Ascend 910B3")]


def test_what_mx_smi_shows_below_each_gpu_is_read() -> None:
    text = (
        "mx-smi  version: 2.2.9\n\nAttached GPUs : 1\nGPU#0  MXC500  0000:08:00.0\n\n"
        "\tChip Temperature\n\t    hotspot(sensor0)     :  39.00 C\n"
        "\tBoard Temperature\n\t    air-inlet    :  28.75 C\n"
        "\tMemory\n\t    vis_vram total       : 67108864 KB\n\t    vis_vram used        : 879384 KB\n"
        "\tUtilization\n\t    GPU                  : 17 %\n\t    VPUE                 : 3 %\n"
    )
    [row] = read_text(text)["devices"]
    assert (row["temperature_celsius"], row["utilization_percent"]) == (39, 17)
    assert (row["memory_total_bytes"], row["memory_used_bytes"]) == (65536 * MIB, 879384 * 1024)


def test_hl_smi_with_two_power_supplies_has_no_power_of_the_card() -> None:
    text = (
        "================ HL-SMI LOG ================\nDriver Version      : 1.12.1-cb7a7bc\nAttached AIPs : 1\n\n"
        "[0] AIP (accel0) 0000:43:00.0\n        Product Name      : HL-225\n        Memory Usage\n"
        "                Total     : 98304 MB\n                Used      : 768 MB\n        Power Readings (54V PSU)\n"
        "                Power Draw  : 50 W\n        Power Readings (12V PSU)\n                Power Draw  : 31 W\n"
    )
    sample = read_text(text)
    assert sample["facts"]["driver_version"] == "1.12.1-cb7a7bc"
    assert values(sample, "index", "pci_bus_id", "memory_used_bytes", "power_watts") == [
        (0, "0000:43:00.0", 768 * MIB, None)
    ]


def test_columns_of_hl_smi_are_not_taken_for_nvidias() -> None:
    sample = read_text("module_id, serial, bus_id, driver_version\n2, AM5001, 0000:19:00.0, 1.17.0-28a11ca\n")
    assert values(sample, "vendor", "serial", "pci_bus_id") == [("habana", "AM5001", "0000:19:00.0")]


def test_a_copied_hl_smi_command_names_the_columns() -> None:
    sample = read_text("$ hl-smi -Q index,name,power.draw -f csv,noheader\n0, HL-325L, 226 W\n1, HL-325L, N/A\n")
    assert values(sample, "index", "model", "power_watts") == [(0, "HL-325L", 226), (1, "HL-325L", None)]


def test_rocm_smi_of_the_first_versions() -> None:
    text = (
        "....................    ROCm System Management Interface    ....................\n"
        "GPU[0] \t\t: GPU ID: 0x687f\n"
        "GPU[0] \t\t: Temperature: 81.0c\n"
        "GPU[0] \t\t: GPU Clock Level: 1 (991Mhz)\n"
        "GPU[0] \t\t: Fan Level: 124 (48.63)%\n"
        "GPU[0] \t\t: Average GPU Power: 31.0 W\n"
        "Driver version: 4.1.0\n"
    )
    sample = read_text(text)
    assert values(sample, "temperature_celsius", "sm_clock_mhz", "fan_percent", "power_watts") == [(81, 991, 48.63, 31)]
    assert sample["facts"]["driver_version"] == "4.1.0"


def test_a_fan_level_alone_is_no_share() -> None:
    assert values(read_text("GPU[0] : Fan Level: 124\nGPU[0] : GPU use (%): 3\n"), "fan_percent") == [(None,)]


def test_processes_of_rocm_smi_alone_name_no_gpu() -> None:
    text = (
        "============= ROCm System Management Interface =============\nKFD process information:\n"
        "PID\tPROCESS NAME\tGPU(s)\tVRAM USED\n4242\tpython3     \t1     \t1024000\n"
    )
    sample = read_text(text)
    assert sample["devices"] == []
    assert [found["kind"] for found in sample["problems"]] == ["unreadable-file"]


def test_the_version_of_amd_smi_is_a_fact_and_no_failure() -> None:
    sample = read_text("AMDSMI Tool: 25.3.0 | ROCm version: 6.4.0 | amdgpu version: 6.12.12 | amd_hsmp version: N/A\n")
    assert (sample["facts"], sample["problems"]) == ({"driver_version": "6.12.12"}, [])


def test_tiles_of_intel_parted_by_semicolons_are_one_card() -> None:
    text = (
        "   | Device ID             | 2                       |\n"
        "   +-----------------------+-------------------------+\n"
        "   | GPU Utilization (%)   | Tile 0: 98; Tile 1: 12  |\n"
        "   | GPU Power (W)         | Tile 0: 143; Tile 1: 97 |\n"
        "   | GPU Memory Used (MiB) | Tile 0: 80; Tile 1: N/A |\n"
    )
    assert values(read_text(text), "index", "utilization_percent", "power_watts", "memory_used_bytes") == [
        (2, 55, 240, None)
    ]


def test_no_cuda_in_a_table_of_iluvatar_is_no_version() -> None:
    text = (
        "|  IX-ML: 4.0.0       Driver Version: 4.1.0       CUDA Version: N/A  |\n|--------+---------|\n"
        "| GPU  Name       | Bus-Id           |\n| Fan  Temp  Perf | Memory-Usage     |\n|=====+=====|\n"
        "| 0    BI-V150S   | 00000000:8A:00.0 |\n| 0%   33C   P0   | 114MiB / 3276MiB |\n+-----+-----+\n"
    )
    sample = read_text(text)
    assert sample["facts"] == {"driver_version": "4.1.0", "cuda_version": None}
    assert values(sample, "index", "temperature_celsius") == [(0, 33)]


@pytest.mark.parametrize(
    "line",
    [
        "[ 12.1] NVRM: GPU at 0000:02:00.0 has fallen off the bus.",
        "[ 12.1] NVRM: GPU 0000:02:00.0: GPU has fallen off the bus.",
    ],
)
def test_every_wording_of_a_gpu_off_the_bus(line: str) -> None:
    [event] = read_text(line + "\n")["events"]
    assert (event["kind"], event["pci_bus_id"]) == ("fell-off-bus", "0000:02:00.0")


def test_a_kernel_log_of_other_words_is_known_and_has_no_events() -> None:
    sample = read_text(" [Sun Jan 11 09:52:01 2026] NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required\n")
    assert (sample["route"], sample["events"], sample["problems"]) == ("kernel-log", [], [])


def test_a_part_of_nvidia_smi_q_without_its_head_is_read() -> None:
    text = (
        "GPU 00000001:C8:00.0\n    Active vGPUs                          : 1\n"
        "    vGPU ID                               : 3251637554\n        vGPU Name    : NVIDIA RTX 6000-3Q\n"
        "        FB Memory Usage\n            Total   : 3072 MiB\n            Used    : 128 MiB\n"
    )
    [row] = read_text(text)["devices"]
    assert (row["pci_bus_id"], row.get("memory_used_bytes")) == ("00000001:C8:00.0", None)
    assert [(part["kind"], part["memory_used_bytes"]) for part in row["partitions"]] == [("vgpu", 128 * MIB)]


def test_a_process_whose_name_may_not_be_seen_has_none() -> None:
    text = (
        "| NVIDIA-SMI 461.09       Driver Version: 461.09       CUDA Version: 11.2     |\n"
        "|===============================+======================+======================|\n"
        "|   0  GeForce RTX 208... WDDM  | 00000000:01:00.0  On |                  N/A |\n"
        "| 41%   44C    P8    24W / 260W |    768MiB / 11264MiB |      2%      Default |\n"
        "+-------------------------------+----------------------+----------------------+\n"
        "| Processes:                                                                  |\n"
        "|=============================================================================|\n"
        "|    0   N/A  N/A      1412    C+G   Insufficient Permissions        N/A      |\n"
        "+-----------------------------------------------------------------------------+\n"
    )
    [row] = read_text(text)["devices"]
    assert [(process["pid"], process["name"]) for process in row["processes"]] == [(1412, None)]


def test_the_metrics_table_of_rocm_smi_has_its_own_keys() -> None:
    text = (
        "GPU[0]\t\t: temperature_edge (C): 41\nGPU[0]\t\t: temperature_hotspot (C): 43\n"
        "GPU[0]\t\t: temperature_mem (C): 65535\nGPU[0]\t\t: average_gfx_activity (%): 3\n"
        "GPU[0]\t\t: average_socket_power (W): N/A\nGPU[0]\t\t: current_gfxclk (MHz): 41\n"
    )
    assert values(
        read_text(text),
        "temperature_celsius",
        "memory_temperature_celsius",
        "utilization_percent",
        "power_watts",
        "sm_clock_mhz",
    ) == [(41, None, 3, None, 41)]


def test_a_uuid_that_was_taken_out_is_none() -> None:
    text = "GPU 0: Tesla T4 (UUID: ...)\nGPU 1: Tesla T4 (UUID: ...)\n"
    assert values(read_text(text), "index", "uuid") == [(0, None), (1, None)]
