"""Acts against a real Kubernetes API server. Each test has a node and a namespace of its own."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gputop.domain.action import ActionKind, Block, CheckState, Step
from gputop.domain.backend import Ec2, Kubernetes
from gputop.domain.clock import SystemClock
from gputop.domain.job import AdminState, NodeState, PodFate
from gputop.domain.problem import ProblemKind
from gputop.ports import CanCordon, CanDrain, CanGlance, CanRebootNode, CanResume
from gputop.schedulers.kubernetes import KubernetesScheduler
from tests.needs import missing
from tests.services.acting import InEnvironment, a_host, a_request, take, take_all, until
from tests.services.kubernetes import PROGRAMS, KubernetesCluster, a_budget, a_controller, a_pod, find

pytestmark = pytest.mark.timeout(90)


@pytest.fixture(scope="module")
def cluster() -> Iterator[KubernetesCluster]:
    absent = [name for name in PROGRAMS if find(name) is None]
    if absent and "KUBEBUILDER_ASSETS" in os.environ:
        missing(f"KUBEBUILDER_ASSETS is set, yet {', '.join(absent)} cannot be found")
    if absent:
        pytest.skip(f"needs {', '.join(absent)}: make services, and KUBEBUILDER_ASSETS naming a folder with them")
    folder = Path(tempfile.mkdtemp(prefix="gputop-kubernetes-"))
    cluster = KubernetesCluster(folder, 16)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


class Later(SystemClock):
    """Two minutes from now."""

    def now(self) -> datetime:
        return super().now() + timedelta(minutes=2)


@dataclass
class Site:
    """One node with one namespace."""

    cluster: KubernetesCluster
    node: str
    namespace: str

    def scheduler(self, context: str = "admin", clock: Any = None, **variables: str) -> KubernetesScheduler:
        spec = Kubernetes(context=context, kubectl=str(find("kubectl")))
        environment = {"KUBECONFIG": str(self.cluster.kubeconfig), "NO_PROXY": "127.0.0.1", **variables}
        return KubernetesScheduler(spec, InEnvironment(environment), clock or SystemClock())

    async def look(self, kubernetes: KubernetesScheduler) -> NodeState:
        return (await kubernetes.observe([a_host("box", address=self.address)]))["box"]

    @property
    def address(self) -> str:
        return f"127.0.1.{int(self.node[-2:])}"

    def pods(self, owner: dict[str, Any] | None, *names: str, node: str | None = None, **fields: Any) -> None:
        pods = (a_pod(name, node or self.node, self.namespace, owner, **fields) for name in names)
        self.cluster.create(*pods)
        self.cluster.wait_for_pods(*(f"{self.namespace}/{name}" for name in names))

    def names(self) -> set[str]:
        """Pods that are on the node."""
        found = self.cluster.get("pods", "-n", self.namespace, f"--field-selector=spec.nodeName={self.node}")
        return {pod["metadata"]["name"] for pod in found["items"]}

    def unschedulable(self) -> bool:
        return bool(self.cluster.get("node", self.node)["spec"].get("unschedulable", False))


@pytest.fixture
def site(cluster: KubernetesCluster, request: pytest.FixtureRequest) -> Site:
    tests = [item for item in request.session.items if item.path == request.path]
    number = tests.index(request.node) + 1
    namespace = f"test-{number}"
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    return Site(cluster, f"gpu{number:02d}", namespace)


def steps_of(found: tuple[Step, ...] | Block) -> tuple[Step, ...]:
    assert not isinstance(found, Block), found
    return found


def drain_of(kubernetes: KubernetesScheduler, node: NodeState, **fields: Any) -> dict[str, Step]:
    request = a_request(ActionKind.DRAIN, "box", **{"deadline_seconds": 40.0, **fields})
    return {step.id.partition(".")[2]: step for step in steps_of(kubernetes.drain_steps(node, request))}


async def test_a_node_is_drained_of_what_a_drain_moves_and_resumed_by_whom_it_drained(site: Site) -> None:
    (replicas,) = site.cluster.create(a_controller("ReplicaSet", "train", site.namespace))
    (daemons,) = site.cluster.create(a_controller("DaemonSet", "dcgm", site.namespace))
    site.pods(replicas, "train-a", "train-b", labels={"app": "train"})
    site.pods(daemons, "dcgm-a")
    kubernetes = site.scheduler()
    for capability, can in ((CanCordon, True), (CanDrain, True), (CanResume, True), (CanRebootNode, False)):
        assert isinstance(kubernetes, capability) is can
    node = await site.look(kubernetes)
    assert (node.node, node.admin, node.raw) == (site.node, AdminState.SCHEDULABLE, "Ready")
    fates = {pod.name: (pod.fate, pod.gpus) for pod in node.pods}
    assert fates["train-a"] == (PodFate.EVICT, 4)
    assert fates["dcgm-a"] == (PodFate.DAEMON_SET, 4)

    steps = drain_of(kubernetes, node)
    assert list(steps) == ["trial", "cordon", "mark", "drain"]
    assert "--force" not in steps["drain"].command
    assert "--context admin" in steps["drain"].command
    assert [check.state for check in await take_all(kubernetes, "box", tuple(steps.values()))] == [CheckState.DONE] * 4
    assert site.names() == {"dcgm-a"}
    drained = await site.look(kubernetes)
    assert (drained.admin, drained.by, drained.reason) == (
        AdminState.DRAINED,
        "alice",
        "gputop:alice:OPS-7: replace NIC, OPS-7",
    )

    other = kubernetes.resume_steps(drained, a_request(ActionKind.RESUME, "box", by="bob"))
    assert isinstance(other, Block)
    assert other.summary == "taken out of service by alice: replace NIC, OPS-7"
    resume = steps_of(kubernetes.resume_steps(drained, a_request(ActionKind.RESUME, "box")))
    assert [check.state for check in await take_all(kubernetes, "box", resume)] == [CheckState.DONE] * 2
    after = await site.look(kubernetes)
    assert (after.admin, after.cordoned, after.reason) == (AdminState.SCHEDULABLE, False, None)


async def test_a_node_is_found_by_address_hostname_or_instance_and_never_guessed(site: Site) -> None:
    kubernetes = site.scheduler()
    hosts = [
        a_host("a", address="127.0.1.2"),
        a_host("gpu03-host"),
        a_host("c", power=Ec2(instance_id=f"i-{4:017x}")),
        a_host("gpu05"),
        a_host("gpu0"),
        a_host("both", address="127.0.1.7", power=Ec2(instance_id=f"i-{8:017x}")),
    ]
    found = await kubernetes.observe(hosts)
    assert [found[host.name].node for host in hosts] == ["gpu02", "gpu03", "gpu04", "gpu05", None, None]
    assert [found[name].block.kind for name in ("gpu0", "both") if found[name].block is not None] == [
        "node-not-found",
        "node-ambiguous",
    ]
    assert "gpu07, gpu08" in str(found["both"].block)


async def test_a_drain_goes_on_as_soon_as_the_budget_has_room_again(site: Site) -> None:
    (replicas,) = site.cluster.create(a_controller("ReplicaSet", "train", site.namespace))
    site.pods(replicas, "train-a", "train-b", labels={"app": "train"})
    site.pods(replicas, "train-c", node="gpu10", labels={"app": "train"})
    site.cluster.create(a_budget("train", site.namespace, 2, app="train"))
    site.cluster.wait_for_budget(site.namespace, "train", 1)
    kubernetes = site.scheduler()
    steps = drain_of(kubernetes, await site.look(kubernetes))
    await take(kubernetes, "box", steps["cordon"])
    going = asyncio.create_task(kubernetes.perform("box", steps["drain"]))
    full = f"PDB {site.namespace}/train allows 0 disruptions (2 healthy, 2 wanted)"
    check = await kubernetes.check("box", steps["drain"])
    while not (len(check.left) == 1 and full in check.left[0]) and not going.done():
        check = await kubernetes.check("box", steps["drain"])
    assert check.state is CheckState.NOT_DONE
    assert full in check.summary
    site.pods(replicas, "train-d", node="gpu10", labels={"app": "train"})
    assert (await going).ok
    assert (await kubernetes.check("box", steps["drain"])).state is CheckState.DONE


async def test_a_budget_without_room_ends_in_a_timeout_that_says_what_has_and_has_not_happened(site: Site) -> None:
    (replicas,) = site.cluster.create(a_controller("ReplicaSet", "train", site.namespace))
    site.pods(replicas, "free")
    site.pods(replicas, "kept", labels={"app": "kept"})
    site.cluster.create(a_budget("kept", site.namespace, 1, app="kept"))
    site.cluster.wait_for_budget(site.namespace, "kept", 0)
    kubernetes = site.scheduler()
    node = await site.look(kubernetes)
    assert [(budget.name, budget.allowed, budget.healthy, budget.wanted) for budget in node.budgets] == [
        ("kept", 0, 1, 1)
    ]
    steps = drain_of(kubernetes, node, deadline_seconds=8.0)
    trial = await kubernetes.check("box", steps["trial"])
    full = f"PDB {site.namespace}/kept allows 0 disruptions (1 healthy, 1 wanted)"
    assert trial.state is CheckState.DONE
    assert full in trial.summary or "old kubectl" in trial.summary
    await take_all(kubernetes, "box", (steps["cordon"], steps["mark"]))
    performed = await kubernetes.perform("box", steps["drain"])
    assert (performed.ok, performed.pending) == (False, True)
    check = await kubernetes.check("box", steps["drain"])
    assert check.state is CheckState.NOT_DONE
    assert check.left == (f"{site.namespace}/kept: {full}",)
    assert "1 of 2 pods left; the 1 that are gone stay gone, and the node stays cordoned" in check.summary
    assert site.names() == {"kept"}
    assert site.unschedulable()


async def test_pods_that_would_be_lost_are_named_and_nothing_is_touched_before_consent(site: Site) -> None:
    (replicas,) = site.cluster.create(a_controller("ReplicaSet", "train", site.namespace))
    site.pods(None, "notebook")
    site.pods(replicas, "cache", volumes=[{"name": "scratch", "emptyDir": {"medium": "Memory"}}])
    site.pods(replicas, "train-a")
    kubernetes = site.scheduler()
    node = await site.look(kubernetes)
    assert {pod.name: pod.concerns for pod in node.pods} == {
        "notebook": ("unmanaged-pods",),
        "cache": ("empty-dir-data",),
        "train-a": (),
    }
    steps = drain_of(kubernetes, node)
    refused = await kubernetes.check("box", steps["trial"])
    assert refused.state is CheckState.BLOCKED
    assert f"{site.namespace}/notebook" in refused.summary
    assert f"{site.namespace}/cache" in refused.summary
    performed = await kubernetes.perform("box", steps["drain"])  # even kubectl itself evicts none then
    assert performed.problem is not None
    assert "kubectl evicts nothing" in performed.problem.summary
    assert site.names() == {"notebook", "cache", "train-a"}
    site.cluster.kubectl("uncordon", site.node)

    agreed = drain_of(kubernetes, node, consents=frozenset({"unmanaged-pods", "empty-dir-data"}))
    assert "--force --delete-emptydir-data" in agreed["drain"].command
    checks = await take_all(kubernetes, "box", tuple(agreed.values()))
    assert [check.state for check in checks] == [CheckState.DONE] * 4
    assert site.names() == set()


async def test_a_pod_whose_owner_is_gone_needs_consent_like_one_without(site: Site) -> None:
    (replicas,) = site.cluster.create(a_controller("ReplicaSet", "train", site.namespace))
    site.pods(replicas, "orphan")
    site.cluster.kubectl("delete", "replicaset", "train", "-n", site.namespace, "--cascade=background")
    node = await site.look(site.scheduler())
    assert [(pod.fate, pod.concerns) for pod in node.pods] == [(PodFate.NEEDS_CONSENT, ("unmanaged-pods",))]


async def test_an_account_without_rights_is_told_apart_and_nothing_is_done(site: Site) -> None:
    (replicas,) = site.cluster.create(a_controller("ReplicaSet", "train", site.namespace))
    site.pods(replicas, "train-a")
    blocked = await site.look(site.scheduler("viewer"))
    assert blocked.block is not None
    assert (blocked.block.kind, "viewer list nodes" in blocked.block.summary) == ("permission", True)
    site.cluster.kubectl("create", "clusterrole", "see", "--verb=get,list", "--resource=nodes,pods,pdb")
    site.cluster.kubectl("create", "clusterrolebinding", "see", "--clusterrole=see", "--user=viewer")
    viewer = site.scheduler("viewer")
    node = await site.look(viewer)
    assert node.admin is AdminState.SCHEDULABLE
    steps = drain_of(viewer, node)
    trial = await viewer.check("box", steps["trial"])
    assert (trial.state, trial.summary) == (CheckState.BLOCKED, "the cluster does not let viewer patch nodes")
    for name in ("cordon", "mark", "drain"):
        performed = await viewer.perform("box", steps[name])
        assert performed.problem is not None
        assert performed.problem.kind is ProblemKind.PERMISSION, performed
    assert site.names() == {"train-a"}
    assert not site.unschedulable()
    site.cluster.kubectl("delete", "clusterrolebinding", "see")


async def test_who_is_not_known_and_what_does_not_answer_is_unknown(site: Site) -> None:
    steps = drain_of(site.scheduler(), await site.look(site.scheduler()))
    for context, kind, words in (
        ("stranger", "no-answer", "does not know this account"),
        ("gone", "no-answer", "the API server does not answer"),
        ("nowhere", "no-answer", "no such context"),
    ):
        kubernetes = site.scheduler(context)
        node = await site.look(kubernetes)
        assert node.block is not None
        assert (node.block.kind, node.admin, node.cordoned) == (kind, AdminState.UNKNOWN, None)
        assert words in node.block.summary
        for name in ("cordon", "drain"):
            assert (await kubernetes.check("box", steps[name])).state is CheckState.UNKNOWN
    gone = site.scheduler("gone")
    known = await site.look(site.scheduler())
    performed = await gone.perform("box", drain_of(gone, known)["cordon"])
    assert performed.problem is not None
    assert performed.problem.kind is ProblemKind.CONNECTION_REFUSED
    assert not site.unschedulable()


async def test_a_dead_kubelet_keeps_its_pods_and_the_wait_says_so(site: Site) -> None:
    (replicas,) = site.cluster.create(a_controller("ReplicaSet", "train", site.namespace))
    site.pods(replicas, "train-a")
    site.pods(replicas, "held", finalizers=["example.com/hold"])
    site.cluster.dead_kubelets.write_text(f"{site.node}\n")
    site.cluster.set_ready(site.node, "Unknown")
    kubernetes = site.scheduler()
    node = await site.look(kubernetes)
    assert (node.admin, node.raw) == (AdminState.DOWN, "NotReady")
    block = kubernetes.drain_steps(node, a_request(ActionKind.DRAIN, "box"))
    assert isinstance(block, Block)
    assert (block.kind, block.consent) == ("node-not-ready", "node-not-ready")
    steps = drain_of(kubernetes, node, consents=frozenset({"node-not-ready"}), deadline_seconds=8.0)
    await take_all(kubernetes, "box", (steps["cordon"], steps["mark"]))
    assert (await kubernetes.perform("box", steps["drain"])).pending
    leaving = await kubernetes.check("box", steps["drain"])
    assert (leaving.state, set(leaving.left)) == (
        CheckState.NOT_DONE,
        {f"{site.namespace}/train-a: leaving", f"{site.namespace}/held: leaving"},
    )
    stuck = await site.scheduler(clock=Later()).check("box", steps["drain"])
    assert stuck.state is CheckState.BLOCKED
    assert sorted(line.partition(": stuck terminating for ")[2].partition(": ")[2] for line in stuck.left) == [
        "finalizer example.com/hold",
        "the node is NotReady,SchedulingDisabled",
    ]
    resume = steps_of(kubernetes.resume_steps(await site.look(kubernetes), a_request(ActionKind.RESUME, "box")))
    _, check = await take(kubernetes, "box", resume[0], 0.5)
    assert check.state is CheckState.NOT_DONE
    assert check.summary == "uncordoned, but it is NotReady: Kubelet stopped posting node status."
    patch = '{"metadata":{"finalizers":null}}'
    site.cluster.kubectl("patch", "pod", "held", "-n", site.namespace, "--type=merge", "-p", patch)
    site.cluster.dead_kubelets.write_text("")
    site.cluster.set_ready(site.node, "True")
    assert (await until(kubernetes, "box", resume[0])).state is CheckState.DONE


async def test_what_was_cordoned_before_stays_so_and_is_nobody_s_to_resume_unasked(site: Site) -> None:
    site.cluster.kubectl("cordon", site.node)
    kubernetes = site.scheduler()
    node = await site.look(kubernetes)
    steps = drain_of(kubernetes, node)
    assert "mark" not in steps
    assert (steps["cordon"].undo, steps["cordon"].why_no_undo) == (None, "it was cordoned before")
    assert (await take(kubernetes, "box", steps["cordon"]))[0] is None  # not called
    block = kubernetes.resume_steps(node, a_request(ActionKind.RESUME, "box"))
    assert isinstance(block, Block)
    assert block.summary == "taken out of service by somebody unknown: no reason given"
    site.cluster.kubectl("uncordon", site.node)

    ours = drain_of(kubernetes, await site.look(kubernetes))
    await take_all(kubernetes, "box", (ours["cordon"], ours["mark"]))
    for name in ("mark", "cordon"):  # a roll-back, last step first
        undo = ours[name].undo
        assert undo is not None
        assert (await take(kubernetes, "box", undo))[1].state is CheckState.DONE
    after = site.cluster.get("node", site.node)
    assert "gputop/drain" not in after["metadata"].get("annotations", {})
    assert not site.unschedulable()


async def test_a_glance_tells_who_takes_no_pods_and_nothing_of_those_there(site: Site) -> None:
    (replicas,) = site.cluster.create(a_controller("ReplicaSet", "train", site.namespace))
    site.pods(replicas, "train-a")
    kubernetes = site.scheduler()
    assert isinstance(kubernetes, CanGlance)
    mine = a_host("box", address=site.address)

    async def glance() -> NodeState:
        return (await kubernetes.glance([mine]))["box"]

    node = await glance()
    assert (node.node, node.admin, node.cordoned, node.pods) == (site.node, AdminState.SCHEDULABLE, False, ())
    cordon = steps_of(kubernetes.cordon_steps(node, a_request(ActionKind.CORDON, "box")))
    await take_all(kubernetes, "box", cordon)
    node = await glance()
    assert (node.admin, node.cordoned, node.pods) == (AdminState.UNKNOWN, True, ()), "what is left was not looked at"
    assert (node.by, node.reason) == ("alice", "gputop:alice:OPS-7: replace NIC, OPS-7")
    site.cluster.kubectl("annotate", "node", site.node, "gputop/drain-")
    node = await glance()
    assert (node.cordoned, node.by, node.reason) == (True, None, None), "somebody cordoned it, and nobody says who"
    try:
        site.cluster.set_ready(site.node, "Unknown")
        node = await glance()
        assert (node.admin, node.cordoned, node.raw) == (AdminState.DOWN, True, "NotReady,SchedulingDisabled")
    finally:
        site.cluster.set_ready(site.node, "True")
        site.cluster.kubectl("uncordon", site.node)


async def test_a_glance_takes_two_calls_for_any_number_of_hosts_and_guesses_none(site: Site) -> None:
    runner = InEnvironment({"KUBECONFIG": str(site.cluster.kubeconfig), "NO_PROXY": "127.0.0.1"})
    kubernetes = KubernetesScheduler(Kubernetes(context="admin", kubectl=str(find("kubectl"))), runner, SystemClock())
    both = a_host("both", address="127.0.1.7", power=Ec2(instance_id=f"i-{8:017x}"))
    found = await kubernetes.glance([*map(a_host, site.cluster.names), both, a_host("gpu0")])
    assert len(runner.calls) == 2
    assert not [argv for argv in runner.calls if "pods" in argv]
    assert {name: node.block.kind for name, node in found.items() if node.block is not None} == {
        "both": "node-ambiguous",
        "gpu0": "node-not-found",
    }


async def test_a_glance_without_rights_or_without_a_cluster_knows_nothing_and_says_why(site: Site) -> None:
    mine = a_host("box", address=site.address)
    site.cluster.kubectl("cordon", site.node)
    for context, kind, words in (
        ("viewer", "permission", "viewer list nodes"),
        ("stranger", "no-answer", "does not know this account"),
        ("gone", "no-answer", "the API server does not answer"),
        ("nowhere", "no-answer", "no such context"),
        ("untrusted", "no-answer", "does not accept the API server's certificate: certificate signed by unknown"),
        ("no-plugin", "no-answer", "gets no credentials: exec: executable gputop-no-such-plugin not found"),
    ):
        node = (await site.scheduler(context).glance([mine]))["box"]
        assert node.block is not None, context
        assert (node.block.kind, node.admin, node.cordoned) == (kind, AdminState.UNKNOWN, None), context
        assert words in node.block.summary
    missing = KubernetesScheduler(
        Kubernetes(context="admin", kubectl="gputop-no-such-kubectl"), InEnvironment({}), SystemClock()
    )
    node = (await missing.glance([mine]))["box"]
    assert node.block is not None
    assert node.block.summary == "kubectl is not on the PATH of this account"


async def test_a_glance_needs_no_right_but_that_to_see_nodes(site: Site) -> None:
    site.cluster.kubectl("create", "clusterrole", "nodes-only", "--verb=get,list", "--resource=nodes")
    site.cluster.kubectl("create", "clusterrolebinding", "nodes-only", "--clusterrole=nodes-only", "--user=viewer")
    try:
        viewer = site.scheduler("viewer")
        mine = a_host("box", address=site.address)
        assert (await viewer.glance([mine]))["box"].admin is AdminState.SCHEDULABLE
        node = await site.look(viewer)
        assert node.block is not None, "an act wants to see the pods"
        assert (node.block.kind, node.block.summary) == ("permission", "the cluster does not let viewer list pods")
    finally:
        site.cluster.kubectl("delete", "clusterrolebinding", "nodes-only")
