"""Events of the kernel log: what counts as one, who caused it, when it was."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gputop.remote.kernel_log import Clock, Reader, events, looks_like, read

XID = "NVRM: Xid (PCI:0000:3b:00): 31, pid=1234, name=python, Ch 00000008, intr 00000000. MMU Fault"
CLOCK = Clock(boot_time=1_000_000_000.0, year=2026)


def only(text: str, clock: Clock = CLOCK) -> dict[str, Any]:
    found = events(text, clock)
    assert len(found) == 1, found
    return found[0]


def test_an_xid_with_its_process() -> None:
    event = only("[   38.174242] " + XID)
    assert (event["kind"], event["code"], event["pci_bus_id"]) == ("xid", 31, "0000:3b:00")
    assert (event["pid"], event["process"]) == (1234, "python")
    assert event["message"] == "Ch 00000008, intr 00000000. MMU Fault"
    assert event["severity"] is None


@pytest.mark.parametrize(
    ("words", "pid", "process", "message"),
    [
        ("79, GPU has fallen off the bus.", None, None, "GPU has fallen off the bus."),
        ("13, pid='<unknown>', name=<unknown>, Graphics Exception", None, None, "Graphics Exception"),
        ("31, pid=3234, Graphics SM Warp Exception", 3234, None, "Graphics SM Warp Exception"),
        ("43, pid=28721, name=VLLM::Worker_TP, channel 0x30", 28721, "VLLM::Worker_TP", "channel 0x30"),
        ("43, pid=28721, name=my job, Ch 1", 28721, "my job", "Ch 1"),
        ("32, Channel ID 00000000 intr 00004000", None, None, "Channel ID 00000000 intr 00004000"),
        ("62, 32260b5e 000154b0", None, None, "32260b5e 000154b0"),
        ("8", None, None, ""),
    ],
)
def test_who_and_what(words: str, pid: int | None, process: str | None, message: str) -> None:
    event = only(f"NVRM: Xid (PCI:0000:3b:00): {words}")
    assert (event["pid"], event["process"], event["message"]) == (pid, process, message)


@pytest.mark.parametrize(
    ("place", "bus"),
    [
        ("(PCI:0000:3b:00)", "0000:3b:00"),
        ("(PCI:000d:00:00)", "000d:00:00"),
        ("(PCI:0000:3b:00.0)", "0000:3b:00.0"),
        ("(0000:03:00)", "0000:03:00"),
        ("(PCI:0000:01:00 GPU-I:05)", "0000:01:00"),
        ("(PCI:0000:01:00 GPU-I:05 GPU-CI:02)", "0000:01:00"),
    ],
)
def test_where(place: str, bus: str) -> None:
    event = only(f"NVRM: Xid {place}: 31, pid=7, name=python, Ch 1")
    assert (event["pci_bus_id"], event["pid"]) == (bus, 7)


def test_the_instance_of_a_mig_device_is_kept_in_the_message() -> None:
    assert only("NVRM: Xid (PCI:0000:01:00 GPU-I:05): 31, Ch 1")["message"] == "GPU-I:05: Ch 1"


def test_what_another_xid_caused_is_no_event_of_its_own() -> None:
    text = (
        "NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT Fatal\n"
        "NVRM: Xid (PCI:0009:01:00): 45, pid=1, name=a, Ch 00000010 caused by previous Xid 149\n"
        "NVRM: Xid (PCI:0009:01:00): 45, pid=1, name=a, Ch 00000010\n"
    )
    assert [event["code"] for event in events(text)] == [149, 45]


def test_data_and_severity_lines_belong_to_their_sxid() -> None:
    head = "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, "
    event = only(
        f"{head}Data {{0x2b, 0x2b}}\n{head}Non-fatal, Link 32 egress non-posted PRIV error (First)\n"
        f"{head}Severity 0 Engine instance 32 Sub-engine instance 00\n{head}Data {{0x2c}}\n"
    )
    assert (event["kind"], event["code"], event["pci_bus_id"]) == ("sxid", 12028, "0000:05:00.0")
    assert event["message"].startswith("Non-fatal, Link 32")


OFF_BUS = "NVRM: GPU 0000:18:00.0: GPU has fallen off the bus."
XID_79 = "NVRM: Xid (PCI:0000:18:00): 79, pid=1, name=a, GPU has fallen off the bus."


def test_fallen_off_the_bus_without_a_code() -> None:
    event = only(OFF_BUS)
    assert (event["kind"], event["code"], event["pci_bus_id"]) == ("fell-off-bus", None, "0000:18:00.0")


@pytest.mark.parametrize("lines", [(XID_79, OFF_BUS), (OFF_BUS, XID_79), (XID_79, "NVRM: other", OFF_BUS)])
def test_one_fall_told_in_two_ways_is_one_event(lines: tuple[str, ...]) -> None:
    event = only("\n".join(lines))
    assert (event["kind"], event["code"], event["pid"]) == ("xid", 79, 1)


def test_two_gpus_that_fall_are_two_events() -> None:
    other = OFF_BUS.replace(":18:", ":19:")
    assert [event["pci_bus_id"] for event in events(f"{XID_79}\n{other}")] == ["0000:18:00", "0000:19:00.0"]


@pytest.mark.parametrize("stamp", ["[ 1843.308145] ", "Jul 01 22:55:07 gpu kernel: ", ""])
def test_a_fall_told_in_three_lines_is_one_event(stamp: str) -> None:
    event = only(
        f"{stamp}NVRM: The NVIDIA GPU 0000:b3:00.0\n"
        "               NVRM: (PCI ID: 10de:26b5) installed in this system has\n"
        f"{stamp}NVRM: fallen off the bus and is not responding to commands.\n{stamp}NVRM: probe routine failed"
    )
    assert (event["kind"], event["pci_bus_id"]) == ("fell-off-bus", "0000:b3:00.0")
    assert event["message"].endswith("fallen off the bus and is not responding to commands.")


def test_a_gpu_that_is_not_supported_has_not_fallen() -> None:
    text = "NVRM: The NVIDIA GPU 0000:b3:00.0\nNVRM: installed in this system is not supported by the driver\n"
    assert events(text + "x\n" * 10 + "NVRM: fallen off the bus\n") == []


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_adapter_that_does_not_start_is_one_event_in_two_lines(order: tuple[int, int]) -> None:
    lines = (
        "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:884)",
        "NVRM: GPU 0000:01:00.0: rm_init_adapter failed, device minor number 0",
    )
    event = only("\n".join(lines[at] for at in order))
    assert (event["kind"], event["message"]) == ("rm-init-failed", "RmInitAdapter failed! (0x22:0x56:884)")


def test_each_attempt_to_start_is_an_event() -> None:
    one = "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:884)\n"
    two = "NVRM: GPU 0000:01:00.0: rm_init_adapter failed, device minor number 0\n"
    assert len(events((one + two) * 3)) == 3


def seconds(*parts: int, fraction: float = 0.0) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp() + fraction  # type: ignore[arg-type,misc]


@pytest.mark.parametrize(
    ("stamp", "at"),
    [
        ("[   38.174242] ", 1_000_000_038.174242),
        ("[Sun Feb 23 16:24:18 2025] ", seconds(2025, 2, 23, 16, 24, 18)),
        ("[Sun Feb  2 16:24:18 2025] ", seconds(2025, 2, 2, 16, 24, 18)),
        ("[Sun Feb 23 16:24:18 2025 <    0.000000>] ", seconds(2025, 2, 23, 16, 24, 18)),
        ("kern  :warn  : 2025-01-21T04:41:44,283302+00:00 ", seconds(2025, 1, 21, 4, 41, 44, fraction=0.283302)),
        ("2025-01-21T04:41:44,283302+02:00 ", seconds(2025, 1, 21, 2, 41, 44, fraction=0.283302)),
        ("2025-01-21T04:41:44+0000 gpu kernel: ", seconds(2025, 1, 21, 4, 41, 44)),
        ("2025-01-21T04:41:44.283302-0330 gpu kernel: ", seconds(2025, 1, 21, 8, 11, 44, fraction=0.283302)),
        ("2025-01-21T04:41:44.5Z gpu kernel: [  12.000000] ", seconds(2025, 1, 21, 4, 41, 44, fraction=0.5)),
        ("2025-01-21 04:41:44 gpu kernel: ", seconds(2025, 1, 21, 4, 41, 44)),
        ("Jul 01 22:55:07 gpu kernel: ", seconds(2026, 7, 1, 22, 55, 7)),
        ("Jul  1 22:55:07.250000 gpu kernel: [ 12.000000] ", seconds(2026, 7, 1, 22, 55, 7, fraction=0.25)),
        ("1737434504.283302 gpu kernel: ", 1737434504.283302),
        ("6,3973,38174242,-;", 1_000_000_038.174242),
        ("<4>[   38.174242] ", 1_000_000_038.174242),
        ("kernel: [16450076.435584] ", 1_016_450_076.435584),
        ("", None),
        ("[  +0.000123] ", None),
        ("[Feb 31 2025] ", None),
    ],
)
def test_when(stamp: str, at: float | None) -> None:
    event = only(stamp + XID)
    assert event["at"] == (pytest.approx(at, abs=1e-5) if at is not None else None)
    assert looks_like(stamp + XID)


def test_times_that_a_log_does_not_tell_are_not_made_up() -> None:
    for stamp in ("[   38.174242] ", "Jul 01 22:55:07 gpu kernel: ", "6,3973,38174242,-;"):
        assert only(stamp + XID, Clock())["at"] is None


def test_a_zone_can_be_told_for_formats_without_one() -> None:
    at = only("[Sun Feb 23 16:24:18 2025] " + XID, Clock(utc_offset=3600.0))["at"]
    assert at == seconds(2025, 2, 23, 15, 24, 18)


def test_journal_in_json() -> None:
    event = only('{"__REALTIME_TIMESTAMP":"1737434504283302","MESSAGE":"' + XID + '","_HOSTNAME":"gpu"}')
    assert (event["code"], event["at"]) == (31, pytest.approx(1737434504.283302))
    assert event["message"] == "Ch 00000008, intr 00000000. MMU Fault"


def test_names_and_messages_carry_no_control_characters() -> None:
    event = only("NVRM: Xid (PCI:0000:3b:00): 31, pid=7, name=a\x1b[31mb, Ch \x07 1")
    assert event["process"] == "a[31mb"
    assert "\x07" not in event["message"]


def test_other_lines_are_no_events() -> None:
    text = (
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.158.01\n"
        "NVRM: GPU at PCI:0000:48:00: GPU-5d2890dc\nNVRM: GPU Board Serial Number: 1\n"
        "NVRM: GPU4 GSP RPC buffer contains function 103\nNV_WARN_NOTHING_TO_DO\n"
        "python[1]: segfault at 7f79 ip 00007f7c in libnccl.so.2\n"
    )
    assert events(text) == []


def test_a_reader_tells_each_event_when_its_line_comes() -> None:
    reader = Reader()
    told = [reader.feed(line) for line in (XID, "x", XID_79, OFF_BUS, XID)]
    assert [event["code"] if event else None for event in told] == [31, None, 79, None, 31]


def test_a_log_without_events_is_a_log() -> None:
    text = "[    1.000000] usb 1-1: new device\n[    2.000000] eth0: link up\n"
    assert looks_like(text)
    assert (read(text)["events"], read(text)["devices"], read(text)["problems"]) == ([], [], [])
    assert not looks_like("some words\nof a person\n")
