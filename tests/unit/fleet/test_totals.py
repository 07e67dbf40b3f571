"""Busy, idle and unknown, as the JSON contract counts them."""

from __future__ import annotations

from gputop.domain.event import FrameReceived, HostsChanged, LinkChanged
from gputop.domain.link import LinkState
from gputop.domain.reading import Frame, ProcessReading
from gputop.fleet.fleet import Fleet
from gputop.fleet.occupancy import occupancies
from gputop.fleet.reduce import reduce
from gputop.fleet.totals import totals
from tests.fakes.builders import a_frame, a_link, a_spec
from tests.fakes.clock import START


def a_fleet(frame: Frame, state: LinkState = LinkState.OK) -> Fleet:
    events = [
        HostsChanged(source="ssh", hosts=(a_spec("h"),)),
        LinkChanged(host="h", link=a_link(state)),
        FrameReceived(host="h", frame=frame),
    ]
    return reduce(Fleet(as_of=START), events, START)


def states(frame: Frame, state: LinkState = LinkState.OK) -> list[str]:
    return list(occupancies(a_fleet(frame, state).hosts["h"]))


def test_five_percent_is_busy_and_less_without_a_process_idle() -> None:
    assert states(a_frame(utilization=(5.0, 4.9, 0.0))) == ["busy", "idle", "idle"]


def test_a_compute_process_makes_a_quiet_device_busy_and_a_graphics_one_does_not() -> None:
    processes = (ProcessReading(device_index=0, pid=1), ProcessReading(device_index=1, pid=2, kind="graphics"))
    assert states(a_frame(utilization=(0.0, 0.0), processes=processes)) == ["busy", "idle"]


def test_what_cannot_be_known_is_never_idle() -> None:
    assert states(a_frame(utilization=(None,))) == ["unknown"]
    assert states(a_frame(utilization=(0.0,), columns={"processes_known": [False]})) == ["unknown"]
    assert states(a_frame(utilization=(0.0,), columns={"processes_known": None})) == ["unknown"]
    assert states(a_frame(utilization=(99.0,), columns={"state": ["lost"]})) == ["unknown"]


def test_old_values_of_an_unreachable_host_are_unknown_and_in_no_sum() -> None:
    found = totals(a_fleet(a_frame(utilization=(99.0, 0.0)), LinkState.UNREACHABLE))
    assert (found.devices, found.devices_busy, found.devices_idle, found.devices_unknown) == (2, 0, 0, 2)
    assert found.memory_used_bytes is None
    assert found.power_watts is None


def test_sums_leave_unknown_values_and_lost_devices_out() -> None:
    columns = {"state": ["ok", "lost", "ok"], "power_watts": [100.0, 999.0, None]}
    found = totals(a_fleet(a_frame(utilization=(50.0, 50.0, 0.0), columns=columns)))
    assert found.power_watts == 100.0
    assert found.memory_total_bytes == 2 * 80 * 1024**3
    assert (found.hosts, found.hosts_ok, found.devices_busy, found.devices_idle, found.devices_unknown) == (
        1,
        1,
        1,
        1,
        1,
    )
