"""The kernel log on the screen: bursts under their roots, of a host, a GPU or a process."""

from __future__ import annotations

from datetime import UTC, timedelta

import pytest

from gputop.catalog.words import event_name
from gputop.domain.host import Host
from gputop.domain.reading import DeviceEvent
from gputop.fleet.fleet import Fleet
from gputop.health.catalog import default_catalog
from gputop.health.xid import graded
from gputop.tui.draw import Spans
from gputop.tui.look import Look
from gputop.tui.pages.host import host_board
from gputop.tui.pages.log import events_of, latest, log_page
from gputop.tui.pages.told import Remembered, told_groups
from gputop.tui.rows import HostRow, gpu_rows, process_rows
from tests.tui.builders import NOW, a_gpu_frame, a_host, a_process, an_app

LOOK = Look(as_of=NOW, zone=UTC)


def event(seconds: float, code: int, bus: str, message: str = "x", **fields: object) -> DeviceEvent:
    at = NOW - timedelta(hours=2) + timedelta(seconds=seconds)
    return DeviceEvent(at=at, kind="xid", code=code, pci_bus_id=bus, message=message, **fields)  # type: ignore[arg-type]


LOGGED = graded(
    [
        event(-4000, 13, "0000:10:00", "Graphics SM Warp Exception", pid=88412, process="python"),
        event(0, 45, "0000:15:00", "Ch 00000008"),
        event(1, 79, "0000:15:00", "GPU has fallen off the bus."),
        *(event(2 + n, 45, "0000:15:00", f"Ch 0000001{n}") for n in range(3)),
        event(9, 154, "0000:15:00", "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"),
    ],
    default_catalog(),
)


def a_logged_host(events: tuple[DeviceEvent, ...] = LOGGED) -> Host:
    processes = (a_process(0), a_process(5, pid=7))
    return a_host("gpu-003", a_gpu_frame("gpu-003", [50.0] * 8, processes=processes), events=events)


def text(lines: list[Spans]) -> list[str]:
    return ["".join(part for part, _ in line).rstrip() for line in lines]


def test_the_newest_burst_comes_first_under_its_root_with_the_rest_folded() -> None:
    host = a_logged_host()
    lines = [line for line in text(log_page(host, host.events, LOOK))[2:] if line]
    assert lines == [
        "  ✕         12:03:23  Xid 79  GPU 5  GPU has fallen off the bus.",
        "     → drain, then reboot",
        "     ·         12:03:22  Xid 45  GPU 5  Ch 00000008   4 times",
        "     ✕         12:03:31  Xid 154  GPU 5  GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot "
        "Required)",
        "  ·         10:56:42  Xid 13  GPU 0  Graphics SM Warp Exception",
        "     graphics engine exception: access out of range, bad instruction",
        "     → blame the program, not the server",
        "     python pid 88412",
    ]


def test_a_row_shows_its_own_events() -> None:
    host = a_logged_host()
    gpus = gpu_rows(host, 0)
    assert [found.code for found in events_of(gpus[0], host)] == [13]
    assert len(events_of(gpus[5], host)) == 6
    assert events_of(gpus[1], host) == ()
    assert events_of(HostRow(host, 0), host) == host.events
    first, second = process_rows(host, 0)
    assert [found.code for found in events_of(first, host)] == [13]
    assert len(events_of(second, host)) == 6


def test_the_page_of_a_host_shows_the_roots_of_the_newest_bursts() -> None:
    host = a_logged_host()
    assert text(latest(host, host.events, LOOK, 1)) == [
        "  ✕         12:03:23  Xid 79  GPU 5  GPU has fallen off the bus.   and 5 more"
    ]
    told = told_groups(None, host, Remembered(), LOOK)
    assert any("Kernel log" in line for line in text(host_board(host, told, LOOK, 120).lines))
    assert not any("╭─ Kernel log" in line for line in text(host_board(a_logged_host(()), told, LOOK, 120).lines))


def test_a_log_without_events_says_so() -> None:
    lines = text(log_page(a_logged_host(()), (), LOOK))
    assert lines[1] == "  the kernel log is not followed here"
    assert "  nothing was logged" in lines


def test_what_a_process_calls_itself_cannot_move_the_screen() -> None:
    bad = (event(0, 13, "0000:10:00", "\x1b[2J[red]\n", process="\x1b]0;x\x07", pid=1),)
    for line in text(log_page(a_logged_host(bad), bad, LOOK)):
        assert line.isprintable()


@pytest.mark.parametrize(("kind", "code", "name"), [("xid", 79, "Xid 79"), ("sxid", 20034, "SXid 20034"),
                                                    ("fell-off-bus", None, "fell off bus")])  # fmt: skip
def test_names_of_events(kind: str, code: int | None, name: str) -> None:
    assert event_name(DeviceEvent(kind=kind, code=code, message="")) == name


@pytest.mark.parametrize(
    ("view", "keys", "count"), [("hosts", ("L",), 2), ("host:gpu-003", ("L",), 2), ("gpus", ("L",), 1)]
)
async def test_the_key_opens_the_log_of_the_row_and_escape_leaves_it(
    view: str, keys: tuple[str, ...], count: int
) -> None:
    host = a_logged_host()
    app = an_app(Fleet(as_of=NOW, source="demo", hosts={host.name: host}), view=view)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        before = app.screen_lines()
        await pilot.press(*keys)
        await pilot.pause()
        lines = app.screen_lines()
        assert "kernel log" in lines[0]
        assert sum("→" in line for line in lines) == count
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen_lines()[1:4] == before[1:4]
