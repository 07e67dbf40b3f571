"""Outputs as people hand them in: copied from terminals, logs and documents, cut, twice, several in one text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gputop.readers.recognize import read_text
from gputop.readers.text import plain
from gputop.remote.sample import MIB, Sample

TABLE = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 560.11                 Driver Version: 560.11         CUDA Version: 12.6     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA L40S                    On  |   00000000:1B:00.0 Off |                    0 |
| N/A   33C    P0             72W /  350W |       1MiB /  46068MiB |      7%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
"""
ASCEND = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 25.1.0                   Version: 25.1.0                                               |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 3     910B4               | OK            | 90.5        41                0    / 0             |
| 0                         | 0000:82:00.0  | 12          0    / 0          2773 / 32768         |
+===========================+===============+====================================================+
"""
CSV = """\
index, name, pci.bus_id, utilization.gpu [%], memory.used [MiB]
0, NVIDIA A10, 00000000:17:00.0, 41 %, 900 MiB
1, NVIDIA A10, 00000000:65:00.0, [N/A], 0 MiB
"""
AMD = """\
GPU: 0
    USAGE:
        GFX_ACTIVITY: 17 %
    POWER:
        SOCKET_POWER: 140 W
    MEM_USAGE:
        TOTAL_VRAM: 196592 MB
        USED_VRAM: 283 MB
