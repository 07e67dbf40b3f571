"""Inventory files to an `Inventory`, or every problem with its place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from gputop.configfile import ConfigProblem, Document, Keys, contents, did_you_mean, parse_what_is_right
from gputop.domain.host import HostKeyPolicy, HostSpec
from gputop.domain.plural import counted
from gputop.inventory.expand import LIMIT, BadPattern, expand, fold, split
from gputop.inventory.layer import Layer, read_layer
from gputop.inventory.policy import PREFIX, take_policy
from gputop.inventory.schema import HostEntry, HostKeys, InventoryFile


class Inventory(Struct, frozen=True, kw_only=True):
    """All hosts that the inventory files list."""

    specs: tuple[HostSpec, ...] = ()
    """In the order of the files; names are unique, upper and lower case being the same."""
    groups: dict[str, tuple[str, ...]] = {}
    """Names of the hosts of each group, in the group's own order."""
    files: tuple[str, ...] = ()


class _Listed(Struct):
    """A host as its file lists it."""

    name: str
    own: Layer
    defaults: Layer
    place: Keys

    def without_groups(self) -> tuple[dict[str, Any], dict[str, str]]:
        return self.defaults.values | self.own.values, self.defaults.labels | self.own.labels


class _Gaps(Struct):
    """What could not be understood of the files: nothing is said about it."""

    stems: list[str] = []
    """How the names of hosts begin that are listed and not known, in lower case; an empty one: no matter how."""
    is_whole: bool = True

    def lose(self, pattern: str) -> None:
        """The hosts that `pattern`, which is no good one, is to stand for."""
        self.is_whole = False
        for part in split(pattern):
            found = re.match(r"[\w.-]*", part.lower())
            self.stems.append(found[0] if found else "")

    def may_hold(self, name: str) -> bool:
        return any(name.lower().startswith(stem) for stem in self.stems)


class _Group(Struct):
    """A group, united over all files."""

    layers: list[Layer] = []
    members: dict[str, None] = {}


def load(
    paths: Sequence[Path],
    *,
    default_interval_seconds: float = 2.0,
    default_host_keys: HostKeyPolicy = HostKeyPolicy.STRICT,
) -> Inventory | list[ConfigProblem]:
    """The inventory that `paths` hold together, or what is wrong with them.

    The defaults are for hosts whose files name no `interval` and no `host_keys`.
    """
    problems: list[ConfigProblem] = []
    hosts: dict[str, _Listed] = {}
    gaps = _Gaps()
    documents: list[tuple[Path, Document[InventoryFile]]] = []
    for path in paths:
        document, bad = _read(path)
        problems += bad
        gaps.is_whole &= not bad
        if document is None:
            gaps.stems.append("")
            continue
        documents.append((path, document))
        problems += _list_hosts(document, path.parent, hosts, gaps)
    groups: dict[str, _Group] = {}
    for path, document in documents:
        problems += _unite_groups(document, path.parent, hosts, groups, gaps)
    problems += _unknown_vias([*hosts.values()], groups, gaps)
    if not gaps.is_whole:  # where something is left out, what is said of hosts may look contradictory
        return _in_order(problems, paths)
    memberships: dict[str, list[str]] = {}
    for name, group in groups.items():
        for member in group.members:
            memberships.setdefault(member, []).append(name)
    conflicts: dict[object, ConfigProblem] = {}
    defaults: dict[str, Any] = {"interval_seconds": default_interval_seconds, "host_keys": default_host_keys}
    specs = [_resolve(listed, memberships.get(key, []), groups, defaults, conflicts) for key, listed in hosts.items()]
    problems += conflicts.values()
    problems += _jump_loops(specs, hosts)
    if problems:
        return _in_order(problems, paths)
    members = {name: tuple(hosts[key].name for key in group.members) for name, group in groups.items()}
    return Inventory(specs=tuple(specs), groups=members, files=tuple(str(path) for path in paths))


def _in_order(problems: Sequence[ConfigProblem], paths: Sequence[Path]) -> list[ConfigProblem]:
    """As they stand in the files; those of whole files first."""
    order = {str(path): position for position, path in enumerate(paths)}
    return sorted(problems, key=lambda problem: (order[problem.file], problem.line or 0, problem.column or 0))


def _read(path: Path) -> tuple[Document[InventoryFile] | None, list[ConfigProblem]]:
    """What is right in a file, and what is wrong."""
    data = contents(path)
    if isinstance(data, ConfigProblem):
        return None, [data]
    document, problems = parse_what_is_right(
        data, InventoryFile, file=str(path), title=_title, gaps=lambda keys: keys[-1:] == ("hosts",)
    )
    if problems and re.search(rb"(?m)^all:\s*$", data):
        hint = "name gputop's own with --inventory FILE or $GPUTOP_INVENTORY"
        summary = "this is an Ansible inventory, which gputop does not read"
        return None, [ConfigProblem(str(path), None, None, summary, hint)]
    return document, problems


