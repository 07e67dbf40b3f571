"""The index of a bundle: for programs as JSON, for people as text. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

import gputop
from gputop.bundle.items import Gathered, Item
from gputop.catalog.text import clean, counted
from gputop.readers.own_bundle import SCHEMA

MASKED = "Values of passwords, tokens and keys were replaced by *** where they could be told."
REDACTED = "Names and addresses are replaced; docs/bundle.md of gputop says which are, and which are not."
PLAIN = "Names, addresses, command lines and serial numbers stand in it as they are: redact it before you pass it on."


class Stored(Struct, frozen=True, kw_only=True):
    """One item as it is in the archive."""

    item: Item
    path: str | None
    """In the archive; `None`: it is not there."""
    size: int = 0
    sha256: str | None = None


def index_document(
    *,
    made_at: datetime,
    made_by: str,
    machine: str,
    source: str,
    redacted: bool,
    hosts: Sequence[tuple[Gathered, str]],
    stored: Sequence[Sequence[Stored]],
) -> dict[str, Any]:
    """`hosts`: each with the name of its folder; `stored`: its files, in the same order."""
    return {
        "schema": SCHEMA,
        "gputop_version": gputop.__version__,
        "made_at": msgspec.to_builtins(made_at),
        "made_by": {"user": made_by, "machine": machine},
        "source": source,
        "redacted": redacted,
        "notes": [REDACTED if redacted else PLAIN, MASKED],
        "hosts": [
            {
                "name": one.host,
                "folder": folder,
                "answered": one.answered,
                "link": {
                    "state": one.link.state.value,
                    "since": msgspec.to_builtins(one.link.since),
                    "problem": msgspec.to_builtins(one.link.problem),
                },
                "frames": one.frames,
                "versions": one.versions,
                "files": [_file(each) for each in its],
            }
            for (one, folder), its in zip(hosts, stored, strict=True)
        ],
    }


def _file(stored: Stored) -> dict[str, Any]:
    item = stored.item
    return {
        "path": stored.path,
        "name": item.path,
        "what": item.what,
        "command": item.command or None,
        "exit_status": item.exit_status,
        "bytes": stored.size if stored.path is not None else None,
        "sha256": stored.sha256,
        "truncated": item.truncated,
        "problem": item.problem,
    }


def index_text(index: dict[str, Any]) -> str:
    """The index for a person."""
    by = index["made_by"]
    simulated = ", of a simulated fleet" if index["source"] == "demo" else ""
    lines = [
        f"Incident bundle of {counted(len(index['hosts']), 'host')}{simulated}",
        f"made {index['made_at']} by {by['user']} on {by['machine']} with gputop {index['gputop_version']}",
        *index["notes"],
        "index.json says the same for programs, with the SHA-256 of each file.",
    ]
    for host in index["hosts"]:
        link, problem = host["link"], host["link"]["problem"]
        why = f": {problem['summary']}" if problem is not None else ""
        known = [f"{name.removesuffix('_version')} {value}" for name, value in host["versions"].items() if value]
        answered = "answered" if host["answered"] else "did not answer"
        lines += ["", f"{host['name']}   {answered}   link {link['state']}{why}", f"  {', '.join(known) or 'no facts'}"]
        there = [file for file in host["files"] if file["path"] is not None]
        for file in there:
            below = file["path"].partition("/")[2]
            lines.append(f"  {below}   {file['bytes']:,} bytes   {file['what']}")
            lines += [f"      {file['problem']}"] if file["problem"] is not None else []
        missing: dict[str, list[str]] = {}
        for file in host["files"]:
            if file["path"] is None:
                missing.setdefault(file["problem"], []).append(file["name"])
        for why, names in missing.items():
            lines.append(f"  not there: {', '.join(names)}")
            lines.append(f"      {why}")
    return "\n".join(map(clean, lines)) + "\n"
