"""What an update costs, counted: lines painted, cells formatted, bytes sent."""

from __future__ import annotations

from datetime import timedelta

from msgspec import structs
from textual.pilot import Pilot

from gputop.fleet.collector import Update
from gputop.fleet.fleet import Fleet
from gputop.tui.app import GputopApp
from gputop.tui.bridge import FleetUpdated
from gputop.tui.widgets.painted import Page
from tests.tui.builders import NOW, a_gpu_frame, a_host, a_process, an_app, wide_fleet


async def settle(pilot: Pilot[int]) -> None:
    for _ in range(4):
        await pilot.pause()


async def cost(app: GputopApp, pilot: Pilot[int], fleet: Fleet) -> tuple[int, int]:
    """Lines painted and cells formatted by one update."""
    table = app.fleet_screen.table
    table.lines_painted = table.cells_formatted = 0
    app.post_message(FleetUpdated(Update(fleet=fleet, changed=frozenset())))
    await settle(pilot)
    return table.lines_painted, table.cells_formatted


async def test_only_visible_rows_are_formatted_however_many_there_are() -> None:
    app = an_app(wide_fleet(1000), view="gpus")
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot)
        lines, cells = await cost(app, pilot, wide_fleet(1000, at=NOW + timedelta(seconds=1), shift=1))
        assert len(app.fleet_screen.table.rows) == 8000
        assert lines <= 36
        assert cells <= 36 * 16


async def test_an_update_that_changes_nothing_paints_nothing() -> None:
    fleet = wide_fleet(100)
    app = an_app(fleet)
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot)
        lines, _ = await cost(app, pilot, structs.replace(fleet))
        assert lines == 0


async def test_a_change_of_one_host_paints_one_line() -> None:
    fleet = wide_fleet(100)
    changed = wide_fleet(100, shift=7).hosts["node-0003"]
    app = an_app(fleet)
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot)
        lines, _ = await cost(app, pilot, structs.replace(fleet, hosts=fleet.hosts | {"node-0003": changed}))
        assert lines == 1


async def test_moving_the_cursor_paints_two_lines() -> None:
    app = an_app(wide_fleet(100))
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot)
        table = app.fleet_screen.table
        table.lines_painted = 0
        await pilot.press("j")
        await settle(pilot)
        assert table.lines_painted == 2


async def test_rows_of_hosts_that_did_not_change_are_kept() -> None:
    fleet = wide_fleet(50)
    app = an_app(fleet, view="gpus")
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot)
        before = {row.key: row for row in app.fleet_screen.table.rows}
        changed = wide_fleet(50, shift=3).hosts["node-0003"]
        await cost(app, pilot, structs.replace(fleet, hosts=fleet.hosts | {"node-0003": changed}))
        again = {row.key: row for row in app.fleet_screen.table.rows}
        assert {key[0] for key, row in again.items() if row is not before[key]} == {"node-0003"}


async def test_a_busy_screen_gets_only_the_newest_fleet() -> None:
    app = an_app(wide_fleet(5))
    drawn: list[Fleet] = []
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot)
        draw = app.fleet_screen.draw

        def counted() -> None:
            drawn.append(app.fleet)
            draw()

        app.fleet_screen.draw = counted  # type: ignore[method-assign]
        fleets = [wide_fleet(5, at=NOW + timedelta(seconds=step)) for step in range(1, 20)]
        for fleet in fleets:
            app.post_message(FleetUpdated(Update(fleet=fleet, changed=frozenset())))
        await settle(pilot)
        assert drawn[-1] is fleets[-1]
        assert len(drawn) <= 2


async def page_cost(app: GputopApp, pilot: Pilot[int], fleet: Fleet) -> int:
    """Lines of the page in front that one update paints."""
    page = app.screen.query_one("#page", Page)
    page.lines_painted = 0
    app.post_message(FleetUpdated(Update(fleet=fleet, changed=frozenset())))
    await settle(pilot)
    return page.lines_painted


def a_large_host(use: float = 50.0) -> Fleet:
    """16 GPUs with four processes each; `use`: of GPU 3."""
    processes = tuple(a_process(device, 1000 + 10 * device + n) for device in range(16) for n in range(4))
    frame = a_gpu_frame("large", [50.0] * 3 + [use] + [50.0] * 12, processes=processes)
    return Fleet(as_of=NOW, hosts={"large": a_host("large", frame)})


async def test_a_page_paints_the_lines_that_changed_and_are_in_sight() -> None:
    app = an_app(a_large_host(), view="host:large")
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot)
        assert await page_cost(app, pilot, a_large_host()) == 0
        assert await page_cost(app, pilot, a_large_host(90.0)) <= 3  # the host, the device, the title of the curve
        assert await page_cost(app, pilot, structs.replace(a_large_host(), as_of=NOW + timedelta(hours=1))) <= 36


async def test_moving_the_cursor_of_a_page_paints_two_lines() -> None:
    app = an_app(a_large_host(), view="host:large")
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot)
        page = app.screen.query_one("#page", Page)
        page.lines_painted = 0
        await pilot.press("j")
        await settle(pilot)
        assert page.lines_painted == 2
