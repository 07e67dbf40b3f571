"""The page of one device: all that is known of it. Pure functions to lines."""

from __future__ import annotations

from gputop.domain.link import TROUBLE
from gputop.export.device_groups import device_groups
from gputop.export.host_groups import ages
from gputop.fleet.occupancy import FRESH
from gputop.tui.draw import Spans, remote
from gputop.tui.look import LOST, SIGNS, TROUBLED, WORDS, Look
from gputop.tui.pages.blocks import Board, in_columns, panel
from gputop.tui.pages.host import add_processes, name_cells, page_head, problem_lines, trends, unattributed_lines
from gputop.tui.pages.log import events_of, latest
from gputop.tui.rows import GpuRow, ProcessRow, process_rows
from gputop.tui.views import GPUS

BURSTS_SHOWN = 8

_PLACES = (
    (0, 0),  # load
    (0, 0),  # memory
    (0, 1),  # power
    (0, 1),  # temperature
    (0, 0),  # clocks
    (1, 1),  # links
    (1, 2),  # ECC
    (1, 2),  # repair and recovery
    (0, 0),  # modes and partitions
    (1, 2),  # identity
    (1, 1),  # ages
)


def gpu_head(row: GpuRow, look: Look, width: int) -> Spans:
    """The first line of a device's page."""
    host = row.host
    if host.link.state in FRESH:
        broken = row.state in ("lost", "error")
        sign, name = LOST if broken else TROUBLED if row.is_problem else ("●", "ok")
        state = row.state
        if row.state == "ok" and row.is_problem:
            state = "has a problem"
    else:
        (sign, name), state = SIGNS[host.link.state], WORDS[host.link.state]
    left: Spans = (
        (f" {remote(host.name)} ", "title"),
        (f" GPU {row.device.index} ", "title"),
        (f" {sign} {state}  ", name),
        (remote(row.device.model, ""), "dim"),
    )
    return page_head(left, host, look, width)


def gpu_board(row: GpuRow, look: Look, width: int) -> Board:
    """Everything known of one device."""
    host = row.host
    board = Board()
    board.add_row(GPUS.columns, row, look, width, name_cells(host))
    board.add_blank()
    problems = problem_lines(host, look, width - 4, row.position)
    if problems:
        board.add(panel("Problems", problems, width, look))
    now = (row.value("utilization_percent"), row.memory_percent)
    board.add(trends(host.name, row.device.key, now, "", look, width))
    add_processes(board, host, _own(row), look, width, unattributed_lines(row), [row.position])
    identity, *values = device_groups(host, row.position, look.as_of)
    groups = [*values, identity, ages(host, look.as_of, look.zone)]
    board.add(in_columns(groups, _PLACES, look, width))
    events = events_of(row, host)
    lines = latest(host, events, look, BURSTS_SHOWN) if events else [((_silence(row), "dim"),)]
    board.add(panel("Kernel log of this GPU (L shows all)" if events else "Kernel log of this GPU", lines, width, look))
    return board


def _own(row: GpuRow) -> list[ProcessRow]:
    """Its processes, with what they hold of it; their column of devices names all that they are on."""
    found = []
    for whole in process_rows(row.host, 0):
        assert isinstance(whole, ProcessRow)
        readings = [reading for reading in whole.readings if reading.device_index == row.position]
        if readings:
            own = ProcessRow(row.host, 0, whole.pid)
            own.readings, own.gpus = readings, whole.gpus
            found.append(own)
    return found


def _silence(row: GpuRow) -> str:
    host = row.host
    facts = host.frame.facts if host.frame is not None else None
    if facts is None or facts.kernel_log is None:
        return "the kernel log is not followed here"
    heard = "" if host.link.state not in TROUBLE or host.link.state in FRESH else " until it was last heard"
    return f"nothing was logged{heard}"
