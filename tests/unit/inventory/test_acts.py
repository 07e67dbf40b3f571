"""`scheduler`, `power` and `policy` of the inventory."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gputop.domain.backend import CommandPower, Ec2, Kubernetes, NoScheduler, Slurm, SshPower
from gputop.domain.host import HostSpec
from gputop.domain.policy import POLICY
from gputop.inventory.dump import as_file
from gputop.inventory.load import Inventory, load


def loaded(folder: Path, text: str) -> dict[str, HostSpec]:
    found = load([written(folder, text)])
    assert isinstance(found, Inventory), found
    return {spec.name: spec for spec in found.specs}


def written(folder: Path, text: str) -> Path:
    path = folder / "inventory.yaml"
    path.write_text(text)
    return path


def mistakes(folder: Path, text: str) -> list[str]:
    found = load([written(folder, text)])
    assert isinstance(found, list)
    return [f"{problem.line}:{problem.column}: {problem.summary}" for problem in found]


FILE = """\
defaults:
  scheduler: slurm
  policy: {max_percent: 20, drain_deadline: 12h, wall: false}
hosts:
  - name: a
  - name: b
    scheduler: {kind: kubernetes, context: prod}
    power: {kind: ec2, instance_id: i-0abc, region: eu-central-1}
    policy: {max_percent: 12.5, ignore_processes: [Xorg]}
  - name: c
    scheduler: none
    power: ssh
  - name: d
    scheduler: null
    power: {kind: command, status: [hcloud, status, "{id}"], stop: [hcloud, stop], id: "7"}
groups:
  train: {hosts: [a, b], policy: {min_active: 2, max_percent: 30, pre_drain: [/opt/pre, "{host}"]}}
"""


def test_schedulers_and_power_are_words_or_settings(tmp_path: Path) -> None:
    specs = loaded(tmp_path, FILE)
    assert specs["a"].scheduler == Slurm()
    assert specs["a"].power is None
    assert specs["b"].scheduler == Kubernetes(context="prod")
    assert specs["b"].power == Ec2(instance_id="i-0abc", region="eu-central-1")
    assert specs["c"].scheduler == NoScheduler()
    assert specs["c"].power == SshPower()
    assert specs["d"].scheduler is None
    assert isinstance(specs["d"].power, CommandPower)
    assert specs["d"].power.status == ("hcloud", "status", "{id}")


def test_a_policy_is_laid_over_key_by_key(tmp_path: Path) -> None:
    specs = loaded(tmp_path, FILE)
    b = specs["b"].policy
    assert (b.max_percent, b.min_active, b.drain_deadline_seconds, b.wall) == (12.5, 2, 12 * 3600.0, False)
    assert b.pre_drain == ("/opt/pre", "{host}")
    assert b.ignore_processes == ("Xorg",)
    assert specs["a"].policy.max_percent == 30
    assert specs["c"].policy.max_percent == 20
    assert specs["c"].policy.min_active == POLICY.min_active


def test_what_is_dumped_gives_the_same_hosts_when_it_is_loaded(tmp_path: Path) -> None:
    specs = loaded(tmp_path, FILE)
    dumped = yaml.safe_dump(as_file(tuple(specs.values()), {"train": ("a", "b")}))
    assert loaded(tmp_path, dumped) == specs


@pytest.mark.parametrize(
    ("line", "summary"),
    [
        ("scheduler: pbs", '"scheduler" in host "a" must be'),
        ("scheduler: {kind: pbs}", 'the "kind" of "scheduler" must be none, slurm or kubernetes'),
        ("scheduler: {via: login}", 'the "kind" of "scheduler" must be'),
        ("scheduler: {kind: kubernetes}", 'has no "context"'),
        ("power: {kind: ec2, instanceid: i-1}", 'unknown key "instanceid"'),
        ("policy: {max_hosts: 0}", '"max_hosts" in policy must be a whole number from 1 to'),
        ("policy: {max_percent: 101}", '"max_percent" in policy must be a number from 0 to 100'),
        ("policy: {drain_deadline: 30}", '"drain_deadline" in policy must be a time'),
        ("policy: {drain_deadline: 99999h}", '"drain_deadline" must be above 0 and at most'),
        ("policy: {pre_drain: /opt/pre}", '"pre_drain" in policy must be a list'),
        ("policy: {blast: 3}", 'unknown key "blast" in policy'),
        ("policy: {stop_units: [launcher, '*']}", '"*" is not the name of one systemd unit'),
        ("policy: {stop_units: [--now]}", '"--now" is not the name of one systemd unit'),
        ("power: {kind: ipmi, address: bmc, password: hunter2}", "a password is named as env:NAME or file:/path"),
    ],
)
def test_mistakes_have_their_place(tmp_path: Path, line: str, summary: str) -> None:
    [found, *_] = mistakes(tmp_path, f"hosts:\n  - name: a\n    {line}\n")
    assert found.startswith("3:")
    assert summary in found


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("scheduler: kubernetes", "kubernetes has settings of its own: scheduler: {kind: kubernetes, context: …}"),
        ("power: ec2", "ec2 has settings of its own: power: {kind: ec2}"),
        ("power: redfish", "redfish has settings of its own: power: {kind: redfish, url: …}"),
    ],
)
def test_a_kind_whose_word_is_not_enough_is_shown_with_its_settings(tmp_path: Path, line: str, hint: str) -> None:
    problems = load([written(tmp_path, f"hosts:\n  - name: a\n    {line}\n")])
    assert isinstance(problems, list)
    assert [problem.hint for problem in problems] == [hint]


def test_groups_that_contradict_each_other_about_a_policy_are_an_error(tmp_path: Path) -> None:
    text = "hosts: [a]\ngroups:\n  x: {hosts: [a], policy: {at_once: 2}}\n  y: {hosts: [a], policy: {at_once: 3}}\n"
    [found] = mistakes(tmp_path, text)
    assert 'different values for "at_once"' in found


@pytest.mark.parametrize("place", ["defaults", "group", "host"])
def test_a_scheduler_is_asked_on_a_host_that_is_listed(tmp_path: Path, place: str) -> None:
    scheduler = "scheduler: {kind: slurm, via: logn-1}"
    texts = {
        "defaults": f"defaults:\n  {scheduler}\nhosts: [login-1, 'gpu-[1-3]']\n",
        "group": f"hosts: [login-1, gpu-1]\ngroups:\n  x:\n    hosts: [gpu-1]\n    {scheduler}\n",
        "host": f"hosts:\n  - login-1\n  - name: gpu-[1-3]\n    {scheduler}\n",
    }
    [found] = mistakes(tmp_path, texts[place])
    assert found.startswith({"defaults": "2:", "group": "5:", "host": "4:"}[place])
    assert '"logn-1" is not listed under "hosts"' in found
