"""What a host's link is judged to be, from what the source reports and when frames came."""

from __future__ import annotations

from datetime import timedelta

from gputop.domain.event import EndpointResolved, FrameReceived, HostsChanged, LinkChanged, SourceFailed
from gputop.domain.host import Endpoint
from gputop.domain.link import LinkState
from gputop.domain.problem import ProblemKind
from gputop.fleet.fleet import Fleet
from gputop.fleet.reduce import FIRST_FRAME_GRACE, reduce
from tests.fakes.builders import a_frame, a_link, a_problem, a_spec
from tests.fakes.clock import START

NAME = "gpu-01"


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def a_fleet(*events: object, spec: object = None) -> Fleet:
    first = HostsChanged(source="ssh", hosts=(spec or a_spec(NAME),))  # type: ignore[arg-type]
    return reduce(Fleet(as_of=START), [first, *events], START)  # type: ignore[list-item]


def linked(fleet: Fleet) -> LinkState:
    return fleet.hosts[NAME].link.state


def test_a_host_nobody_tried_is_pending() -> None:
    assert linked(a_fleet()) is LinkState.PENDING


def test_a_session_without_a_frame_is_connecting_and_after_the_grace_stale() -> None:
    fleet = a_fleet(LinkChanged(host=NAME, link=a_link()))
    assert linked(fleet) is LinkState.CONNECTING
    late = reduce(fleet, [], START + FIRST_FRAME_GRACE + seconds(1))
    assert linked(late) is LinkState.STALE
    assert late.hosts[NAME].link.problem is not None
    assert late.hosts[NAME].link.problem.kind is ProblemKind.AGENT_SILENT


def test_fresh_frames_make_it_ok_and_three_missing_intervals_stale() -> None:
    fleet = a_fleet(LinkChanged(host=NAME, link=a_link()), FrameReceived(host=NAME, frame=a_frame()))
    assert linked(fleet) is LinkState.OK
    assert linked(reduce(fleet, [], START + seconds(5.9))) is LinkState.OK
    stale = reduce(fleet, [], START + seconds(6.1))
    assert linked(stale) is LinkState.STALE
    assert stale.hosts[NAME].link.since == START + seconds(6)
    assert stale.hosts[NAME].frame is not None, "the last values are kept"


def test_a_frame_from_before_the_session_does_not_make_it_ok() -> None:
    fleet = a_fleet(LinkChanged(host=NAME, link=a_link()), FrameReceived(host=NAME, frame=a_frame()))
    lost = reduce(fleet, [LinkChanged(host=NAME, link=a_link(LinkState.UNREACHABLE))], START + seconds(1))
    assert linked(lost) is LinkState.UNREACHABLE
    back = reduce(lost, [LinkChanged(host=NAME, link=a_link(since=START + seconds(2)))], START + seconds(2))
    assert linked(back) is LinkState.UNREACHABLE, "trouble stands until a frame proves otherwise"
    frame = a_frame(START + seconds(3))
    assert linked(reduce(back, [FrameReceived(host=NAME, frame=frame)], START + seconds(3))) is LinkState.OK


def test_a_problem_in_a_frame_makes_the_host_degraded_and_keeps_the_time_it_was_first_seen() -> None:
    lost = {1: (a_problem(),)}
    session = LinkChanged(host=NAME, link=a_link())
    fleet = a_fleet(session, FrameReceived(host=NAME, frame=a_frame(device_problems=lost, utilization=(1.0, 2.0))))
    assert linked(fleet) is LinkState.DEGRADED
    later = START + seconds(2)
    again = a_frame(later, device_problems=lost, utilization=(1.0, 2.0))
    fleet = reduce(fleet, [FrameReceived(host=NAME, frame=again)], later)
    assert fleet.hosts[NAME].device_problems[1][0].since == START
    well = a_frame(later + seconds(1), utilization=(1.0, 2.0))
    assert linked(reduce(fleet, [FrameReceived(host=NAME, frame=well)], later + seconds(1))) is LinkState.OK


def test_an_informational_problem_does_not_degrade() -> None:
    frame = a_frame(problems=(a_problem(ProblemKind.PROCESSES_UNRELIABLE, "process list unreliable"),))
    fleet = a_fleet(LinkChanged(host=NAME, link=a_link()), FrameReceived(host=NAME, frame=frame))
    assert linked(fleet) is LinkState.OK
    assert fleet.hosts[NAME].problems


def test_fewer_devices_than_expected_is_a_problem() -> None:
    spec = a_spec(NAME, expect_devices=2)
    fleet = a_fleet(LinkChanged(host=NAME, link=a_link()), FrameReceived(host=NAME, frame=a_frame()), spec=spec)
    assert linked(fleet) is LinkState.DEGRADED
    assert [problem.summary for problem in fleet.hosts[NAME].problems] == ["1 device, 2 expected"]


