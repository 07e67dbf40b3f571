"""`amd-smi` in its shapes: JSON flat and wrapped, text, CSV, tables; partitions of one card are one device."""

from __future__ import annotations

import json
from typing import Any

from gputop.remote import amd
from tests.unit.vendors.recordings import frame_of

METRIC = {
    "gpu": 0,
    "usage": {"gfx_activity": {"value": 73, "unit": "%"}, "umc_activity": "N/A"},
    "power": {"socket_power": {"value": 142, "unit": "W"}},
    "temperature": {"edge": {"value": 45, "unit": "C"}, "hotspot": {"value": 61, "unit": "C"}, "mem": "N/A"},
    "clock": {
        "gfx_0": {"clk": {"value": 132, "unit": "MHz"}, "max_clk": {"value": 2100, "unit": "MHz"}},
        "mem_0": "N/A",
    },
    "pcie": {"width": 16, "speed": {"value": 32, "unit": "GT/s"}, "replay_count": 0},
    "ecc": {"total_correctable_count": 0, "total_uncorrectable_count": 2},
    "mem_usage": {"total_vram": {"value": 1024, "unit": "MB"}, "used_vram": {"value": 0, "unit": "MB"}},
}
STATIC = {
    "gpu": 0,
    "asic": {"market_name": "AMD Instinct MI300X", "asic_serial": "0x1"},
    "bus": {"bdf": "0000:05:00.0", "max_pcie_width": 16, "pcie_interface_version": "Gen 5"},
    "limit": {"ppt0": {"socket_power_limit": {"value": 750, "unit": "W"}}},
    "driver": {"name": "amdgpu", "version": "6.16.6"},
    "vram": {"size": {"value": 1024, "unit": "MB"}},
}


def card(gpu: int, bus: str, number: int, mode: str = "CPX", memory: str = "NPS4") -> dict[str, Any]:
    partition = {"accelerator_partition": mode, "memory_partition": memory, "partition_id": number}
    return {"gpu": gpu, "bus": {"bdf": bus}, "partition": partition}


def test_flat_and_wrapped_json_say_the_same() -> None:
    flat = amd.read(json.dumps([METRIC]))
    assert flat["devices"] == amd.read(json.dumps({"gpu_data": [METRIC]}))["devices"]
    (row,) = flat["devices"]
    assert row["utilization_percent"] == 73
    assert row["power_watts"] == 142
    assert row["temperature_celsius"] == 61
    assert (row["memory_used_bytes"], row["memory_total_bytes"]) == (0, 1 << 30)
    assert (row["sm_clock_mhz"], row["sm_clock_max_mhz"]) == (132, 2100)
    assert (row["pcie_generation"], row["pcie_width"], row["pcie_replay_count"]) == (5, 16, 0)
    assert (row["ecc_corrected_volatile"], row["ecc_uncorrected_volatile"]) == (0, 2)
    assert row.get("memory_utilization_percent") is None
    assert row.get("memory_temperature_celsius") is None
    assert row.get("memory_clock_mhz") is None


def test_outputs_one_below_the_other_add_up_to_one_device() -> None:
    sample = amd.read(json.dumps({"gpu_data": [STATIC]}) + "\n" + json.dumps({"gpu_data": [METRIC]}))
    (row,) = sample["devices"]
    assert (row["model"], row["pci_bus_id"], row["power_limit_watts"]) == ("AMD Instinct MI300X", "0000:05:00.0", 750)
    assert row["power_watts"] == 142
    assert sample["facts"]["driver_version"] == "6.16.6"


def test_a_warning_above_the_json_is_no_part_of_it() -> None:
    text = "WARNING: User is missing the following required groups: render, video.\n" + json.dumps([METRIC])
    assert len(amd.read(text)["devices"]) == 1


def test_json_that_is_cut_off_gives_what_is_whole_and_a_problem() -> None:
    text = json.dumps([STATIC, dict(STATIC, gpu=1, bus={"bdf": "0000:26:00.0"})])
    sample = amd.read(text[: text.rindex('"limit"')])
    assert [row["index"] for row in sample["devices"]] == [0, 1]
    assert [problem["kind"] for problem in sample["problems"]] == ["unreadable-file"]


