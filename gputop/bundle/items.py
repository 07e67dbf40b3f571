"""What is in a bundle, as values: each thing that was asked for, with what came of it."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec
from msgspec import Struct

from gputop.domain.link import Link

HELD_LEVEL = 1
"""Of compression, while a bundle is made: a thousand hosts of a megabyte each are to fit into memory."""


class Text(Struct, frozen=True, kw_only=True, tag="text"):
    """Words of a program, byte for byte. Untrusted."""

    packed: bytes

    @classmethod
    def of(cls, content: bytes) -> Text:
        return cls(packed=zlib.compress(content, HELD_LEVEL))

    @property
    def content(self) -> bytes:
        return zlib.decompress(self.packed)


class Data(Struct, frozen=True, kw_only=True, tag="data"):
    """Plain data of gputop's own; becomes JSON."""

    value: Any


class Lines(Struct, frozen=True, kw_only=True, tag="lines"):
    """Likewise; becomes one line of JSON for each value."""

    values: tuple[Any, ...]


class Packed(Struct, frozen=True, kw_only=True, tag="packed"):
    """A text that was compressed where it was made (gzip)."""

    content: bytes


Body = Text | Data | Lines | Packed


class Item(Struct, frozen=True, kw_only=True):
    """One thing that was asked for."""

    path: str
    """Below the folder of its host."""
    what: str
    """In words, one line."""
    command: str = ""
    """What was run on the host; empty: gputop knew it."""
    exit_status: int | None = None
    body: Body | None = None
    """`None`: it could not be read, and `problem` says why."""
    truncated: bool = False
    """There was more than is kept."""
    problem: str | None = None
    """Why it is not there, or not whole. Untrusted."""


class Gathered(Struct, frozen=True, kw_only=True):
    """All of one host."""

    host: str
    answered: bool
    """A reading or a program on it answered now."""
    link: Link
    frames: int = 0
    """Readings that were taken for the bundle."""
    versions: dict[str, str | None] = {}
    """Of driver, CUDA, kernel and operating system, as the newest reading has them."""
    items: tuple[Item, ...] = ()


class Order(Struct, frozen=True, kw_only=True):
    """What a person asks for."""

    hosts: tuple[str, ...]
    redact: bool = False
    bug_report: bool = False
    """Also run the vendor's own reporter, which needs root: an act."""


class Progress(Struct, frozen=True, kw_only=True):
    """How far one host is."""

    host: str
    doing: str
    """In words."""
    is_over: bool = False
    answered: bool = False
    takes_long: bool = False
    """Minutes, that is."""


def as_json(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def as_lines(values: tuple[Any, ...]) -> bytes:
    return b"".join(msgspec.json.encode(value) + b"\n" for value in values)
