"""Host words of a command line to `HostSpec`s: names, `user@host:port`, `[v6]:port`, ranges, `@group`, lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gputop.configfile import did_you_mean
from gputop.domain.host import HostKeyPolicy, HostSpec
from gputop.inventory.expand import LIMIT, BadPattern, expand, is_address, split, unfit
from gputop.inventory.load import Inventory


class Target(Struct, frozen=True, kw_only=True):
    """One word, taken apart."""

    host: str
    """A name, a pattern, `@group` or an address."""
    user: str | None = None
    port: int | None = None


class _Picked(Struct):
    spec: HostSpec
    target: Target


def parts(words: Iterable[str]) -> list[str]:
    """`words` with lists such as `a,b` taken apart."""
    return [part for word in words for part in split(word)]


def parse_target(word: str) -> Target | BadPattern:
    """`[user@]host[:port]`. An IPv6 address with a port stands in brackets."""
    if word.startswith("@"):
        return Target(host=word)
    user, at, rest = word.rpartition("@")
    if at and (reason := unfit(user)):
        return BadPattern(f'"{word}": the user name {reason}')
    host, port = rest, ""
    if rest.startswith("[") and ":" in rest.partition("]")[0]:
        host, closed, port = rest[1:].partition("]")
        if not closed or not is_address(host) or port[:1] not in ("", ":"):
            return BadPattern(f'"{word}" is no IPv6 address in brackets', "write [2001:db8::1] or [2001:db8::1]:22")
        port = port[1:]
    elif not is_address(rest) and ":" in rest:
        host, _, port = rest.rpartition(":")
    colon = host != rest and rest.endswith(":")
    if colon or (port and not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65535)):
        return BadPattern(f'"{word}": "{port}" is no port', "a port is a number from 1 to 65535")
    return Target(host=host, user=user or None, port=int(port) if port else None)


def select(
    words: Sequence[str],
    inventory: Inventory,
    options: dict[str, Any],
    default_interval_seconds: float,
    default_host_keys: HostKeyPolicy = HostKeyPolicy.STRICT,
) -> tuple[HostSpec, ...] | BadPattern:
    """The hosts that `words` (see `parts`) name, in their order, each once; all of the inventory without words.

    A name of the inventory means its entry, any other a host that ssh resolves. `options` (fields of `HostSpec`) win
    over the inventory; what a word itself says wins over both.
    """
    if not words:
        return tuple(replace(spec, **options) for spec in inventory.specs)
    known = {spec.name.lower(): spec for spec in inventory.specs}
    picked: dict[tuple[str, str | None, int | None], _Picked] = {}
    for word in words:
        target = parse_target(word)
        if isinstance(target, BadPattern):
            return target
        names = _names(target.host, inventory)
        if isinstance(names, BadPattern):
            return names
        said = {key: value for key in ("user", "port") if (value := getattr(target, key)) is not None}
        for name in names:
            adhoc = HostSpec(name=name, interval_seconds=default_interval_seconds, host_keys=default_host_keys)
            spec = replace(known.get(name.lower(), adhoc), **options | said)
            picked.setdefault((spec.name.lower(), spec.user, spec.port), _Picked(spec, target))
        if len(picked) > LIMIT:
            return BadPattern(f'with "{word}" more than {LIMIT:,} hosts are named')
    return _with_own_names(list(picked.values()))


def exclude(words: Sequence[str], specs: Sequence[HostSpec], inventory: Inventory) -> tuple[HostSpec, ...] | BadPattern:
    """`specs` without the hosts that `words` (see `parts`) name."""
    out: set[str] = set()
    for word in words:
        names = _names(word, inventory)
        if isinstance(names, BadPattern):
            return names
        lowered = {name.lower() for name in names}
        if not any(spec.name.lower() in lowered for spec in specs):
            near = did_you_mean(word, [spec.name for spec in specs])
            return BadPattern(f'--exclude "{word}" leaves no host out: it is not among those to watch', near)
        out |= lowered
    return tuple(spec for spec in specs if spec.name.lower() not in out)


def _names(pattern: str, inventory: Inventory) -> tuple[str, ...] | BadPattern:
    """The names that a word without user and port stands for."""
    if not pattern.startswith("@"):
        return (pattern,) if is_address(pattern) else expand(pattern)
    group = pattern[1:]
    if group in inventory.groups:
        return inventory.groups[group] or BadPattern(f'group "{group}" has no hosts')
    if not inventory.files:
        return BadPattern(f'unknown group "{pattern}": no inventory file was found', "name one with --inventory FILE")
    groups = list(inventory.groups)
    hint = did_you_mean(group, groups) or (f"groups: {', '.join(groups)}" if groups else "it has no groups")
    return BadPattern(f'unknown group "{pattern}" in {", ".join(inventory.files)}', hint)


def _with_own_names(picked: list[_Picked]) -> tuple[HostSpec, ...]:
    """One name per host: those on one machine are told apart by port, else by user too."""
    uses = Counter(one.spec.name for one in picked)
    ports = Counter((one.spec.name, one.spec.port) for one in picked)
    specs = []
    for one in picked:
        spec = one.spec
        if uses[spec.name] > 1:
            host = f"[{spec.name}]" if ":" in spec.name else spec.name
            name = host if spec.port is None else f"{host}:{spec.port}"
            if ports[spec.name, spec.port] > 1 and spec.user is not None:
                name = f"{spec.user}@{name}"
            spec = replace(spec, name=name, address=spec.address or spec.name)
        specs.append(spec)
    return tuple(specs)