def _title(keys: Keys, values: Mapping[str, str]) -> str:
    match keys:
        case ():
            return "the inventory"
        case ("hosts", int()):
            return f'host "{values["name"]}"' if values.get("name") else "a host"
        case ("groups", str() as name):
            return f'group "{name}"'
        case (*_, str() as name):
            return name
    return "the inventory"


def _list_hosts(
    document: Document[InventoryFile], folder: Path, hosts: dict[str, _Listed], gaps: _Gaps
) -> list[ConfigProblem]:
    """Add the hosts of one file to `hosts`, by name in lower case."""
    defaults, problems = read_layer(document.value.defaults or HostKeys(), document, ("defaults",), folder)
    gaps.is_whole &= not problems
    nothing = Layer({}, {}, document, ())
    for position, entry in enumerate(document.value.hosts or ()):
        place: Keys = ("hosts", position)
        if entry is None:  # its problem is told
            gaps.lose("")
            continue
        own = nothing
        pattern = entry
        if isinstance(entry, HostEntry):
            pattern = entry.name
            own, bad = read_layer(entry, document, place, folder)
            problems += bad
            gaps.is_whole &= not bad
            place = (*place, "name")
        names = expand(str(pattern))
        if isinstance(names, BadPattern):
            problems.append(document.problem(place, names.summary, names.hint))
            gaps.lose(str(pattern))
            continue
        if len(hosts) + len(names) > LIMIT:
            problems.append(document.problem(place, f'with "{pattern}" the inventory has more than {LIMIT:,} hosts'))
            gaps.lose("")
            return problems
        twice = []
        for name, layer in zip(names, _address_each(own, names, problems), strict=True):
            listed = _Listed(name, layer, defaults, place)
            first = hosts.setdefault(name.lower(), listed)
            if first is not listed and (first.own.document is document or not _equal(first, listed)):
                twice.append(_listed_twice(listed, first, document))
        problems += twice[:1]  # one line for a range
    return problems


def _equal(one: _Listed, other: _Listed) -> bool:
    return one.name == other.name and one.without_groups() == other.without_groups()


def _listed_twice(listed: _Listed, first: _Listed, document: Document[InventoryFile]) -> ConfigProblem:
    before = first.defaults.document
    where = f"{before.file}:{before.line(first.place)}"
    if before is document:
        summary, hint = f'host "{listed.name}" is listed twice', f"first at {where}"
    else:
        summary, hint = f'host "{listed.name}" differs between two files', f"it is listed otherwise at {where}"
    return document.problem(listed.place, summary, hint)


def _address_each(own: Layer, names: Sequence[str], problems: list[ConfigProblem]) -> list[Layer]:
    """`own` for each of `names`; a range of addresses is dealt out one by one."""
    address = own.values.get("address")
    if address is None or "[" not in address:
        return [own] * len(names)
    addresses = expand(address)
    place = (*own.keys, "address")
    if isinstance(addresses, BadPattern):
        problems.append(own.document.problem(place, addresses.summary, addresses.hint))
    elif len(addresses) != len(names):
        summary = f'"{address}" stands for {counted(len(addresses), "address", "addresses")}, '
        summary += f"the name for {counted(len(names), 'host')}"
        problems.append(own.document.problem(place, summary))
    else:
        return [Layer(own.values | {"address": each}, own.labels, own.document, own.keys) for each in addresses]
    return [own] * len(names)


def _unite_groups(
    document: Document[InventoryFile],
    folder: Path,
    hosts: Mapping[str, _Listed],
    groups: dict[str, _Group],
    gaps: _Gaps,
) -> list[ConfigProblem]:
    """Add the groups of one file to `groups`."""
    problems = []
    for name, entry in (document.value.groups or {}).items():
        place: Keys = ("groups", name)
        if not re.fullmatch(r"\w[\w.-]*", name):
            summary = f'a group cannot be named "{name}"'
            problems.append(document.problem(place, summary, "use letters, digits, dots, dashes and underscores"))
        layer, bad = read_layer(entry, document, place, folder)
        problems += bad
        group = groups.setdefault(name, _Group([], {}))
        group.layers.append(layer)
        for position, pattern in enumerate(entry.hosts):
            members = _members(pattern, hosts, gaps) if pattern is not None else []
            if isinstance(members, BadPattern):
                problems.append(document.problem((*place, "hosts", position), members.summary, members.hint))
            else:
                group.members |= dict.fromkeys(members)
    return problems


