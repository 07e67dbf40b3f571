"""Whether a server is the one we know: known_hosts files and the judgement over a key.

Read line by line: a line that cannot be read costs that line, as with OpenSSH.
"""

from __future__ import annotations

import binascii
import fcntl
import hashlib
import hmac
import os
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from platformdirs import user_config_path

from gputop.domain.host import HostKeyPolicy
from gputop.domain.problem import Problem, ProblemKind

SSH_PORT = 22


class Entry(NamedTuple):
    """One key of a known_hosts file."""

    path: str
    line: int
    marker: str
    """`""`, `cert-authority` or `revoked`."""
    algorithm: str
    blob: bytes

    @property
    def place(self) -> str:
        """`file:line`."""
        return f"{self.path}:{self.line}"


@dataclass(slots=True)
class KnownHostsFile:
    """A known_hosts file, ready to be searched."""

    exact: dict[str, list[Entry]] = field(default_factory=dict)
    patterns: list[tuple[tuple[str, ...], Entry]] = field(default_factory=list)
    hashed: list[tuple[bytes, bytes, Entry]] = field(default_factory=list)
    """Salt, HMAC-SHA1 of the name, entry."""
    bad_lines: list[int] = field(default_factory=list)

    def entries(self, name: str) -> list[Entry]:
        """All entries for `name`: a host in lower case, or `[host]:port`."""
        found = list(self.exact.get(name, ()))
        found += [entry for patterns, entry in self.patterns if _matches(name, patterns)]
        encoded = name.encode()
        found += [entry for salt, digest, entry in self.hashed if hmac.digest(salt, encoded, hashlib.sha1) == digest]
        return found


def parse(content: bytes, path: str) -> KnownHostsFile:
    """Read known_hosts; lines that make no sense are listed in `bad_lines`."""
    known = KnownHostsFile()
    for number, raw in enumerate(content.decode("utf-8-sig", errors="replace").splitlines(), start=1):
        words = raw.split()
        if not words or words[0].startswith("#"):
            continue
        marker = words.pop(0)[1:] if words[0].startswith("@") else ""
        if marker not in ("", "cert-authority", "revoked") or len(words) < 3:
            known.bad_lines.append(number)
            continue
        names, algorithm, encoded = words[:3]
        blob = _blob(algorithm, encoded)
        if blob is None or not _add(known, names, Entry(path, number, marker, algorithm, blob)):
            known.bad_lines.append(number)
    return known


def _add(known: KnownHostsFile, names: str, entry: Entry) -> bool:
    if names.startswith("|"):
        try:
            _, magic, salt, digest = names.split("|")
            known.hashed.append((binascii.a2b_base64(salt), binascii.a2b_base64(digest), entry))
        except ValueError:
            return False
        return magic == "1"
    parts = tuple(names.lower().split(","))
    if any(character in names for character in "*?!"):
        known.patterns.append((parts, entry))
    else:
        for name in parts:
            known.exact.setdefault(name, []).append(entry)
    return True


def _blob(algorithm: str, encoded: str) -> bytes | None:
    """The key, when it is one of `algorithm`."""
    try:
        blob = binascii.a2b_base64(encoded, strict_mode=True)
    except ValueError:
        return None
    length = int.from_bytes(blob[:4], "big")
    return blob if blob[4 : 4 + length] == algorithm.encode() else None


def _matches(name: str, patterns: Sequence[str]) -> bool:
    """OpenSSH's pattern lists: `*` and `?` only (brackets mean themselves), `!` excludes."""
    hit = False
    for pattern in patterns:
        wanted = pattern.removeprefix("!")
        expression = re.escape(wanted).replace(r"\*", ".*").replace(r"\?", ".")
        if re.fullmatch(expression, name):
            if pattern.startswith("!"):
                return False
            hit = True
    return hit


class Judgement(Enum):
    """What known_hosts says about the key that a server showed."""

    TRUSTED = "trusted"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    OTHER_TYPE = "other-type"
    REVOKED = "revoked"


class Verdict(NamedTuple):
    judgement: Judgement
    entry: Entry | None = None
    """The entry that it rests on."""


def judge(entries: Sequence[Entry], algorithm: str, blob: bytes) -> Verdict:
    """Judge a plain key by the entries for its host."""
    for entry in entries:
        if entry.marker == "revoked" and entry.blob == blob:
            return Verdict(Judgement.REVOKED, entry)
    plain = [entry for entry in entries if not entry.marker]
    for entry in plain:
        if entry.blob == blob:
            return Verdict(Judgement.TRUSTED, entry)
    for entry in plain:
        if entry.algorithm == algorithm:
            return Verdict(Judgement.CHANGED, entry)
    return Verdict(Judgement.OTHER_TYPE, plain[0]) if plain else Verdict(Judgement.UNKNOWN)


def judge_authority(entries: Sequence[Entry], blob: bytes) -> Verdict:
    """Judge the key that signed a host certificate."""
    for marker, judgement in (("revoked", Judgement.REVOKED), ("cert-authority", Judgement.TRUSTED)):
        for entry in entries:
            if entry.marker == marker and entry.blob == blob:
                return Verdict(judgement, entry)
    return Verdict(Judgement.UNKNOWN)


