"""What an update costs, counted: lines painted, cells formatted, bytes sent."""

from __future__ import annotations

from datetime import timedelta

from msgspec import structs
from textual.pilot import Pilot

from gputop.fleet.collector import Update
from gputop.fleet.fleet import Fleet
from gputop.tui.app import GputopApp
from gputop.tui.bridge import FleetUpdated
from tests.tui.builders import NOW, an_app, wide_fleet


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
