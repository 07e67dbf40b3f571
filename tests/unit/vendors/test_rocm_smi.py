"""`rocm-smi` and Hygon's `hy-smi`: JSON, JSON that is none, lines, concise tables."""

from __future__ import annotations

import json

import pytest

from gputop.remote import hygon, rocm_smi

CARD = {
    "GPU use (%)": "5",
    "Temperature (Sensor edge) (C)": "N/A",
    "Temperature (Sensor junction) (C)": "34.0",
    "Temperature (Sensor memory) (C)": "30.0",
    "Current Socket Graphics Package Power (W)": "173.0",
    "Max Graphics Package Power (W)": "750.0",
    "VRAM Total Memory (B)": "205822885888",
    "VRAM Total Used Memory (B)": "0",
    "Card Series": "0x1002",
    "Card Model": "AMD Instinct MI300X",
    "Serial Number": "0",
    "PCI Bus": "0000:1E:00.0",
    "sclk clock speed:": "(132Mhz)",
    "pcie clock level": "0 (8.0GT/s x16)",
}


def test_the_spelling_of_keys_does_not_matter() -> None:
    (row,) = rocm_smi.read(json.dumps({"card3": CARD}))["devices"]
    shouted = {key.upper(): value for key, value in CARD.items()}
    assert rocm_smi.read(json.dumps({"card3": shouted}))["devices"] == [row]
    assert (row["index"], row["model"], row["serial"]) == (3, "AMD Instinct MI300X", None)
    assert (row["temperature_celsius"], row["memory_temperature_celsius"]) == (34, 30)
    assert (row["power_watts"], row["power_instant_watts"], row["power_limit_watts"]) == (173, 173, 750)
    assert (row["memory_used_bytes"], row["memory_total_bytes"]) == (0, 205822885888)
    assert (row["sm_clock_mhz"], row["pcie_generation"], row["pcie_width"]) == (132, 3, 16)


def test_the_edge_sensor_counts_where_there_is_one_as_in_the_concise_table() -> None:
    values = dict(CARD, **{"Temperature (Sensor edge) (C)": "31.0"})
    assert rocm_smi.read(json.dumps({"card0": values}))["devices"][0]["temperature_celsius"] == 31


def test_warnings_above_the_json_do_not_matter() -> None:
    text = "\n\nWARNING: AMD GPU device(s) is/are in a low-power state. Check power control/runtime_status\n\n"
    assert len(rocm_smi.read(text + json.dumps({"card0": CARD}))["devices"]) == 1


def test_json_without_commas_or_with_a_cut_end_is_read_all_the_same() -> None:
    text = json.dumps({"card0": CARD, "card1": dict(CARD, **{"PCI Bus": "0000:1F:00.0"})}, indent=1)
    (one, two) = rocm_smi.read(text.replace(",\n", "\n"))["devices"]
    assert (one["power_watts"], two["power_watts"]) == (173, 173)
    cut = rocm_smi.read(text[: text.rindex('"VRAM Total Memory')])["devices"]
    assert [row.get("memory_total_bytes") for row in cut] == [205822885888, None]
    assert [row["power_watts"] for row in cut] == [173, 173]


def test_processes_belong_to_a_card_only_where_there_is_one() -> None:
    system = {"PID4242": "python3, 1, 8589934592, 0, 98", "Driver version": "6.3.6"}
    sample = rocm_smi.read(json.dumps({"card0": CARD, "system": system}))
    (row,) = sample["devices"]
    assert row["processes"] == [{"pid": 4242, "name": "python3", "memory_used_bytes": 8589934592}]
    assert sample["facts"]["driver_version"] == "6.3.6"
    two = rocm_smi.read(
        json.dumps({"card0": CARD, "card1": dict(CARD, **{"PCI Bus": "0000:1F:00.0"}), "system": system})
    )
    assert [row.get("processes_known", False) for row in two["devices"]] == [False, False]


def test_cards_of_one_address_are_partitions_of_one() -> None:
    devices = rocm_smi.read(json.dumps({"card0": CARD, "card1": CARD}))["devices"]
    assert [(row["index"], len(row["partitions"])) for row in devices] == [(0, 2)]


LINES = (
    "GPU[0]\t\t: Temperature (Sensor edge) (C): 31.0\n"
    "GPU[0]\t\t: GPU use (%): 5\n"
    "GPU[0]\t\t: sclk clock level: 1: (808Mhz)\n"
    "GPU[0]\t\t: VRAM Total Memory (B): 1048576\n"
    "GPU[1]\t\t: GPU use (%): N/A\n"
)


