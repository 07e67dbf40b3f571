"""Tools that print in nvidia-smi's layout: Gaudi, Cambricon, MetaX, Iluvatar, and Moore Threads' own layout."""

from __future__ import annotations

import pytest

from gputop.remote import cambricon, gaudi, iluvatar, metax, mthreads

GAUDI = """\
+-----------------------------------------------------------------------------+
| HL-SMI Version:                              hl-1.21.0-fw-59.2.1.0          |
| Driver Version:                                     1.20.1-366eb9c          |
| Nic Driver Version:                                 1.20.1-213b09b          |
|-------------------------------+----------------------+----------------------+
| AIP  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncor-Events|
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | AIP-Util  Compute M. |
|===============================+======================+======================|
|   0  HL-325L             N/A  | 0000:e9:00.0     N/A |                   0  |
| N/A   36C   P0  228W /  900W  |   672MiB / 131072MiB |     0%            0% |
|-------------------------------+----------------------+----------------------+
|   1  HL-325L             N/A  | 0000:c1:00.0     N/A |                   3  |
| N/A   37C   P0  N/A  /  900W  |   N/A    / 131072MiB |   N/A             0% |
|-------------------------------+----------------------+----------------------+
| Compute Processes:                                               AIP Memory |
|  AIP       PID   Type   Process name                             Usage      |
|=============================================================================|
|   0      12345     C    python3 run.py                           1200MiB    |
|   1        N/A   N/A    N/A                                      N/A        |
+=============================================================================+
"""


def test_gaudi_table() -> None:
    sample = gaudi.read(GAUDI)
    one, two = sample["devices"]
    assert sample["facts"] == {"driver_version": "1.20.1-366eb9c"}
    assert (one["model"], one["pci_bus_id"], one["performance_state"]) == ("HL-325L", "0000:e9:00.0", "P0")
    assert (one["power_watts"], one["power_limit_watts"], one["temperature_celsius"]) == (228, 900, 36)
    assert (one["memory_used_bytes"], one["memory_total_bytes"]) == (672 << 20, 131072 << 20)
    assert one["processes"] == [
        {"pid": 12345, "name": "python3 run.py", "kind": "compute", "memory_used_bytes": 1200 << 20}
    ]
    assert (two["power_watts"], two["power_limit_watts"]) == (None, 900)
    assert (two["memory_used_bytes"], two["utilization_percent"], two["fan_percent"]) == (None, None, None)
    assert (two["ecc_uncorrected_volatile"], two["processes_known"], two["processes"]) == (3, True, [])


def test_gaudi_csv_names_its_columns_in_any_order() -> None:
    header = "uuid, utilization.aip [%], index, power.draw [W], memory.total [MiB]\n"
    text = header + "A, 14, 3, 102 W, 32768 MiB\nB, N/A, 5, N/A, 1\n"
    assert gaudi.looks_like(text)
    one, two = gaudi.read(text)["devices"]
    assert (one["index"], one["uuid"], one["utilization_percent"], one["power_watts"]) == (3, "A", 14, 102)
    assert one["memory_total_bytes"] == 32768 << 20
    assert (two["index"], two["utilization_percent"], two["power_watts"]) == (5, None, None)


def test_gaudi_csv_without_a_header_and_as_a_stream() -> None:
    text = "A, 14\nB, 20\nA, 15\nB, N/A\n"
    one, two = gaudi.read_csv(text, ("uuid", "utilization.aip"))["devices"]
    assert [(row["index"], row["utilization_percent"]) for row in (one, two)] == [(0, 15), (1, None)]


