"""Reads what kubectl prints: nodes, pods and what a drain does with each, disruption budgets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from gputop.domain.action import LossKind
from gputop.domain.job import AdminState, DisruptionBudget, Pod, PodFate

NODE_COLUMNS = (
    "NAME:.metadata.name,HOSTNAME:.metadata.labels.kubernetes\\.io/hostname,"
    "PROVIDER:.spec.providerID,ADDRESSES:.status.addresses[*].address"
)
"""For `kubectl get nodes -o custom-columns=`: a whole node is some 10 KiB of JSON, this is one line."""
OWNER_COLUMNS = "UID:.metadata.uid"
OWNER_KINDS = {
    "DaemonSet": "daemonsets.apps",
    "ReplicaSet": "replicasets.apps",
    "StatefulSet": "statefulsets.apps",
    "Job": "jobs.batch",
    "ReplicationController": "replicationcontrollers",
}
"""Kinds whose objects are looked up: a pod whose owner is gone does not come back. Other kinds are taken at their
word."""
MARK = "gputop/drain"
"""The annotation that says who cordoned a node through gputop, and why."""
CORDON_TAINT = "node.kubernetes.io/unschedulable"
CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
LEFT_ALONE = frozenset({PodFate.DAEMON_SET, PodFate.MIRROR, PodFate.FINISHED})
"""Pods that a drain does not wait for."""


class Unreadable(Exception):
    """The output is not what kubectl prints; it says nothing."""


class KubeNode(Struct, frozen=True, kw_only=True):
    name: str
    unschedulable: bool
    ready: bool | None
    """`None`: nothing says so."""
    why_not_ready: str = ""
    mark: str | None = None
    cordoned_at: datetime | None = None
    control_plane: bool = False

    @property
    def raw(self) -> str:
        """As in `kubectl get nodes`."""
        ready = "Ready" if self.ready else "NotReady" if self.ready is False else "Unknown"
        return ready + (",SchedulingDisabled" if self.unschedulable else "")

    def admin(self, busy: bool) -> AdminState:
        """`busy`: pods are left that a drain waits for."""
        if self.ready is None:
            return AdminState.UNKNOWN
        if not self.ready:
            return AdminState.DOWN
        if self.unschedulable:
            return AdminState.DRAINING if busy else AdminState.DRAINED
        return AdminState.SCHEDULABLE


class KubePod(Struct, frozen=True, kw_only=True):
    """A pod with what only the drain needs to know of it."""

    pod: Pod
    labels: Mapping[str, str] = {}
    ends_at: datetime | None = None
    """When it should be gone: its grace period is over. `None`: it is not leaving."""
    finalizers: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.pod.namespace}/{self.pod.name}"


class Budget(Struct, frozen=True, kw_only=True):
    """A PodDisruptionBudget with whom it covers."""

    budget: DisruptionBudget
    selector: Mapping[str, Any] | None
    empty_selects_all: bool
    """policy/v1; in policy/v1beta1 an empty selector selects nothing."""

    def covers(self, pod: KubePod) -> bool:
        if self.selector is None or pod.pod.namespace != self.budget.namespace:
            return False
        wanted = self.selector.get("matchLabels") or {}
        expressions = self.selector.get("matchExpressions") or []
        if not wanted and not expressions:
            return self.empty_selects_all
        return all(pod.labels.get(key) == value for key, value in wanted.items()) and all(
            _holds(expression, pod.labels) for expression in expressions
        )


def parse_node_names(text: str) -> dict[str, tuple[str, ...]]:
    """Each node with the names and addresses it goes by, from `NODE_COLUMNS`."""
    names: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        columns = line.split()
        if len(columns) != 4:
            raise Unreadable("a line of kubectl get nodes has not four columns")
        name, hostname, provider, addresses = ("" if column == "<none>" else column for column in columns)
        names[name] = tuple(filter(None, (hostname, provider.rpartition("/")[2], *addresses.split(","))))
    return names


def parse_nodes(text: bytes) -> dict[str, KubeNode]:
    """`kubectl get node NAME… -o json`: one node, or a list of them."""
    return {node.name: node for node in map(_node, _items(text, one=True))}


def parse_pods(text: bytes, owners: Collection[str] | None = None) -> list[KubePod]:
    """Pods with their fates. `owners`: uids of all objects of `OWNER_KINDS`; `None`: not known, nobody is missed."""
    return [_pod(item, owners) for item in _items(text)]


def parse_budgets(text: bytes) -> list[Budget]:
    return [_budget(item) for item in _items(text)]


def covering(pod: KubePod, budgets: Sequence[Budget]) -> list[DisruptionBudget]:
    return [budget.budget for budget in budgets if budget.covers(pod)]


def _items(text: bytes, *, one: bool = False) -> list[Any]:
    """The objects of a list; `one`: or an object by itself."""
    try:
        document = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Unreadable(f"no JSON: {error}") from None
    if not isinstance(document, dict):
        raise Unreadable("no object")
    items = document.get("items", [document] if one else None)
    if not isinstance(items, list) or not all(isinstance(item, dict) and "metadata" in item for item in items):
        raise Unreadable("no list of objects")
    return items


def _node(item: Mapping[str, Any]) -> KubeNode:
    metadata, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    ready = next((c for c in status.get("conditions") or [] if c.get("type") == "Ready"), None)
    why = ""
    if ready is not None and ready.get("status") != "True":
        why = ready.get("message") or ready.get("reason") or ""
    taint: Any = next((t for t in spec.get("taints") or [] if t.get("key") == CORDON_TAINT), {})
    labels = metadata.get("labels") or {}
    return KubeNode(
        name=metadata["name"],
        unschedulable=bool(spec.get("unschedulable")),
        ready=None if ready is None else ready.get("status") == "True",
        why_not_ready=why,
        mark=(metadata.get("annotations") or {}).get(MARK),
        cordoned_at=_time(taint.get("timeAdded")),
        control_plane=any(label in labels for label in CONTROL_PLANE),
    )


def _pod(item: Mapping[str, Any], owners: Collection[str] | None) -> KubePod:
    metadata, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    controller = next((owner for owner in metadata.get("ownerReferences") or [] if owner.get("controller")), None)
    ends_at = _time(metadata.get("deletionTimestamp"))
    concerns = _concerns(spec, controller, owners)
    if "kubernetes.io/config.mirror" in (metadata.get("annotations") or {}):
        fate = PodFate.MIRROR
    elif status.get("phase") in ("Succeeded", "Failed"):
        fate = PodFate.FINISHED
    elif ends_at is not None:
        fate = PodFate.TERMINATING
    elif controller is not None and controller.get("kind") == "DaemonSet" and not _missing(controller, owners):
        fate = PodFate.DAEMON_SET
    else:
        fate = PodFate.NEEDS_CONSENT if concerns else PodFate.EVICT
    pod = Pod(
        namespace=metadata.get("namespace") or "default",
        name=metadata["name"],
        uid=metadata.get("uid") or "",
        fate=fate,
        concerns=concerns if fate is PodFate.NEEDS_CONSENT else (),
        claims=tuple(claim.get("name", "") for claim in spec.get("resourceClaims") or []),
        owner=f"{controller['kind']}/{controller['name']}" if controller is not None else None,
        gpus=_gpus(spec),
    )
    return KubePod(
        pod=pod,
        labels=metadata.get("labels") or {},
        ends_at=ends_at,
        finalizers=tuple(metadata.get("finalizers") or ()),
    )


def _concerns(
    spec: Mapping[str, Any], controller: Mapping[str, Any] | None, owners: Collection[str] | None
) -> tuple[str, ...]:
    """What is lost with a pod: itself, when nothing makes a new one; its emptyDir volumes, in memory or not."""
    concerns = []
    if controller is None or _missing(controller, owners):
        concerns.append(LossKind.UNMANAGED_POD.value)
    if any("emptyDir" in volume for volume in spec.get("volumes") or []):
        concerns.append(LossKind.EMPTY_DIR.value)
    return tuple(concerns)


def _missing(owner: Mapping[str, Any], owners: Collection[str] | None) -> bool:
    return owners is not None and owner.get("kind") in OWNER_KINDS and owner.get("uid") not in owners


def _gpus(spec: Mapping[str, Any]) -> int | None:
    """Devices that its containers ask for: whole ones and slices."""
    total = 0
    for container in spec.get("containers") or []:
        for name, amount in ((container.get("resources") or {}).get("limits") or {}).items():
            if (name.endswith("/gpu") or "/mig-" in name) and str(amount).isdecimal():
                total += int(amount)
    return total or None


def _budget(item: Mapping[str, Any]) -> Budget:
    metadata, status = item["metadata"], item.get("status") or {}
    return Budget(
        budget=DisruptionBudget(
            namespace=metadata.get("namespace") or "default",
            name=metadata["name"],
            allowed=int(status.get("disruptionsAllowed") or 0),
            healthy=int(status.get("currentHealthy") or 0),
            wanted=int(status.get("desiredHealthy") or 0),
        ),
        selector=(item.get("spec") or {}).get("selector"),
        empty_selects_all=item.get("apiVersion") != "policy/v1beta1",
    )


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = expression.get("key", ""), expression.get("values") or []
    match expression.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return True  # an operator of the future: rather named in vain than not named


def _time(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
