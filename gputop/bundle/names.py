"""The book of names: what stands for what, the same in a whole bundle. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable

SYSTEM_USERS = frozenset({
    "root", "daemon", "bin", "sys", "nobody", "sshd", "systemd-network", "systemd-resolve", "messagebus",
    "syslog", "nvidia-persistenced", "dcgm", "nvidia-dcgm", "slurm", "munge", "kube", "containerd", "docker",
    "gdm", "lightdm", "postgres", "www-data",
})  # fmt: skip
"""Accounts that are no people."""

EVERYWHERE = frozenset({"host", "domain", "user", "id", "addr", "mac", "email"})
"""Kinds that are replaced in running text too; of other kinds only what no ordinary word looks like."""

SHORTEST_NUMBER = 6
"""A shorter number is no name in running text: too much else looks like it."""
SHORTEST_PART = 3
"""A host name up to its first dot is a name of its own from here on."""

PRIVATE = frozenset({"lan", "local", "localdomain", "internal", "intern", "corp", "home", "cluster", "hpc"})
"""Domains of a single label that machines of a site have."""

_RUN = re.compile(r"[^\W_]+")
_UNLIKE_A_WORD = re.compile(r".*[\d/_ -]")


class Names:
    """Knows names and gives each its pseudonym."""

    def __init__(self, real: Iterable[str] = ()) -> None:
        """`real`: names that somebody has, so that no pseudonym is one of them."""
        self._real = {name.lower() for name in real}
        self._exact: dict[str, str] = {}
        self._folded: dict[str, str] = {}
        """Host names and the like, in lower case."""
        self._by_run: dict[str, list[tuple[int, str, bool]]] = {}
        """First letters and digits of a name, in lower case -> where in the name they begin, the name, whether its case
        counts."""
        self._originals: dict[str, list[str]] = {}
        self._counts: Counter[str] = Counter()
        self.domains: set[str] = set()
        """Of known hosts, in lower case."""

    @property
    def originals(self) -> dict[str, list[str]]:
        """Pseudonym -> what it stands for: the key to a bundle, to be kept apart from it."""
        return {pseudonym: list(its) for pseudonym, its in self._originals.items()}

    def find(self, name: str) -> str | None:
        return self._exact.get(name) or self._folded.get(name.lower())

    def know_host(self, aliases: Iterable[str], *, and_short: bool = True) -> None:
        """All names of one machine. Addresses among them are none: those are told by their form. `and_short`: the part
        before the first dot is a name of it too."""
        names = [name.strip().rstrip(".") for name in aliases]
        names = list(dict.fromkeys(name for name in names if name and not is_address(name)))
        full = [name for name in names if "." in name]
        if and_short:
            parts = (name.partition(".")[0] for name in full)
            names += [part for part in parts if len(part) >= SHORTEST_PART and part not in names]
        known = next(filter(None, map(self.find, names)), None)
        for name in names:
            known = self.know(name, "host", has_case=False, pseudonym=known)
        for name in full:
            labels = name.lower().split(".")[1:]
            for first in range(len(labels)):
                self._know_domain(".".join(labels[first:]))

    def know_user(self, name: str) -> str:
        """An account, with or without its domain (`CORP\\ann`); accounts that are no people keep their names."""
        if not name or name in SYSTEM_USERS:
            return name
        pseudonym = None
        for part in dict.fromkeys((name.rpartition("\\")[2], name)):
            if part and part not in SYSTEM_USERS:
                pseudonym = self.know(part, "user", pseudonym=pseudonym)
        return pseudonym or name

    def know(self, name: str, kind: str, *, has_case: bool = True, pseudonym: str | None = None) -> str:
        """The pseudonym of `name`, which is remembered."""
        known = self.find(name)
        if known is not None:
            return known
        self._real.add(name.lower())
        chosen = pseudonym or self._new(kind)
        (self._exact if has_case else self._folded)[name if has_case else name.lower()] = chosen
        self._originals.setdefault(chosen, []).append(name)
        run = _RUN.search(name)
        if run is not None and _stands_out(name, kind):
            key = name if has_case else name.lower()
            self._by_run.setdefault(run[0].lower(), []).append((run.start(), key, has_case))
        return chosen

    def at(self, text: str, start: int, end: int, least: int) -> tuple[int, int, str] | None:
        """The longest known name whose first letters and digits are `text[start:end]`: where it begins (not before
        `least`) and ends, and its pseudonym. A name inside of a longer word is none."""
        best: tuple[int, int, str] | None = None
        for offset, name, has_case in self._by_run.get(text[start:end].lower(), ()):
            begin, stop = start - offset, start - offset + len(name)
            there = text[max(begin, 0) : stop]
            if begin < least or (there if has_case else there.lower()) != name:
                continue
            if name[-1].isalnum() and text[stop : stop + 1].isalnum():
                continue
            if best is None or stop - begin > best[1] - best[0]:
                best = begin, stop, (self._exact if has_case else self._folded)[name]
        return best

    def _know_domain(self, domain: str) -> None:
        """One of two labels or more tells whose it is; one of a single label is a name of nobody."""
        if "." in domain:
            self.know(domain, "domain", has_case=False)
        if "." in domain or domain in PRIVATE:
            self.domains.add(domain)

    def _new(self, kind: str) -> str:
        while True:
            self._counts[kind] += 1
            pseudonym = f"{kind}-{self._counts[kind]}"
            if pseudonym not in self._real:
                return pseudonym


def _stands_out(name: str, kind: str) -> bool:
    if name.isdigit():
        return len(name) >= SHORTEST_NUMBER
    return kind in EVERYWHERE or (len(name) >= SHORTEST_NUMBER and _UNLIKE_A_WORD.match(name) is not None)


def is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True