CNMON_4 = """\
Sat Oct  8 11:22:22 2022
+------------------------------------------------------------------------------+
| CNMON v4.20.11                                                               |
+-------------------------------+----------------------+-----------------------+
| Card  VF  Name       Firmware | Inited        Driver | Util        Ecc-Error |
| Fan   Temp      Pwr:Usage/Cap |         Memory-Usage |         vMemory-Usage |
|===============================+======================+=======================|
| 0     /   MLU370-X4    v1.1.6 | On          v4.20.11 | 0%          N/A       |
|  0%   32C         30 W/ 150 W |     0 MiB/ 23308 MiB | 10240 MiB/1048576 MiB |
+-------------------------------+----------------------+-----------------------+
| 1     /   MLU370-X4    v1.1.6 | On          v4.20.11 | N/A         N/A       |
|  N/A  N/A         N/A / 150 W |     7 MiB/ xxxxx MiB | 10240 MiB/1048576 MiB |
+-------------------------------+----------------------+-----------------------+

+------------------------------------------------------------------------------+
| Processes:                                                                   |
|  Card  VF  PID     Command Line                             MLU Memory Usage |
|==============================================================================|
|  1     /   11223   python3 train.py                                 1024 MiB |
+------------------------------------------------------------------------------+
"""


def test_cambricon_of_version_4_has_no_bus_and_a_second_memory() -> None:
    sample = cambricon.read(CNMON_4)
    one, two = sample["devices"]
    assert sample["facts"] == {"driver_version": "4.20.11"}
    assert (one["model"], one["pci_bus_id"], one["utilization_percent"]) == ("MLU370-X4", None, 0)
    assert (one["memory_used_bytes"], one["memory_total_bytes"]) == (0, 23308 << 20)
    assert (one["power_watts"], one["power_limit_watts"], one["fan_percent"]) == (30, 150, 0)
    assert (two["memory_used_bytes"], two["memory_total_bytes"]) == (7 << 20, None)
    assert [two[key] for key in ("power_watts", "utilization_percent", "fan_percent", "temperature_celsius")] == [
        None
    ] * 4
    assert [(p["pid"], p["name"], p["memory_used_bytes"]) for p in two["processes"]] == [
        (11223, "python3 train.py", 1024 << 20)
    ]


METAX = """\
mx-smi  version: 2.2.8

Attached GPUs                                     : 2
+---------------------------------------------------------------------------------+
| MX-SMI 2.2.8                        Kernel Mode Driver Version: 3.0.11          |
| MACA Version: 3.1.0.14              BIOS Version: 1.26.1.0                      |
|------------------------------------+---------------------+----------------------+
| GPU     NAME         Persistence-M | Bus-id              | GPU-Util      sGPU-M |
| Temp    Pwr:Usage/Cap         Perf | Memory-Usage        | GPU-State            |
|====================================+=====================+======================|
| 0       MetaX N260             Off | 0000:01:00.0        | 0%            Native |
| 37C     42W / 225W              P9 | 4736/65536 MiB      | Available            |
+------------------------------------+---------------------+----------------------+
| 1       MetaX N260             Off | 0000:02:00.0        | N/A           Native |
| N/A     N/A / 225W             N/A | N/A/65536 MiB       | Not Available        |
+------------------------------------+---------------------+----------------------+

+---------------------------------------------------------------------------------+
| Process:                                                                        |
|  GPU                    PID         Process Name                 GPU Memory     |
|                                                                  Usage(MiB)     |
|=================================================================================|
|  0                    15652         python                       60032          |
+---------------------------------------------------------------------------------+
"""


def test_metax_of_a_version_with_more_columns() -> None:
    sample = metax.read(METAX)
    one, two = sample["devices"]
    assert sample["facts"] == {"driver_version": "3.0.11"}
    assert (one["power_watts"], one["power_limit_watts"], one["performance_state"]) == (42, 225, "P9")
    assert (one["memory_used_bytes"], one["memory_total_bytes"]) == (4736 << 20, 65536 << 20)
    assert one["processes"][0]["memory_used_bytes"] == 60032 << 20
    assert (two["state"], two["power_watts"], two["memory_used_bytes"]) == ("error", None, None)
    assert [problem["kind"] for problem in two["problems"]] == ["device-error"]


def test_metax_of_a_version_with_power_alone() -> None:
    text = METAX.replace("Pwr:Usage/Cap         Perf", "Power                     ").replace(
        "42W / 225W              P9", "42W                       "
    )
    assert metax.read(text)["devices"][0]["power_watts"] == 42