def test_a_retry_does_not_hide_the_trouble_and_keeps_its_beginning() -> None:
    refused = a_link(LinkState.UNREACHABLE, problem=a_problem(ProblemKind.CONNECTION_REFUSED, "refused"), attempts=1)
    fleet = a_fleet(LinkChanged(host=NAME, link=refused))
    retrying = a_link(LinkState.CONNECTING, since=START + seconds(5), attempts=1)
    fleet = reduce(fleet, [LinkChanged(host=NAME, link=retrying)], START + seconds(5))
    assert linked(fleet) is LinkState.UNREACHABLE
    again = a_link(LinkState.UNREACHABLE, since=START + seconds(6), problem=refused.problem, attempts=2)
    fleet = reduce(fleet, [LinkChanged(host=NAME, link=again)], START + seconds(6))
    assert fleet.hosts[NAME].link.since == START
    assert fleet.hosts[NAME].link.attempts == 2
    assert [change.state for change in fleet.hosts[NAME].link_history] == [LinkState.UNREACHABLE]


def test_a_login_that_waits_for_a_person_is_on_its_way_and_says_so_whatever_was_wrong_before() -> None:
    refused = a_problem(ProblemKind.CONNECTION_REFUSED, "refused")
    lost = a_fleet(LinkChanged(host=NAME, link=a_link(LinkState.UNREACHABLE, problem=refused, attempts=1)))
    waits = a_problem(ProblemKind.ANSWER_AWAITED, "waits for your answer")
    link = a_link(LinkState.CONNECTING, problem=waits, attempts=1)
    waiting = reduce(lost, [LinkChanged(host=NAME, link=link)], START + seconds(1))
    assert (linked(waiting), waiting.hosts[NAME].link.problem) == (LinkState.CONNECTING, waits)
    later = reduce(waiting, [], START + seconds(3600))
    assert (linked(later), later.hosts[NAME].link.problem) == (LinkState.CONNECTING, waits)
    answered = a_link(LinkState.CONNECTING, attempts=1)
    on_its_way = reduce(later, [LinkChanged(host=NAME, link=answered)], START + seconds(3601))
    assert (linked(on_its_way), on_its_way.hosts[NAME].link.problem) == (LinkState.CONNECTING, None)


def test_hosts_keep_their_values_when_the_inventory_is_read_again_and_leave_with_it() -> None:
    fleet = a_fleet(FrameReceived(host=NAME, frame=a_frame()))
    again = reduce(fleet, [HostsChanged(source="ssh", hosts=(a_spec("new"), a_spec(NAME)))], START)
    assert again.hosts[NAME].frame is not None
    gone = reduce(again, [HostsChanged(source="ssh", hosts=(a_spec("new"),))], START)
    assert list(gone.hosts) == ["new"]
    other = reduce(gone, [HostsChanged(source="local", hosts=(a_spec("here"),))], START)
    assert set(other.hosts) == {"new", "here"}, "one source does not remove another's hosts"


def test_events_of_unknown_hosts_change_nothing() -> None:
    fleet = a_fleet()
    endpoint = EndpointResolved(host="ghost", endpoint=Endpoint(address="10.0.0.1"))
    events = [endpoint, LinkChanged(host="ghost", link=a_link()), FrameReceived(host="ghost", frame=a_frame())]
    assert reduce(fleet, events, START).hosts == fleet.hosts


def test_a_failed_source_is_told_once() -> None:
    failed = SourceFailed(source="ssh", problem=a_problem(ProblemKind.INTERNAL, "source ssh failed"))
    assert len(a_fleet(failed, failed).problems) == 1


def test_clock_skew_is_the_servers_clock_minus_ours() -> None:
    frame = a_frame(sampled_at=START - seconds(30))
    fleet = a_fleet(LinkChanged(host=NAME, link=a_link()), FrameReceived(host=NAME, frame=frame))
    assert fleet.hosts[NAME].clock_skew_seconds == -30


def test_a_host_that_is_connected_again_and_sends_nothing_says_that_it_had_readings() -> None:
    fleet = a_fleet(LinkChanged(host=NAME, link=a_link()), FrameReceived(host=NAME, frame=a_frame()))
    lost = reduce(fleet, [LinkChanged(host=NAME, link=a_link(LinkState.UNREACHABLE))], START + seconds(60))
    since = START + seconds(61)
    back = reduce(lost, [LinkChanged(host=NAME, link=a_link(since=since))], since + FIRST_FRAME_GRACE + seconds(1))
    problem = back.hosts[NAME].link.problem
    assert problem is not None
    assert "first" not in problem.summary
    assert problem.since == a_frame().received_at
