"""The catalog of Xids and SXids as YAML: the one that gputop ships (`xid.yaml`), and what a user changes of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from gputop import configfile
from gputop.configfile import ConfigProblem, Document, Keys
from gputop.health.xid import SEVERITIES, Catalog, Entry

FORMAT_VERSION = 1

_Severity = Literal["info", "warn", "app", "sw", "restart", "reset", "reboot", "rma"]


class _EntryInFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    codes: int | str
    """One, or several with ranges: `39-41 85`."""
    severity: _Severity
    meaning: str = ""
    when: list[list[str]] = field(default_factory=list)
    """Pattern over the message, and the severity that it means."""


class _CatalogFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int = FORMAT_VERSION
    date: str = ""
    sources: list[str] = field(default_factory=list)
    xid: list[_EntryInFile] = field(default_factory=list)
    sxid: list[_EntryInFile] = field(default_factory=list)
    same_as: dict[str, int] = field(default_factory=dict)


@cache
def default_catalog() -> Catalog:
    """The catalog that gputop ships."""
    data = files("gputop.health").joinpath("xid.yaml").read_bytes()
    made = _catalog(configfile.parse(data, _CatalogFile, file="xid.yaml"))
    assert isinstance(made, Catalog), made
    return made


def load(path: Path) -> Catalog | list[ConfigProblem]:
    """gputop's catalog with what the file at `path` changes, or what is wrong with it. No file changes nothing."""
    if not path.exists():
        return default_catalog()
    own = _catalog(configfile.read(path, _CatalogFile, title=_title, empty=_CatalogFile()))
    return own if isinstance(own, list) else default_catalog().overridden(own)


def _title(keys: Keys, values: Mapping[str, str]) -> str:
    """`xid 39-41 85`."""
    return f"{keys[0]} {values.get('codes', '')}".rstrip() if keys else "the catalog"


def _catalog(document: Document[_CatalogFile] | list[ConfigProblem]) -> Catalog | list[ConfigProblem]:
    if isinstance(document, list):
        return document
    told, problems = document.value, list(_problems(document))
    if problems:
        return problems
    entries = {kind: tuple(map(_entry, listed)) for kind, listed in (("xid", told.xid), ("sxid", told.sxid))}
    return Catalog(told.version, told.date, entries, told.same_as)


def _entry(told: _EntryInFile) -> Entry:
    spans = tuple(span for word in str(told.codes).split() if (span := _span(word)) is not None)
    when = tuple((re.compile(pattern), severity) for pattern, severity in told.when)
    return Entry(spans, told.severity, told.meaning, when)


def _span(word: str) -> range | None:
    """The codes of `8` or `39-41`."""
    found = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", word, re.ASCII)
    return range(int(found[1]), int(found[2] or found[1]) + 1) if found else None


def _problems(document: Document[_CatalogFile]) -> Iterator[ConfigProblem]:
    """What the types do not say."""
    told = document.value
    if told.version != FORMAT_VERSION:
        summary = f"version {told.version} of the catalog's format is not known"
        yield document.problem(("version",), summary, f"write version: {FORMAT_VERSION}")
    for kind, entries in (("xid", told.xid), ("sxid", told.sxid)):
        for position, entry in enumerate(entries):
            keys: Keys = (kind, position)
            for word in str(entry.codes).split() or [""]:
                span = _span(word)
                if not span:
                    summary = f'"{word}" is no code and no range of codes'
                    yield document.problem((*keys, "codes"), summary, "write 8, or 39-41 85")
            for number, condition in enumerate(entry.when):
                yield from _condition_problems(document, (*keys, "when", number), condition)


def _condition_problems(document: Document[_CatalogFile], keys: Keys, condition: list[str]) -> Iterator[ConfigProblem]:
    if len(condition) != 2:
        yield document.problem(keys, "a condition is a pattern and a severity", "write [Nonfatal, info]")
        return
    pattern, severity = condition
    try:
        re.compile(pattern)
    except re.error as error:
        yield document.problem((*keys, 0), f'"{pattern}" is no pattern: {error}')
    if severity not in SEVERITIES:
        near = configfile.did_you_mean(severity, SEVERITIES)
        yield document.problem((*keys, 1), f'"{severity}" is no severity', near or f"one of {', '.join(SEVERITIES)}")