def test_partitions_under_one_address_are_one_device() -> None:
    entries = [card(0, "0000:C5:00.0", 0, "SPX", "NPS1")]
    entries += [card(1 + number, "0000:C8:00.0", number) for number in range(8)]
    entries += [card(9 + number, "0000:8A:00.0", number, "DPX", "NPS1") for number in range(2)]
    devices = amd.read(json.dumps(entries))["devices"]
    assert [(row["index"], row["pci_bus_id"], len(row.get("partitions", []))) for row in devices] == [
        (0, "0000:C5:00.0", 0),
        (1, "0000:C8:00.0", 8),
        (9, "0000:8A:00.0", 2),
    ]
    partition = devices[1]["partitions"][3]
    assert (partition["kind"], partition["index"], partition["profile"]) == ("xcp", 3, "CPX/NPS4")


def test_the_function_of_the_address_may_be_the_partition() -> None:
    entries = [card(number, f"0000:05:00.{number}", number) for number in range(4)]
    entries += [card(4, "0000:06:00.0", 0, "SPX")]
    assert [row["pci_bus_id"] for row in amd.read(json.dumps(entries))["devices"]] == ["0000:05:00.0", "0000:06:00.0"]


def test_processes_of_partitions_are_those_of_the_card() -> None:
    entries = [
        dict(card(number, "0000:05:00.0", number), process_list=[{"process_info": {"name": "p", "pid": 10 + number}}])
        for number in range(2)
    ]
    (row,) = amd.read(json.dumps(entries))["devices"]
    assert row["processes_known"] is True
    assert [process["pid"] for process in row["processes"]] == [10, 11]


def test_in_partition_mode_monitor_shows_the_card_in_the_row_of_its_first_partition() -> None:
    text = (
        "GPU  XCP  POWER   GPU_T   MEM_T   GFX_CLK   GFX%   MEM%   ENC%   DEC%      VRAM_USAGE\n"
        "  0    0  183 W   49 °C   48 °C  1427 MHz    0 %    0 %    N/A    0 %    0.3/192.0 GB\n"
        "  1    1    N/A     N/A     N/A       N/A    N/A    N/A    N/A    N/A    0.5/ 48.0 GB\n"
        "  2    0  182 W   50 °C   46 °C  1423 MHz    7 %    0 %    N/A    0 %    0.3/192.0 GB\n"
        "  3    1    N/A     N/A     N/A       N/A    N/A    N/A    N/A    N/A    0.5/ 48.0 GB\n"
    )
    first, second = amd.read(text)["devices"]
    assert (first["index"], first["power_watts"], first["memory_total_bytes"]) == (0, 183, 192 << 30)
    assert first["encoder_utilization_percent"] is None
    assert (second["index"], second["utilization_percent"]) == (2, 7)
    assert [partition["memory_total_bytes"] for partition in second["partitions"][1:]] == [48 << 30]


def test_a_pool_of_system_memory_is_not_the_memory_of_the_card() -> None:
    text = "GPU  XCP  POWER   GPU_T       GTT_USAGE\n  0    0   49 W   27 °C    0.0/376.7 GB\n"
    (row,) = amd.read(text)["devices"]
    assert (row["power_watts"], row["memory_used_bytes"]) == (49, None)


def test_a_watch_gives_its_last_values() -> None:
    text = (
        "TIMESTAMP   GPU  XCP  POWER  PWR_CAP\n"
        "1786038263    0    0  123 W    750 W\n"
        "1786038264    0    0  124 W    750 W\n"
    )
    (row,) = amd.read(text)["devices"]
    assert (row["power_watts"], row["power_limit_watts"]) == (124, 750)


def test_csv_has_the_names_of_the_json() -> None:
    text = "gpu,power_usage,hotspot_temperature,gfx,vram_used,vram_total\n0,142,61,N/A,512,1024\n"
    (row,) = amd.read(text)["devices"]
    assert (row["power_watts"], row["temperature_celsius"], row["memory_used_bytes"]) == (142, 61, 512 << 20)
    assert row.get("utilization_percent") is None


