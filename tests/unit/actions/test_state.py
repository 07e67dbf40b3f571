"""What a plan tells of the work on a host."""

from __future__ import annotations

from gputop.actions.state import loss_of_job, pods_of_drain
from gputop.domain.job import DisruptionBudget, Job, NodeState, Pod, PodFate


def a_node(*pods: Pod, **fields: tuple[DisruptionBudget, ...]) -> NodeState:
    return NodeState(host="gpu1", scheduler="kubernetes", node="gpu1", pods=pods, **fields)


def a_pod(name: str, fate: PodFate) -> Pod:
    return Pod(namespace="ml", name=name, fate=fate)


def test_every_pod_is_named_with_what_a_drain_does_with_it() -> None:
    node = a_node(
        a_pod("train-a", PodFate.EVICT),
        a_pod("notebook", PodFate.NEEDS_CONSENT),
        a_pod("dcgm", PodFate.DAEMON_SET),
        a_pod("proxy", PodFate.MIRROR),
        a_pod("eval", PodFate.FINISHED),
        a_pod("old", PodFate.TERMINATING),
        budgets=(
            DisruptionBudget(namespace="ml", name="train", allowed=0, healthy=2, wanted=2),
            DisruptionBudget(namespace="ml", name="loose", allowed=1, healthy=3, wanted=2),
        ),
    )
    assert pods_of_drain(node) == (
        "evicts 2 pods: ml/train-a, ml/notebook",
        "waits for 1 pod: ml/old",
        "leaves 3 pods: ml/dcgm (of a DaemonSet), ml/proxy (static), ml/eval (finished)",
        "PDB ml/train allows 0 disruptions (2 healthy, 2 wanted): it waits for that",
    )
    assert pods_of_drain(a_node()) == ()


def test_many_pods_are_counted() -> None:
    [told] = pods_of_drain(a_node(*(a_pod(f"p{number}", PodFate.EVICT) for number in range(110))))
    assert told.startswith("evicts 110 pods: ml/p0, ")
    assert told.endswith("ml/p11 and 98 more")


def test_a_job_is_named_so_that_nothing_else_is_meant() -> None:
    job = Job(id="4711", part="4711_3", user="carol", nodes=("gpu1", "gpu2"))
    loss = loss_of_job(job, certain=True)
    assert (loss.summary, loss.key) == ("job 4711_3 of carol, on 2 nodes", "job 4711")
