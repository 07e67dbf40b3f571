"""`npu-smi info`: one and several chips a card, what stands for no value, processes."""

from __future__ import annotations

from gputop.remote import ascend

DUAL = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc3.3               Version: 24.1.rc3.3                                           |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     Ascend910           | OK            | 182.0       36                0    / 0             |
| 0     0                   | 0000:9D:00.0  | 0           0    / 0          3402 / 65536         |
+------------------------------------------------------------------------------------------------+
| 0     Ascend910           | Alarm         | -           35                0    / 0             |
| 1     1                   | 0000:9F:00.0  | 60          0    / 0          59536/ 65536         |
+===========================+===============+====================================================+
| 1     Ascend910           | OK            | 181.0       NA                0    / 0             |
| 0     2                   | 0000:99:00.0  | NA          0    / 0          3396 / 65536         |
+------------------------------------------------------------------------------------------------+
| 1     Ascend910           | OK            | -           35                0    / 0             |
| 1     3                   | 0000:9B:00.0  | 0           0    / 0          NA   / 65536         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 0       1                 | 99910         |                          | 27977                   |
| 0       1                 | 99911         | python3                  | 55                      |
+===========================+===============+====================================================+
| No running processes found in NPU 1                                                            |
+===========================+===============+====================================================+
"""
SINGLE = """\
+------------------------------------------------------------------------------------+
| npu-smi 1.8.21                   Version: 20.2.2.spc001                            |
+----------------------+---------------+---------------------------------------------+
| NPU   Name           | Health        | Power(W)   Temp(C)                          |
| Chip                 | Bus-Id        | AICore(%)  Memory-Usage(MB)  HBM-Usage(MB)  |
+======================+===============+=============================================+
| 4     910A           | OK            | NA         36                               |
| 0                    | 0000:C1:00.0  | 7          591  / 14795      0    / 32768   |
+======================+===============+=============================================+
"""
DUO = """\
+--------------------------------------------------------------------------------------------------------+
| npu-smi 23.0.0                                   Version: 23.0.0                                       |
+-------------------------------+-----------------+------------------------------------------------------+
| NPU     Name                  | Health          | Power(W)     Temp(C)           Hugepages-Usage(page) |
| Chip    Device                | Bus-Id          | AICore(%)    Memory-Usage(MB)                        |
+===============================+=================+======================================================+
| 2       310P3                 | OK              | 12.8         54                0     / 0             |
| 0       0                     | 0000:01:00.0    | 0            1700 / 44278                            |
+-------------------------------+-----------------+------------------------------------------------------+
| 2       310P3                 | OK              | NA           54                0     / 0             |
| 1       1                     | 0000:01:00.0    | 5            1400 / 43693                            |
+===============================+=================+======================================================+
"""


def test_each_chip_of_a_card_is_a_device() -> None:
    sample = ascend.read(DUAL)
    devices = sample["devices"]
    assert [row["index"] for row in devices] == [0, 1, 2, 3]
    assert [row["pci_bus_id"] for row in devices] == ["0000:9D:00.0", "0000:9F:00.0", "0000:99:00.0", "0000:9B:00.0"]
    assert [row["power_watts"] for row in devices] == [182, None, 181, None]
    assert [row["temperature_celsius"] for row in devices] == [36, 35, None, 35]
    assert [row["utilization_percent"] for row in devices] == [0, 60, None, 0]
    assert [row["memory_used_bytes"] for row in devices] == [3402 << 20, 59536 << 20, 3396 << 20, None]
    assert sample["facts"]["driver_version"] == "24.1.rc3.3"


def test_processes_belong_to_the_chip_and_none_is_not_unknown() -> None:
    devices = ascend.read(DUAL)["devices"]
    assert [len(row["processes"]) for row in devices] == [0, 2, 0, 0]
    assert [row["processes_known"] for row in devices] == [True] * 4
    first, second = devices[1]["processes"]
    assert (first["pid"], first["name"], first["memory_used_bytes"]) == (99910, None, 27977 << 20)
    assert second["name"] == "python3"


def test_health_that_is_not_ok_is_a_problem_of_the_device() -> None:
    kinds = [[problem["summary"] for problem in row["problems"]] for row in ascend.read(DUAL)["devices"]]
    assert kinds == [[], ["health: Alarm"], [], []]


def test_with_one_chip_a_card_the_number_of_the_card_counts() -> None:
    (row,) = ascend.read(SINGLE)["devices"]
    assert (row["index"], row["model"], row["power_watts"], row["utilization_percent"]) == (4, "910A", None, 7)
    assert (row["memory_used_bytes"], row["memory_total_bytes"]) == (0, 32768 << 20)
    assert row["processes_known"] is False


def test_a_card_with_two_chips_and_one_address() -> None:
    one, two = ascend.read(DUO)["devices"]
    assert (one["index"], two["index"]) == (0, 1)
    assert (one["memory_total_bytes"], two["memory_total_bytes"]) == (44278 << 20, 43693 << 20)


def test_a_table_without_its_end_knows_no_processes() -> None:
    sample = ascend.read(
        DUAL[: DUAL.index("| 0       1                 | 99911")] + "| 0       1                 | 999"
    )
    assert {row["processes_known"] for row in sample["devices"]} == {False}
    assert [problem["kind"] for problem in sample["problems"]] == ["unreadable-file"]


def test_a_tool_that_cannot_start_is_a_problem_without_devices() -> None:
    sample = ascend.read("DrvMngGetConsoleLogLevel failed. (ret=4)\ndcmi module initialize failed. ret is -8005\n")
    assert sample["devices"] == []
    assert [problem["kind"] for problem in sample["problems"]] == ["driver-not-loaded"]
