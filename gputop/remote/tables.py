"""Tables drawn with lines, as management tools print them: pure functions from text to cells.

Three grammars:
`stacked`: nvidia-smi's. A header of one or more lines up to a rule of `=`; below it records of as many lines. A cell
    between two `|` holds several fields, found by the labels above them.
`grid`: one label and one value a cell; a header of one or more lines up to a rule, then rows.
`columns` and `place`: no lines at all; the position of the labels tells the columns.
"""

import csv
import re
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

_BOX = {ord(letter): "|" for letter in "│┃║┆┇"}
_BOX.update({ord(letter): "-" for letter in "─━╌"})
_BOX.update({ord("═"): "="})
_BOX.update({ord(letter): "+" for letter in "┌┐└┘├┤┬┴┼┏┓┗┛┣┫┳┻╋┡┩╇┢┪╈╀╂┠┨╞╡╪╔╗╚╝╠╣╦╩╬╭╮╰╯"})
_RULE = re.compile(r"[|+]?[-=+|:]*[-=]{3,}[-=+|:]*$")
_FIELD = re.compile(r"\S+(?: \S+)*")
_WORD = re.compile(r"\S+")
_BUS_ID = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F](?=\s)")
_NO_PROCESSES = re.compile(r"\bno\b.*\bprocess", re.IGNORECASE)

Field = Tuple[int, int, str]
"""Start, end and text within a line."""


class Table(NamedTuple):
    """A table of the stacked kind."""

    header: List[List[str]]
    """Lines, each of cells."""
    records: List[List[List[str]]]
    """Of lines, each of cells."""
    notes: List[str]
    """Lines that are no record, such as `No running processes found`."""

    @property
    def processes(self) -> bool:
        """It lists processes."""
        return any("pid" in name(cell).split() or "process id" in name(cell) for line in self.header for cell in line)


class Grid(NamedTuple):
    """A table of the grid kind."""

    labels: List[str]
    rows: List[List[str]]
    title: str
    """The last line above it that is no table."""


def lines_of(text: str) -> List[str]:
    """Lines with borders of any drawing as `|`, `-`, `=` and `+`."""
    return [line.rstrip() for line in text.translate(_BOX).split("\n")]


def name(label: str) -> str:
    """A label in one spelling: small letters, digits and `%`, words parted by one blank."""
    return " ".join(re.findall(r"[a-z0-9%]+", label.lower()))


def is_rule(line: str) -> bool:
    return bool(_RULE.match(line.strip()))


def cells_of(line: str) -> List[str]:
    """The cells of a line of a table, blanks kept."""
    body = line.strip()[1:]
    return (body[:-1] if body.endswith("|") else body).split("|")


def comma_separated(line: str) -> List[str]:
    """The cells of a line of CSV; none of a line that is no CSV."""
    try:
        return [cell.strip() for cell in next(csv.reader([line]), [])] if "," in line else []
    except csv.Error:
        return []


def stacked(text: str) -> Tuple[List[str], List[Table]]:
    """The title lines above tables, and the tables."""
    titles: List[str] = []
    tables: List[Table] = []
    group: List[List[str]] = []
    table: Optional[Table] = None
    for line in [*lines_of(text), ""]:
        if line.strip().startswith("|") and not is_rule(line):
            group.append(cells_of(line))
            continue
        if group and is_rule(line) and "=" in line and _is_header(group):
            table = Table(group, [], [])
            tables.append(table)
        elif group and table is not None:
            _add(table, group)
        elif group:
            titles.extend("|".join(cells).strip() for cells in group)
        if not is_rule(line):
            table = None
            if line.strip():
                titles.append(line.strip())
        group = []
    return titles, tables


def _is_header(group: List[List[str]]) -> bool:
    first = group[0][0].strip() if group[0] else ""
    return first[:1].isalpha() and not _NO_PROCESSES.search(first)


def _add(table: Table, group: List[List[str]]) -> None:
    """Cut the lines between two rules into records."""
    height = 1 if table.processes else len(table.header)
    for start in range(0, len(group), height):
        record = group[start : start + height]
        if _NO_PROCESSES.search(" ".join(record[0])) or not any(cell.strip() for cell in record[0]):
            table.notes.append("|".join(record[0]).strip())
        else:
            table.records.append(record)


def values_of(table: Table, record: List[List[str]]) -> Dict[str, str]:
    """All fields of a record by the `name` of their label."""
    found: Dict[str, str] = {}
    if table.processes:
        for labels in table.header:
            if len(labels) > 1 or "pid" in name(labels[0]).split():
                _collect(found, labels, record[0])
        return found
    for labels, cells in zip(table.header, record):
        _collect(found, labels, cells)
    return found