def test_lines_of_options_are_read_like_json() -> None:
    one, two = rocm_smi.read(LINES)["devices"]
    assert (one["temperature_celsius"], one["utilization_percent"], one["sm_clock_mhz"]) == (31, 5, 808)
    assert one["memory_total_bytes"] == 1 << 20
    assert two.get("utilization_percent") is None


def test_csv_has_the_keys_of_the_json() -> None:
    text = (
        "device,GPU use (%),Temperature (Sensor edge) (C),VRAM Total Memory (B),Card Series\n"
        "card0,5,31.0,1048576,Instinct\ncard1,N/A,N/A,1048576,Instinct\n\n"
    )
    assert rocm_smi.looks_like(text)
    one, two = rocm_smi.read(text)["devices"]
    assert (one["utilization_percent"], one["temperature_celsius"], one["memory_total_bytes"]) == (5, 31, 1 << 20)
    assert (two["model"], two.get("utilization_percent"), two.get("temperature_celsius")) == ("Instinct", None, None)


CONCISE = """\
======================= ROCm System Management Interface =======================
================================= Concise Info =================================
GPU  Temp (DieEdge)  AvgPwr  SCLK    MCLK     Fan     Perf  PwrCap  VRAM%  GPU%
0    31.0c           39.0W   300Mhz  1200Mhz  14.51%  auto  290.0W    0%   8%
1    N/A             N/A     None    1200Mhz  0%      auto  Unsupported   17%   N/A
================================================================================
"""
TWO_LINES = """\
==================== Concise Info ====================
Device  Node  IDs              Temp        Power     Partitions          SCLK    MCLK    Fan  Perf  PwrCap  VRAM%  GPU%
              (DID,     GUID)  (Junction)  (Socket)  (Mem, Compute, ID)
========================================
0       2     0x74a1,   3771   47.0°C      154.0W    NPS4, CPX, 0        133Mhz  900Mhz  0%   auto  750.0W  0%     3%
1       3     N/A,      62138  N/A         N/A       N/A, N/A, 1         N/A     N/A     0%   n/a   N/A     2%     N/A
2       4     0x74a1,   51499  36.0°C      174.0W    NPS1, SPX, 0        2104Mhz 900Mhz  0%   auto  750.0W  86%    0%
========================================
"""


def test_the_concise_table_of_rocm_4_and_5() -> None:
    one, two = rocm_smi.read(CONCISE)["devices"]
    assert (one["temperature_celsius"], one["power_watts"], one["power_limit_watts"]) == (31, 39, 290)
    assert (one["sm_clock_mhz"], one["memory_clock_mhz"], one["fan_percent"]) == (300, 1200, 14.51)
    assert one["utilization_percent"] == 8
    for key in ("temperature_celsius", "power_watts", "power_limit_watts", "sm_clock_mhz", "utilization_percent"):
        assert two[key] is None, key
    assert two["memory_clock_mhz"] == 1200


def test_the_concise_table_of_rocm_6_with_partitions() -> None:
    one, two = rocm_smi.read(TWO_LINES)["devices"]
    assert (one["index"], one["temperature_celsius"], one["power_watts"], one["utilization_percent"]) == (0, 47, 154, 3)
    assert [partition["index"] for partition in one["partitions"]] == [0, 1]
    assert (two["index"], two["sm_clock_mhz"], two["power_limit_watts"]) == (2, 2104, 750)
    assert "partitions" not in two


HYGON = """\
============================ System Management Interface =============================
======================================================================================
DCU     Temp     AvgPwr     Perf     PwrCap     VRAM%      DCU%      Mode
0       67.0C    108.0W     manual   600.0W     87%        74%       Normal
1       N/A      N/A        manual   600.0W     85%        N/A       Normal
======================================================================================
=================================== End of SMI Log ===================================
"""


def test_hygon_prints_the_same_table_under_its_own_name() -> None:
    assert hygon.looks_like(HYGON)
    assert not hygon.looks_like(CONCISE)
    sample = hygon.read(HYGON)
    one, two = sample["devices"]
    assert (sample["route"], one["vendor"]) == ("hy-smi", "hygon")
    assert (one["temperature_celsius"], one["power_watts"], one["power_limit_watts"]) == (67, 108, 600)
    assert (one["utilization_percent"], two["utilization_percent"], two["power_watts"]) == (74, None, None)


@pytest.mark.parametrize("text", [CONCISE, TWO_LINES, LINES, json.dumps({"card0": CARD})])
def test_each_shape_is_recognized(text: str) -> None:
    assert rocm_smi.looks_like(text)
