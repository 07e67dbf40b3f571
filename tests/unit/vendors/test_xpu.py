"""`xpu-smi` and `xpumcli`: tables, CSV and JSON; tiles make one card."""

from __future__ import annotations

import json

from gputop.remote import intel_gpu_top, xpu

STATS = """\
+-----------------------------+--------------------------------------------------------------------+
| Device ID                   | 1                                                                  |
+-----------------------------+--------------------------------------------------------------------+
| GPU Utilization (%)         | Tile 0: 10                                                         |
|                             | Tile 1: 30                                                         |
| EU Array Active (%)         |                                                                    |
| GPU Power (W)               | Tile 0: avg: 44, min: 44, max: 44, current: 45                     |
|                             | Tile 1: avg: 50, min: 44, max: 55, current: 55                     |
| GPU Core Temperature        | Tile 0: avg: 45, min: 45, max: 45, current: 45                     |
| (Celsius Degree)            | Tile 1: avg: 45, min: 45, max: 45, current: 48                     |
| GPU Memory Temperature      | Tile 0: avg: , min: , max: , current:                              |
| (Celsius Degree)            | Tile 1: avg: 40, min: 40, max: 40, current: 40                     |
| Mem Errors Uncorrectable    | Tile 0: 0, Tile 1: 2, total: 2                                     |
| GPU Memory Used (MiB)       | Tile 0: avg: 26, min: 26, max: 26, current: 26                     |
|                             | Tile 1: avg: 14, min: 26, max: 26, current: 14                     |
+-----------------------------+--------------------------------------------------------------------+
"""


def test_tiles_make_one_card() -> None:
    (row,) = xpu.read(STATS)["devices"]
    assert (row["index"], row["utilization_percent"], row["power_watts"]) == (1, 20, 100)
    assert (row["temperature_celsius"], row["memory_used_bytes"]) == (48, 40 << 20)
    assert row["ecc_uncorrected_volatile"] == 2


def test_a_tile_without_value_leaves_the_card_without() -> None:
    (row,) = xpu.read(STATS)["devices"]
    assert row.get("memory_temperature_celsius") is None


DISCOVERY = """\
+-----------+--------------------------------------------------------------------------------------+
| Device ID | Device Information                                                                   |
+-----------+--------------------------------------------------------------------------------------+
| 0         | Device Name: Intel(R) Data Center GPU Max 1550                                       |
|           | Vendor Name: Intel(R) Corporation                                                    |
|           | UUID: 00000000-0000-0029-0000-002f0bd58086                                           |
|           | PCI BDF Address: 0000:29:00.0                                                        |
+-----------+--------------------------------------------------------------------------------------+
| 1         | Device Name: Intel(R) Data Center GPU Max 1550                                       |
|           | PCI BDF Address: 0000:9a:00.0                                                        |
|           | Memory Physical Size: 131072.00 MiB                                                  |
+-----------+--------------------------------------------------------------------------------------+
"""


def test_discovery_and_stats_in_one_text_are_about_the_same_devices() -> None:
    one, two = xpu.read(DISCOVERY + STATS)["devices"]
    assert (one["pci_bus_id"], one["uuid"]) == ("0000:29:00.0", "00000000-0000-0029-0000-002f0bd58086")
    assert (two["pci_bus_id"], two["power_watts"], two["memory_total_bytes"]) == ("0000:9a:00.0", 100, 128 << 30)


def test_a_dump_gives_the_last_line_of_each_device_and_tile() -> None:
    text = (
        "Timestamp, DeviceId, TileId, GPU Utilization (%), GPU Power (W), GPU Memory Temperature (Celsius Degree)\n"
        "06:14:46.000,    0, 0, 0.00, 14.00,\n06:14:46.000,    0, 1, 50.00, 15.00, 40\n"
        "06:14:46.000,    2, 0, N/A, 14.00, 40\n06:14:47.000,    0, 0, 10.00, 16.00, 41\n06:14:47.000,    0, 1,"
    )
    one, two = xpu.read(text)["devices"]
    assert (one["index"], one["utilization_percent"], one["power_watts"]) == (0, 30, 31)
    assert one["memory_temperature_celsius"] == 41
    assert (two["index"], two.get("utilization_percent"), two["power_watts"]) == (2, None, 14)


def test_processes_by_position_in_kilobytes() -> None:
    text = (
        "PID       Command             DeviceID       SHR            MEM\n"
        "12961     python3 -m serve    1              0              1966\n"
    )
    (row,) = xpu.read(text)["devices"]
    assert (row["index"], row["processes_known"]) == (1, True)
    assert row["processes"] == [{"pid": 12961, "name": "python3 -m serve", "memory_used_bytes": 1966 << 10}]


def test_json() -> None:
    discovery = {"device_list": [{"device_id": 0, "device_name": "Max 1100", "pci_bdf_address": "0000:29:00.0"}]}
    metrics = [
        {"metrics_type": "XPUM_STATS_POWER", "value": 44.69},
        {"metrics_type": "XPUM_STATS_MEMORY_USED", "value": 24.5},
    ]
    tiles = [{"tile_id": 0, "data_list": [{"metrics_type": "XPUM_STATS_GPU_UTILIZATION", "value": 88}]}]
    stats = {"device_id": 0, "device_level": metrics, "tile_level": tiles}
    listed = {"device_util_by_proc_list": [{"device_id": 0, "process_id": 5, "process_name": "p", "mem_size": 1024}]}
    (row,) = xpu.read("\n".join(json.dumps(part, indent=1) for part in (discovery, stats, listed)))["devices"]
    assert (row["model"], row["pci_bus_id"]) == ("Max 1100", "0000:29:00.0")
    assert (row["power_watts"], row["utilization_percent"]) == (44.69, 88)
    assert row["memory_used_bytes"] == int(24.5 * (1 << 20))
    assert row["processes"] == [{"pid": 5, "name": "p", "memory_used_bytes": 1 << 20}]


def test_memory_of_the_rest_interface_is_in_bytes() -> None:
    stats = {"device_id": 0, "device_level": [{"metrics_type": "XPUM_STATS_MEMORY_USED", "value": 134410240}]}
    assert xpu.read(json.dumps(stats))["devices"][0]["memory_used_bytes"] == 134410240


def test_intel_gpu_top_is_as_busy_as_its_busiest_engine() -> None:
    sample = (
        '[\n{"engines":{"Render/3D/0":{"busy":1.6}},"power":{"GPU":3.0,"unit":"W"}},\n'
        '{"engines":{"Render/3D/0":{"busy":85.0},"Video/0":{"busy":12.0}},"frequency":{"actual":1200.5},'
        '"power":{"GPU":4.5,"unit":"W"},"clients":{"1":{"name":"ffmpeg","pid":"77"}}},\n'
    )
    assert intel_gpu_top.looks_like(sample)
    (row,) = intel_gpu_top.read(sample)["devices"]
    assert (row["utilization_percent"], row["power_watts"], row["sm_clock_mhz"]) == (85, 4.5, 1200.5)
    assert row["processes"] == [{"pid": 77, "name": "ffmpeg"}]
