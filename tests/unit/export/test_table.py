"""The table for people."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from gputop.domain.event import FrameReceived, HostsChanged, LinkChanged
from gputop.domain.link import LinkState
from gputop.domain.problem import ProblemKind
from gputop.domain.reading import Device, ProcessReading
from gputop.export.to_table import to_table
from gputop.fleet.demo import demo_fleet
from gputop.fleet.fleet import Fleet
from gputop.fleet.reduce import reduce
from tests.fakes.builders import a_frame, a_link, a_problem, a_spec
from tests.fakes.clock import START

DEMO, _ = demo_fleet(7, 6, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))


def fleet_of(**frame: object) -> Fleet:
    events = [
        HostsChanged(source="ssh", hosts=(a_spec("good"), a_spec("gone"))),
        LinkChanged(host="good", link=a_link()),
        FrameReceived(host="good", frame=a_frame(**frame)),  # type: ignore[arg-type]
        LinkChanged(
            host="gone",
            link=a_link(LinkState.UNREACHABLE, problem=a_problem(ProblemKind.NO_ROUTE, "no route", hint="look")),
        ),
    ]
    return reduce(Fleet(as_of=START), events, START)


def table(fleet: Fleet, **options: object) -> list[str]:
    return to_table(fleet, **({"width": None, "zone": UTC} | options)).splitlines()  # type: ignore[arg-type]


def test_trouble_is_on_top_with_its_reason_under_it() -> None:
    lines = table(fleet_of())
    body = lines[lines.index("") + 2 :]
    assert body[0].startswith("✕ gone")
    assert body[1] == "    no route; look"
    assert body[2].startswith("● good")


def test_a_table_promises_no_further_try() -> None:
    refused = a_problem(ProblemKind.CONNECTION_REFUSED, "refused", hint="is sshd running there?")
    events = [
        HostsChanged(source="ssh", hosts=(a_spec("gone"),)),
        LinkChanged(host="gone", link=a_link(LinkState.UNREACHABLE, problem=refused, attempts=1, retry_at=START)),
    ]
    assert table(reduce(Fleet(as_of=START), events, START))[-1] == "    refused; is sshd running there?"


def test_units_stand_with_the_numbers_and_the_zone_with_the_time() -> None:
    text = to_table(fleet_of(utilization=(50.0, 20.0)), width=None, zone=UTC)
    assert "35 %" in text
    assert "20/160 GiB" in text
    assert "600 W" in text
    assert "2026-01-02 03:04:05 UTC" in text


@given(width=st.integers(20, 220))
@settings(max_examples=40, deadline=None)
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert all(cell_len(line) <= width for line in table(DEMO, width=width))


def test_one_host_is_counted_as_one() -> None:
    fleet = reduce(Fleet(as_of=START), [HostsChanged(source="ssh", hosts=(a_spec("only"),))], START)
    assert table(fleet)[0].startswith("1 host ")


def test_a_narrow_terminal_keeps_host_state_and_utilization() -> None:
    header = next(line for line in table(DEMO, width=40) if "HOST" in line)
    assert header.split() == ["HOST", "STATE", "UTIL"]


def test_a_pipe_gets_everything_uncut() -> None:
    assert not any("…" in line for line in table(DEMO))


def test_ascii_has_no_other_characters() -> None:
    assert to_table(DEMO, width=None, zone=UTC, ascii_only=True).isascii()


def test_color_adds_nothing_but_color() -> None:
    colored = to_table(DEMO, width=None, zone=UTC, color=True)
    assert "\x1b[31m" in colored
    assert re.sub(r"\x1b\[\d+m", "", colored) == to_table(DEMO, width=None, zone=UTC)


def test_text_from_a_server_can_draw_nothing() -> None:
    fleet = fleet_of(
        devices=(Device(index=0, model="NVIDIA [red]L4\x1b[2J\n\u202e"),),
        processes=(ProcessReading(device_index=0, pid=1, user="bo\x1b]0;x\x07b"),),
    )
    text = to_table(fleet, width=None, zone=UTC)
    assert "1 [red]L4[2J" in text
    assert not any(character in text for character in "\x1b\x07\u202e")


def test_a_host_that_cannot_be_reached_shows_no_old_numbers_as_if_they_were_new() -> None:
    line = next(line for line in table(DEMO) if line.startswith("✕"))
    assert "%" not in line
