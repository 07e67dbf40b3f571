"""Writes a bundle: pseudonyms where asked for, the index, the file. Blocks, so it runs in a thread of its own."""

from __future__ import annotations

import hashlib
import platform
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from gputop.actions.audit import real_user
from gputop.bundle.archive import GivenUp, unused, write_archive, write_beside
from gputop.bundle.index import Stored, index_document, index_text
from gputop.bundle.items import Data, Gathered, Item, Lines, Order, Packed, Text, as_json, as_lines
from gputop.bundle.names import Names
from gputop.bundle.redact import Redactor
from gputop.catalog import format as show
from gputop.catalog.secrets import masked, masked_data
from gputop.catalog.text import counted
from gputop.domain.host import Host, HostSpec

NAMES_SCHEMA = "gputop-bundle-names/1"
NO_NAMES = frozenset({"localhost", "localhost.localdomain"})
ENCODING = ("utf-8", "surrogateescape")
UNPACKED_BYTES = 512 * 1024 * 1024
"""A report that unfolds to more than this is not looked through for names, and so is left out of a redacted bundle."""


class Made(Struct, frozen=True, kw_only=True):
    """A bundle that was written."""

    path: Path
    size: int
    names: Path | None
    """The key to its pseudonyms, when it is redacted."""
    index: dict[str, Any]
    answered: dict[str, bool]
    """Of each host."""

    @property
    def line(self) -> str:
        """What there is to say about it, in one line that may be cut at its end."""
        return f"saved {self.path.name} ({show.memory(self.size)}) in {self.path.parent}"

    def lacks(self, name: str) -> bool:
        """Whether a host is without the file `name`."""
        files = [file for host in self.index["hosts"] for file in host["files"] if file["name"] == name]
        return any(file["path"] is None for file in files)

    def words(self) -> list[str]:
        """What there is to say about it in full, the file first."""
        silent = [name for name, answered in self.answered.items() if not answered]
        missing = sum(file["problem"] is not None for host in self.index["hosts"] for file in host["files"])
        said = counted(len(self.answered), "host")
        if silent:
            said += f", of which {', '.join(silent)} did not answer"
        if missing:
            said += (
                f"; {counted(missing, 'thing')} could not be read, or not whole: index.txt in it says which, and why"
            )
        lines = [f"saved {self.path} ({show.memory(self.size)})", said]
        if self.names is not None:
            lines.append(f"what its pseudonyms stand for is in {self.names.name} beside it: keep that to yourself")
        return lines


class NotWritten(Struct, frozen=True, kw_only=True):
    """The file could not be written; nothing of it is left."""

    summary: str


OWN_NAME = re.compile(r"gputop-bundle-\d{8}T\d{6}Z(-\d+)?\.tar\.gz")
"""Files that are named after a time: the folder in them has the same name."""


def folder_name(at: datetime) -> str:
    """The bundle's own name, in the archive where its file has another one, and in the audit log."""
    return f"gputop-bundle-{at:%Y%m%dT%H%M%SZ}"


class Known(Struct, frozen=True, kw_only=True):
    """Whose names are known."""

    specs: Mapping[str, HostSpec]
    """Of all hosts of the inventory."""
    hosts: Mapping[str, Host]
    """Those that were seen."""


def write_bundle(
    gathered: Sequence[Gathered],
    fleet: Known,
    order: Order,
    made_at: datetime,
    *,
    source: str,
    target: Path | None,
    is_wanted: Callable[[], bool] = lambda: True,
) -> Made | NotWritten:
    """Write what was `gathered` to `target`, which must not be there yet; `None`: a file named after the time, in the
    current folder. `is_wanted` is asked now and then."""
    redactor = _redactor(gathered, fleet) if order.redact else None
    path = target or unused(Path(f"{folder_name(made_at)}.tar.gz"))
    # A name of the user's own may say what a redacted bundle must not.
    root = path.name.removesuffix(".tar.gz") if OWN_NAME.fullmatch(path.name) else folder_name(made_at)
    hosts = list(zip(gathered, _folders(gathered, redactor), strict=True))
    contents: dict[str, bytes] = {}
    stored = []
    for one, folder in hosts:
        its = []
        for item in one.items:
            if not is_wanted():
                return NotWritten(summary="given up")
            its.append(_stored(item, f"{root}/{folder}", redactor, contents))
        stored.append(its)
    index = index_document(
        made_at=made_at, made_by=real_user(), machine=platform.node(), source=source, redacted=order.redact,
        hosts=hosts, stored=stored,
    )  # fmt: skip
    index = masked_data(redactor.value(index) if redactor is not None else index)
    members = _members(root, index, contents)
    names = path.with_name(f"{path.name}.names.json") if redactor is not None else None
    try:
        if names is not None and redactor is not None:
            write_beside(names, as_json({"schema": NAMES_SCHEMA, "bundle": path.name,
                                         "names": redactor.names.originals}))  # fmt: skip
        size = write_archive(path, members, made_at, is_wanted)
    except (OSError, GivenUp) as failure:
        if names is not None and not isinstance(failure, FileExistsError):
            names.unlink(missing_ok=True)
        if isinstance(failure, GivenUp):
            return NotWritten(summary="given up")
        where = failure.filename2 or failure.filename or path
        return NotWritten(summary=f"cannot write {where}: {failure.strerror}")
    return Made(
        path=path.absolute(),
        size=size,
        names=names.absolute() if names is not None else None,
        index=index,
        answered={one.host: one.answered for one in gathered},
    )


