"""Which node a host is, and whose a drain is."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from gputop.domain.action import ActionKind, ActionRequest, Block
from gputop.domain.backend import Ec2
from gputop.domain.host import Endpoint, Host, HostSpec
from gputop.domain.job import NodeState
from gputop.domain.reading import HostFacts
from gputop.schedulers.match import find_nodes
from gputop.schedulers.reason import LIMIT, not_ours, parse_reason, reason_of
from tests.fakes.builders import a_frame, a_link

NODES = {"gpu01": ("10.0.0.1", "gpu01"), "gpu02": ("10.0.0.2", "host-b"), "gpu03": ("10.0.0.3", "i-0123")}


def a_host(name: str, **fields: object) -> Host:
    known = {key: fields.pop(key) for key in ("frame", "endpoint") if key in fields}
    return Host(spec=HostSpec(name=name, **fields), link=a_link(), reported=a_link(), **known)  # type: ignore[arg-type]


def found(host: Host, template: str | None = None) -> str:
    node = find_nodes([host], template, NODES)[host.name]
    return node if isinstance(node, str) else node.kind


def test_a_host_is_found_by_name_address_its_own_hostname_or_instance() -> None:
    assert found(a_host("GPU01")) == "gpu01"
    assert found(a_host("x", address="10.0.0.2")) == "gpu02"
    assert found(a_host("x", endpoint=Endpoint(address="10.0.0.3"))) == "gpu03"
    frame = a_frame(facts=HostFacts(hostname="host-b.example.org"))
    assert found(a_host("x", address="127.0.0.1", frame=frame)) == "gpu02"
    assert found(a_host("x", power=Ec2(instance_id="i-0123"))) == "gpu03"


def test_a_host_is_never_guessed() -> None:
    for name in ("gpu", "gpu1", "gpu011", "xgpu01", "gpu01.example.org", "localhost"):
        assert found(a_host(name)) == "node-not-found", name
    assert found(a_host("gpu01", address="10.0.0.2")) == "node-ambiguous"
    assert found(a_host("x", address="127.0.0.1")) == "node-not-found"


def test_a_name_from_the_inventory_must_be_the_node_s_very_name() -> None:
    assert found(a_host("01"), "gpu{host}") == "gpu01"
    assert found(a_host("gpu01"), "gpu02") == "gpu02"
    for template in ("gpu[01-03]", "gpu", "GPU01", "*", "ALL"):
        assert found(a_host("gpu01"), template) == "node-not-found", template


def test_two_hosts_that_are_one_node_are_both_refused() -> None:
    nodes = find_nodes([a_host("gpu01"), a_host("twin", address="10.0.0.1"), a_host("gpu02")], None, NODES)
    assert [isinstance(node, Block) for node in nodes.values()] == [True, True, False]


def a_request(**fields: object) -> ActionRequest:
    return ActionRequest(kind=ActionKind.DRAIN, hosts=("a",), **{"by": "alice", **fields})  # type: ignore[arg-type]


def test_reasons_name_the_user_the_ticket_and_why() -> None:
    assert reason_of(a_request(reason="replace NIC, ticket 4711")) == "gputop:alice:4711: replace NIC, ticket 4711"
    assert reason_of(a_request(reason="OPS-12 fan")) == "gputop:alice:OPS-12: OPS-12 fan"
    assert reason_of(a_request(reason="see #9")) == "gputop:alice:#9: see #9"
    assert reason_of(a_request(reason="")) == "gputop:alice:-: drain"
    assert reason_of(a_request(reason='a"b\n\x1b[31m c', by="a:b c")) == "gputop:a_b_c:-: a'b [31m c"


@given(st.text(), st.text())
def test_any_reason_is_one_printable_line_that_is_read_back(why: str, by: str) -> None:
    text = reason_of(a_request(reason=why, by=by))
    assert text.isprintable()
    assert '"' not in text
    assert len(text) <= max(LIMIT, len(by) + 20)
    assert parse_reason(text) is not None or len(by) > LIMIT - 20


def test_only_the_user_who_drained_through_gputop_resumes_unasked() -> None:
    since = datetime(2026, 3, 1, 10, 15, tzinfo=UTC)
    ours = NodeState(host="a", scheduler="slurm", reason="gputop:alice:-: NIC", by="alice", since=since)
    assert not_ours(ours, a_request()) is None
    block = not_ours(ours, a_request(by="bob"))
    assert block is not None
    assert block.summary == "taken out of service by alice at 2026-03-01 10:15 UTC: NIC"
    by_hand = NodeState(host="a", scheduler="slurm", reason="Kill task failed", by="alice")
    assert not_ours(by_hand, a_request()) is not None, "Slurm itself may act under the name of a user"
    assert not_ours(by_hand, a_request(override="looked at it")) is None
    assert not_ours(by_hand, a_request(consents=frozenset({"drained-by-other"}))) is None
