"""The Kubernetes scheduler without a cluster. Real ones: tests/services/test_kubernetes.py."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gputop.domain.action import ActionKind, ActionRequest, Block, CheckState, Goal, Step
from gputop.domain.backend import Kubernetes
from gputop.domain.call import CommandResult, RunOn
from gputop.domain.host import Host, HostSpec
from gputop.domain.job import AdminState, NodeState, PodFate
from gputop.domain.problem import Problem, ProblemKind
from gputop.schedulers.kubernetes import KubernetesScheduler
from gputop.schedulers.kubernetes_check import judge_pods
from gputop.schedulers.kubernetes_read import (
    KubeNode,
    Unreadable,
    covering,
    parse_budgets,
    parse_node_names,
    parse_nodes,
    parse_pods,
)
from tests.fakes.builders import a_link
from tests.fakes.clock import START, ManualClock
from tests.unit.schedulers.programs import LOST, SILENT, Programs, said

CASES = Path(__file__).parents[2] / "fixtures" / "cases"
PODS = (CASES / "17-pods.json").read_text()
NAMES = "gpu-a   host-a   aws:///us-east-1a/i-01   10.0.0.1,host-a.example.org\n"


def a_node(**fields: Any) -> dict[str, Any]:
    ready = {"type": "Ready", "status": fields.pop("ready", "True"), "message": "Kubelet stopped posting node status."}
    metadata = {"name": "gpu-a", **fields.pop("metadata", {})}
    return {"metadata": metadata, "spec": fields, "status": {"conditions": [ready]}}


def a_pod(name: str, **fields: Any) -> dict[str, Any]:
    owner = {"kind": "ReplicaSet", "name": "train", "uid": "rs-1", "controller": True}
    metadata = {"name": name, "namespace": "ml", "ownerReferences": [owner], **fields.pop("metadata", {})}
    return {"metadata": metadata, "spec": fields, "status": {"phase": "Running"}}


def a_list(*items: dict[str, Any]) -> str:
    return json.dumps({"kind": "List", "items": items})


def a_budget(name: str, allowed: int, selector: Any, version: str = "policy/v1") -> dict[str, Any]:
    status = {"disruptionsAllowed": allowed, "currentHealthy": 2, "desiredHealthy": 2}
    metadata = {"name": name, "namespace": "ml"}
    return {"apiVersion": version, "metadata": metadata, "spec": {"selector": selector}, "status": status}


def programs(pods: str = PODS, node: dict[str, Any] | None = None, budgets: str = a_list(), **others: Any) -> Programs:
    owners = others.get("owners", said(stderr="forbidden", exit_status=1))
    return Programs(
        ("get nodes", said(NAMES)),
        ("get pods", said(pods)),
        ("get node gpu-a", said(json.dumps(node or a_node()))),
        ("get daemonsets", owners),
        ("get poddisruptionbudgets", said(budgets)),
        ("drain --dry-run=server", others.get("trial", said())),
    )


def scheduler(runner: Programs, **spec: Any) -> KubernetesScheduler:
    return KubernetesScheduler(Kubernetes(**{"context": "prod", **spec}), runner, ManualClock())


async def look(kubernetes: KubernetesScheduler) -> NodeState:
    host = Host(spec=HostSpec(name="a", address="10.0.0.1"), link=a_link(), reported=a_link())
    return (await kubernetes.observe([host]))["a"]


def request(kind: ActionKind = ActionKind.DRAIN, **fields: Any) -> ActionRequest:
    return ActionRequest(kind=kind, hosts=("a",), **{"by": "alice", "reason": "NIC", **fields})


def steps_of(found: tuple[Step, ...] | Block) -> dict[str, Step]:
    assert not isinstance(found, Block), found
    return {step.id.partition(".")[2]: step for step in found}


async def test_case_17_what_a_drain_does_with_each_pod() -> None:
    kubernetes = scheduler(programs(node=a_node(unschedulable=True)))
    node = await look(kubernetes)
    fates = {f"{pod.namespace}/{pod.name}": (pod.fate, pod.concerns) for pod in node.pods}
    assert fates == {
        "ml/train-5c6d7e8f90-abcde": (PodFate.EVICT, ()),
        "mon/node-exporter-abcde": (PodFate.DAEMON_SET, ()),
        "kube-system/kube-proxy-gpu-a": (PodFate.MIRROR, ()),
        "ml/old-eval": (PodFate.FINISHED, ()),
        "lab/notebook": (PodFate.NEEDS_CONSENT, ("unmanaged-pods",)),
        "ml/cache-0": (PodFate.NEEDS_CONSENT, ("empty-dir-data",)),
    }
    steps = steps_of(kubernetes.drain_steps(node, request()))
    for name in ("trial", "drain"):
        assert "--force" not in steps[name].command
        assert "--delete-emptydir-data" not in steps[name].command
    assert steps["drain"].before["pods"] == "lab/notebook,ml/cache-0,ml/train-5c6d7e8f90-abcde"
    assert list(steps) == ["trial", "cordon", "drain"], "the trial stops it before anything is changed"
    waiting = await kubernetes.check("a", steps["drain"])
    assert waiting.state is CheckState.NOT_DONE
    assert "lab/notebook: needs consent: unmanaged-pods" in waiting.left


@pytest.mark.parametrize(
    ("consents", "flags"),
    [
        ((), ""),
        (("unmanaged-pods",), " --force"),
        (("empty-dir-data",), " --delete-emptydir-data"),
        (("unmanaged-pods", "empty-dir-data"), " --force --delete-emptydir-data"),
        (("drained-by-other", "node-not-ready"), ""),
    ],
)
async def test_each_consent_gives_its_own_flag_and_no_other(consents: tuple[str, ...], flags: str) -> None:
    kubernetes = scheduler(programs())
    found = kubernetes.drain_steps(await look(kubernetes), request(consents=frozenset(consents), deadline_seconds=67))
    command = f"kubectl --context prod drain gpu-a --ignore-daemonsets{flags} --timeout=60s"
    assert steps_of(found)["drain"].command == command


async def test_every_call_names_its_context_and_runs_where_the_inventory_says() -> None:
    runner = programs()
    kubernetes = scheduler(runner, via="login-1", kubeconfig="/etc/k", kubectl="/opt/kubectl")
    steps = steps_of(kubernetes.drain_steps(await look(kubernetes), request()))
    await kubernetes.check("a", steps["trial"])
    calls = [*runner.calls, steps["cordon"].call, steps["mark"].call, steps["drain"].call]
    for call in calls:
        assert isinstance(call, RunOn)
        assert call.host == "login-1"
        assert call.argv[:5] == ("/opt/kubectl", "--context", "prod", "--kubeconfig", "/etc/k")


def test_pods_that_are_leaving_are_waited_for_and_those_without_an_owner_need_consent() -> None:
    leaving = a_pod("a", metadata={"deletionTimestamp": "2026-01-02T03:04:05Z", "finalizers": ["x/y"]})
    claim = a_pod("b", resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}])
    slices = {"resources": {"limits": {"nvidia.com/mig-1g.10gb": "2", "nvidia.com/gpu": 1, "cpu": "4"}}}
    busy = a_pod("c", containers=[slices, {"name": "side"}])
    daemon = a_pod(
        "d", metadata={"ownerReferences": [{"kind": "DaemonSet", "name": "x", "uid": "ds", "controller": True}]}
    )
    custom = a_pod(
        "e", metadata={"ownerReferences": [{"kind": "RayCluster", "name": "r", "uid": "u", "controller": True}]}
    )
    text = a_list(leaving, claim, busy, daemon, custom).encode()
    known = {pod.pod.name: pod for pod in parse_pods(text, {"rs-1"})}
    assert (known["a"].pod.fate, known["a"].finalizers) == (PodFate.TERMINATING, ("x/y",))
    assert (known["b"].pod.claims, known["c"].pod.gpus) == (("gpu",), 3)
    assert known["d"].pod.fate is PodFate.NEEDS_CONSENT, "a DaemonSet that is gone brings nothing back"
    assert known["e"].pod.fate is PodFate.EVICT
    assert {pod.pod.fate for pod in parse_pods(a_list(busy).encode(), set())} == {PodFate.NEEDS_CONSENT}
    assert {pod.pod.fate for pod in parse_pods(a_list(busy, daemon).encode())} == {PodFate.EVICT, PodFate.DAEMON_SET}


def test_budgets_cover_pods_as_their_api_version_says() -> None:
    (pod,) = parse_pods(a_list(a_pod("a", metadata={"labels": {"app": "x", "tier": "gpu"}})).encode())
    cases: list[tuple[Any, str, bool]] = [
        ({"matchLabels": {"app": "x"}}, "policy/v1", True),
        ({"matchLabels": {"app": "x", "tier": "cpu"}}, "policy/v1", False),
        ({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["gpu"]}]}, "policy/v1", True),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["gpu"]}]}, "policy/v1", False),
        ({"matchExpressions": [{"key": "no", "operator": "DoesNotExist"}]}, "policy/v1", True),
        ({"matchExpressions": [{"key": "no", "operator": "Exists"}]}, "policy/v1", False),
        ({}, "policy/v1", True),
        ({}, "policy/v1beta1", False),
        (None, "policy/v1", False),
    ]
    for selector, version, covers in cases:
        budgets = parse_budgets(a_list(a_budget("b", 0, selector, version)).encode())
        assert bool(covering(pod, budgets)) is covers, (selector, version)


def test_a_pod_that_several_budgets_cover_will_never_be_evicted_and_the_wait_says_so() -> None:
    pods = parse_pods(a_list(a_pod("a")).encode())
    budgets = parse_budgets(a_list(a_budget("one", 1, {}), a_budget("two", 1, {})).encode())
    node = KubeNode(name="gpu-a", unschedulable=True, ready=True)
    drain = Step(id="x", actor="scheduler", title="", call=RunOn(host="h", argv=()), goal=Goal.NO_WORK)
    check = judge_pods(drain, node, pods, budgets, START + timedelta(hours=1))
    assert check.state is CheckState.BLOCKED
    assert "ml/one, ml/two" in check.summary


async def test_nodes_carry_who_cordoned_them_since_when_and_whether_they_rule_the_cluster() -> None:
    taint = {"key": "node.kubernetes.io/unschedulable", "timeAdded": "2026-03-01T10:15:00Z"}
    metadata = {
        "labels": {"node-role.kubernetes.io/control-plane": ""},
        "annotations": {"gputop/drain": "gputop:bob:OPS-1: fan"},
    }
    node = a_node(unschedulable=True, taints=[taint], metadata=metadata)
    kubernetes = scheduler(programs(a_list(), node))
    state = await look(kubernetes)
    assert (state.admin, state.by, state.controller) == (AdminState.DRAINED, "bob", True)
    block = kubernetes.resume_steps(state, request(ActionKind.RESUME))
    assert isinstance(block, Block)
    assert block.summary == "taken out of service by bob at 2026-03-01 10:15 UTC: fan"
    for ready, admin in (("False", AdminState.DOWN), ("Unknown", AdminState.DOWN)):
        assert (await look(scheduler(programs(a_list(), a_node(ready=ready))))).admin is admin
    without = {**a_node(), "status": {}}
    assert (await look(scheduler(programs(a_list(), without)))).admin is AdminState.UNKNOWN


async def test_a_kubectl_that_does_not_end_is_told_as_the_cluster_s_silence() -> None:
    late = CommandResult(lost=Problem(kind=ProblemKind.TIMED_OUT, summary="no end within 30 s"))
    found = await look(scheduler(Programs(("get nodes", late))))
    assert found.block is not None
    assert found.block.summary == "the cluster does not answer: no end within 30 s"


@pytest.mark.parametrize("answer", [LOST, SILENT, said(""), said("[]"), said('{"items": [1]}'), said("", "oops", 1)])
async def test_what_could_not_be_read_is_unknown_never_done(answer: CommandResult) -> None:
    whole = scheduler(programs(a_list(), a_node(unschedulable=True)))
    steps = steps_of(whole.drain_steps(await look(whole), request()))
    assert (await whole.check("a", steps["drain"])).state is CheckState.DONE
    for words in ("get node gpu-a", "get pods"):
        runner = programs(a_list(), a_node(unschedulable=True))
        runner.answers.insert(0, (words, answer))
        kubernetes = scheduler(runner)
        assert (await kubernetes.check("a", steps["drain"])).state is CheckState.UNKNOWN
        state = await look(kubernetes)
        assert (state.block is not None, state.admin) == (True, AdminState.UNKNOWN)


@pytest.mark.parametrize(
    ("trial", "state", "words"),
    [
        (said(), CheckState.DONE, "nothing stands in its way"),
        (LOST, CheckState.UNKNOWN, "connection lost"),
        (SILENT, CheckState.UNKNOWN, "exit status"),
        (said("", "Unable to connect to the server: EOF", 1), CheckState.UNKNOWN, "does not answer"),
        (
            said("", 'pods is forbidden: User "u" cannot create resource "pods/eviction"', 1),
            CheckState.BLOCKED,
            "u create",
        ),
        (said("", "error: cannot delete Pods with local storage: ml/x", 1), CheckState.BLOCKED, "ml/x"),
        (
            said("", "error when evicting: disruption budget. global timeout reached: 3s", 1),
            CheckState.DONE,
            "will wait",
        ),
        (said("", "error when evicting pods/x: /, Kind= doesn't support dry-run", 1), CheckState.DONE, "old kubectl"),
        (
            said("", "Error: unknown flag: --delete-emptydir-data\nSee 'kubectl drain --help' for usage.", 1),
            CheckState.BLOCKED,
            "this kubectl is too old: unknown flag: --delete-emptydir-data",
        ),
        (
            said("", 'Error: invalid argument "server" for "--dry-run" flag: strconv.ParseBool: invalid syntax', 1),
            CheckState.BLOCKED,
            'this kubectl is too old: invalid argument "server" for "--dry-run"',
        ),
        (
            said("", "Unable to connect to the server: x509: certificate has expired or is not yet valid", 1),
            CheckState.UNKNOWN,
            "does not accept the API server's certificate: certificate has expired",
        ),
        (
            said("", "Unable to connect to the server: getting credentials: exec: executable aws failed", 1),
            CheckState.UNKNOWN,
            "kubectl gets no credentials: exec: executable aws failed",
        ),
    ],
)
async def test_the_trial_stops_all_but_what_only_means_waiting(
    trial: CommandResult, state: CheckState, words: str
) -> None:
    kubernetes = scheduler(programs(a_list(), trial=trial))
    steps = steps_of(kubernetes.drain_steps(await look(kubernetes), request()))
    check = await kubernetes.check("a", steps["trial"])
    assert check.state is state
    assert words in check.summary


async def test_an_error_behind_exit_status_0_is_an_error() -> None:
    kubernetes = scheduler(programs(a_list()))
    steps = steps_of(kubernetes.cordon_steps(await look(kubernetes), request(ActionKind.CORDON)))
    refused = 'error: unable to cordon node "gpu-a": User "v" cannot patch resource "nodes" in API group ""'
    performed = await scheduler(Programs(("cordon", said("", refused)))).perform("a", steps["cordon"])
    assert performed.problem is not None
    assert (performed.ok, performed.problem.kind) == (False, ProblemKind.PERMISSION)
    assert performed.problem.summary == "the cluster does not let v patch nodes"


def test_what_is_not_kubectl_s_output_says_nothing() -> None:
    for text in ("a b c", "a b c d e"):
        with pytest.raises(Unreadable):
            parse_node_names(text)
    for text in (b"", b"[]", b'{"items": {}}', b'{"items": [{}]}'):
        with pytest.raises(Unreadable):
            parse_nodes(text)
    assert parse_node_names("a   <none>   <none>   <none>\n") == {"a": ()}