def _redactor(gathered: Sequence[Gathered], fleet: Known) -> Redactor:
    """One that knows all names of the inventory and of what was gathered."""
    specs, seen = fleet.specs, fleet.hosts
    aliases = {name: _aliases(spec, seen.get(name)) for name, spec in specs.items()}
    users_of = Counter(alias for its in aliases.values() for alias in its)
    names = Names([*specs, *users_of])
    for name in specs:
        names.know_host([name])
    for name, its in aliases.items():
        # A host name that several machines have (a cloned disk) would make one of them.
        names.know_host([name, *(alias for alias in its if users_of[alias] == 1)])
    for alias in (*users_of, platform.node()):
        names.know_host([alias])
    names.know_user(real_user())
    for spec in specs.values():
        names.know_user(spec.user or "")
        for hop in (*(spec.jump or ()), *_hops(seen.get(spec.name))):
            user, _, host = hop.removeprefix("ssh://").rpartition("@")
            names.know_user(user)
            names.know_host([re.sub(r":\d+$", "", host).strip("[]")])
    redactor = Redactor(names)
    for one in gathered:
        for item in one.items:
            match item.body:
                case Data():
                    redactor.learn_value(item.body.value)
                case Lines():
                    redactor.learn_value(list(item.body.values))
                case Text():
                    redactor.learn(item.body.content.decode(*ENCODING))
                case Packed():
                    redactor.learn((_unpacked(item.body) or b"").decode(*ENCODING))
    return redactor


def _aliases(spec: HostSpec, host: Host | None) -> set[str]:
    """Other names of a host than that of the inventory."""
    found = {spec.address}
    if host is not None and host.endpoint is not None:
        found.add(host.endpoint.address)
    if host is not None and host.frame is not None:
        found.add(host.frame.facts.hostname)
    return {name for name in found if name and name not in NO_NAMES} - {spec.name}


def _hops(host: Host | None) -> tuple[str, ...]:
    return host.endpoint.jump if host is not None and host.endpoint is not None else ()


def _folders(gathered: Sequence[Gathered], redactor: Redactor | None) -> list[str]:
    """A folder for each host, named after it as far as file names allow, each another."""
    found: list[str] = []
    for one in gathered:
        name = redactor.name(one.host) if redactor is not None else one.host
        name = re.sub(r"[^\w.-]", "_", name).lstrip(".") or "host"
        while name in found:
            name += "_"
        found.append(name)
    return found


def _stored(item: Item, folder: str, redactor: Redactor | None, contents: dict[str, bytes]) -> Stored:
    """Put the content of `item` into `contents` (compressed), as it will stand in the archive."""
    if item.body is None:
        return Stored(item=item, path=None)
    path = f"{folder}/{item.path}"
    content = _content(item.body, redactor)
    if content is None:
        why = "it could not be looked through for names, and so is left out of a redacted bundle"
        return Stored(item=structs.replace(item, problem=why), path=None)
    if redactor is not None and isinstance(item.body, Packed):
        path = path.removesuffix(".gz")
    contents[path] = zlib.compress(content, 1)
    return Stored(item=item, path=path, size=len(content), sha256=hashlib.sha256(content).hexdigest())


def _content(body: Text | Data | Lines | Packed, redactor: Redactor | None) -> bytes | None:
    match body:
        case Data():
            return as_json(masked_data(redactor.value(body.value) if redactor is not None else body.value))
        case Lines():
            values = masked_data(redactor.value(body.values) if redactor is not None else body.values)
            return as_lines(tuple(values))
        case Packed():
            if redactor is None:
                return body.content
            content = _unpacked(body)
        case Text():
            content = body.content
    if content is None:
        return None
    text = masked(content.decode(*ENCODING))
    return (redactor.text(text) if redactor is not None else text).encode(*ENCODING)


def _unpacked(body: Packed) -> bytes | None:
    try:
        unpacker = zlib.decompressobj(wbits=31)
        content = unpacker.decompress(body.content, UNPACKED_BYTES)
    except zlib.error:
        return None
    return content if unpacker.eof else None


def _members(root: str, index: dict[str, Any], contents: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """The index first, so that whoever reads the archive from its beginning knows what comes."""
    yield f"{root}/index.txt", index_text(index).encode()
    yield f"{root}/index.json", as_json(index)
    for path, packed in contents.items():
        yield path, zlib.decompress(packed)
