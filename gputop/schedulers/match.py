"""Which node of a scheduler a host of the inventory is. Found by what is the same on both sides, never guessed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from gputop.domain.action import Block
from gputop.domain.backend import Ec2
from gputop.domain.host import Host

NAMELESS = frozenset({"", "localhost", "127.0.0.1", "::1"})
"""What every machine calls itself: no evidence of which one it is."""


def find_nodes(
    hosts: Sequence[Host], template: str | None, nodes: Mapping[str, Iterable[str]]
) -> dict[str, str | Block]:
    """The node of each host, by the host's name. `nodes`: every node of the scheduler with the names and addresses it
    goes by. `template`: the node's very name, `{host}` standing for the host's; `None`: found by `names_of_host`.
    No node, several nodes, or a node that is two hosts: a `Block`."""
    known = {node: frozenset(_plain(name) for name in names) | {_plain(node)} for node, names in nodes.items()}
    found = {host.name: _find(host, template, known) for host in hosts}
    shared = Counter(node for node in found.values() if isinstance(node, str))
    return {
        host: _shared(node, found) if isinstance(node, str) and shared[node] > 1 else node
        for host, node in found.items()
    }


def names_of_host(host: Host) -> frozenset[str]:
    """What a host goes by: its name, its addresses, what it calls itself, its instance. Lower case."""
    names = {host.name, host.spec.address or ""}
    if host.endpoint is not None:
        names.add(host.endpoint.address)
    if host.frame is not None and host.frame.facts.hostname:
        names |= {host.frame.facts.hostname, host.frame.facts.hostname.partition(".")[0]}
    if isinstance(host.spec.power, Ec2) and host.spec.power.instance_id:
        names.add(host.spec.power.instance_id)
    return frozenset(_plain(name) for name in names) - NAMELESS


def _find(host: Host, template: str | None, nodes: Mapping[str, frozenset[str]]) -> str | Block:
    if template is not None:
        wanted = template.replace("{host}", host.name)
        if wanted in nodes:
            return wanted
        return Block(kind="node-not-found", summary=f"the scheduler has no node named {wanted}", hint=_HINT)
    names = names_of_host(host)
    matches = sorted(node for node, known in nodes.items() if known & names)
    if len(matches) == 1:
        return matches[0]
    if not matches:
        return Block(
            kind="node-not-found",
            summary=f"no node of the scheduler has a name or an address of this host ({', '.join(sorted(names))})",
            hint=_HINT,
        )
    some = ", ".join(matches[:4]) + (", …" if len(matches) > 4 else "")
    return Block(kind="node-ambiguous", summary=f"{len(matches)} nodes match this host: {some}", hint=_HINT)


def _shared(node: str, found: Mapping[str, str | Block]) -> Block:
    hosts = ", ".join(sorted(host for host, other in found.items() if other == node))
    return Block(kind="node-ambiguous", summary=f"node {node} matches several hosts: {hosts}", hint=_HINT)


def _plain(name: str) -> str:
    return name.strip().rstrip(".").lower()


_HINT = "name the node in the inventory: scheduler: {…, node: NAME}"