def test_text_tells_no_processes_from_unknown_ones() -> None:
    text = (
        "GPU: 0\n    PROCESS_INFO: No running processes detected\n\n"
        "GPU: 1\n    PROCESS_INFO: N/A\n\n"
        "GPU: 2\n    PROCESS_INFO:\n        NAME: N/A\n        PID: 12\n"
        "        MEMORY_USAGE:\n            VRAM_MEM: 1.0 GB\n"
        "    PROCESS_INFO:\n        NAME: b\n        PID: 13\n"
        "        MEMORY_USAGE:\n            VRAM_MEM: 2.0 GB\n"
    )
    none, unknown, two = amd.read(text)["devices"]
    assert none["processes_known"] is True
    assert unknown["processes_known"] is False
    assert [(p["pid"], p["name"], p["memory_used_bytes"]) for p in two["processes"]] == [
        (12, None, 1 << 30),
        (13, "b", 2 << 30),
    ]


def test_sections_of_processors_are_no_devices() -> None:
    assert amd.read("CPU: 0\n    SMU:\n        FW_VERSION: 85.90.0\n")["devices"] == []


DEFAULT = """\
+------------------------------------------------------------------------------+
| AMD-SMI 26.2.1+abc          amdgpu version: 6.16.6   ROCm version: 7.2.0    |
| Platform: Linux Baremetal                                                    |
|-------------------------------------+----------------------------------------|
| BDF                        GPU-Name | Mem-Uti   Temp   UEC       Power-Usage |
| GPU  HIP-ID  OAM-ID  Partition-Mode | GFX-Uti    Fan               Mem-Usage |
|=====================================+========================================|
| 0000:03:00.0  AMD Instinct MI300X   | 1 %      79 °C   0           103/300 W |
|   0       0     N/A       CPX/NPS4  | 100 %   38.82           29777/32624 MB |
|-------------------------------------+----------------------------------------|
| 0000:03:00.0  AMD Instinct MI300X   | N/A        N/A   N/A             N/A/W |
|   1       1     N/A       CPX/NPS4  | N/A        N/A            512/32624 MB |
|-------------------------------------+----------------------------------------|
| 0000:43:00.0  AMD Instinct MI300X   | 0 %      80 °C   3            92/300 W |
|   2       2     N/A            SPX  | N/A       N/A            29777/32624 MB |
+-------------------------------------+----------------------------------------+
+------------------------------------------------------------------------------+
| Processes:                                                                   |
|  GPU        PID  Process Name          GTT_MEM  VRAM_MEM  MEM_USAGE     CU % |
|==============================================================================|
|    0     213534  python3.12 -m serve    5.9 MB   54.0 KB      0.0 B  N/A     |
|    2     213535  N/A                    5.9 MB    1.0 GB      0.0 B  N/A     |
+------------------------------------------------------------------------------+
"""


def test_the_default_table_is_read_by_its_labels() -> None:
    sample = amd.read(DEFAULT)
    first, second = sample["devices"]
    assert sample["facts"]["driver_version"] == "6.16.6"
    assert (first["index"], first["pci_bus_id"], first["model"]) == (0, "0000:03:00.0", "AMD Instinct MI300X")
    assert (first["utilization_percent"], first["memory_utilization_percent"]) == (100, 1)
    assert (first["power_watts"], first["power_limit_watts"], first["fan_percent"]) == (103, 300, 38.82)
    assert len(first["partitions"]) == 2
    assert [(p["pid"], p["name"], p["memory_used_bytes"]) for p in first["processes"]] == [
        (213534, "python3.12 -m serve", 54 << 10)
    ]
    assert (second["index"], second["utilization_percent"], second["fan_percent"]) == (2, None, None)
    assert (second["ecc_uncorrected_volatile"], second["memory_used_bytes"]) == (3, 29777 << 20)
    assert [process["name"] for process in second["processes"]] == [None]


def test_a_table_that_is_cut_off_says_so_and_knows_no_processes() -> None:
    cut = amd.read(DEFAULT[: DEFAULT.index("  N/A                    5.9 MB")])
    assert len(cut["devices"]) == 2
    assert [problem["kind"] for problem in cut["problems"]] == ["unreadable-file"]
    assert {row["processes_known"] for row in cut["devices"]} == {False}


def test_samples_become_frames() -> None:
    assert len(frame_of(amd.read(DEFAULT)).partitions) == 2
