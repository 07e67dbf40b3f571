"""The page of a host and that of a device."""

from __future__ import annotations

from gputop.actions.desk import Desk
from gputop.domain.host import Host
from gputop.tui.draw import Spans, remote
from gputop.tui.look import Look
from gputop.tui.pages.blocks import Board
from gputop.tui.pages.gpu import gpu_board, gpu_head
from gputop.tui.pages.host import host_board, host_head
from gputop.tui.pages.told import Remembered, remembered, told_groups
from gputop.tui.rows import GpuRow, gpu_rows
from gputop.tui.screens.rows import Place, RowsScreen


def gone(words: str) -> Board:
    return Board([((f"  {words} Esc goes back.", "dim"),)])


class HostScreen(RowsScreen):
    """One host: facts, problems, devices, processes, and what scheduler and power provider say. They are asked when
    the page is opened, in the background."""

    def __init__(self, host: str, cursor: Place | None = None) -> None:
        super().__init__(cursor)
        self.host = host
        self._desk: Desk | None = None
        """That was asked; `None`: not yet."""
        self._act: object = None
        """What acts have made of the host, when scheduler and provider were asked."""
        self._remembered = Remembered()

    def _host(self) -> Host | None:
        return self.gputop.fleet.get(self.host)

    def targets(self) -> tuple[str, ...]:
        return (self.host,)

    def head(self, look: Look, width: int) -> Spans:
        host = self._host()
        return ((f" {remote(self.host)} ", "title"),) if host is None else host_head(host, look, width)

    def made(self, look: Look, width: int) -> Board:
        host = self._host()
        if host is None:
            return gone("This host is not in the inventory any more.")
        self._ask(host)
        return host_board(host, told_groups(self.gputop.desk, host, self._remembered, look), look, width)

    def _ask(self, host: Host) -> None:
        """Once when the page is opened, and again when an act has ended or begun."""
        desk = self.gputop.desk
        if desk is None:
            return
        act = desk.marks().get(self.host)
        if self._desk is not desk or act != self._act:
            anew = self._desk is not None
            self._desk, self._act = desk, act
            self._remembered = remembered(desk, self.host)
            desk.acts.enquiries.ask(host, anew=anew)

    def do_retry(self) -> None:
        """Ask everybody again."""
        self.gputop.do_retry()
        host, desk = self._host(), self.gputop.desk
        if host is not None and desk is not None:
            self._remembered = remembered(desk, self.host)
            desk.acts.enquiries.ask(host, anew=True)
            self.draw()

    def do_page_open(self) -> None:
        row = self.row
        if isinstance(row, GpuRow):
            self.gputop.enter_gpu(row)
        else:
            self.do_page_details()

    def on_unmount(self) -> None:
        if self._desk is not None:
            self._desk.acts.enquiries.leave(self.host)


class GpuScreen(RowsScreen):
    """One device."""

    def __init__(self, host: str, device: str, cursor: Place | None = None) -> None:
        """`device`: its key, or its number."""
        super().__init__(cursor)
        self.host = host
        self.device = device

    def _row(self) -> GpuRow | None:
        host = self.gputop.fleet.get(self.host)
        rows = [row for row in gpu_rows(host, 0) if isinstance(row, GpuRow)] if host is not None else []
        by_key = next((row for row in rows if row.device.key == self.device), None)
        return by_key or next((row for row in rows if str(row.device.index) == self.device), None)

    def targets(self) -> tuple[str, ...]:
        return (self.host,)

    def meant_devices(self) -> list[object]:
        """This one, whatever the cursor is on."""
        row = self._row()
        return [row] if row is not None else []

    def gone(self) -> int:
        return int(self._row() is None)

    def head(self, look: Look, width: int) -> Spans:
        row = self._row()
        return ((f" {remote(self.host)} ", "title"),) if row is None else gpu_head(row, look, width)

    def made(self, look: Look, width: int) -> Board:
        row = self._row()
        return gone("This GPU is not there any more.") if row is None else gpu_board(row, look, width)

    def do_page_open(self) -> None:
        if not isinstance(self.row, GpuRow):
            self.do_page_details()

    def do_page_next(self) -> None:
        self._turn(1)

    def do_page_previous(self) -> None:
        self._turn(-1)

    def _turn(self, step: int) -> None:
        """To another device of the host, round the end."""
        here = self._row()
        if here is not None:
            rows = gpu_rows(here.host, 0)
            row = rows[(here.position + step) % len(rows)]
            assert isinstance(row, GpuRow)
            self.device = row.device.key
            self._cursor = None
            self.gputop.visit_gpu(row)
            self.draw()
            self.page.scroll_home(animate=False)
