"""AWS Neuron and Google TPU: cores and chips, JSON streams and tables."""

from __future__ import annotations

import json
from typing import Any

from gputop.remote import neuron, tpu

REPORT: dict[str, Any] = {
    "neuron_runtime_data": [
        {
            "pid": 2199,
            "report": {
                "neuroncore_counters": {
                    "neuroncores_in_use": {"0": {"neuroncore_utilization": 90.0}, "1": {"neuroncore_utilization": 0}}
                },
                "memory_used": {
                    "neuron_runtime_used_bytes": {
                        "usage_breakdown": {
                            "neuroncore_memory_usage": {"0": {"tensors": 100, "constants": 20}, "1": {"tensors": 3}}
                        }
                    }
                },
            },
        }
    ],
    "system_data": {
        "memory_info": {"memory_total_bytes": 1000, "memory_used_bytes": 10},
        "neuron_hw_counters": {
            "neuron_devices": [{"neuron_device_index": 1, "mem_ecc_corrected": 2, "sram_ecc_corrected": 3}]
        },
    },
    "neuron_hardware_info": {
        "neuron_device_count": 2,
        "neuroncore_per_device_count": 2,
        "neuron_device_type": "inferentia2",
        "neuron_device_memory_size": 34359738368,
        "error": "",
    },
}


def test_a_device_is_the_mean_of_its_cores_and_an_unused_one_has_no_value() -> None:
    sample = neuron.read(json.dumps(REPORT))
    one, two = sample["devices"]
    assert (one["model"], one["utilization_percent"], one["memory_used_bytes"]) == ("inferentia2", 45, 123)
    assert [core["utilization_percent"] for core in one["partitions"]] == [90, 0]
    assert one["processes"] == [{"pid": 2199, "kind": "compute", "memory_used_bytes": 123}]
    assert (two.get("utilization_percent"), two.get("memory_used_bytes"), two["processes"]) == (None, None, [])
    assert two["ecc_corrected_volatile"] == 5
    assert sample["host"] == {"memory_used_bytes": 10, "memory_total_bytes": 1000}


def test_of_a_stream_the_last_whole_document_counts() -> None:
    later = json.loads(json.dumps(REPORT))
    later["neuron_hardware_info"]["neuron_device_count"] = 3
    text = json.dumps(REPORT) + "\n" + json.dumps(later) + "\n" + json.dumps(REPORT)[:200]
    sample = neuron.read(text)
    assert len(sample["devices"]) == 3
    assert [problem["kind"] for problem in sample["problems"]] == ["unreadable-file"]


def test_neuron_ls_as_a_list_and_within_an_object() -> None:
    entry = {
        "neuron_device": 4,
        "bdf": "00:1e.0",
        "memory_size": 34359738368,
        "neuroncore_ids": [8, 9],
        "neuron_processes": [{"pid": 77, "command": "python3 x.py"}],
    }
    (row,) = neuron.read(json.dumps([entry]))["devices"]
    assert neuron.read(json.dumps({"instance_type": "trn1", "neuron_devices": [entry]}))["devices"] == [row]
    assert (row["index"], row["pci_bus_id"], row["memory_total_bytes"]) == (4, "00:1e.0", 34359738368)
    assert [core["index"] for core in row["partitions"]] == [8, 9]
    assert row["processes"] == [{"pid": 77, "command": "python3 x.py", "kind": "compute"}]


TABLE = """\
instance-type: trn2.48xlarge
+--------+--------+--------+-----------+---------+--------+------------+---------+
| NEURON | NEURON | NEURON | CONNECTED |   PCI   |  PID   |  COMMAND   | RUNTIME |
| DEVICE | CORES  | MEMORY |  DEVICES  |   BDF   |        |            | VERSION |
+--------+--------+--------+-----------+---------+--------+------------+---------+
| 0      | 4      | 96 GB  | 12, 3     | cc:00.0 | 268911 | python3 a  | 2.0.0   |
|        |        |        |           |         | 268912 | python3 b  | 2.0.0   |
| 1      | 4      | 96 GB  | 13, 0     | b5:00.0 |        |            |         |
+--------+--------+--------+-----------+---------+--------+------------+---------+
"""


def test_neuron_ls_table_with_two_processes_on_a_device() -> None:
    one, two = neuron.read(TABLE)["devices"]
    assert (one["pci_bus_id"], one["memory_total_bytes"]) == ("cc:00.0", 96 << 30)
    assert [(process["pid"], process["command"]) for process in one["processes"]] == [
        (268911, "python3 a"),
        (268912, "python3 b"),
    ]
    assert (two["processes_known"], two["processes"]) == (True, [])


def chips(left: str, rule: str) -> str:
    return (
        "TPU Chips\n\n"
        f"{left} Chip        {left} Type         {left} Devices {left} PID  {left}\n{rule}\n"
        f"{left} /dev/accel0 {left} TPU v4 chip  {left} 2       {left} 24   {left}\n"
        f"{left} /dev/accel1 {left} TPU v4 chip  {left} 2       {left} None {left}\n\n"
        "TPU Runtime Utilization\n\n"
        f"{left} Device {left} HBM Usage (GiB)      {left} Duty cycle {left}\n{rule}\n"
        f"{left} 4      {left} 8.00 GiB / 32.00 GiB {left}    100.00% {left}\n"
        f"{left} 5      {left} N/A                  {left}        N/A {left}\n"
    )


def test_tpu_rows_whose_numbers_differ_are_in_the_order_of_the_chips() -> None:
    for text in (chips("|", "|---|---|---|---|"), chips("│", "├─────┼─────┼─────┤")):
        one, two = tpu.read(text)["devices"]
        assert (one["index"], one["model"], one["memory_used_bytes"]) == (0, "TPU v4 chip", 8 << 30)
        assert (one["utilization_percent"], one["processes"][0]["pid"]) == (100, 24)
        assert (two.get("memory_used_bytes"), two.get("utilization_percent")) == (None, None)
        assert (two["processes_known"], two["processes"]) == (True, [])


def test_tpu_rows_of_cores_add_up_to_their_chip() -> None:
    text = (
        "TPU Chips\n| Chip | Type | Devices | PID |\n|------|------|---------|-----|\n"
        "| /dev/accel0 | TPU v3 chip | 2 | None |\n\nTPU Runtime Utilization\n"
        "| Device | HBM usage | Duty cycle |\n|--------|-----------|------------|\n"
        "| 0 | 1.00 GiB / 16.00 GiB | 10.00% |\n| 1 | 2.00 GiB / 16.00 GiB | 30.00% |\n"
    )
    (row,) = tpu.read(text)["devices"]
    assert (row["memory_used_bytes"], row["memory_total_bytes"]) == (3 << 30, 32 << 30)
    assert row["utilization_percent"] == 20
