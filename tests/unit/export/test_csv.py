"""CSV: a row a device."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from io import StringIO

from gputop.domain.event import FrameReceived, HostsChanged, LinkChanged
from gputop.domain.link import LinkState
from gputop.domain.problem import ProblemKind
from gputop.domain.reading import DEVICE_METRICS, Device, ProcessReading
from gputop.export.to_csv import COLUMNS, to_csv
from gputop.fleet.demo import demo_fleet
from gputop.fleet.fleet import Fleet
from gputop.fleet.reduce import reduce
from tests.fakes.builders import a_frame, a_link, a_problem, a_spec
from tests.fakes.clock import START


def rows(fleet: Fleet) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(to_csv(fleet))))


def fleet_of(**frame: object) -> Fleet:
    events = [
        HostsChanged(source="ssh", hosts=(a_spec("gpu-01"), a_spec("gpu-02"))),
        LinkChanged(host="gpu-01", link=a_link()),
        FrameReceived(host="gpu-01", frame=a_frame(**frame)),  # type: ignore[arg-type]
        LinkChanged(
            host="gpu-02",
            link=a_link(LinkState.UNREACHABLE, problem=a_problem(ProblemKind.NO_ROUTE, "no route to host")),
        ),
    ]
    return reduce(Fleet(as_of=START), events, START)


def test_each_device_has_a_row_and_each_metric_a_column() -> None:
    fleet, _ = demo_fleet(7, 24, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    found = rows(fleet)
    devices = sum(len(host.frame.devices) for host in fleet if host.frame)
    without = sum(1 for host in fleet if not (host.frame and host.frame.devices))
    assert len(found) == devices + without
    assert set(DEVICE_METRICS) <= set(COLUMNS)
    assert all(None not in row and None not in row.values() for row in found)


def test_host_columns_come_first() -> None:
    assert COLUMNS[:3] == ("as_of", "host", "address")


def test_what_could_not_be_read_is_an_empty_field() -> None:
    row = rows(fleet_of(utilization=(None,)))[0]
    assert row["utilization_percent"] == ""
    assert row["temperature_celsius"] == ""
    assert row["occupancy"] == "unknown"


def test_a_host_without_devices_has_a_row_that_says_why() -> None:
    row = rows(fleet_of())[1]
    assert (row["host"], row["link_state"], row["link_problem"]) == ("gpu-02", "unreachable", "no route to host")
    assert row["index"] == row["utilization_percent"] == row["memory_used_bytes"] == ""


def test_users_and_problems_of_a_device_stand_in_its_row() -> None:
    row = rows(
        fleet_of(
            processes=(
                ProcessReading(device_index=0, pid=1, user="bob"),
                ProcessReading(device_index=0, pid=2, user="al"),
            ),
            device_problems={0: (a_problem(summary="hot"),)},
        )
    )[0]
    assert (row["users"], row["processes"], row["problems"]) == ("al;bob", "2", "hot")


def test_text_from_a_server_is_one_line_and_never_a_formula() -> None:
    row = rows(fleet_of(devices=(Device(index=0, model='=HYPERLINK("x")\n\x1b[2J'),)))[0]
    assert row["model"] == '\'=HYPERLINK("x") [2J'