def _collect(found: Dict[str, str], labels: List[str], cells: List[str]) -> None:
    for label, cell in zip(labels, cells):
        for key, value in labelled(label, cell).items():
            found.setdefault(key, value)


def labelled(labels: str, cell: str) -> Dict[str, str]:
    """The fields of one cell by the labels above them."""
    return place(fields(labels), cell)


def place(heads: Sequence[Field], line: str) -> Dict[str, str]:
    """The values of a line by the `name` of the label above: in order when they are as many, else by position."""
    single = fields(line)
    for values in (single, join_pairs(single)):
        if len(values) == len(heads) and not any(_labels_above(heads, value) > 1 for value in values):
            return {name(head[2]): value[2] for head, value in zip(heads, values)}
    return assign(heads, join_pairs(single))


def assign(heads: Sequence[Field], values: Sequence[Field]) -> Dict[str, str]:
    """Each value to the label that it stands under, else to the nearest; several under one are joined.

    A value that reaches below two labels is two values with one blank between.
    """
    found: Dict[str, str] = {}
    for value in values:
        words = _WORD.finditer(value[2]) if _labels_above(heads, value) > 1 else ()
        parts = [(value[0] + word.start(), value[0] + word.end(), word.group()) for word in words] or [value]
        for part in parts if heads else []:
            key = name(min(heads, key=lambda head: _distance(head, part))[2])
            found[key] = found[key] + " " + part[2] if key in found else part[2]
    return found


def _labels_above(heads: Sequence[Field], value: Field) -> int:
    return sum(_distance(head, value) < 0 for head in heads)


def _distance(head: Field, value: Field) -> int:
    """Negative where the two overlap."""
    return max(head[0], value[0]) - min(head[1], value[1])


def fields(line: str) -> List[Field]:
    """What two blanks part; a bus id stands alone."""
    found: List[Field] = []
    for match in _FIELD.finditer(line):
        start, end = match.span()
        bus = _BUS_ID.match(line, start, end)
        if bus:
            found.append((start, bus.end(), bus.group()))
            start = bus.end() + 1
        found.append((start, end, line[start:end]))
    return found


def join_pairs(values: List[Field]) -> List[Field]:
    """`591  / 14795` is one value."""
    found: List[Field] = []
    for position, value in enumerate(values):
        after = values[position + 1][2] if position + 1 < len(values) else ""
        begins = value[2].startswith("/") and (value[2].lstrip("/ ")[:1].isdigit() or after[:1].isdigit())
        goes_on = found and found[-1][2].endswith("/") and len(found[-1][2]) > 1 and value[2][:1].isdigit()
        if found and (goes_on or (begins and found[-1][2][:1].isdigit())):
            found[-1] = (found[-1][0], value[1], found[-1][2] + " " + value[2])
        else:
            found.append(value)
    return found


def grid(text: str) -> List[Grid]:
    """All tables of the grid kind. Cells of a header of several lines are joined; blanks around cells are gone."""
    found: List[Grid] = []
    head: List[List[str]] = []
    table: Optional[Grid] = None
    title = ""
    for line in [*lines_of(text), ""]:
        if is_rule(line):
            if table is None and head:
                table = Grid(_joined(head), [], title)
                found.append(table)
                head = []
        elif "|" in line.strip()[:1]:
            cells = [cell.strip() for cell in cells_of(line)]
            if table is None:
                head.append(cells)
            else:
                table.rows.append(cells)
        else:
            table, head = None, []
            title = line.strip() or title
    return found


def _joined(head: List[List[str]]) -> List[str]:
    width = max(len(line) for line in head)
    return [" ".join(line[column] for line in head if column < len(line) and line[column]) for column in range(width)]


def by_label(table: Grid, row: List[str]) -> Dict[str, str]:
    """The cells of a row by the `name` of their label."""
    return {name(label): cell for label, cell in zip(table.labels, row)}


def columns(header: str, below: str = "") -> List[Field]:
    """The labels of a header; `below` is a second line of it, which tells how far a column reaches."""
    heads = fields(header)
    for start, end, _ in fields(below):
        if heads:
            nearest = min(range(len(heads)), key=lambda at: _distance(heads[at], (start, end, "")))
            head = heads[nearest]
            heads[nearest] = (min(head[0], start), max(head[1], end), head[2])
    return heads
