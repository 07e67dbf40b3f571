"""The machine that gputop runs on, where its user came from, and the hops on the way to hosts. Reads only."""

from __future__ import annotations

import asyncio
import os
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from gputop.actions.evidence import Evidence
from gputop.domain.action import HostIdentity
from gputop.domain.host import HostSpec, Way
from gputop.domain.link import LinkFailure
from gputop.domain.proof import boot_id
from gputop.transport.hostkeys import fingerprint
from gputop.transport.route import is_loopback

TRACE_SECONDS = 20.0
"""For finding out how all hosts of the fleet are reached; what is not found out by then is not known."""

Trace = Callable[[HostSpec], Awaitable[Way | LinkFailure]]
"""What a host is reached through; nothing is connected to."""


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


async def jump_hosts(specs: Sequence[HostSpec], trace: Trace) -> tuple[set[str], dict[str, str]]:
    """Which of `specs` others are reached through, by their names in the inventory; and those of which it is not known
    what they are reached through, with why."""
    remote = [spec for spec in specs if not spec.local]
    ways: dict[str, Way | LinkFailure] = {}

    async def follow(spec: HostSpec) -> None:
        ways[spec.name] = await trace(spec)

    following = [asyncio.create_task(follow(spec)) for spec in remote]
    if following:
        await asyncio.wait(following, timeout=TRACE_SECONDS)
    for task in following:
        task.cancel()
    await asyncio.gather(*following, return_exceptions=True)
    lost = {
        spec.name: found.problem.summary if found is not None else f"not found out within {TRACE_SECONDS:g} s"
        for spec in remote
        if not isinstance(found := ways.get(spec.name), Way)
    }
    known = {name: found for name, found in ways.items() if isinstance(found, Way)}
    through = {each for found in known.values() for each in found.through}
    jumps = set()
    for spec in specs:
        names = {spec.name.lower(), (spec.address or "").lower()}
        names |= {known[spec.name].place} if spec.name in known else set()
        if names & through:
            jumps.add(spec.name)
    return jumps, lost


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None
