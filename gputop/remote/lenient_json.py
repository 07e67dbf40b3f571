"""JSON as tools print it: below warnings, one document after the other, or cut off."""

import json
from typing import Any, List, Optional, Tuple

_START = "[{"
_DEPTH = 60
"""A text nested deeper is no output of a tool (and would overflow the decoder)."""
_TRIES = 40


def documents(text: str) -> Tuple[List[Any], Optional[str]]:
    """All objects and lists of a text, and what is wrong with the last: it may be cut off, then as much as there is."""
    decoder = json.JSONDecoder(parse_constant=lambda _: None)
    found: List[Any] = []
    position = _next(text, 0)
    while position is not None:
        if _too_deep(text, position):
            return found, "nested too deep"
        try:
            value, end = decoder.raw_decode(text, position)
        except ValueError as error:
            value = _cut(decoder, text[position:])
            if value is not None:
                found.append(value)
            return found, str(error)
        found.append(value)
        position = _next(text, end)
    return found, None


def document(text: str) -> Any:
    """The first object or list; `None` when there is none."""
    found, _ = documents(text)
    return found[0] if found else None


def _next(text: str, position: int) -> Optional[int]:
    """Where the next document may begin: at the start of a line."""
    while position < len(text):
        line_end = text.find("\n", position)
        line_end = len(text) if line_end < 0 else line_end
        stripped = text[position:line_end].lstrip(" \t,\r")
        if stripped[:1] and stripped[0] in _START and not _is_word(stripped):
            return line_end - len(stripped)
        position = line_end + 1
    return None


def _is_word(line: str) -> bool:
    """`[WARNING]` and `[12.345678] NVRM` are no JSON."""
    rest = line[1:].lstrip()
    if line[0] == "{":
        return bool(rest) and rest[0] not in '"}'
    return bool(rest) and rest[0] not in '"{[]'


def _too_deep(text: str, start: int) -> bool:
    depth, quoted, escaped = 0, False, False
    for position in range(start, len(text)):
        letter = text[position]
        if escaped:
            escaped = False
        elif quoted:
            escaped, quoted = letter == "\\", letter != '"'
        elif letter == '"':
            quoted = True
        elif letter in "[{":
            depth += 1
            if depth > _DEPTH:
                return True
        elif letter in "]}":
            depth -= 1
            if depth <= 0:
                return False
    return False


def _cut(decoder: json.JSONDecoder, text: str) -> Any:
    """The part of a cut document that is complete, its open brackets closed."""
    ends: List[Tuple[int, str]] = []
    open_brackets: List[str] = []
    quoted = escaped = False
    for position, letter in enumerate(text):
        if escaped:
            escaped = False
        elif quoted:
            escaped, quoted = letter == "\\", letter != '"'
        elif letter == '"':
            quoted = True
        elif letter in "[{":
            open_brackets.append("]" if letter == "[" else "}")
            ends.append((position + 1, "".join(reversed(open_brackets))))
        elif letter in "]}":
            if not open_brackets or open_brackets.pop() != letter:
                break
            ends.append((position + 1, "".join(reversed(open_brackets))))
            if not open_brackets:
                break
        elif letter == ",":
            ends.append((position, "".join(reversed(open_brackets))))
    for end, closing in reversed(ends[-_TRIES:]):
        try:
            return decoder.raw_decode(text[:end] + closing)[0]
        except ValueError:
            continue
    return None
