"""Inventory files: layers, groups, several files, mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.domain.host import HostKeyPolicy, HostSpec
from gputop.inventory.dump import as_file
from gputop.inventory.load import Inventory, load

EXAMPLE = Path(__file__).parents[3] / "inventory.example.yaml"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def inventory(*texts: str) -> Inventory:
    loaded = load(_written(*texts))
    assert isinstance(loaded, Inventory), "\n".join(map(str, loaded))
    return loaded


def mistakes(*texts: str) -> list[str]:
    loaded = load(_written(*texts))
    assert isinstance(loaded, list), loaded
    return [str(problem) for problem in loaded]


def _written(*texts: str) -> list[Path]:
    paths = [Path(f"{'abc'[i]}.yaml") for i in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def host(loaded: Inventory, name: str) -> HostSpec:
    return next(spec for spec in loaded.specs if spec.name == name)


def test_the_example_loads_and_shows_every_key() -> None:
    loaded = load([EXAMPLE])
    assert isinstance(loaded, Inventory), "\n".join(map(str, loaded))
    assert len(loaded.specs) == 11
    lab = host(loaded, "gpu-lab")
    assert lab.ssh_config == ()
    assert lab.known_hosts == (str(EXAMPLE.parent / "known_hosts.lab"),)
    assert host(loaded, "gpu-a").labels == {"pool": "train", "rack": "r1", "owner": "vision"}
    assert host(loaded, "gpu101.dc2.example.net").jump == ("bastion-1",)


def test_every_key_of_a_host_reaches_its_spec(home: Path) -> None:
    text = """
hosts:
- name: gpu-a
  address: "[2001:db8::1]"
  port: 2201
  user: root
  identity: ~/.ssh/id_ed25519
  jump: [b1, ops@b2:22]
  known_hosts: [kh, /etc/kh]
  ssh_config: ~/.ssh/config
  python: /opt/py/bin/python3
  nvml_library: /usr/lib/x/libnvidia-ml.so.1
  interval: 500ms
  host_keys: accept-new
  labels: {rack: r1}
  protected: true
  expect_devices: 8
"""
    assert inventory(text).specs == (
        HostSpec(
            name="gpu-a",
            address="2001:db8::1",
            port=2201,
            user="root",
            identity=(f"{home}/.ssh/id_ed25519",),
            jump=("b1", "ops@b2:22"),
            known_hosts=(f"{Path.cwd()}/kh", "/etc/kh"),
            ssh_config=(f"{home}/.ssh/config",),
            python="/opt/py/bin/python3",
            nvml_library="/usr/lib/x/libnvidia-ml.so.1",
            interval_seconds=0.5,
            host_keys=HostKeyPolicy.ACCEPT_NEW,
            labels={"rack": "r1"},
            protected=True,
            expect_devices=8,
        ),
    )


def test_a_name_alone_leaves_everything_to_ssh() -> None:
    assert inventory("hosts: [gpu1]").specs == (HostSpec(name="gpu1"),)


def test_the_order_of_the_file_is_kept() -> None:
    assert [spec.name for spec in inventory("hosts: [z9, 'b[1-2]', a]").specs] == ["z9", "b1", "b2", "a"]


def test_a_host_beats_its_group_and_a_group_beats_the_defaults() -> None:
    text = """
