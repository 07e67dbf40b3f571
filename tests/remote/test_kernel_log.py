"""The kernel log, followed by the agent: since boot, as it grows, by whatever way the account may."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gputop.domain.event import FrameReceived, HostsChanged
from gputop.domain.problem import INFORMATIONAL, ProblemKind
from gputop.domain.reading import DeviceEvent, Frame
from gputop.fleet.fleet import Fleet
from gputop.fleet.reduce import reduce
from tests.fakes.builders import a_spec
from tests.remote.recorded import Recorded, talking_to

XID = "NVRM: Xid (PCI:0000:3b:00): {code}, pid=4711, name=python3, {words}"


def kmsg(number: int, seconds: float, message: str) -> str:
    return f"4,{number},{int(seconds * 1e6)},-;{message}"


@pytest.fixture
def machine(tmp_path: Path) -> Recorded:
    machine = Recorded("nvidia-bare", tmp_path)
    machine.log(
        kmsg(1, 0.5, "Linux version 5.15.0-113-generic"),
        kmsg(2, 100.25, XID.format(code=13, words="Graphics SM Warp Exception")),
    )
    return machine


class Told:
    """Events of one or more sessions, folded as in gputop."""

    def __init__(self) -> None:
        self._fleet = Fleet(as_of=datetime.now(UTC), source="ssh")

    def codes(self, frame: Frame) -> list[int | None]:
        """Of all events after this frame."""
        seen = [HostsChanged(source="ssh", hosts=(a_spec(name="n"),)), FrameReceived(host="n", frame=frame)]
        self._fleet = reduce(self._fleet, seen, frame.received_at)
        return [event.code for event in self._fleet.hosts["n"].events]


async def test_events_since_boot_are_told_first_and_new_ones_as_they_come(machine: Recorded) -> None:
    async with talking_to(machine) as talk:
        frame = await talk.until(lambda frame: frame.events)
        (event,) = frame.events
        assert (event.kind, event.code, event.pci_bus_id, event.pid) == ("xid", 13, "0000:3b:00", 4711)
        assert (event.process, event.message) == ("python3", "Graphics SM Warp Exception")
        assert event.uptime_seconds == 100.25
        assert event.at is not None
        assert abs(event.at.timestamp() - (frame.sampled_at.timestamp() - 86400.25 + 100.25)) < 60
        machine.log(kmsg(3, 200.5, XID.format(code=31, words="Ch 00000008")), kmsg(4, 200.6, " SUBSYSTEM=pci"))
        frame = await talk.until(lambda frame: frame.events)
        assert [event.code for event in frame.events] == [31]
        assert frame.facts.kernel_log == "/dev/kmsg"
        frame = await talk.next()
    assert frame.events == ()


async def test_a_new_session_tells_the_log_again_and_nothing_is_lost_or_doubled(machine: Recorded) -> None:
    told = Told()
    async with talking_to(machine) as talk:
        told.codes(await talk.until(lambda frame: frame.events))
        machine.log(*(kmsg(10 + n, 300 + n / 1e6, XID.format(code=31, words="the same")) for n in range(3)))
        told.codes(await talk.until(lambda frame: frame.events))
    machine.log(kmsg(20, 400, XID.format(code=63, words="Row Remapper")))
    async with talking_to(machine) as talk:
        while 63 not in (codes := told.codes(await talk.next())):
            pass
        assert codes == [13, 31, 31, 31, 63]
        machine.log(kmsg(21, 500, XID.format(code=94, words="Contained")))
        codes = told.codes(await talk.until(lambda frame: frame.events))
    assert codes == [13, 31, 31, 31, 63, 94]


async def test_the_driver_in_other_words_is_one_event_with_its_code(machine: Recorded) -> None:
    async with talking_to(machine) as talk:
        await talk.until(lambda frame: frame.events)
        machine.log(
            kmsg(5, 600.0, "NVRM: GPU at PCI:0000:3b:00: GPU has fallen off the bus."),
            kmsg(6, 600.000002, XID.format(code=79, words="GPU has fallen off the bus.")),
        )
        frame = await talk.until(lambda frame: frame.events)
        assert [(event.kind, event.code) for event in frame.events] == [("xid", 79)]
        assert (await talk.next()).events == ()


async def test_a_burst_of_ten_thousand_is_bounded_and_says_what_it_left_out(machine: Recorded) -> None:
    async with talking_to(machine) as talk:
        await talk.until(lambda frame: frame.events)
        machine.log(*(kmsg(n, 700 + n / 1e6, XID.format(code=31, words=f"fault {n}")) for n in range(10_000)))
        told: list[DeviceEvent] = []

        def ends(frame: Frame) -> bool:
            assert len(frame.events) <= 200
            told.extend(frame.events)
            return bool(told) and told[-1].message == "fault 9999"

        frame = await talk.until(ends)
    assert [event.message for event in told] == [f"fault {n}" for n in range(10_000 - len(told), 10_000)]
    (problem,) = (problem for problem in frame.problems if problem.kind is ProblemKind.KERNEL_LOG)
    assert problem.summary == f"{10_000 - len(told)} more events were logged than are told"
    assert problem.kind in INFORMATIONAL


async def test_an_event_does_not_wait_for_a_long_interval(machine: Recorded) -> None:
    async with talking_to(machine, interval=3600) as talk:
        frame = await talk.until(lambda frame: frame.events)
        machine.log(kmsg(3, 200, XID.format(code=79, words="GPU has fallen off the bus.")))
        frame = await talk.until(lambda frame: frame.events)
    assert [event.code for event in frame.events] == [79]


async def test_dmesg_is_followed_where_the_device_may_not_be_read(tmp_path: Path) -> None:
    machine = Recorded("nvidia-bare", tmp_path)
    lines = f"[    0.000000] Linux version 5.15\n[  100.250000] {XID.format(code=13, words='x')}\n"
    machine.command("dmesg_--follow", lines, hangs=True)
    async with talking_to(machine) as talk:
        frame = await talk.until(lambda frame: frame.events)
        assert [(event.code, event.uptime_seconds) for event in frame.events] == [(13, 100.25)]
        frame = await talk.next()
    assert frame.facts.kernel_log == "dmesg"
    assert all(problem.kind is not ProblemKind.KERNEL_LOG for problem in frame.problems)


async def test_the_journal_is_followed_where_dmesg_is_refused(tmp_path: Path) -> None:
    machine = Recorded("nvidia-bare", tmp_path)
    machine.command("dmesg_--follow", "dmesg: read kernel buffer failed: Operation not permitted\n", status=1)
    entry = {"__REALTIME_TIMESTAMP": "1764500100250000", "MESSAGE": XID.format(code=48, words="DBE")}
    machine.command("journalctl_-k_-f", json.dumps(entry) + "\n", hangs=True)
    async with talking_to(machine) as talk:
        frame = await talk.until(lambda frame: frame.events)
        (event,) = frame.events
        assert (event.code, event.uptime_seconds) == (48, None)
        assert event.at == datetime.fromtimestamp(1764500100.25, UTC)
        frame = await talk.next()
    assert frame.facts.kernel_log == "journalctl"


async def test_without_any_right_to_the_log_it_is_said_and_nothing_is_degraded(tmp_path: Path) -> None:
    machine = Recorded("nvidia-bare", tmp_path)
    machine.command("dmesg_--follow", "dmesg: read kernel buffer failed: Operation not permitted\n", status=1)
    hint = (
        "Hint: You are currently not seeing messages from other users and the system.\n"
        "No journal files were opened due to insufficient permissions.\n"
    )
    machine.command("journalctl_-k_-f", hint, hangs=True)
    async with talking_to(machine) as talk:
        frame = await talk.until(lambda frame: any(p.kind is ProblemKind.KERNEL_LOG for p in frame.problems))
    (problem,) = (problem for problem in frame.problems if problem.kind is ProblemKind.KERNEL_LOG)
    assert problem.summary == "the kernel log cannot be read"
    assert problem.detail is not None
    assert problem.detail.splitlines() == [
        "/dev/kmsg: No such file or directory",
        "dmesg: dmesg: read kernel buffer failed: Operation not permitted",
        "journalctl: Hint: You are currently not seeing messages from other users and the system.",
    ]
    assert "systemd-journal" in (problem.hint or "")
    assert problem.kind in INFORMATIONAL


async def test_servers_without_nvidia_devices_are_not_asked_for_their_log(tmp_path: Path) -> None:
    machine = Recorded("ascend-910b", tmp_path)
    machine.log(kmsg(2, 100.25, XID.format(code=13, words="x")))
    async with talking_to(machine) as talk:
        for _ in range(3):
            frame = await talk.next()
    assert frame.facts.kernel_log is None
