"""Bytes of a file as plain text."""

from __future__ import annotations

import codecs
import re

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def plain(data: bytes) -> str:
    """`data` decoded by its byte order mark, else as UTF-8 with `�` for what is none; lines end in `\\n`; without
    terminal escapes (`topo -m` prints them into files too) and control characters other than tab and newline."""
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    text = data.decode(encoding, "replace")
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
