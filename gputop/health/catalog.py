"""The catalog of Xids and SXids as YAML: the one that gputop ships (`xid.yaml`), and those of users."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from gputop.health.xid import SEVERITIES, Catalog, Entry


class CatalogError(ValueError):
    """A catalog that makes no sense, in words for its author."""


@cache
def default_catalog() -> Catalog:
    """The catalog that gputop ships."""
    return parse(files("gputop.health").joinpath("xid.yaml").read_text(encoding="utf-8"))


def parse(text: str) -> Catalog:
    """A catalog from YAML. Raises `CatalogError`. A user's may hold only what it changes."""
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise CatalogError(str(error)) from error
    if not isinstance(data, dict):
        raise CatalogError("a catalog is a mapping with xid, sxid, same_as")
    entries = {
        kind: tuple(_entry(kind, item) for item in _list(data, kind)) for kind in ("xid", "sxid") if kind in data
    }
    same_as = data.get("same_as") or {}
    if not isinstance(same_as, dict) or not all(type(code) is int for code in same_as.values()):
        raise CatalogError("same_as maps kinds of events to Xids")
    version = data.get("version", 1)
    if version != 1:
        raise CatalogError(f"version {version} of the catalog's format is not known, only 1")
    return Catalog(1, str(data.get("date", "")), entries, {str(kind): code for kind, code in same_as.items()})


def _list(data: Mapping[str, Any], kind: str) -> list[Any]:
    items = data[kind] or []
    if not isinstance(items, list):
        raise CatalogError(f"{kind} is a list of entries")
    return items


def _entry(kind: str, item: Any) -> Entry:
    if not isinstance(item, dict) or "codes" not in item or "severity" not in item:
        raise CatalogError(f"{kind}: an entry has codes and severity: {item!r:.100}")
    unknown = set(item) - {"codes", "severity", "meaning", "when"}
    if unknown:
        raise CatalogError(f"{kind} {item['codes']}: unknown key {', '.join(sorted(map(str, unknown)))}")
    where = f"{kind} {item['codes']}"
    when = item.get("when") or []
    return Entry(
        codes=tuple(_spans(where, str(item["codes"]))),
        severity=_severity(where, item["severity"]),
        meaning=str(item.get("meaning", "")),
        when=tuple(_condition(where, condition) for condition in when),
    )


def _spans(where: str, codes: str) -> Iterable[range]:
    for word in codes.split():
        found = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", word)
        if found is None:
            raise CatalogError(f"{where}: {word} is no code and no range of codes")
        first = int(found.group(1))
        yield range(first, int(found.group(2) or first) + 1)


def _severity(where: str, word: Any) -> str:
    if word not in SEVERITIES:
        raise CatalogError(f"{where}: {word} is none of {', '.join(SEVERITIES)}")
    return str(word)


def _condition(where: str, condition: Any) -> tuple[re.Pattern[str], str]:
    if not isinstance(condition, list) or len(condition) != 2:
        raise CatalogError(f"{where}: when is a list of [pattern, severity]")
    try:
        pattern = re.compile(str(condition[0]))
    except re.error as error:
        raise CatalogError(f"{where}: {condition[0]}: {error}") from error
    return pattern, _severity(where, condition[1])
