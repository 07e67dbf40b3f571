"""gputop's own incident bundles: one host each, by their index, instead of one for each file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from gputop.readers.archive import Found

SCHEMA: Literal["gputop-bundle/1"] = "gputop-bundle/1"
INDEX = "index.json"
TOOLS = "tools/"
TABLE = "tools/nvidia-smi.txt"
"""What nvidia-smi prints without options: it numbers the devices."""
REPORT = "tools/nvidia-bug-report.log"
LOGS = ("kernel.log", "kernel-devices.log")
"""The first that is there counts: one is a part of the other."""
FACTS = frozenset({"driver_version", "cuda_version", "kernel_version", "os_name"})


class _Problem(Struct, frozen=True):
    summary: str = ""


class _Link(Struct, frozen=True):
    state: str = ""
    problem: _Problem | None = None


class _File(Struct, frozen=True):
    path: str | None
    name: str


class _Host(Struct, frozen=True):
    name: str
    files: list[_File]
    answered: bool = True
    link: _Link = _Link()
    versions: dict[str, str | None] = {}


class _Index(Struct, frozen=True):
    schema: Literal["gputop-bundle/1"]
    hosts: list[_Host]


class BundledHost(Struct, frozen=True, kw_only=True):
    """One host of a bundle."""

    name: str
    files: tuple[Found, ...]
    """What tools print, the most telling first, and the kernel log."""
    facts: dict[str, str]
    """Keys of `HostFacts`."""
    silence: str | None
    """Why it did not answer when the bundle was made; `None`: it did."""


def taken_apart(files: Sequence[Found]) -> tuple[list[BundledHost], list[Found]]:
    """The hosts of the bundles among `files`, and the files that belong to none."""
    hosts: list[BundledHost] = []
    rest = list(files)
    for found in files:
        index = _index(found)
        if index is None:
            continue
        prefix = found.name.removesuffix(INDEX)
        own = {one.name: one for one in rest if one.name.startswith(prefix)}
        rest = [one for one in rest if not one.name.startswith(prefix)]
        hosts += [_host(host, prefix, own) for host in index.hosts]
    return hosts, rest


def _index(found: Found) -> _Index | None:
    if found.name.rpartition("/")[2] != INDEX:
        return None
    try:
        return msgspec.json.decode(found.data, type=_Index)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _host(host: _Host, prefix: str, own: dict[str, Found]) -> BundledHost:
    """`own`: the files of its bundle. The paths of an index begin with the folder that it lies in."""
    there: dict[str, Found] = {}
    for file in host.files:
        found = own.get(prefix + file.path.partition("/")[2]) if file.path is not None else None
        if found is not None:
            there[file.name.removesuffix(".gz")] = found
    tools = [name for name in there if name.startswith(TOOLS) and name != REPORT]
    names = sorted(tools, key=lambda name: not name.endswith(".xml"))
    names += [name for name in LOGS if name in there][:1]
    if not tools and REPORT in there:
        names = [REPORT]
    why = host.link.problem.summary if host.link.problem is not None else host.link.state
    return BundledHost(
        name=host.name,
        files=tuple(there[name] for name in names),
        facts={key: value for key, value in host.versions.items() if value is not None and key in FACTS},
        silence=None if host.answered else why or "not told",
    )
