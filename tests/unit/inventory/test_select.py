"""Host words of a command line."""

from __future__ import annotations

import pytest

from gputop.domain.host import HostSpec
from gputop.inventory.expand import BadPattern
from gputop.inventory.load import Inventory
from gputop.inventory.select import Target, exclude, parse_target, parts, select

INVENTORY = Inventory(
    specs=(
        HostSpec(name="gpu1", user="ops", port=2201, groups=("train",)),
        HostSpec(name="gpu2", address="10.0.0.2", interval_seconds=5.0),
        HostSpec(name="gpu3"),
    ),
    groups={"train": ("gpu1",), "nobody": ()},
    files=("inventory.yaml",),
)


def chosen(*words: str, inventory: Inventory = INVENTORY, **options: object) -> tuple[HostSpec, ...]:
    specs = select(parts(words), inventory, options, 2.0)
    assert not isinstance(specs, BadPattern), specs
    return specs


def refused(*words: str) -> str:
    specs = select(parts(words), INVENTORY, {}, 2.0)
    assert isinstance(specs, BadPattern)
    return f"{specs.summary}; {specs.hint}"


@pytest.mark.parametrize(
    ("word", "target"),
    [
        ("gpu1", Target(host="gpu1")),
        ("ops@gpu1", Target(host="gpu1", user="ops")),
        ("ops@corp@gpu1:22", Target(host="gpu1", user="ops@corp", port=22)),
        ("gpu1:2222", Target(host="gpu1", port=2222)),
        ("[::1]:22", Target(host="::1", port=22)),
        ("ops@[2001:db8::1]", Target(host="2001:db8::1", user="ops")),
        ("::1", Target(host="::1")),
        ("gpu[1-2]:22", Target(host="gpu[1-2]", port=22)),
        ("@train", Target(host="@train")),
    ],
)
def test_a_word_is_taken_apart(word: str, target: Target) -> None:
    assert parse_target(word) == target


@pytest.mark.parametrize(
    "word", ["h:", "h:0", "h:65536", "h:x", "[::1", "[::1]22", "[::1]:", "[::g]:22", "-l@h", "h:²"]
)
def test_a_word_that_is_no_host_is_refused(word: str) -> None:
    bad = parse_target(word)
    assert isinstance(bad, BadPattern)
    assert f'"{word}' in bad.summary


def test_a_name_of_the_inventory_means_its_entry_whatever_its_case() -> None:
    assert chosen("GPU2", "gpu1") == (INVENTORY.specs[1], INVENTORY.specs[0])


def test_without_words_all_of_the_inventory_is_meant() -> None:
    assert chosen() == INVENTORY.specs


def test_a_name_that_is_not_listed_is_left_to_ssh() -> None:
    assert chosen("new") == (HostSpec(name="new"),)


def test_a_group_means_its_hosts() -> None:
    assert chosen("@train") == (INVENTORY.specs[0],)


def test_options_beat_the_inventory_and_the_word_beats_both() -> None:
    (one, two) = chosen("gpu1", "me@gpu2:9", user="you", port=7)
    assert (one.user, one.port) == ("you", 7)
    assert (two.user, two.port, two.address) == ("me", 9, "10.0.0.2")


def test_a_host_named_twice_is_watched_once() -> None:
    assert [spec.name for spec in chosen("gpu3,gpu3", "GPU3", "gpu[3]")] == ["gpu3"]


def test_hosts_on_one_machine_get_names_of_their_own() -> None:
    specs = chosen("root@127.0.0.1:2201", "127.0.0.1:2202", "x")
    assert [(spec.name, spec.address) for spec in specs] == [
        ("127.0.0.1:2201", "127.0.0.1"),
        ("127.0.0.1:2202", "127.0.0.1"),
        ("x", None),
    ]
    assert [spec.name for spec in chosen("a@h", "b@h", "[::1]:1", "[::1]:2")] == ["a@h", "b@h", "[::1]:1", "[::1]:2"]


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("@trian", 'unknown group "@trian" in inventory.yaml; did you mean "train"?'),
        ("@xyz", "groups: train, nobody"),
        ("@nobody", 'group "nobody" has no hosts'),
        ("gpu[3-1]", "start after end"),
        ("gpu[1-20000]", "more than 10,000 hosts"),
        ("-oProxyCommand=x", 'begins with "-"'),
        ("a b", "holds a blank"),
    ],
)
def test_a_bad_word_is_refused_with_a_reason(word: str, reason: str) -> None:
    assert reason in refused(word)


def test_a_group_without_any_inventory_says_that_there_is_none() -> None:
    bad = select(["@train"], Inventory(), {}, 2.0)
    assert isinstance(bad, BadPattern)
    assert "no inventory file was found" in bad.summary


def test_excluded_hosts_are_left_out() -> None:
    assert exclude(["gpu[1-2]"], INVENTORY.specs, INVENTORY) == (INVENTORY.specs[2],)
    assert exclude(["@train"], INVENTORY.specs, INVENTORY) == INVENTORY.specs[1:]
    assert exclude([], INVENTORY.specs, INVENTORY) == INVENTORY.specs


def test_excluding_a_host_that_is_not_watched_is_a_mistake() -> None:
    bad = exclude(["gpu33"], INVENTORY.specs, INVENTORY)
    assert isinstance(bad, BadPattern)
    assert bad.hint == 'did you mean "gpu3"?'
