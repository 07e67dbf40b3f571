"""Fatal events since boot: from the kernel log, from what the agent told, and which of them are known already."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec import structs

from gputop.actions.faults import KernelLog, after, faults_of, read_log, told_once
from gputop.actions.gate import gate_items
from gputop.domain.action import GateItem
from gputop.domain.call import CommandResult
from gputop.domain.host import Host
from gputop.domain.reading import DeviceEvent, HostFacts, HostReading
from gputop.domain.record import Ack
from gputop.health.catalog import default_catalog
from tests.fakes.acts import BOOT, a_host
from tests.fakes.builders import a_frame
from tests.fakes.clock import START

CATALOG = default_catalog()
LINES = """\
[    0.000000] Linux version 6.1.0-13-amd64
[  100.500000] NVRM: Xid (PCI:0000:3b:00): 31, pid=1234, name=python, Ch 00000008, MMU Fault
[  200.250000] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
[  300.000000] nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 19084, Fatal, Link 32 AN1 Heartbeat Timeout Error
"""


def host(*events: DeviceEvent, uptime: float = 1000.0) -> Host:
    frame = a_frame(facts=HostFacts(boot_id=BOOT), host=HostReading(uptime_seconds=uptime))
    return structs.replace(a_host(frame=frame), events=events)


def log(text: str = LINES) -> KernelLog:
    return KernelLog(text=text, whole=True)


def an_event(**fields: object) -> DeviceEvent:
    own: dict[str, object] = {"kind": "xid", "code": 79, "pci_bus_id": "00000000:3B:00.0", "message": "off the bus"}
    return DeviceEvent(**(own | fields))  # type: ignore[arg-type]


def words(*events: DeviceEvent, text: str = LINES) -> list[tuple[str, float | None]]:
    return [(fault.words, fault.uptime_seconds) for fault in faults_of(host(*events), log(text), CATALOG)]


def test_fatal_events_of_the_log_are_found_and_what_an_application_did_is_not() -> None:
    assert words() == [("Xid 79 on 0000:3b:00", 200.25), ("SXid 19084 on 0000:c1:00", 300.0)]


def test_the_journal_s_words_are_read_as_well() -> None:
    text = "[  200.250000] gpu-01 kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
    assert words(text=text) == [("Xid 79 on 0000:3b:00", 200.25)]


def test_what_the_agent_told_of_the_same_event_is_not_told_twice() -> None:
    assert len(words(an_event(uptime_seconds=200.25))) == 2
    dated = an_event(at=START - timedelta(seconds=800))
    assert len(words(dated)) == 2, "stamped by date: 200 s after the boot"
    assert ("Xid 79 on 0000:3b:00", 500.0) in words(an_event(uptime_seconds=500.0)), "another one, later"
    assert words(an_event())[-1] == ("Xid 79 on 0000:3b:00", None), "nobody knows when: it counts"


def test_an_event_of_an_earlier_boot_does_not_count() -> None:
    assert words(an_event(at=START - timedelta(seconds=1100)), text="[    0.000000] Linux version 6.1") == []


@pytest.mark.parametrize(
    ("result", "whole"),
    [
        (CommandResult(exit_status=0, stdout=LINES.encode()), True),
        (CommandResult(exit_status=0, stdout=b"Linux version 6.1\n"), True),
        (CommandResult(exit_status=0, stdout=b"[ 9000.100000] NVRM: loading\n"), False),
        (CommandResult(exit_status=0, stdout=b"\n"), None),
        (CommandResult(exit_status=1, stdout=LINES.encode()), None),
        (CommandResult(exit_status=None, stdout=LINES.encode()), None),
    ],
)
def test_a_log_that_is_empty_was_not_read_and_one_without_its_beginning_is_not_whole(
    result: CommandResult, whole: bool | None
) -> None:
    found = read_log(result)
    assert (found.whole if found is not None else None) is whole


def xid(ack: Ack | None, *events: DeviceEvent, kernel: KernelLog | None = None) -> GateItem:
    items = gate_items(host(*events), (), kernel or log(), CATALOG, None, ack)
    return next(item for item in items if item.name == "xid")


def an_ack(**fields: object) -> Ack:
    own: dict[str, object] = {"host": "gpu-01", "by": "ana", "reason": "RMA 12", "at": START, "boot_id": BOOT}
    return Ack(**(own | {"through_seconds": 300.0} | fields))  # type: ignore[arg-type]


def test_an_acknowledgment_covers_what_was_there_then_in_this_boot_and_nothing_else() -> None:
    assert xid(None).state == "bad"
    assert "gputop ack gpu-01" in xid(None).summary
    assert (xid(an_ack()).state, xid(an_ack()).summary) == (
        "ok",
        "no fatal Xid since ack by ana at 2026-01-02 03:04 UTC: RMA 12",
    )
    assert xid(an_ack(through_seconds=250.0)).state == "bad", "the SXid came later"
    assert xid(an_ack(boot_id="99999999-2222-4333-8444-555555555555")).state == "bad", "another boot"
    assert xid(an_ack(), an_event(uptime_seconds=900.0)).state == "bad"
    assert xid(an_ack(), an_event()).state == "bad", "when it came is not known"


def test_a_log_that_does_not_reach_back_to_the_boot_proves_nothing_good_and_still_something_bad() -> None:
    late = KernelLog(text="[ 9000.100000] NVRM: loading", whole=False)
    assert xid(None, kernel=late).state == "not-checked"
    assert xid(None, kernel=KernelLog(text=LINES, whole=False)).state == "bad"


def test_equal_events_are_told_once() -> None:
    found = faults_of(host(an_event(uptime_seconds=500.0)), log(), CATALOG)
    assert told_once(found) == "Xid 79 on 0000:3b:00 (2 times), SXid 19084 on 0000:c1:00"
    assert told_once(after(found, 300.0)) == "Xid 79 on 0000:3b:00"