defaults: {user: d, port: 1, python: /d, labels: {a: d, b: d, c: d}}
hosts: [{name: x, user: h, labels: {a: h}}, y]
groups: {g: {hosts: [x], user: g, port: 2, labels: {a: g, b: g}}}
"""
    loaded = inventory(text)
    x, y = loaded.specs
    assert (x.user, x.port, x.python) == ("h", 2, "/d")
    assert x.labels == {"a": "h", "b": "g", "c": "d"}
    assert (y.user, y.port, y.labels) == ("d", 1, {"a": "d", "b": "d", "c": "d"})
    assert (x.groups, y.groups, loaded.groups) == (("g",), (), {"g": ("x",)})


def test_null_takes_back_what_a_group_says() -> None:
    loaded = inventory(
        "defaults: {jump: b, ssh_config: c}\nhosts: [{name: x, jump: null, ssh_config: null}, {name: y, jump: []}]"
    )
    assert [(spec.jump, spec.ssh_config) for spec in loaded.specs] == [((), ()), ((), (f"{Path.cwd()}/c",))]


def test_a_bastion_is_not_reached_through_itself() -> None:
    loaded = inventory("defaults: {jump: [b1, b2]}\nhosts: [b1, b2, x]")
    assert [spec.jump for spec in loaded.specs] == [(), ("b1",), ("b1", "b2")]


def test_a_range_may_have_a_range_of_addresses() -> None:
    loaded = inventory("hosts: [{name: 'gpu[1-3]', address: '10.0.0.[7-9]', user: u}]")
    assert [(s.name, s.address, s.user) for s in loaded.specs] == [
        ("gpu1", "10.0.0.7", "u"),
        ("gpu2", "10.0.0.8", "u"),
        ("gpu3", "10.0.0.9", "u"),
    ]


def test_two_names_may_stand_for_one_address() -> None:
    assert len(inventory("hosts: [{name: a, address: h}, {name: b, address: h}]").specs) == 2


def test_files_merge_and_groups_unite() -> None:
    loaded = inventory(
        "hosts: [a, b]\ngroups: {g: {hosts: [a], user: u}}",
        "defaults: {port: 7}\nhosts: [c]\ngroups: {g: {hosts: [c, b], labels: {k: v}}, h: {hosts: [a]}}",
    )
    assert loaded.groups == {"g": ("a", "c", "b"), "h": ("a",)}
    assert [(s.name, s.user, s.port, s.labels) for s in loaded.specs] == [
        ("a", "u", None, {"k": "v"}),
        ("b", "u", None, {"k": "v"}),
        ("c", "u", 7, {"k": "v"}),
    ]
    assert loaded.files == ("a.yaml", "b.yaml")


def test_a_host_in_two_files_must_be_the_same() -> None:
    assert len(inventory("hosts: [{name: a, user: u}]", "defaults: {user: u}\nhosts: [a]").specs) == 1
    assert mistakes("hosts: [{name: a, user: u}]", "\nhosts: [a]") == [
        'b.yaml:2:9: host "a" differs between two files\n        it is listed otherwise at a.yaml:1'
    ]


def test_groups_that_contradict_each_other_are_named_with_both_lines() -> None:
    text = """hosts: ["x[1-3]"]
groups:
  g: {hosts: ["x[1-3]"], user: a, labels: {pool: p, rack: r}}
  h:
    hosts: ["x[1-2]"]
    user: b
    labels: {pool: q, rack: r}
"""
    assert mistakes(text) == [
        'a.yaml:6:11: groups "g" and "h" give host "x1" different values for "user"\n'
        '        the other stands at a.yaml:3; give the host its own "user", or take it out of one group',
        'a.yaml:7:20: groups "g" and "h" give host "x1" different values for label "pool"\n'
        '        the other stands at a.yaml:3; give the host its own "pool", or take it out of one group',
    ]


def test_a_host_that_says_it_itself_settles_what_its_groups_dispute() -> None:
    text = "hosts: [{name: x, user: c}]\ngroups: {g: {hosts: [x], user: a}, h: {hosts: [x], user: b}}"
    assert inventory(text).specs[0].user == "c"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hosts:\n- gpu[3-1]\n", 'a.yaml:2:3: "gpu[3-1]": start after end'),
        ("hosts:\n- name: gpu[1-\n", 'a.yaml:2:9: "gpu[1-": bracket not closed'),
        ("hosts:\n- gpu[1-99999999]\n", "a.yaml:2:3: "),
        ("hosts: ['a[1-9999]', 'b[1-2]']", 'a.yaml:1:22: with "b[1-2]" the inventory has more than 10,000 hosts'),
        ("hosts: [gpu1, GPU1]", 'a.yaml:1:15: host "GPU1" is listed twice\n        first at a.yaml:1'),
        ("hosts: [-x]", 'a.yaml:1:9: the host name "-x" begins with "-"'),
        ("hosts: ['a b']", "a.yaml:1:9: the host name"),
        ('hosts: ["a\\eb"]', "a.yaml:1:9: the host name"),
        ("hosts: [no]", 'quote it: "no"'),
        ("hosts: [{name: a, prot: 1}]", 'a.yaml:1:19: unknown key "prot" in host "a"\n        did you mean "port"?'),
        ("defaults: {usr: a}", 'unknown key "usr" in defaults'),
        ("hosts: [a]\ngroups: {g: {hosts: [b]}}", 'a.yaml:2:22: "b" is not listed under "hosts"'),
        ("hosts: ['gpu[1-2]']\ngroups: {g: {hosts: ['gpu[1-4]']}}", '"gpu[3-4]" of "gpu[1-4]" is not listed'),
        ("hosts: [gpu1]\ngroups: {g: {hosts: [gpu2]}}", 'did you mean "gpu1"?'),
        ("hosts: [a]\ngroups: {g: {hosts: ['@h']}}", "a group lists hosts, not groups"),
        ("hosts: [a]\ngroups: {'-g': {hosts: [a]}}", 'a group cannot be named "-g"'),
        ("defaults: {interval: 1ms}", 'a.yaml:1:22: "interval" must be between 100ms and 1h'),
        ("defaults: {user: -l}", 'a.yaml:1:18: "user" begins with "-"'),
        ("defaults: {address: a b}", '"address" holds a blank'),
        ("defaults: {jump: 'a,,b'}", '"jump" is empty'),
        ("defaults: {identity: ''}", '"identity" is empty'),
        ("hosts: [{name: a, jump: b}, {name: b, jump: A}]", 'host "a" is reached through itself (jump: b)'),
        ("hosts: [{name: a, jump: a}]", 'host "a" is reached through itself'),
        ("hosts: [{name: 'a[1-3]', address: 'b[1-2]'}]", "stands for 2 addresses, the name for 3 hosts"),
        ("all:\n  children: {}\n", "this is an Ansible inventory"),
        ("", "a.yaml: the file is empty"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, message: str) -> None:
    assert message in "\n".join(mistakes(text))


MANY = """\
defaults: {usr: ops}
hosts:
- gpu[01-6]
- {name: login1, prot: 22, user: ops}
- login1
- 7
- {name: db1, interval: 1ms}
- {name: db2, jump: db1, user: [x]}
groups:
  a: {hosts: [gpu03, login1, login7, db2, 'x[3-1]', 5]}
  b: {hosts: [db1], colour: red, user: root}
  c: {hosts: [db1], user: ann}
