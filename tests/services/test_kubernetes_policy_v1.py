"""What kubectl and gputop say to a cluster with policy/v1. The cluster is played (scripted_api.py), kubectl is real."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.domain.action import ActionKind, Block, CheckState, Step
from gputop.domain.backend import Kubernetes
from gputop.domain.clock import SystemClock
from gputop.schedulers.kubernetes import KubernetesScheduler
from tests.needs import need
from tests.services.acting import PLAIN, a_host, a_request, take, take_all
from tests.services.scripted_api import ScriptedApi, a_budget

FULL = "Cannot evict pod as it would violate the pod's disruption budget."
SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


@pytest.fixture
def api() -> Iterator[ScriptedApi]:
    api = ScriptedApi("train-a", "train-b")
    yield api
    api.close()


@pytest.fixture
def kubernetes(api: ScriptedApi, tmp_path: Path) -> KubernetesScheduler:
    kubeconfig = tmp_path / "kubeconfig"
    api.write_kubeconfig(kubeconfig)
    spec = Kubernetes(context="played", kubectl=need("kubectl"), kubeconfig=str(kubeconfig))
    return KubernetesScheduler(spec, PLAIN, SystemClock())


async def drain_of(kubernetes: KubernetesScheduler, seconds: float) -> dict[str, Step]:
    node = (await kubernetes.observe([a_host("gpu01")]))["gpu01"]
    assert node.block is None, node.block
    found = kubernetes.drain_steps(node, a_request(ActionKind.DRAIN, "gpu01", deadline_seconds=seconds))
    assert not isinstance(found, Block), found
    return {step.id.partition(".")[2]: step for step in found}


def version_of_evictions() -> str:
    """kubectl speaks policy/v1 from 1.22 on."""
    text = subprocess.run(
        [need("kubectl"), "version", "--client", "-o", "json"], capture_output=True, check=True
    ).stdout
    minor = int(json.loads(text)["clientVersion"]["minor"].rstrip("+"))
    return "policy/v1" if minor >= 22 else "policy/v1beta1"


async def test_evictions_are_policy_v1_without_a_grace_period_and_tried_without_effect_first(
    api: ScriptedApi, kubernetes: KubernetesScheduler
) -> None:
    steps = await drain_of(kubernetes, 40)
    new = version_of_evictions() == "policy/v1"
    chosen = [step for name, step in steps.items() if new or name != "trial"]  # an old one asks for OpenAPI first
    assert {check.state for check in await take_all(kubernetes, "gpu01", chosen)} == {CheckState.DONE}
    assert api.pods == {}
    assert api.node["spec"]["unschedulable"] is True
    assert api.node["metadata"]["annotations"] == {"gputop/drain": "gputop:alice:OPS-7: replace NIC, OPS-7"}
    assert {eviction["apiVersion"] for eviction in api.evictions} == {version_of_evictions()}
    assert {eviction["pod"] for eviction in api.evictions} == {"train-a", "train-b"}
    options = [eviction.get("deleteOptions") or {} for eviction in api.evictions]
    assert not any("gracePeriodSeconds" in option for option in options)
    if new:
        assert [option.get("dryRun") for option in options] == [["All"], ["All"], None, None]


async def test_a_full_budget_is_asked_again_until_it_has_room(
    api: ScriptedApi, kubernetes: KubernetesScheduler
) -> None:
    api.budgets.append(a_budget("train", 0))
    steps = await drain_of(kubernetes, 40)
    api.refusals["train-b"] = [(429, FULL)]
    await take_all(kubernetes, "gpu01", (steps["cordon"], steps["mark"]))
    before = await kubernetes.check("gpu01", steps["drain"])
    assert before.left[0] == "ml/train-a: PDB ml/train allows 0 disruptions (2 healthy, 2 wanted)"
    performed, check = await take(kubernetes, "gpu01", steps["drain"])
    assert performed is not None
    assert performed.ok
    assert check.state is CheckState.DONE
    assert [eviction["pod"] for eviction in api.evictions].count("train-b") == 2


async def test_what_the_server_refuses_for_good_ends_the_drain_and_is_named(
    api: ScriptedApi, kubernetes: KubernetesScheduler
) -> None:
    api.budgets += [a_budget("one", 1), a_budget("two", 1)]
    steps = await drain_of(kubernetes, 40)
    api.refusals["train-a"] = [(500, SEVERAL)] * 20
    api.refusals["train-b"] = [(500, SEVERAL)] * 20
    trial = await kubernetes.check("gpu01", steps["trial"])
    if version_of_evictions() == "policy/v1":
        assert trial.state is CheckState.BLOCKED
    await take_all(kubernetes, "gpu01", (steps["cordon"], steps["mark"]))
    performed = await kubernetes.perform("gpu01", steps["drain"])
    assert performed.problem is not None
    assert "more than one PodDisruptionBudget" in (performed.problem.detail or "")
    check = await kubernetes.check("gpu01", steps["drain"])
    assert check.state is CheckState.BLOCKED
    assert "several PodDisruptionBudgets cover it (ml/one, ml/two)" in check.summary
    assert set(api.pods) == {"train-a", "train-b"}
