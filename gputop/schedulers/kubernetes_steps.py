"""What kubectl is asked to do for an act. Pure. Never `--force` and never `--delete-emptydir-data` unless a person has
agreed to that loss by name."""

from __future__ import annotations

from msgspec import structs

from gputop.domain.action import ActionRequest, Block, Consent, Goal, LossKind, Step
from gputop.domain.backend import Kubernetes
from gputop.domain.call import Call, RunHere, RunOn, Watch, command_of
from gputop.domain.job import AdminState, NodeState
from gputop.schedulers.kubernetes_read import LEFT_ALONE, MARK
from gputop.schedulers.reason import not_ours, reason_of

CHANGE_SECONDS = 60.0
RESUME_SECONDS = 120.0
MARGIN_SECONDS = 7.0
"""kubectl ends itself before its step does, or up to 5 s after its timeout: only then it says what is left."""

ONCE_SECONDS = 3.0
"""For a drain that nobody waits for: every pod is asked to leave; what a budget refuses is left to the next drain."""

Kubectl = RunHere | RunOn


def kubectl(spec: Kubernetes, *words: str) -> Kubectl:
    """kubectl with its context, where the inventory says."""
    kubeconfig = ("--kubeconfig", spec.kubeconfig) if spec.kubeconfig is not None else ()
    argv = (spec.kubectl, "--context", spec.context, *kubeconfig, *words)
    return RunOn(host=spec.via, argv=argv) if spec.via is not None else RunHere(argv=argv)


def drain_call(spec: Kubernetes, node: str, consents: frozenset[str], seconds: float, *more: str) -> Kubectl:
    force = ("--force",) if LossKind.UNMANAGED_POD in consents else ()
    data = ("--delete-emptydir-data",) if LossKind.EMPTY_DIR in consents else ()
    timeout = f"--timeout={max(1, int(seconds))}s"
    return kubectl(spec, "drain", node, "--ignore-daemonsets", *force, *data, timeout, *more)


def tied(call: Kubectl) -> Kubectl:
    """A drain that went on after gputop's end would evict pods that nobody tells of, and after a roll-back too."""
    return structs.replace(call, tied=True)


def trial_call(spec: Kubernetes, step: Step) -> Kubectl:
    """The drain as the server would do it, without effect."""
    consents = frozenset(filter(None, step.wanted["consents"].split(",")))
    return drain_call(spec, step.wanted["node"], consents, 3.0, "--dry-run=server")


def cordon_steps(spec: Kubernetes, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block:
    name = node.node
    if name is None:
        return node.block or _no_node()
    cordon = _step("kubernetes.cordon", f"cordon {name}", kubectl(spec, "cordon", name), Goal.CORDONED, name)
    if node.cordoned:
        return (structs.replace(cordon, why_no_undo="it was cordoned before"),)
    reason = reason_of(request)
    unmark = _unmark(spec, name)
    mark = _step(
        "kubernetes.mark",
        "note who and why at the node",
        kubectl(spec, "annotate", "node", name, f"{MARK}={reason}", "--overwrite"),
        Goal.MARKED,
        name,
    )
    uncordon = structs.replace(_uncordon(spec, name), before={"reason": reason})
    return (
        structs.replace(cordon, undo=uncordon),
        structs.replace(mark, wanted={**mark.wanted, "reason": reason}, optional=True, undo=unmark),
    )


def drain_steps(spec: Kubernetes, node: NodeState, request: ActionRequest, seconds: float) -> tuple[Step, ...] | Block:
    """A trial, the cordon, the drain. Pods whose loss nobody has agreed to stop it at the trial, before the cordon."""
    cordon = cordon_steps(spec, node, request)
    name = node.node
    if isinstance(cordon, Block) or name is None:
        return cordon
    if node.admin is AdminState.DOWN and Consent.NODE_NOT_READY not in request.consents:
        return Block(
            kind=Consent.NODE_NOT_READY,
            summary=f"node {name} is {node.raw}: its pods would not leave before its kubelet answers",
            hint=f"cordon it, or agree to wait: --consent {Consent.NODE_NOT_READY}",
            consent=Consent.NODE_NOT_READY,
        )
    consents = frozenset((LossKind.UNMANAGED_POD.value, LossKind.EMPTY_DIR.value)) & request.consents
    wanted = {"node": name, "consents": ",".join(sorted(consents))}
    pods = sorted(f"{pod.namespace}/{pod.name}" for pod in node.pods if pod.fate not in LEFT_ALONE)
    if not request.wait:
        seconds = ONCE_SECONDS + MARGIN_SECONDS
    call = tied(drain_call(spec, name, consents, seconds - MARGIN_SECONDS))
    trial = _step("kubernetes.trial", "try the drain without effect", Watch(what=""), Goal.EVICTABLE, name)
    trial = structs.replace(trial, wanted=wanted)
    trial = structs.replace(trial, call=Watch(what=f"see that this may be done: {command_of(trial_call(spec, trial))}"))
    once = "" if request.wait else f", those that may go within {ONCE_SECONDS:g} s"
    drain = _step("kubernetes.drain", f"evict the pods of {name}{once}", call, Goal.NO_WORK, name, seconds=seconds)
    drain = structs.replace(
        drain,
        before={"pods": ",".join(pods)},
        wanted=wanted,
        poll_seconds=5.0,
        waits=True,
        why_no_undo="pods that were evicted stay evicted",
    )
    return (trial, *cordon, drain)


def resume_steps(spec: Kubernetes, node: NodeState, request: ActionRequest) -> tuple[Step, ...] | Block:
    name = node.node
    if name is None:
        return node.block or _no_node()
    if node.cordoned:
        block = not_ours(node, request)
        if block is not None:
            return block
    uncordon = structs.replace(_uncordon(spec, name), before={"reason": node.reason or ""})
    return (uncordon, structs.replace(_unmark(spec, name), optional=True))


def _uncordon(spec: Kubernetes, name: str) -> Step:
    call = kubectl(spec, "uncordon", name)
    return _step("kubernetes.uncordon", f"uncordon {name}", call, Goal.SCHEDULABLE, name, seconds=RESUME_SECONDS)


def _unmark(spec: Kubernetes, name: str) -> Step:
    call = kubectl(spec, "annotate", "node", name, f"{MARK}-")
    return _step("kubernetes.unmark", "remove the note at the node", call, Goal.UNMARKED, name)


def _step(id: str, title: str, call: Call, goal: Goal, node: str, *, seconds: float = CHANGE_SECONDS) -> Step:
    return Step(
        id=id,
        actor="scheduler",
        title=title,
        call=call,
        goal=goal,
        wanted={"node": node},
        deadline_seconds=seconds,
        poll_seconds=1.0,
    )


def _no_node() -> Block:
    return Block(kind="node-not-found", summary="the cluster has no node for this host")