"""


def test_every_mistake_that_can_be_known_is_told_at_once() -> None:
    assert [line.split("\n")[0] for line in mistakes(MANY.replace("- 7\n", ""))] == [
        'a.yaml:1:12: unknown key "usr" in defaults',
        'a.yaml:3:3: "gpu[01-6]": both ends of "01-6" need the same number of digits',
        'a.yaml:4:18: unknown key "prot" in host "login1"',
        'a.yaml:5:3: host "login1" is listed twice',
        'a.yaml:6:25: "interval" must be between 100ms and 1h',
        'a.yaml:7:32: "user" in host "db2" must be a text, not a list',
        'a.yaml:9:30: "login7" is not listed under "hosts"',
        'a.yaml:9:43: "x[3-1]": start after end in "3-1"',
        'a.yaml:9:53: an entry of "hosts" in group "a" must be a text, not 5: YAML reads it as a number',
        'a.yaml:10:21: unknown key "colour" in group "b"',
    ]


def test_of_hosts_that_a_broken_entry_may_stand_for_nothing_is_said() -> None:
    assert not any("is not listed" in line for line in mistakes(MANY))
    assert len(mistakes("hosts: [a\n", "hosts: [b]\ngroups: {g: {hosts: [a, 'x[3-1]']}}\n")) == 2


def test_hosts_that_are_listed_twice_hide_no_other_mistake() -> None:
    text = "hosts: [a, a, {name: b, jump: b}]\ngroups: {g: {hosts: [c]}}\n"
    assert [line.split(": ", 1)[1].split("\n")[0] for line in mistakes(text)] == [
        'host "a" is listed twice', 'host "b" is reached through itself (jump: b)', '"c" is not listed under "hosts"',
    ]  # fmt: skip


def test_a_key_without_value_counts_as_absent() -> None:
    assert inventory("defaults:\nhosts: [a]\ngroups:\n").specs == (HostSpec(name="a"),)


def test_hosts_without_an_interval_get_the_default() -> None:
    loaded = load(_written("hosts: [a, {name: b, interval: 3s}]"), default_interval_seconds=7.0)
    assert isinstance(loaded, Inventory)
    assert [spec.interval_seconds for spec in loaded.specs] == [7.0, 3.0]


def test_no_file_is_an_empty_inventory() -> None:
    assert load([]) == Inventory()


def test_what_is_printed_loads_again() -> None:
    loaded = load([EXAMPLE])
    assert isinstance(loaded, Inventory)
    import yaml

    again = inventory(yaml.safe_dump(as_file(loaded.specs, loaded.groups), sort_keys=False))
    assert again.specs == loaded.specs
    assert again.groups == loaded.groups


def test_paths_start_at_the_folder_of_the_file(home: Path, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    path = tmp_path / "sub" / "fleet.yaml"
    path.write_text("hosts: [{name: a, identity: [k, ../k, /k, ~/k, ~nobody-here/k]}]", encoding="utf-8")
    loaded = load([path])
    assert isinstance(loaded, Inventory)
    here = tmp_path / "sub"
    assert loaded.specs[0].identity == (
        f"{here}/k", f"{tmp_path}/k", "/k", f"{home}/k", f"{here}/~nobody-here/k",
    )  # fmt: skip
