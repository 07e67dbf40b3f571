"""The whole of gputop against a real Kubernetes API server and a real machine: drains that nobody waits for, and drains
whose gputop is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acts.conftest import Background, Gputop
from tests.acts.machines import Machine, Machines
from tests.acts.steps import DO, REASON, wait_for
from tests.needs import missing
from tests.services.kubernetes import PROGRAMS, KubernetesCluster, a_budget, a_controller, a_pod, find

pytestmark = pytest.mark.timeout(180)

POLICY = "  policy: {idle_samples: 1, idle_interval: 200ms, drain_deadline: 60s, max_percent: 100}\n"


@pytest.fixture(scope="module")
def cluster() -> Iterator[KubernetesCluster]:
    absent = [name for name in PROGRAMS if find(name) is None]
    if absent and "KUBEBUILDER_ASSETS" in os.environ:
        missing(f"KUBEBUILDER_ASSETS is set, yet {', '.join(absent)} cannot be found")
    if absent:
        pytest.skip(f"needs {', '.join(absent)}: make services, and KUBEBUILDER_ASSETS naming a folder with them")
    folder = Path(tempfile.mkdtemp(prefix="gputop-kubernetes-"))
    cluster = KubernetesCluster(folder, 7)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def machine(machines: Machines) -> Machine:
    return machines.add("kube-1")


class Site:
    """One node: a pod that may go, and one that a budget keeps."""

    def __init__(self, cluster: KubernetesCluster, machines: Machines, machine: Machine, number: int) -> None:
        self.cluster, self.node, self.space = cluster, f"gpu{number:02d}", f"site-{number}"
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.space}})
        (self.owner,) = cluster.create(a_controller("ReplicaSet", "train", self.space))
        cluster.create(
            a_pod("free", self.node, self.space, self.owner),
            a_pod("kept", self.node, self.space, self.owner, labels={"app": "kept"}),
            a_budget("kept", self.space, 1, app="kept"),
        )
        cluster.wait_for_pods(f"{self.space}/free", f"{self.space}/kept")
        cluster.wait_for_budget(self.space, "kept", 0)
        scheduler = f"{{kind: kubernetes, context: admin, kubectl: {find('kubectl')}, node: {self.node}}}"
        self.inventory = machines.inventory(names=("kube-1",), defaults=f"  scheduler: {scheduler}\n{POLICY}")
        self.environment = {"KUBECONFIG": str(cluster.kubeconfig), "NO_PROXY": "127.0.0.1"}

    def pods(self) -> set[str]:
        """Of this site, wherever they are."""
        found = self.cluster.get("pods", "-n", self.space, f"--field-selector=spec.nodeName={self.node}")
        return {pod["metadata"]["name"] for pod in found["items"]}

    @property
    def is_cordoned(self) -> bool:
        return bool(self.cluster.get("node", self.node)["spec"].get("unschedulable", False))

    def make_room(self) -> None:
        self.cluster.create(a_pod("more", "gpu04", self.space, self.owner, labels={"app": "kept"}))

    def drains(self) -> list[str]:
        """kubectls that drain this node now."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().decode().split("\0") if entry.name.isdigit() else []
            except OSError:
                continue
            if "drain" in words and self.node in words and words[0].endswith("kubectl"):
                found.append(entry.name)
        return found


@pytest.fixture
def site(cluster: KubernetesCluster, machines: Machines, machine: Machine, request: pytest.FixtureRequest) -> Site:
    tests = [item for item in request.session.items if item.path == request.path]
    return Site(cluster, machines, machine, tests.index(request.node) + 1)


def test_a_drain_that_nobody_waits_for_asks_every_pod_to_leave_and_the_list_tells_what_is_left(
    site: Site, gputop: Gputop
) -> None:
    plan = gputop("drain", "-f", site.inventory, "kube-1", *REASON, **site.environment)
    assert f"note   evicts 2 pods: {site.space}/free, {site.space}/kept" in plan.stdout
    assert f"note   PDB {site.space}/kept allows 0 disruptions (1 healthy, 1 wanted): it waits" in plan.stdout
    ran = gputop("drain", "-f", site.inventory, "kube-1", *DO, *REASON, "--no-wait", **site.environment)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert "pending     draining" in ran.stdout
    full = f"PDB {site.space}/kept allows 0 disruptions (1 healthy, 1 wanted)"
    assert "1 of 2 pods left; the 1 that are gone stay gone, and the node stays cordoned" in ran.stdout
    assert full in ran.stdout
    assert (site.pods(), site.is_cordoned) == ({"kept"}, True)
    looked = gputop("actions", "--look", **site.environment)
    assert "kube-1  draining by" in looked.stdout
    assert "now: draining by" in looked.stdout
    assert "1 pod" in looked.stdout
    site.make_room()
    site.cluster.wait_for_budget(site.space, "kept", 1)
    again = gputop("drain", "-f", site.inventory, "kube-1", *DO, *REASON, **site.environment)
    assert again.returncode == 0, again.stderr + again.stdout
    assert "kube-1  drained by" in gputop("actions").stdout


