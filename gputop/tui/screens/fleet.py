"""The fleet screen: Hosts, GPUs and Processes."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.widgets import Input

from gputop.fleet.fleet import Fleet
from gputop.fleet.totals import Totals, totals
from gputop.query.filter import Predicate, parse_filter
from gputop.tui.actions_page import mark_text
from gputop.tui.arrange import REASONS_UP_TO_HOSTS
from gputop.tui.bindings import bindings
from gputop.tui.commands import Scope
from gputop.tui.draw import Spans, fit, remote, spread
from gputop.tui.rows import Key, reason, row_name
from gputop.tui.screens.base import CommandScreen
from gputop.tui.screens.page import LogScreen, RowScreen
from gputop.tui.summary import footer, header, header_height, tab_at, table_header
from gputop.tui.views import VIEWS
from gputop.tui.widgets.fleet_table import FleetTable, TableState
from gputop.tui.widgets.painted import Lines

LEAST_WIDTH, LEAST_HEIGHT = 30, 7
"""In smaller panes only the header line is shown."""


class FleetScreen(CommandScreen):
    """One table over the fleet at a time, with header, filter line and footer."""

    scope = Scope.TABLES
    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.TABLES)

    def __init__(self, view: str) -> None:
        super().__init__()
        self.states = {name: TableState.of(shown) for name, shown in VIEWS.items()}
        self.view = view
        self.filter_text = ""
        self.awaits_sort_letter = False
        self._cursor_before_filter: Key | None = None
        """While the filter is typed: each letter may hide the row that the whole word shows again."""
        self._passes: Predicate | None = None
        self._summed: Fleet | None = None
        self._totals = Totals()

    def compose(self) -> ComposeResult:
        yield Lines(id="header", ground="head")
        yield Lines(id="titles")
        yield FleetTable(self.state, id="table")
        yield Lines(id="reason")
        with Horizontal(id="filter-line"):
            yield Lines(id="filter-sign", ground="head")
            yield Input(id="filter", placeholder="words to look for; !word leaves out; Enter keeps, Esc clears")
        yield Lines(id="footer", ground="head")

    def on_mount(self) -> None:
        self.table.focus()
        self.query_one("#filter-sign", Lines).show([((" /", "key"),)])
        self.draw()

    @property
    def state(self) -> TableState:
        return self.states[self.view]

    @property
    def table(self) -> FleetTable:
        return self.query_one("#table", FleetTable)

    # --- drawing --------------------------------------------------------------------------------------------

    def draw(self) -> None:
        width, height = self.size
        fits, has_footer = self._room()
        lines = header_height(width, height)
        for name, shown in (("titles", fits), ("table", fits), ("footer", has_footer)):
            self.query_one(f"#{name}").display = shown
        fleet = self.gputop.fleet
        wants_reason = len(fleet.hosts) > REASONS_UP_TO_HOSTS or bool(fleet.problems or self.gputop.look.acts)
        self.query_one("#reason").display = fits and height > 14 and wants_reason
        bar = self.query_one("#header", Lines)
        bar.styles.height = lines if fits else max(1, height)
        self._draw_table(is_own_doing=False)

    def _room(self) -> tuple[bool, bool]:
        """Whether there is room for a table, and for a footer."""
        width, height = self.size
        fits = width >= LEAST_WIDTH and height >= LEAST_HEIGHT
        return fits, fits and height > 10

    def _draw_table(self, *, is_own_doing: bool = True) -> None:
        """`is_own_doing`: the user changed what is shown, so that nobody wonders where a row went."""
        self.table.show(self.gputop.fleet, self.gputop.look, self._passes)
        self._draw_frame()
        lost, self.table.lost_row = self.table.lost_row, None
        if lost is not None and not is_own_doing:
            now = self.table.cursor_row
            where = f"; the cursor is on {row_name(now)} now" if now is not None else ""
            gone = next((row for row in self.state.store.rows(self.gputop.fleet) if row.key == lost), None)
            name = row_name(gone) if gone is not None else " ".join(lost)
            self.gputop.say(f"{name} left the table{where}")

    def _draw_frame(self) -> None:
        """The lines around the table."""
        fleet, look = self.gputop.fleet, self.gputop.look
        width, height = self.size
        fits, has_footer = self._room()
        head = replace(self.gputop.head(self), is_mode_above=height == 1 if not fits else not has_footer)
        if self._summed is not fleet:
            self._summed, self._totals = fleet, totals(fleet)
        lines = header(fleet, self._totals, head, look, width, height)
        if not fits:
            lines += [fit((head.mode,), width), fit((("pane too small", "faint"),), width)]
        self.query_one("#header", Lines).show(lines)
        state = self.state
        titles = table_header(self.table.placed, state.sort, state.descending, look, width)
        self.query_one("#titles", Lines).show([titles])
        self.query_one("#reason", Lines).show([look.plain(fit(self._reason(fleet), width))])
        self.query_one("#footer", Lines).show([self._footer(fleet, width)])

    def _reason(self, fleet: Fleet) -> Spans:
        """What is wrong with a source as a whole; else what acts made of the host under the cursor, and what is wrong
        with it."""
        if fleet.problems:
            problem = fleet.problems[-1]
            return ((" ✕ ", "bad"), (remote("; ".join(filter(None, (problem.summary, problem.hint)))), "text"))
        row = self.table.cursor_row
        if row is None:
            return ()
        look = self.gputop.look
        mark = look.acts.get(row.host.name)
        told = f"{mark_text(mark, look)}   " if mark is not None and mark_text(mark, look) else ""
        return ((f" {told}", "text"), (remote(reason(row.host, fleet.as_of), ""), "dim"))

    def _footer(self, fleet: Fleet, width: int) -> Spans:
        look = self.gputop.look
        if self.query_one("#filter-line").has_class("-open"):
            keys: Spans = ((" ⏎", "key"), (" keep   ", "dim"), ("Esc", "key"), (" clear", "dim"))
            return look.plain(spread(keys, ((f"{self.state.view.counted(len(self.table.rows))} ", "dim"),), width))
        if self.awaits_sort_letter:
            columns = [column for column in self.state.view.columns if column.letter]
            spans: Spans = ((" sort by:  ", "strong"),)
            for column in columns:
                spans += ((column.letter, "key"), (f" {column.title.strip().lower() or 'state'}   ", "dim"))
            return look.plain(spans)
        return footer(self.commands, self.state.view, self.gputop.head(self), fleet, look, width)

    def on_fleet_table_changed(self) -> None:
        if self.gputop.screen is self:
            self._draw_frame()

    def on_fleet_table_opened(self) -> None:
        self.do_row_open()

    def show_view(self, name: str) -> None:
        """Show another of the tables, as it was left."""
        if name == self.view:
            return
        self.view = name
        self.table.use(self.state)
        self._draw_table()

    # --- moving and columns ---------------------------------------------------------------------------------

    def do_move_down(self) -> None:
        self.table.move_by(1)

    def do_move_up(self) -> None:
        self.table.move_by(-1)

    def do_move_page_down(self) -> None:
        self.table.move_page(1)

    def do_move_page_up(self) -> None:
        self.table.move_page(-1)

    def do_move_top(self) -> None:
        self.table.move_to(0)

    def do_move_bottom(self) -> None:
        self.table.move_to(len(self.table.lines) - 1)

    def do_problem_next(self) -> None:
        self._to_problem(1)

    def do_problem_previous(self) -> None:
        self._to_problem(-1)

    def _to_problem(self, direction: int) -> None:
        if not self.table.move_to_problem(direction):
            self.gputop.say("no row here is in trouble")

    def do_columns_left(self) -> None:
        self.state.skip = max(0, self.state.skip - 1)
        self._draw_table()

    def do_columns_right(self) -> None:
        loose = [column for column in self.state.view.columns if not column.pinned]
        self.state.skip = min(len(loose) - 1, self.state.skip + 1)
        self._draw_table()

    def do_columns_wide(self) -> None:
        self.state.wide = not self.state.wide
        self.state.skip = 0
        self._draw_table()

    # --- sorting --------------------------------------------------------------------------------------------

    def do_sort_next(self) -> None:
        self._sort_step(1)

    def do_sort_previous(self) -> None:
        self._sort_step(-1)

    def _sort_step(self, step: int) -> None:
        sortable = [placed.column.id for placed in self.table.placed if placed.column.sort is not None]
        if sortable:  # else the pane is too small for a table
            here = sortable.index(self.state.sort) if self.state.sort in sortable else 0
            self._sort_by(sortable[(here + step) % len(sortable)])

    def _sort_by(self, column: str) -> None:
        self.state.sort = column
        self.state.descending = self.state.view.column(column).descending
        self._draw_table()

    def do_sort_invert(self) -> None:
        self.state.descending = not self.state.descending
        self._draw_table()

    def do_sort_by(self) -> None:
        self.awaits_sort_letter = True
        self._draw_frame()

    def on_key(self, event: events.Key) -> None:
        if not self.awaits_sort_letter or event.key == "o":
            return
        self.awaits_sort_letter = False
        event.stop()
        event.prevent_default()
        for column in self.state.view.columns:
            if column.letter == event.character:
                self._sort_by(column.id)
                return
        self._draw_frame()

    # --- the mouse, where it is switched on -------------------------------------------------------------------

    def on_lines_clicked(self, event: Lines.Clicked) -> None:
        """A tab opens its view; the title of a column sorts by it, once more: the other way round."""
        width, height = self.size
        match event.lines.id:
            case "header" if event.y == header_height(width, height) - 1 > 0:
                if (view := tab_at(self.gputop.head(self), event.x)) is not None:
                    self.gputop.go(view)
            case "titles":
                for placed in self.table.placed:
                    if placed.x <= event.x < placed.x + placed.width and placed.column.sort is not None:
                        if placed.column.id == self.state.sort:
                            self.do_sort_invert()
                        else:
                            self._sort_by(placed.column.id)

    # --- marks ----------------------------------------------------------------------------------------------

    def do_mark_toggle(self) -> None:
        self.table.mark()
        self.table.move_by(1)

    def do_mark_range(self) -> None:
        self.table.mark(through=True)

    def do_mark_all(self) -> None:
        self.table.mark_all(on=True)

    def do_mark_clear(self) -> None:
        self.table.mark_all(on=False)

    def targets(self) -> tuple[str, ...]:
        """Hosts of the marked rows, or of the row under the cursor."""
        if self.state.marks:
            marked = {key[0] for key in self.state.marks}
            return tuple(host.name for host in self.gputop.fleet if host.name in marked)
        row = self.table.held_row()
        return () if row is None else (row.host.name,)

    @property
    def awaits_text(self) -> bool:
        return self.awaits_sort_letter or self.query_one("#filter-line").has_class("-open")

    def meant(self) -> list[object]:
        if self.state.marks:
            return [row for row in self.state.store.rows(self.gputop.fleet) if row.key in self.state.marks]
        row = self.table.held_row()
        return [] if row is None else [row]

    def gone(self) -> int:
        return len(self.state.marks) - len(self.meant()) if self.state.marks else 0

    def hidden(self) -> int:
        if not self.state.marks or self._passes is None:
            return 0
        shown = {row.key for row in self.table.rows}
        return sum(row.key not in shown for row in self.state.store.rows(self.gputop.fleet)
                   if row.key in self.state.marks)  # fmt: skip

    def forget_marks(self) -> None:
        self.do_mark_clear()

    # --- rows -----------------------------------------------------------------------------------------------

    def do_row_open(self) -> None:
        row = self.table.held_row()
        if row is not None:
            self.gputop.open_row(row)

    def do_row_details(self) -> None:
        row = self.table.held_row()
        if row is not None:
            self.gputop.push_screen(RowScreen(row, self.gputop.fleet.as_of))

    def do_row_log(self) -> None:
        row = self.table.cursor_row
        if row is not None:
            self.gputop.push_screen(LogScreen(row))

    def do_row_raw(self) -> None:
        row = self.table.held_row()
        if row is not None:
            self.gputop.ask_tools(row)

    def do_row_copy(self) -> None:
        row = self.table.held_row()
        if row is not None:
            self.gputop.copy(row)

    # --- the filter -----------------------------------------------------------------------------------------

    def do_filter(self) -> None:
        self._cursor_before_filter = self.state.cursor
        self.query_one("#filter-line").add_class("-open")
        self.query_one("#filter", Input).focus()
        self._draw_frame()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.filter_text = event.value.strip()
        self._passes = parse_filter(self.filter_text) if self.filter_text else None
        self.state.cursor = self._cursor_before_filter or self.state.cursor
        self._draw_table()

    def on_input_submitted(self) -> None:
        self._cursor_before_filter = None
        self._close_filter()

    def _close_filter(self) -> None:
        self.query_one("#filter-line").remove_class("-open")
        self.table.focus()
        self._draw_frame()

    def do_back(self) -> None:
        """Clear what stands between the user and the plain view: the filter, then scrolled columns, then the view."""
        entry = self.query_one("#filter", Input)
        if entry.value or entry.has_focus:
            entry.value = ""
            self._close_filter()
        elif self.state.skip or self.state.wide:
            self.state.skip, self.state.wide = 0, False
            self._draw_table()
        elif self.view != "hosts":
            self.gputop.go("hosts")

    def do_quit(self) -> None:
        if self.view != "hosts":
            self.gputop.go("hosts")
        else:
            self.gputop.may_quit()
