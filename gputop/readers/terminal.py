"""What stands around an output that was copied from a terminal, a log or a document: prefixes of lines, and the
commands that several outputs follow."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from textwrap import dedent

from gputop.remote.failures import ROUTES

_BORDER = re.compile(r"[+|┌┏╭╒╔│┃├└┗╰┡╞╘][-=+|─━═┬┳╤╦┴┻┼╇╪ ]{3,}|[|│┃] ")
_DIGITS = re.compile(r"\d")
_CLOCK = re.compile(r"\d{1,2}:\d{2}")
_QUOTE = re.compile(r"(?:> ?)+|(?:# ?)+")
_DOCUMENT = re.compile(r"\s*(?:<|\{|\[\s*[{\]])")
"""XML or JSON from the beginning."""
_STAMP = re.compile(
    r"\[?\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?(?:Z|[+-]\d{2}:?\d{2})?\]?(?: std(?:out|err) [FP])? ?"
)
_SIDES = "|│┃"
_ABOVE = 2000
_NUMBER_END = re.compile(r"(?:(?<=\s)|(?<=^))\S*\d[.:]?$")
_LAST_OF_ROW = re.compile(r",\s*\S+$")
"""The last cell of a row of CSV may be a bare number."""
_HOST = re.compile(r"[\w.-]+: ?")
_DOUBLE_SPACED = 8
_RULES = ("+--", "|--", "+==", "|==", "━", "─", "═")
"""No table is without one of them."""
_FRAMED = 3
"""So many lines of a table with one prefix are no chance."""
_PREFIX_LIMIT = 120
_LINE_LIMIT = 1000
_COMMANDS_LIMIT = 200

_NAMES = (*ROUTES, "dmesg", "journalctl", "dcgmi")
_PROGRAMS = "|".join(re.escape(name) for name in _NAMES)
_COMMAND = re.compile(
    r"[ \t]*(?:[^\n|│┃]{0,200}?[$#>%❯➜][ \t]*)?"
    r"(?:(?:sudo|time|watch|timeout|command|ssh|srun|kubectl|docker|podman)\b[^\n|│┃]{0,200}?[ \t/])?"
    r"(?:[\w./~\\:-]*[/\\])?(?:"
    + _PROGRAMS
    + r")(?:\.exe)?(?:[ \t]+-{0,2}[A-Za-z][^\n:|│┃]*|[ \t]+-[^\n]*)?(?:[ \t]*[|&;>][^\n]*)?[ \t]*$"
)


def bare(text: str) -> str:
    """`text` without what stands before each line of its tables: `# `, `> `, `[fin] >> `, a time."""
    text = _unquoted(_single_spaced(text.replace("&nbsp;", " ")))
    if text.lstrip("\n")[:1] in (" ", "\t"):
        text = dedent(text)
    if not any(rule in text for rule in _RULES):
        return text
    lines = text.split("\n")
    prefixes = Counter(prefix for prefix in map(_prefix, lines) if prefix)
    if sum(_HOST.fullmatch(prefix) is not None for prefix in prefixes) > 1:
        return text  # several machines: no table of one
    for prefix, count in prefixes.most_common(4):
        if count >= _FRAMED:
            length, shape = len(prefix), prefix.rstrip()
            lines = [line[length:] if _shape(line[:length]).rstrip() == shape else line for line in lines]
    return "\n".join(lines)


def believable(text: str) -> str:
    """`text` without the end of a last line that may be cut off: it has no end of line, and stops within a cell of a
    table or in a number. A line as long as one of those above it is whole."""
    start = text.rfind("\n") + 1
    last = text[start:].rstrip()
    if text.endswith("\n") or not start or not last:
        return text
    if last.lstrip()[:1] in _SIDES:
        return text[:start] + last[: max(map(last.rfind, _SIDES)) + 1] if last[-1] not in _SIDES + "+" else text
    above = text[max(0, start - _ABOVE) : start].split("\n")[-4:]
    if _LAST_OF_ROW.search(last) or any(len(line.rstrip()) == len(last) for line in above):
        return text
    return text[:start] + _NUMBER_END.sub("", last)


def commands(text: str) -> list[str]:
    """The parts of `text` that begin with a command of a known tool, each with its command; what comes before the
    first is a part as well. A text of more commands than a person types is one part."""
    if _DOCUMENT.match(text):
        return [text]
    named = "|".join(re.escape(name) for name in _NAMES if name in text)
    program = re.compile(named) if named else None
    starts, end = [0], 0
    while program is not None and (found := program.search(text, end)) is not None:
        start = text.rfind("\n", end, found.start()) + 1 or end
        end = text.find("\n", found.end())
        end = len(text) if end < 0 else end
        if start > 0 and end - start <= _LINE_LIMIT and _COMMAND.match(text[start:end]):
            starts.append(start)
        if len(starts) > _COMMANDS_LIMIT:
            return [text]
    parts = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    return [dedent(part) for part in parts if part.strip()]


def without_stamps(text: str) -> str | None:
    """`text` without the time, or the name of one machine, that stands before every line; `None` where none does."""
    lines = text.split("\n")
    found = [pattern.match(line) for line in lines[:1] for pattern in (_STAMP, _HOST)]
    for mark in found:
        if mark is None:
            continue
        marks = [mark.re.match(line) for line in lines]
        told = [one.group() for one, line in zip(marks, lines, strict=True) if one is not None and line.strip()]
        if len(told) < sum(bool(line.strip()) for line in lines):
            continue
        if mark.re is _HOST and (len(told) < _FRAMED or len({one.rstrip() for one in told}) > 1):
            continue
        return "\n".join(line[one.end() :] if one else line for one, line in zip(marks, lines, strict=True))
    return None


def _single_spaced(text: str) -> str:
    """Without the blank line after every line that ends of lines written twice make."""
    if "\n\n" not in text:
        return text
    lines = text.split("\n")
    if len(lines) < _DOUBLE_SPACED or any(one.strip() and other.strip() for one, other in pairwise(lines)):
        return text
    return "\n".join(line for line in lines if line.strip()) + "\n"


def _unquoted(text: str) -> str:
    """Without `> ` or `# ` before every line."""
    if text.lstrip()[:1] not in (">", "#"):
        return text
    lines = [line for line in text.split("\n") if line.strip()]
    marks = [_QUOTE.match(line) for line in lines]
    if not all(marks) or len({line[:1] for line in lines}) > 1:
        return text
    return "\n".join(_QUOTE.sub("", line, count=1) for line in text.split("\n"))


def _prefix(line: str) -> str:
    """What stands before the first border, in the shape that it has in common with other lines; "" for blanks."""
    found = _BORDER.search(line, 0, _PREFIX_LIMIT)
    before = line[: found.start()] if found else ""
    return _shape(before) if before.strip() and (before[-1:].isspace() or before[-1:] in ":>") else ""


def _shape(prefix: str) -> str:
    """A prefix with a time of day in it differs from line to line in its digits only."""
    return _DIGITS.sub("0", prefix) if _CLOCK.search(prefix) else prefix
