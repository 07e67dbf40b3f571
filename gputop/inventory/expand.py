"""Host patterns: `gpu[001-128].dc1,login1` to names, and names back to a short pattern."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from math import prod

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException
from msgspec import Struct

LIMIT = 10_000
"""The most hosts that one fleet may have."""

NAME_CHARACTERS = 255
"""The longest host name; DNS has no longer ones."""

_PLAIN = re.compile(rf"\w[\w.-]{{0,{NAME_CHARACTERS - 1}}}")
_BRACKET = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d+)(?:-(\d+)(?:/(\d+))?)?", re.ASCII)


class BadPattern(Struct, frozen=True):
    """Why a pattern names no hosts."""

    summary: str
    """Begins with the pattern, quoted."""
    hint: str | None = None


def expand(pattern: str) -> tuple[str, ...] | BadPattern:
    """The names that `pattern` stands for, at most `LIMIT`: parts between commas in their order, each range ascending.

    Ranges are checked before anything is expanded, more strictly than ClusterShell does: a range never comes out empty.
    """
    if _PLAIN.fullmatch(pattern):
        return (pattern,)
    if not pattern.isprintable():
        return BadPattern(f"the host name {pattern!a} holds a control character")
    names: list[str] = []
    for part in split(pattern):
        bad = _refusal(part) or _bad_name(_BRACKET.sub("0", part), part)
        count = 0 if bad else prod(map(_count, _BRACKET.findall(part)))
        if bad is None and len(names) + count > LIMIT:
            bad = BadPattern(f'"{pattern}" stands for more than {LIMIT:,} hosts', "split the fleet")
        if bad is not None:
            return bad
        try:
            names += [part] if "[" not in part else map(str, NodeSet(part, resolver=RESOLVER_NOGROUP))
        except NodeSetException:
            hint = "digits before or after a bracket count as part of its numbers: write gpu[08-11], not gpu0[8-11]"
            return BadPattern(f'"{part}": not a range that ClusterShell understands', hint)
    return tuple(names)


def fold(names: Iterable[str]) -> str:
    """A short pattern for `names`, in the order of ClusterShell."""
    plain = list(names)
    folded = NodeSet(resolver=RESOLVER_NOGROUP)
    for name in plain:
        if not _PLAIN.fullmatch(name):
            return ",".join(plain)
        folded.add(NodeSet(name, resolver=RESOLVER_NOGROUP))
    return str(folded)


def split(text: str) -> list[str]:
    """The parts of `text` between commas that stand in no bracket."""
    parts, depth = [""], 0
    for character in text:
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def is_address(text: str) -> bool:
    """Whether `text` is an IPv6 address, the one kind of host name with colons."""
    if ":" not in text:
        return False
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def unfit(text: str) -> str | None:
    """Why `text` may not be given to ssh as a name, user or path; `None` when it may."""
    if not text:
        return "is empty"
    if text.startswith("-"):
        return 'begins with "-", which ssh would read as an option'
    if not text.isprintable():
        return "holds a control character"
    return None


def _refusal(part: str) -> BadPattern | None:
    """What is wrong with the brackets of `part`."""
    left = _BRACKET.sub("", part)
    if "[" in left or "]" in left:
        reason = "bracket not closed" if "[" in left else "bracket not opened"
        return BadPattern(f'"{part}": {reason}', "a range is written gpu[01-16]")
    if "][" in part:
        return BadPattern(f'"{part}": two ranges side by side', "put a letter, a dot or a dash between them")
    for inside in _BRACKET.findall(part):
        for text in inside.split(","):
            bad = _bad_range(part, text)
            if bad is not None:
                return bad
    return None


def _bad_range(part: str, text: str) -> BadPattern | None:
    found = _RANGE.fullmatch(text)
    if found is None:
        hint = "an IPv6 address stands here without brackets" if ":" in text else "a range is written gpu[01-16]"
        return BadPattern(f'"{part}": "{text}" is no range of numbers', hint)
    first, last, step = found[1], found[2] or found[1], found[3] or "1"
    if len(first) > 18 or len(last) > 18:
        return BadPattern(f'"{part}": "{text}" is out of range')
    if int(first) > int(last):
        return BadPattern(f'"{part}": start after end in "{text}"', f"did you mean {last}-{first}?")
    if len(first) != len(last) and (first[0] == "0" != first or last[0] == "0"):
        width = max(len(first), len(last))
        return BadPattern(
            f'"{part}": both ends of "{text}" need the same number of digits',
            f"did you mean {first.zfill(width)}-{last.zfill(width)}?",
        )
    if int(step) == 0:
        return BadPattern(f'"{part}": a step of 0 in "{text}"')
    return None


def _count(inside: str) -> int:
    """How many numbers a bracket that was checked stands for."""
    total = 0
    for found in _RANGE.finditer(inside):
        total += (int(found[2] or found[1]) - int(found[1])) // int(found[3] or 1) + 1
    return total


def _bad_name(name: str, pattern: str) -> BadPattern | None:
    if _PLAIN.fullmatch(name) or is_address(name):
        return None
    if len(name) > NAME_CHARACTERS:
        return BadPattern(f"a host name of {len(name):,} characters", f"{NAME_CHARACTERS} are the most")
    shown = f'"{pattern}"'
    reason = unfit(name)
    if reason is not None:
        return BadPattern(f"the host name {shown} {reason}")
    odd = next((c for c in name if not re.match(r"[\w.-]", c)), name[0])
    hints = {
        "@": "groups are listed under their own key; a user name too: {name: gpu1, user: ops}",
        ":": "a port is a key of its own: {name: gpu1, port: 2222}",
        "*": "wildcards are not understood; a range is written gpu[01-16]",
        "?": "wildcards are not understood; a range is written gpu[01-16]",
        "{": "a range is written gpu[01-16]",
    }
    what = "a blank" if odd.isspace() else f'"{odd}"'
    place = "begins with" if name.startswith(odd) else "holds"
    return BadPattern(f"the host name {shown} {place} {what}", hints.get(odd))