def test_metax_list() -> None:
    text = (
        "mx-smi  version: 2.3.1\nGPU#0    MXC550      0000:2b:00.0   Available (UUID: GPU-abc-123)\n"
        "GPU#2    MXC550      0000:2c:00.0   Not Available(MetaX Sysfs File Unaccessible)\n"
    )
    one, two = metax.read(text)["devices"]
    assert (one["index"], one["model"], one["uuid"]) == (0, "MXC550", "GPU-abc-123")
    assert (two["index"], two["state"]) == (2, "error")


MTHREADS = """\
Mon Nov 11 16:07:07 2024
---------------------------------------------------------------
    mthreads-gmi:1.14.0          Driver Version:2.7.0
---------------------------------------------------------------
ID   Name           |PCIe                |%GPU  Mem
     Device Type    |Pcie Lane Width     |Temp  MPC Capable
                                         |      ECC Mode
+-------------------------------------------------------------+
0    MTT S80        |00000000:04:00.0    |7%    2MiB(16384MiB)
     Physical       |4x(16x)             |49C   YES
                                         |      N/A
---------------------------------------------------------------
1    MTT S80        |00000000:05:00.0    |N/A   N/A(16384MiB)
     Physical       |4x(16x)             |N/A   YES
                                         |      N/A
---------------------------------------------------------------

---------------------------------------------------------------
Processes:
ID   PID       Process name                         GPU Memory
                                                         Usage
+-------------------------------------------------------------+
0    4242      python3 serve.py                        1200MiB
---------------------------------------------------------------
"""


def test_moore_threads_table() -> None:
    sample = mthreads.read(MTHREADS)
    one, two = sample["devices"]
    assert sample["facts"] == {"driver_version": "2.7.0"}
    assert (one["model"], one["pci_bus_id"], one["temperature_celsius"]) == ("MTT S80", "00000000:04:00.0", 49)
    assert (one["utilization_percent"], one["memory_used_bytes"]) == (7, 2 << 20)
    assert (one["memory_total_bytes"], one["pcie_width"], one["pcie_width_max"]) == (16384 << 20, 4, 16)
    assert [(p["pid"], p["name"], p["memory_used_bytes"]) for p in one["processes"]] == [
        (4242, "python3 serve.py", 1200 << 20)
    ]
    assert (two["index"], two["utilization_percent"], two["memory_used_bytes"]) == (1, None, None)
    assert (two["temperature_celsius"], two["memory_total_bytes"], two["processes"]) == (None, 16384 << 20, [])


def test_moore_threads_text() -> None:
    text = (
        "==============MTHREADS-GMI LOG==============\nDriver Version : 2.7.0\nAttached GPUs : 1\n"
        "GPU0 00000000:04:00.0\n    Product Name : MTT S4000\n    FB Memory Usage\n        Total : 49152MiB\n"
        "        Used : N/A\n    Utilization\n        Gpu : 3%\n    Power Readings\n        Power Draw : 120.50W\n"
    )
    assert mthreads.looks_like(text)
    (row,) = mthreads.read(text)["devices"]
    assert (row["index"], row["model"], row["pci_bus_id"]) == (0, "MTT S4000", "00000000:04:00.0")
    assert (row["memory_used_bytes"], row["memory_total_bytes"], row["power_watts"]) == (None, 49152 << 20, 120.5)


def test_iluvatar_text_with_processes() -> None:
    text = (
        "==============IXSMI LOG==============\nDriver Version : 3.1\n\nGPU 00000000:65:00.0\n"
        "    Product Name : Iluvatar BI-V150\n    Processes\n        Process ID : 77\n            Name : python3\n"
        "            Used GPU Memory : 10 MiB\n        Process ID : 78\n"
    )
    (row,) = iluvatar.read(text)["devices"]
    assert row["processes_known"] is True
    assert row["processes"] == [{"pid": 77, "name": "python3", "memory_used_bytes": 10 << 20}, {"pid": 78}]


@pytest.mark.parametrize(
    ("module", "text"), [(gaudi, GAUDI), (cambricon, CNMON_4), (metax, METAX), (mthreads, MTHREADS)]
)
def test_each_tool_is_told_by_its_own_name(module: object, text: str) -> None:
    others = [other for other in (gaudi, cambricon, metax, mthreads, iluvatar) if other is not module]
    assert module.looks_like(text)  # type: ignore[attr-defined]
    assert not any(other.looks_like(text) for other in others)