def file_name(host: str, port: int) -> str:
    """How known_hosts names a host: the port only when it is not 22."""
    return host.lower() if port == SSH_PORT else f"[{host.lower()}]:{port}"


def own_known_hosts() -> Path:
    """Where gputop itself keeps the keys that `accept-new` accepted, or a person."""
    return user_config_path("gputop") / "known_hosts"


class KnownHosts:
    """known_hosts files, read again only when they change."""

    def __init__(self, own: Path | None = None) -> None:
        self.own = own or own_known_hosts()
        self._files: dict[str, tuple[tuple[int, int], KnownHostsFile]] = {}

    def entries(self, host: str, port: int, paths: Sequence[str]) -> list[Entry]:
        """What `paths` and gputop's own file say about `host`. Like OpenSSH, an entry without a port counts for a
        host on another port when there is none with it."""
        files = [self._read(path) for path in dict.fromkeys((*paths, str(self.own)))]
        found = [entry for file in files for entry in file.entries(file_name(host, port))]
        if port != SSH_PORT and all(entry.marker == "revoked" for entry in found):
            found += [entry for file in files for entry in file.entries(file_name(host, SSH_PORT))]
        return found

    def bad_lines(self, paths: Sequence[str]) -> list[str]:
        """`file:line` of each line that could not be read."""
        return [f"{path}:{line}" for path in (*paths, str(self.own)) for line in self._read(path).bad_lines]

    def accept(self, host: str, port: int, algorithm: str, blob: bytes) -> None:
        """Add a key to gputop's own file."""
        self.own.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        line = f"{file_name(host, port)} {algorithm} {b64encode(blob).decode()}\n".encode()
        descriptor = os.open(self.own, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        with open(descriptor, "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            content = file.readall() or b""
            if line not in content.splitlines(keepends=True):
                file.write(line if not content or content.endswith(b"\n") else b"\n" + line)

    def _read(self, path: str) -> KnownHostsFile:
        """Empty when there is no such file."""
        try:
            status = os.stat(path)
            stamp = (status.st_mtime_ns, status.st_size)
            known = self._files.get(path)
            if known is None or known[0] != stamp:
                known = self._files[path] = (stamp, parse(Path(path).read_bytes(), path))
        except OSError:
            return KnownHostsFile()
        return known[1]


def fingerprint(blob: bytes) -> str:
    """As `ssh-keygen -l` prints it."""
    return "SHA256:" + b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def rejection(
    verdict: Verdict,
    *,
    host: str,
    port: int,
    algorithm: str,
    blob: bytes,
    checking: str,
    bad_lines: Sequence[str],
    add_to: str,
    direct: bool,
    policy: HostKeyPolicy,
    has_person: bool,
) -> Problem:
    """Why the key is not taken, and what to do. `checking` is StrictHostKeyChecking as `ssh -G` has it; `add_to`: the
    known_hosts file for new keys; `direct`: `host` can be reached under this name from here; `has_person`: somebody
    can be asked."""
    shown = f"{algorithm} {fingerprint(blob)}"
    name = file_name(host, port)
    place = verdict.entry.place if verdict.entry else ""
    detail = [f"{name} shows {shown}"]
    if verdict.entry is not None:
        detail.append(f"{place} has {verdict.entry.algorithm} {fingerprint(verdict.entry.blob)}")
    if bad_lines:
        detail.append(f"lines that could not be read: {', '.join(bad_lines[:5])}")
    add = f"ssh-keyscan -p {port} {host} >> {add_to}" if direct else f"log in with ssh, or add it to {add_to} by hand"
    match verdict.judgement:
        case Judgement.CHANGED:
            kind, summary = ProblemKind.HOST_KEY_CHANGED, f"host key changed: {shown}, not the one in {place}"
            remove = f"ssh-keygen -R '{name}' -f {place.rpartition(':')[0]}"
            hint = f"someone may be listening; if the server was reinstalled: {remove}"
        case Judgement.OTHER_TYPE:
            kind, summary = ProblemKind.HOST_KEY_OTHER_TYPE, f"host key of another type than in {place}: {shown}"
            hint = f"compare the fingerprint with the server's own, then: {add}"
        case Judgement.REVOKED:
            kind, summary = ProblemKind.HOST_KEY_REVOKED, f"host key is revoked by {place}: {shown}"
            hint = "do not log in; ask whoever revoked it"
        case _:
            kind, summary = ProblemKind.HOST_KEY_UNKNOWN, f"host key not known: {shown}"
            hint = f"compare it with the server's own, then: {add}; or set host_keys: ask"
            if policy is HostKeyPolicy.ASK:
                hint = "F5 asks again" if has_person else "gputop's screen shows it and asks: start gputop HOST"
            elif checking in ("accept-new", "false"):
                said = {"false": "no"}.get(checking, checking)
                hint = f"ssh_config says StrictHostKeyChecking {said}; for gputop set host_keys: accept-new"
    return Problem(kind=kind, summary=summary, detail="\n".join(detail), hint=hint)
