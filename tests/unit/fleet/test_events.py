"""Events of a server's log on their way into the fleet, and frames that are read once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from gputop.domain.event import FrameReceived
from gputop.domain.link import LinkState
from gputop.export.document import document
from gputop.fleet.collector import Inbox
from gputop.fleet.files import file_fleet
from gputop.fleet.reduce import EVENTS_LENGTH, reduce
from gputop.health.catalog import default_catalog
from gputop.readers.load import Recording
from gputop.remote.sample import Sample, new_sample, problem
from gputop.sources.file import frame

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def event(code: int, at: float | None = None) -> dict[str, object]:
    return {"at": at, "kind": "xid", "code": code, "pci_bus_id": "0000:02:00", "message": f"Xid {code}"}


def sample(*events: dict[str, object]) -> Sample:
    made = new_sample("dmesg")
    made["events"] = list(events)
    return made


def test_events_reach_the_document_with_their_time_or_without() -> None:
    fleet = file_fleet([Recording("a", sample(event(79, AT.timestamp()), event(13)))], AT)
    told = msgspec.to_builtins(document(fleet).hosts[0].events)
    assert [(one["code"], one["at"], one["pid"]) for one in told] == [
        (79, "2026-01-02T03:04:05Z", None),
        (13, None, None),
    ]


def test_a_log_that_is_told_again_from_its_beginning_doubles_nothing() -> None:
    fleet = file_fleet([Recording("a", sample(event(79, 1.0), event(79, 1.0)))], AT)
    again = frame(sample(event(79, 1.0), event(79, 1.0), event(13, 2.0)), AT)
    fleet = reduce(fleet, [FrameReceived(host="a", frame=again)], AT)
    assert [one.code for one in fleet.hosts["a"].events] == [79, 79, 13]


def test_an_event_is_known_again_by_its_stamp_since_boot_when_the_clock_was_set() -> None:
    def stamped(at: float) -> dict[str, object]:
        return {**event(79, at), "uptime_seconds": 100.25}

    fleet = file_fleet([Recording("a", sample(stamped(1.0)))], AT)
    again = frame(sample(stamped(1.7), {**stamped(1.7), "uptime_seconds": 100.26}), AT)
    fleet = reduce(fleet, [FrameReceived(host="a", frame=again)], AT)
    assert [one.uptime_seconds for one in fleet.hosts["a"].events] == [100.25, 100.26]


def test_events_are_graded_as_they_come_in() -> None:
    catalog = default_catalog()
    fleet = file_fleet([Recording("a", sample(event(79, 1.0)))], AT, catalog)
    fleet = reduce(fleet, [FrameReceived(host="a", frame=frame(sample(event(13, 2.0)), AT))], AT, catalog)
    told = document(fleet).hosts[0].events
    assert [one.severity for one in told] == ["reboot", "app"]


def test_a_frame_that_is_overtaken_leaves_its_events_behind() -> None:
    inbox = Inbox()
    for code in (13, 31, 79):
        inbox.put(FrameReceived(host="a", frame=frame(sample(event(code, float(code))), AT)))
    (received,) = inbox.take()
    assert isinstance(received, FrameReceived)
    assert [one.code for one in received.frame.events] == [13, 31, 79]
    assert inbox.dropped_frames == 2


def test_the_newest_events_are_kept() -> None:
    fleet = file_fleet(
        [Recording("a", sample(*(event(number, float(number)) for number in range(EVENTS_LENGTH + 5))))], AT
    )
    kept = fleet.hosts["a"].events
    assert (len(kept), kept[-1].code) == (EVENTS_LENGTH, EVENTS_LENGTH + 4)


def test_what_is_read_from_a_file_does_not_become_stale() -> None:
    fleet = file_fleet([Recording("a", sample())], AT)
    later = reduce(fleet, [], AT + timedelta(days=400))
    assert later.hosts["a"].link.state is LinkState.OK


def test_a_sample_that_a_reader_made_wrongly_is_a_problem_and_no_crash() -> None:
    wrong = sample()
    wrong["devices"] = [{"index": "zero"}]
    fleet = file_fleet([Recording("a", wrong)], AT)
    (found,) = fleet.hosts["a"].problems
    assert found.kind == "unreadable-file"
    assert "index" in (found.detail or "")


def test_an_inforom_warning_does_not_degrade_a_host() -> None:
    made = sample()
    made["devices"] = [{"index": 0, "problems": [problem("inforom-corrupted", "the infoROM is corrupted")]}]
    host = file_fleet([Recording("a", made)], AT).hosts["a"]
    assert host.link.state is LinkState.OK
    assert [one.kind for one in host.device_problems[0]] == ["inforom-corrupted"]
