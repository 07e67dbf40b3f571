"""From a Fleet to the lines of a table: rows made, filtered, sorted, with the lines that belong under them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from gputop.actions.marks import Mark
from gputop.catalog import format as show
from gputop.domain.host import Host
from gputop.fleet.fleet import Fleet
from gputop.query.filter import Predicate
from gputop.query.sort import ordered
from gputop.tui.draw import Spans, remote
from gputop.tui.look import ABSENT, Look
from gputop.tui.rows import GpuRow, HostRow, Row, process_command, process_label, process_user, reason
from gputop.tui.views import View, memory_meter

REASONS_UP_TO_HOSTS = 40
"""In wider fleets the reason of a host in trouble stands in the footer, for the row under the cursor."""

NO_ACTS: Mapping[str, Mark] = MappingProxyType({})

Line = tuple[Row, int]
"""A row and which of its lines: 0 its own, 1 and on the lines under it."""


@dataclass
class RowStore:
    """The rows of one view; those of a host that did not change since the last Fleet are kept."""

    view: View
    _known: dict[str, tuple[Host, int, list[Row]]] = field(default_factory=dict)

    def rows(self, fleet: Fleet) -> list[Row]:
        """All rows in inventory order."""
        known, fresh, found = self._known, {}, []
        for place, host in enumerate(fleet):
            kept = known.get(host.name)
            if kept is None or kept[0] is not host or kept[1] != place:
                kept = (host, place, self.view.rows(host, place))
            fresh[host.name] = kept
            found += kept[2]
        self._known = fresh
        return found


def arranged(
    rows: list[Row],
    view: View,
    sort: str,
    descending: bool,
    passes: Predicate | None,
    acts: Mapping[str, Mark] = NO_ACTS,
) -> list[Row]:
    """`rows` that pass the filter, in order; rows that compare equal keep the order of the inventory. `acts`: what acts
    have made of hosts, which the filter finds too."""
    if passes is not None:
        rows = [row for row in rows if passes((*row.texts, _act_word(row, acts)))]
    key = view.column(sort).sort
    if key is None:
        return rows
    return ordered(rows, key, descending=descending)


def _act_word(row: Row, acts: Mapping[str, Mark]) -> str | None:
    mark = acts.get(row.host.name)
    return mark.word if mark is not None else None


def lines_of(rows: list[Row], *, reasons: bool) -> list[Line]:
    """One line a row, and those under it. `reasons`: whether a host in trouble, or one that waits, has a line that says
    why."""
    lines: list[Line] = []
    for row in rows:
        lines.append((row, 0))
        if isinstance(row, GpuRow):
            if row.has_partitions and row.state == "ok":
                lines += [(row, part) for part in range(1, len(row.partitions) + 1)]
        elif reasons and isinstance(row, HostRow) and row.is_explained:
            lines.append((row, 1))
    return lines


def under_text(row: Row, look: Look) -> Spans | None:
    """The text of a line under `row` that spans all columns; `None`: the line has cells (`partition_cell`)."""
    if isinstance(row, GpuRow):
        return None
    return ((remote(reason(row.host, look.as_of)), "dim"),)


def partition_cell(row: GpuRow, part: int, column: str, look: Look, width: int) -> Spans:
    """The cell of partition number `part` (1 and on) of a device, in the columns of the device above it."""
    partition = row.partitions[part - 1]
    match column:
        case "gpu":
            branch = "└" if part == len(row.partitions) else "├"
            return ((f"{branch}{partition.index:>2}", "dim"),)
        case "model":
            return ((remote(partition.profile), "text"),)
        case "utilization":
            text = show.percent(partition.utilization_percent, width=5)
            return ((f"{text:>5}", "text" if partition.utilization_percent is not None else "faint"),)
        case "memory":
            used, total = partition.memory_used_bytes, partition.memory_total_bytes
            percent = None if used is None or not total else 100.0 * used / total
            return memory_meter(percent, used, total, look, width, 13)
        case "processes":
            return _partition_user(row, part)
        case _:
            return (("", "text"),)


def _partition_user(row: GpuRow, part: int) -> Spans:
    partition = row.partitions[part - 1]
    for process in row.processes:
        if process.gpu_instance_id == partition.gpu_instance_id and process.compute_instance_id in (
            None,
            partition.compute_instance_id,
        ):
            label = process_label(process_command(process))
            return ((process_user(process) + " ", "text"), (label, "dim"))
    return (("free", "dim"),) if row.is_free(partition) else (ABSENT,)
