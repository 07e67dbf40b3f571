"""Puts pseudonyms in the place of names and addresses. Pure.

Two rounds: everything is learned from first, so that a name that only one text gives away is replaced in all; then each
is rewritten. What is not a name or an address stays as it is.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any

from gputop.bundle.names import Names, is_address

LEFT_OUT = "(left out)"

PROGRAMS = frozenset({
    "python", "python3", "python2", "Xorg", "Xwayland", "gnome-shell", "nvidia-cuda-mps-server",
    "nvidia-cuda-mps-control", "nvidia-smi", "nv-hostengine", "dcgmi", "nvidia-persistenced",
    "nv-fabricmanager", "java", "node", "tritonserver", "vllm", "ray", "mpirun", "orted",
})  # fmt: skip
"""Names of processes that tell nothing of who runs them."""

KEPT = frozenset({
    "schema", "state", "kind", "vendor", "model", "route", "occupancy", "severity", "profile",
    "performance_state", "compute_mode", "mode", "pending_mode", "mig_mode", "recovery_action",
    "throttle_reasons", "scheduler", "provider", "power", "admin", "fate", "act", "event", "result", "raw",
    "flags", "meaning", "pci_bus_id", "driver_version", "cuda_version", "kernel_version", "os_name",
    "python_version", "kernel_log", "gputop_version", "path", "what", "as_of", "since", "at", "sampled_at",
    "started_at", "ends_at", "observed_at", "booted_at", "time", "made_at", "sha256", "source",
})  # fmt: skip
"""Keys of gputop's own formats whose values are words of these formats, versions or times."""

BY_KEY = {
    "container": "container", "job": "job", "namespace": "namespace", "owner": "owner", "partition": "partition",
    "uuid": "id", "serial": "id", "boot_id": "id", "machine_id": "id", "instance_id": "id", "uid": "id",
    "labels": "label", "groups": "group",
}  # fmt: skip
"""Keys whose values are replaced as a whole, and by what."""

USERS = frozenset({"user", "by"})
NAMED = frozenset({"name", "host"})
HOSTS = frozenset({"node", "nodes", "hostname", "machine"})
LEAVE_OUT = frozenset({"reason", "tty"})
"""Keys that hold free text of people, or say where somebody sits."""

_OWNER = r"[\w-]+(?:\.[\w-]+)*"
_IDENTITY = re.compile(
    rf"""
    (?P<mac>(?<![0-9A-Fa-f])(?:[0-9A-Fa-f]{{2}}[:-]){{5,19}}[0-9A-Fa-f]{{2}}(?![^\W_]|[:-][0-9A-Fa-f]))
  | (?P<uuid>(?<![^\W_])[0-9A-Fa-f]{{8}}-(?:[0-9A-Fa-f]{{4}}-){{3}}[0-9A-Fa-f]{{12}}(?![^\W_]))
  | (?P<hex>(?<![^\W_])[0-9A-Fa-f]{{32}}(?![^\W_]))
  | (?P<cloud>(?<![^\W_-])(?:i|mi|eni|vol|vpc|subnet|sg|ami|r|snap)-[0-9a-f]{{8,17}}(?![^\W_]) | arn:[\w-]+:[^\s"',]+)
  | (?P<dashed>(?<![^\W_])ip-\d{{1,3}}(?:-\d{{1,3}}){{3}}(?![^\W_]))
  | (?P<six>(?<![^\W_])(?:[0-9A-Fa-f]{{0,4}}:){{2,7}}(?:\d{{1,3}}(?:\.\d{{1,3}}){{3}}|[0-9A-Fa-f]{{1,4}}|(?<=::))
        (?![^\W_]|:[0-9A-Fa-f:]))
  | (?P<four>(?<![^\W_])(?<!\d\.)\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?![^\W_]))
  | (?P<email>(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+)
  | (?P<serial>(?i:serial|guid)[^:=<>\n,]{{0,40}}[:=>]["'\s]*)(?P<number>(?=[\w.-]*\d)[\w.-]{{5,}})
  | (?P<home>/(?:home|Users)/)(?P<owner>{_OWNER})
  | (?P<run>[^\W_]+)
    """,
    re.VERBOSE,
)
_TELLS_A_USER = re.compile(
    rf"(?:\b(?:r?user|USER|LOGNAME)=|\buid=\d+\(|\bfor user |/(?:home|Users)/)['\"]?(?P<name>{_OWNER})"
)
_DOTTED = re.compile(r"(?<![\w.-])(?P<first>[^\W_][\w-]*)(?:\.[^\W_][\w-]*)*\.[A-Za-z]{2,}(?![\w-])")
"""What may be the full name of a host."""