"""
GAUDI = """\
+-----------------------------------------------------------------------------+
| HL-SMI Version:                              hl-1.16.0-fw-50.1.2.0          |
| Driver Version:                                     1.16.0-94aac46          |
|-------------------------------+----------------------+----------------------+
| AIP  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | AIP-Util  Compute M. |
|===============================+======================+======================|
|   0  HL-225              N/A  | 0000:b3:00.0     N/A |                   0  |
| N/A   26C   N/A    82W / 600W |    768MiB / 98304MiB |     5%           N/A |
|-------------------------------+----------------------+----------------------+
+=============================================================================+
"""
OUTPUTS = {"nvidia-smi": TABLE, "npu-smi": ASCEND, "query": CSV, "amd-smi": AMD, "hl-smi": GAUDI}


def lines(change: Callable[[int, str], str]) -> Callable[[str], str]:
    return lambda text: "\n".join(change(number, line) for number, line in enumerate(text.split("\n")))


AROUND: dict[str, Callable[[str], str]] = {
    "end of line of Windows": lambda text: text.replace("\n", "\r\n"),
    "ends of lines twice": lambda text: text.replace("\n", "\n\n"),
    "colors": lambda text: "\x1b[1m" + text.replace("\n", "\x1b[0m\n\x1b[32m", 3),
    "indented": lines(lambda _, line: "    " + line if line else line),
    "blanks at the ends": lines(lambda _, line: line + "   "),
    "quoted": lines(lambda _, line: "> " + line),
    "commented": lines(lambda _, line: "# " + line),
    "with times": lines(lambda number, line: f"2026-11-04T10:{number:02}:01.{number:03}Z {line}"),
    "with the host": lines(lambda _, line: "node1: " + line),
    "in a document": lambda text: "It says:\n\n```text\n" + text + "```\nThanks\n",
    "after a prompt": lambda text: "me@gpu01:~$ nvidia-smi\n" + text + "me@gpu01:~$ \n",
    "after a warning": lambda text: "sudo: unable to resolve host gpu01: Name or service not known\n" + text,
    "below watch": lambda text: "Every 2.0s: nvidia-smi      gpu01: Fri Nov  4 10:00:00 2026\n\n" + text,
    "twice": lambda text: text + "\n" + text,
    "with blanks of HTML": lambda text: text.replace("  ", "&nbsp; "),
}


def told(sample: Sample) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if value not in (None, [])} for row in sample["devices"]]


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("output", OUTPUTS)
def test_what_stands_around_an_output_changes_no_device(output: str, around: str) -> None:
    alone = told(read_text(OUTPUTS[output]))
    assert alone
    assert told(read_text(plain(AROUND[around](OUTPUTS[output]).encode()))) == alone


def test_utf_16_is_read() -> None:
    assert told(read_text(plain(TABLE.encode("utf-16")))) == told(read_text(TABLE))


def test_a_copied_command_names_the_columns_of_an_answer_without_header() -> None:
    sample = read_text(
        "me@gpu01:~$ nvidia-smi --query-gpu=index,name,memory.used,temperature.gpu --format=csv,noheader,nounits\n"
        "0, Tesla T4, 12000, 55\n"
        "1, Tesla T4, [N/A], 35\n"
        "me@gpu01:~$ \n"
    )
    assert [(row["index"], row.get("memory_used_bytes"), row["temperature_celsius"]) for row in sample["devices"]] == [
        (0, 12000 * MIB, 55),
        (1, None, 35),
    ]


def test_a_command_line_is_no_header_of_the_answer_below_it() -> None:
    sample = read_text(
        "nvidia-smi.exe --query-gpu=gpu_name,power.draw,power.default_limit --format=csv,nounits\n"
        "name, power.draw [W], power.default_limit [W]\n\n"
        "GeForce RTX 2080 Ti, 228.82, [Unknown Error]\n"
    )
    [row] = sample["devices"]
    assert (row["model"], row["power_watts"]) == ("GeForce RTX 2080 Ti", 228.82)
    assert [found["kind"] for found in row["problems"]] == ["device-error"]


def test_several_outputs_in_one_text_are_one_host() -> None:
    sample = read_text(
        "[root@node7 ~]# nvidia-smi -L\n"
        "GPU 0: NVIDIA A40 (UUID: GPU-11111111-2222-3333-4444-555555555555)\n"
        "[root@node7 ~]# nvidia-smi dmon -c 1\n"
        "# gpu    pwr  gtemp     sm\n"
        "# Idx      W      C      %\n"
        "    0    119     59    100\n"
        "[root@node7 ~]# dmesg -T | grep -i xid\n"
        "[Sun Jan 11 09:52:01 2026] NVRM: Xid (PCI:0000:65:00): 31, pid=4242, name=python, Ch 00000008\n"
    )
    [row] = sample["devices"]
    assert (row["uuid"][:12], row["power_watts"], row["utilization_percent"]) == ("GPU-11111111", 119, 100)
    assert [event["code"] for event in sample["events"]] == [31]


def test_a_command_whose_output_went_through_another_is_a_command() -> None:
    sample = read_text(
        "$ nvidia-smi -L | head\nGPU 0: NVIDIA L40S (UUID: GPU-11111111-2222-3333-4444-555555555555)\n"
        f"$ nvidia-smi | head -20; date\n{TABLE}"
    )
    [row] = sample["devices"]
    assert (row["uuid"][:12], row["temperature_celsius"]) == ("GPU-11111111", 33)


def test_the_newer_of_two_tables_counts() -> None:
    newer = TABLE.replace("33C", "71C").replace(" 7% ", "93% ")
    [row] = read_text(f"$ nvidia-smi\n{TABLE}$ nvidia-smi\n{newer}")["devices"]
    assert (row["temperature_celsius"], row["utilization_percent"]) == (71, 93)


def test_lines_of_several_machines_are_no_table_of_one() -> None:
    mixed = "\n".join(f"{host}: {line}" for line in TABLE.splitlines() for host in ("node1", "node2"))
    assert read_text(mixed)["devices"] == []


@pytest.mark.parametrize("output", [ASCEND, GAUDI, AMD])
def test_half_a_number_at_the_end_is_no_value(output: str) -> None:
    whole = {row["index"]: row for row in read_text(output)["devices"]}
    for end in range(1, len(output)):
        for row in read_text(output[:end])["devices"]:
            for key in (
                "temperature_celsius",
                "power_watts",
                "memory_total_bytes",
                "utilization_percent",
                "pci_bus_id",
            ):
                assert row.get(key) in (None, whole[row["index"]].get(key)), output[max(0, end - 60) : end]


def test_a_text_that_has_lost_its_rules_is_read() -> None:
    rows = "\n".join(line for line in ASCEND.splitlines() if line.startswith("|")) + "\n"
    [row] = read_text(rows)["devices"]
    assert (row["index"], row["memory_total_bytes"], row["power_watts"]) == (3, 32768 * MIB, 90.5)


def test_a_text_of_nothing_but_commands_is_read_at_once() -> None:
    assert read_text("nvidia-smi\n" * 50_000)["devices"] == []
