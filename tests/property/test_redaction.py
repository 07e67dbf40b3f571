"""No name and no address is left anywhere in a redacted bundle: not in a file, its name, or the archive's own words."""

from __future__ import annotations

import gzip
import re
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from gputop.bundle.items import Data, Gathered, Item, Lines, Order, Packed, Text
from gputop.bundle.write import Known, Made, write_bundle
from gputop.domain.host import Endpoint, Host
from tests.fakes.acts import a_host
from tests.fakes.builders import a_link
from tests.fakes.clock import START

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORD = st.text(LETTERS, min_size=2, max_size=6).map(lambda text: f"q{text}z")
"""Begins and ends as no word of the formats does."""
LABEL = st.builds(lambda word, number: f"{word}{number}", WORD, st.integers(0, 99))
HOST = st.builds(lambda parts, sign: sign.join(parts), st.lists(LABEL, min_size=1, max_size=3), st.sampled_from("-_"))
FULL = st.builds(lambda host, domain: f"{host}.{domain}", HOST, st.builds(lambda a, b: f"{a}.{b}", LABEL, WORD))
USER = st.builds(lambda word, sign, other: word + sign + other, WORD, st.sampled_from(["", ".", "-", "_"]), WORD)
FOUR = st.ip_addresses(v=4).filter(lambda address: not (address.is_loopback or address.is_unspecified)).map(str)
SIX = st.ip_addresses(v=6).filter(lambda address: not (address.is_loopback or address.is_unspecified))
MAC = st.lists(st.integers(0, 255), min_size=6, max_size=6).map(lambda its: ":".join(f"{one:02x}" for one in its))
BESIDE = st.sampled_from(
    [" ", "\n", "/", "(", ")", '"', "'", "=", ",", ";", "@", "\t", "<", ">", "[", "]", "\x1b", "\udcff"]
)
NOISE = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=8)


@st.composite
def worlds(draw: st.DrawFn) -> dict[str, Any]:
    """Names of machines and people, and a text in which they stand."""
    hosts = draw(st.lists(HOST, min_size=1, max_size=3, unique_by=str.lower))
    fulls = draw(st.lists(FULL, min_size=len(hosts), max_size=len(hosts), unique=True))
    users = draw(st.lists(USER, min_size=1, max_size=3, unique=True))
    addresses = draw(st.lists(FOUR, min_size=1, max_size=3, unique=True))
    told = [
        *hosts,
        *fulls,
        *users,
        *addresses,
        *(str(six) for six in draw(st.lists(SIX, max_size=2))),
        *draw(st.lists(MAC, max_size=2)),
    ]
    pieces = draw(st.lists(st.tuples(NOISE, BESIDE, st.sampled_from(told), BESIDE), min_size=1, max_size=12))
    text = "".join(f"{noise}{left}{name}{right}" for noise, left, name, right in pieces)
    return {"hosts": hosts, "fulls": fulls, "users": users, "addresses": addresses, "told": told, "text": text}


def known(world: dict[str, Any]) -> Known:
    hosts: dict[str, Host] = {}
    for number, (name, full) in enumerate(zip(world["hosts"], world["fulls"], strict=True)):
        host = a_host(name, link=a_link())
        address = world["addresses"][number % len(world["addresses"])]
        user = world["users"][number % len(world["users"])]
        spec = structs.replace(host.spec, name=name, address=full, user=user, jump=(f"{world['users'][-1]}@{full}:22",))
        endpoint = Endpoint(address=address, user=user, jump=(f"{user}@{address}:22",))
        hosts[name] = structs.replace(host, spec=spec, endpoint=endpoint)
    return Known(specs={name: host.spec for name, host in hosts.items()}, hosts=hosts)


def gathered(world: dict[str, Any], fleet: Known) -> list[Gathered]:
    text, users = world["text"], world["users"]
    data = {
        "name": world["hosts"][0],
        "summary": text,
        "processes": [{"pid": 1, "user": user, "command": f"/home/{user}/x {text}", "name": user} for user in users],
        "nodes": world["fulls"],
        "labels": {"owner": text},
        "reason": text,
    }
    items = (
        Item(
            path="a.txt",
            what="a",
            command=f"look {world['fulls'][0]}",
            body=Text.of(text.encode("utf-8", "surrogateescape")),
        ),
        Item(path="b.json", what="b", body=Data(value=_sound(data))),
        Item(path="c.jsonl", what="c", body=Lines(values=(_sound(data), _sound({"user": users[-1]})))),
        Item(path="d.log.gz", what="d", body=Packed(content=gzip.compress(text.encode("utf-8", "surrogateescape")))),
        Item(path="e.txt", what="e", problem=_sound(f"failed: {text}")),
    )
    return [Gathered(host=name, answered=True, link=host.link, items=items) for name, host in fleet.hosts.items()]


def _sound(value: Any) -> Any:
    """Text of JSON is UTF-8."""
    return msgspec.json.decode(msgspec.json.encode(_replaced(value)))


def _replaced(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {key: _replaced(each) for key, each in value.items()}
        case list():
            return [_replaced(each) for each in value]
    return value


def found_in(content: str, name: str) -> bool:
    """Whether `name` stands in `content` as a word of its own."""
    return re.search(rf"(?<![^\W_]){re.escape(name)}(?![^\W_])", content, re.IGNORECASE) is not None


@given(world=worlds())
@settings(max_examples=80, deadline=None)
def test_no_name_and_no_address_is_left(world: dict[str, Any]) -> None:
    fleet = known(world)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "x.tar.gz"
        order = Order(hosts=tuple(world["hosts"]), redact=True)
        made = write_bundle(gathered(world, fleet), fleet, order, START, source="ssh", target=target)
        assert isinstance(made, Made), made
        assert made.names is not None
        key = msgspec.json.decode(made.names.read_bytes())["names"]
        with tarfile.open(target) as archive:
            contents = {entry.name: archive.extractfile(entry).read() for entry in archive.getmembers()}  # type: ignore[union-attr]
            owners = {(entry.uid, entry.gid, entry.uname, entry.gname) for entry in archive.getmembers()}
    assert owners == {(0, 0, "", "")}
    assert all(not path.endswith(".gz") for path in contents)
    originals = {*world["told"], *world["hosts"], *world["fulls"], *world["users"], *world["addresses"]}
    for path, content in contents.items():
        text = path + "\n" + content.decode("utf-8", "surrogateescape")
        for name in originals:
            assert not found_in(text, name), (name, path)
    pseudonyms = set(key)
    assert all(not found_in(" ".join(pseudonyms), name) for name in originals)


@given(world=worlds())
@settings(max_examples=20, deadline=None)
def test_the_same_name_has_the_same_pseudonym_in_every_file(world: dict[str, Any]) -> None:
    fleet = known(world)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "x.tar.gz"
        order = Order(hosts=tuple(world["hosts"]), redact=True)
        made = write_bundle(gathered(world, fleet), fleet, order, START, source="ssh", target=target)
        assert isinstance(made, Made), made
        with tarfile.open(target) as archive:
            contents = [
                archive.extractfile(entry).read() for entry in archive if entry.name.endswith(("a.txt", "d.log"))
            ]  # type: ignore[union-attr]
    assert len(set(contents)) == 1