class Redactor:
    """Rewrites texts and data by a book of names, and fills the book."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def learn(self, text: str) -> None:
        """Names that `text` gives away."""
        for found in _TELLS_A_USER.finditer(text):
            self.names.know_user(found["name"])
        for found in _DOTTED.finditer(text):
            if (self.names.find(found["first"]) or "").startswith("host-"):
                self.names.know_host([found["first"], found[0]])
        lowered = text.lower()
        for domain in tuple(self.names.domains):
            if domain in lowered:
                pattern = rf"(?<![\w.-])[\w-]+(?:\.[\w-]+)*\.{re.escape(domain)}(?![^\W_])"
                for found in re.finditer(pattern, lowered):
                    self.names.know_host([found[0]], and_short=False)

    def learn_value(self, value: Any) -> None:
        """Names that plain data gives away."""
        self.value(value)
        match value:
            case str():
                self.learn(value)
            case Mapping():
                for each in value.values():
                    self.learn_value(each)
            case list() | tuple():
                for each in value:
                    self.learn_value(each)

    # --- data -------------------------------------------------------------------------------------------------------

    def value(self, value: Any, key: str = "") -> Any:
        """Plain data with every name and address replaced, by key where that says what a value is."""
        match value:
            case str():
                return self._word(value, key)
            case Mapping() if key == "labels":
                return {self.text(name): self._word(each, key) for name, each in value.items()}
            case Mapping():
                is_process, is_work = "pid" in value, "fate" in value or "requeueable" in value
                return {name: self._field(name, each, is_process, is_work) for name, each in value.items()}
            case list() | tuple():
                return [self.value(each, key) for each in value]
        return value

    def name(self, value: str) -> str:
        """A name that stands alone; in running text a short number is none."""
        return self.names.find(value) or self.text(value)

    def _field(self, key: str, value: Any, is_process: bool, is_work: bool) -> Any:
        if isinstance(value, str) and value:
            if is_process and key == "command":
                return self.names.know(value, "command")
            if key == "process" or (is_process and key == "name"):
                return value if value in PROGRAMS else self.names.know(value, "program")
            if is_work and key == "name":
                return self.names.know(value, "job")
        return self.value(value, key)

    def _word(self, value: str, key: str) -> str:
        if not value or key in KEPT:
            return value
        if key in LEAVE_OUT:
            return LEFT_OUT
        if key in USERS:
            return self.names.know_user(value)
        if key in HOSTS:
            self.names.know_host([value], and_short=False)
            return self.names.find(value) or self.text(value)
        if key in NAMED:
            return self.name(value)
        rewritten = self.text(value)
        return self.names.know(value, BY_KEY[key]) if key in BY_KEY and rewritten == value else rewritten

    # --- running text -----------------------------------------------------------------------------------------------

    def text(self, text: str) -> str:
        """`text` with every name and address replaced."""
        last = 0
        pieces: list[str] = []
        while (found := _IDENTITY.search(text, last)) is not None:
            start, end, replacement = self._replaced(text, found, last)
            pieces += (text[last:start], replacement)
            if replacement[-1:].isdigit() and replacement != text[start:end] and text[end : end + 1].isalnum():
                pieces.append("_")  # `host-1` before a digit would read as another one
            last = end
        return "".join((*pieces, text[last:]))

    def _replaced(self, text: str, found: re.Match[str], last: int) -> tuple[int, int, str]:
        """From where to where, and by what."""
        start, end = found.span()
        whole, names = found[0], self.names
        match found.lastgroup:
            case "mac":
                return start, end, names.know(whole.lower().replace("-", ":"), "mac")
            case "uuid" | "hex" | "cloud":
                return start, end, names.know(whole.lower(), "id")
            case "dashed":
                address = whole[3:].replace("-", ".")
                return start, end, f"ip-{names.know(address, 'addr')}" if is_address(address) else whole
            case "six" | "four":
                return self._address(found)
            case "email":
                return start, end, self._at_host(whole)
            case "number":
                return start, end, self.text(found["serial"]) + names.know(found["number"], "id")
            case "owner":
                return start, end, found["home"] + (names.find(found["owner"]) or self.text(found["owner"]))
        return names.at(text, start, end, last) or (start, end, whole)

    def _address(self, found: re.Match[str]) -> tuple[int, int, str]:
        """An address. What only looks like one (a time, a version) stays up to its first mark, and the rest is looked
        at again."""
        start, end = found.span()
        if not is_address(found[0]):
            head = re.match(r"\w*\W*", found[0])
            assert head is not None
            return start, start + head.end(), head[0]
        address = ipaddress.ip_address(found[0])
        if address.is_loopback or address.is_unspecified:
            return start, end, found[0]
        return start, end, self.names.know(str(address), "addr")

    def _at_host(self, whole: str) -> str:
        """`user@host` of a known host or an address keeps its two halves; any other is an address of mail."""
        user, _, host = whole.partition("@")
        if self.names.find(host) is None and not is_address(host):
            return self.names.know(whole, "email")
        return f"{self.names.know_user(user)}@{self.text(host)}"