def _members(pattern: str, hosts: Mapping[str, _Listed], gaps: _Gaps) -> list[str] | BadPattern:
    """The hosts of a group's line, in lower case."""
    if pattern.startswith("@"):
        return BadPattern(f'"{pattern}": a group lists hosts, not groups', "list its hosts")
    names = expand(pattern)
    if isinstance(names, BadPattern):
        return names
    unknown = [name for name in names if name.lower() not in hosts and not gaps.may_hold(name)]
    if not unknown:
        return [name.lower() for name in names if name.lower() in hosts]
    shown = f'"{pattern}"' if len(unknown) == len(names) else f'"{fold(unknown)}" of "{pattern}"'
    near = did_you_mean(unknown[0], [listed.name for listed in hosts.values()])
    return BadPattern(f'{shown} is not listed under "hosts"', near or 'add it to "hosts"')


def _resolve(
    listed: _Listed,
    group_names: Sequence[str],
    groups: Mapping[str, _Group],
    defaults: dict[str, Any],
    conflicts: dict[object, ConfigProblem],
) -> HostSpec:
    """The spec of one host: its own keys, else its groups', else the defaults."""
    layers = [layer for name in group_names for layer in groups[name].layers]
    values = listed.defaults.values | _merged([(x, x.values) for x in layers], listed, listed.own.values, "", conflicts)
    labels = listed.defaults.labels | _merged(
        [(x, x.labels) for x in layers], listed, listed.own.labels, "label ", conflicts
    )
    jump = values.get("jump") or ()
    if listed.name in jump and "jump" not in listed.own.values:
        values["jump"] = jump[: jump.index(listed.name)]  # a bastion of a group or of all is reached without itself
    policy = take_policy(values)
    return HostSpec(
        **defaults | values,
        name=listed.name,
        labels=labels,
        groups=tuple(group_names),
        policy=policy,
    )


def _merged(
    said: Iterable[tuple[Layer, dict[str, Any]]],
    listed: _Listed,
    own: dict[str, Any],
    what: str,
    conflicts: dict[object, ConfigProblem],
) -> dict[str, Any]:
    """`own` over what the groups say. Groups that contradict each other about a key that is not own are noted."""
    values: dict[str, Any] = {}
    speakers: dict[str, Layer] = {}
    for layer, said_here in said:
        for key, value in said_here.items():
            first = speakers.setdefault(key, layer)
            if first is layer:
                values[key] = value
            elif values[key] != value and key not in own:
                conflicts.setdefault((first.keys, layer.keys, what, key), _conflict(first, layer, listed, what, key))
    return values | own


def _conflict(first: Layer, layer: Layer, listed: _Listed, what: str, key: str) -> ConfigProblem:
    path: Keys = ("labels", key) if what else (_FILE_KEY.get(key, key),)
    if key.startswith(PREFIX):
        path = ("policy", key.removeprefix(PREFIX))
    one, other = f"{first.keys[1]}", f"{layer.keys[1]}"
    summary = f'groups "{one}" and "{other}" give host "{listed.name}" different values for {what}"{path[-1]}"'
    place = f"{first.document.file}:{first.document.line((*first.keys, *path))}"
    hint = f'the other stands at {place}; give the host its own "{path[-1]}", or take it out of one group'
    return layer.document.problem((*layer.keys, *path), summary, hint)


_FILE_KEY = {"interval_seconds": "interval"}
"""Fields of `HostSpec` that the file calls otherwise."""


def _unknown_vias(listed: Sequence[_Listed], groups: Mapping[str, _Group], gaps: _Gaps) -> list[ConfigProblem]:
    """Hosts on which a scheduler is asked, and that are not listed."""
    names = [host.name for host in listed]
    layers = [layer for host in listed for layer in (host.own, host.defaults)]
    layers += [layer for group in groups.values() for layer in group.layers]
    problems = []
    for layer in {id(layer): layer for layer in layers}.values():
        via = getattr(layer.values.get("scheduler"), "via", None)
        if via is not None and via not in names and not gaps.may_hold(via):
            hint = did_you_mean(via, names) or 'add it to "hosts"'
            place = (*layer.keys, "scheduler", "via")
            problems.append(layer.document.problem(place, f'"{via}" is not listed under "hosts"', hint))
    return list(dict.fromkeys(problems))  # the hosts of a range say the same


def _jump_loops(specs: Sequence[HostSpec], hosts: Mapping[str, _Listed]) -> list[ConfigProblem]:
    """Hosts that can only be reached through themselves."""
    next_hops = {spec.name.lower(): [hop.lower() for hop in spec.jump] for spec in specs if spec.jump}
    problems = []
    for start in next_hops:
        seen: set[str] = set()
        todo = list(next_hops[start])
        while todo:
            hop = todo.pop()
            if hop not in seen:
                seen.add(hop)
                todo += next_hops.get(hop, ())
        if start in seen:
            listed = hosts[start]
            summary = f'host "{listed.name}" is reached through itself (jump: {", ".join(next_hops[start])})'
            problems.append(listed.own.document.problem(listed.place, summary, "give one host of the loop jump: null"))
    return problems
