"""The machine that gputop runs on, where its user came from, and the hops on the way to hosts. Reads only."""

from __future__ import annotations

import os
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from gputop.actions.evidence import Evidence
from gputop.domain.action import HostIdentity
from gputop.domain.proof import boot_id
from gputop.transport.hostkeys import fingerprint


def bare(hop: str) -> str:
    """The host of `user@host:port`."""
    host = hop.rpartition("@")[2]
    if match := re.fullmatch(r"\[(.*)\](?::\d+)?", host):
        return match[1]
    return host.partition(":")[0] if host.count(":") == 1 else host


def own_identity() -> HostIdentity:
    """Of the machine that gputop runs on."""
    return HostIdentity(boot_id=boot_id(_read("/proc/sys/kernel/random/boot_id")), machine_id=_read("/etc/machine-id"))


def own_addresses(evidence: Sequence[Evidence], environment: Mapping[str, str] = os.environ) -> set[str]:
    """Names of the hosts in `evidence` that the user's own SSH session came from or ended at."""
    words = environment.get("SSH_CONNECTION", "").split()
    ends = {word for word in words[::2] if not is_loopback(word)}
    return {
        one.host.name for one in evidence if one.host.endpoint is not None and one.host.endpoint.address in ends
    } | ends


def own_host_keys(folder: Path = Path("/etc/ssh")) -> frozenset[str]:
    """Fingerprints of the keys by which the SSH server of this machine is known; none where there is none."""
    found = set()
    for path in folder.glob("ssh_host_*_key.pub"):
        words = (_read(str(path)) or "").split()
        with suppress(ValueError, IndexError):
            found.add(fingerprint(b64decode(words[1], validate=True)))
    return frozenset(found)


def is_loopback(address: str) -> bool:
    return address in ("localhost", "::1") or address.startswith("127.")


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None
