"""Inventories: whatever the text, there is an answer; and what is expanded folds back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gputop.configfile import ConfigProblem, Document, parse
from gputop.inventory.expand import BadPattern, expand, fold, split
from gputop.inventory.load import Inventory, load
from gputop.inventory.schema import InventoryFile
from gputop.inventory.select import Target, parse_target, select

letters = st.text("abz", min_size=1, max_size=3)


@st.composite
def ranges(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A pattern with up to two brackets, and the names that it stands for, by hand."""
    pattern, names = draw(letters), [""]
    names = [pattern]
    for _ in range(draw(st.integers(1, 2))):
        width = draw(st.integers(1, 3))
        first = draw(st.integers(0, 10**width - 1))
        last = draw(st.integers(first, min(first + 12, 10**width - 1)))
        step = draw(st.integers(1, 4))
        tail = draw(letters)
        numbers = [str(number).zfill(width) for number in range(first, last + 1, step)]
        pattern += f"[{str(first).zfill(width)}-{str(last).zfill(width)}/{step}]{tail}"
        names = [name + number + tail for name in names for number in numbers]
    return pattern, names


@given(ranges())
def test_a_range_stands_for_all_its_numbers_in_order(case: tuple[str, list[str]]) -> None:
    pattern, names = case
    assert list(expand(pattern)) == names  # type: ignore[arg-type]


@given(st.lists(ranges(), min_size=1, max_size=3))
def test_what_is_folded_expands_to_the_same_names(cases: list[tuple[str, list[str]]]) -> None:
    names = [name for _, part in cases for name in part]
    again = expand(fold(names))
    assert not isinstance(again, BadPattern)
    assert sorted(again) == sorted(set(names))


PATTERN_CHARACTERS = st.text(st.sampled_from("ab01239[]-,/.:@ ٣é{}*!&^%\x1b\n"), max_size=20)


@given(PATTERN_CHARACTERS | st.text(max_size=20))
def test_any_text_is_a_pattern_or_a_reason(text: str) -> None:
    hosts = expand(text)
    if isinstance(hosts, BadPattern):
        assert hosts.summary.isprintable()
    else:
        assert hosts
        assert all(name and not name.startswith("-") and name.isprintable() and " " not in name for name in hosts)


@given(PATTERN_CHARACTERS | st.text(max_size=20))
def test_any_word_is_a_host_or_a_reason(text: str) -> None:
    target = parse_target(text)
    if isinstance(target, Target):
        assert target.port is None or 1 <= target.port <= 65535
    specs = select([text], Inventory(), {}, 2.0)
    assert isinstance(specs, BadPattern) or len({spec.name for spec in specs}) == len(specs) > 0


@given(st.text(st.sampled_from("a,[1-2]"), max_size=12))
def test_splitting_loses_nothing_but_commas(text: str) -> None:
    assert ",".join(split(text)) == text


scalars = (
    st.none()
    | st.booleans()
    | st.integers(0, 99999)
    | st.sampled_from(["a", "gpu[1-2]", "-x", "2s", "", "@g", "~nobody/x"])
)
KEYS = st.sampled_from(["name", "user", "port", "labels", "jump", "interval", "hosts", "identity", "ssh_config"])
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | letters, inner, max_size=4),
    max_leaves=12,
)
inventories = st.fixed_dictionaries({}, optional={"defaults": trees, "hosts": st.lists(trees), "groups": trees})


@given(trees | inventories)
def test_any_yaml_is_an_inventory_or_a_list_of_places(tmp_path_factory: Any, tree: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(yaml.safe_dump(tree), encoding="utf-8")
    loaded = load([path])
    assert isinstance(loaded, Inventory) or (loaded and all(isinstance(one, ConfigProblem) for one in loaded))


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_an_inventory_or_a_list_of_places(data: bytes) -> None:
    parsed = parse(data, InventoryFile, file="f")
    assert isinstance(parsed, Document) or parsed


@given(inventories)
def test_the_walk_accepts_what_msgspec_accepts_and_gives_the_same_value(tree: dict[str, Any]) -> None:
    """Times are written otherwise than msgspec writes them, so they are left out here."""
    text = yaml.safe_dump(tree)
    if "interval" in text:
        return
    parsed = parse(text.encode(), InventoryFile, file="f")
    try:
        right = msgspec.convert(tree, InventoryFile)
    except msgspec.ValidationError:
        assert isinstance(parsed, list)
    else:
        assert isinstance(parsed, Document)
        assert parsed.value == right


def test_five_thousand_hosts_come_out_in_one_piece(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    entries = "".join(
        f"- {{name: gpu{i:04}, address: 10.0.{i // 250}.{i % 250}, user: ops, labels: {{rack: r{i // 8}}}}}\n"
        for i in range(5000)
    )
    path.write_text(f"hosts:\n{entries}groups: {{all: {{hosts: ['gpu[0000-4999]']}}}}\n", encoding="utf-8")
    loaded = load([path])
    assert isinstance(loaded, Inventory)
    assert len(loaded.specs) == len(loaded.groups["all"]) == 5000
    assert loaded.specs[4999].address == "10.0.19.249"