def killed_in_the_middle(site: Site, gputop: Gputop, folder: Path) -> str:
    """A drain that waits for a budget, and whose gputop is killed; the id of its plan."""
    argv = [sys.executable, "-m", "gputop", "drain", "-f", site.inventory, "kube-1", *DO, *REASON]
    environment = {**os.environ, **site.environment, "XDG_STATE_HOME": str(folder / "state")}
    said = folder / "said"
    with said.open("w") as file:
        drain = subprocess.Popen(argv, stdout=file, stderr=file, env=environment)
    try:
        wait_for(lambda: "1 of 2 pods left" in said.read_text(), f"what is left was not told: {said.read_text()}", 60)
        assert site.drains()
    finally:
        drain.send_signal(signal.SIGKILL)
        drain.wait()
    wait_for(lambda: site.drains() == [], "kubectl goes on evicting by itself")
    listed = gputop("actions", "--look", **site.environment).stdout
    assert f'in "evict the pods of {site.node}"' in listed
    assert "kube-1 now: draining by" in listed
    return listed.split()[1]


def test_a_drain_whose_gputop_was_killed_is_rolled_back_and_what_cannot_be_undone_is_said(
    site: Site, gputop: Gputop, tmp_path: Path
) -> None:
    plan = killed_in_the_middle(site, gputop, tmp_path)
    ran = gputop("actions", "--roll-back", plan, "--allow-actions", **site.environment)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert "not undone: kubernetes.drain: pods that were evicted stay evicted" in ran.stdout
    assert (site.pods(), site.is_cordoned) == ({"kept"}, False)


def test_a_drain_whose_gputop_was_killed_goes_on_where_it_was(site: Site, gputop: Gputop, tmp_path: Path) -> None:
    plan = killed_in_the_middle(site, gputop, tmp_path)
    site.make_room()
    ran = gputop("actions", "--resume", plan, "--allow-actions", seconds=90, **site.environment)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert (site.pods(), site.is_cordoned) == (set(), True)
    [lease] = json.loads(gputop("actions", "--format", "json").stdout)["leases"]
    assert lease["standing"] == "drained"


def test_hosts_are_evicted_one_after_the_other_where_at_once_says_so_and_none_before_the_first_is_done(
    cluster: KubernetesCluster, machines: Machines, gputop_in_background: Background, tmp_path: Path
) -> None:
    names = [f"gpu{number:02d}" for number in (5, 6, 7)]
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "several"}})
    (owner,) = cluster.create(a_controller("ReplicaSet", "train", "several"))
    cluster.create(*(a_pod(f"free-{name}", name, "several", owner) for name in names[1:]))
    cluster.create(
        a_pod("kept", names[0], "several", owner, labels={"app": "kept"}), a_budget("kept", "several", 1, app="kept")
    )
    cluster.wait_for_pods("several/kept", *(f"several/free-{name}" for name in names[1:]))
    cluster.wait_for_budget("several", "kept", 0)
    for name in names:
        machines.add(name)
    scheduler = f"{{kind: kubernetes, context: admin, kubectl: {find('kubectl')}}}"
    policy = POLICY.replace("policy: {", "policy: {at_once: 1, ")
    inventory = machines.inventory(names=tuple(names), defaults=f"  scheduler: {scheduler}\n{policy}")
    environment = {"KUBECONFIG": str(cluster.kubeconfig), "NO_PROXY": "127.0.0.1"}
    drain = gputop_in_background("drain", "-f", inventory, *names, *DO, *REASON, **environment)
    plans = tmp_path / "state" / "gputop" / "plans"
    wait_for(lambda: any(plans.glob("*.jsonl")), "it was not begun", 60)
    journal = max(plans.glob("*.jsonl"))
    wait_for(lambda: evictions(journal) != [], "the first was not begun", 60)
    cluster.create(a_pod("more", "gpu04", "several", owner, labels={"app": "kept"}))
    said, _ = drain.communicate(timeout=90)
    assert drain.returncode == 0, said
    assert evictions(journal) == [(event, name) for name in names for event in ("began", "ended")]


def evictions(journal: Path) -> list[tuple[str, str]]:
    """What the journal of a plan tells of evictions: what happened, and on which host."""
    entries = [json.loads(line) for line in journal.read_text().splitlines(keepends=True) if line.endswith("\n")]
    steps = [
        (entry["type"], entry.get("host"), entry.get("step") or entry.get("result", {}).get("step"))
        for entry in entries
    ]
    return [(event, host) for event, host, step in steps if step == "kubernetes.drain"]
