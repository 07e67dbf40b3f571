"""Words of Slurm: states, generic resources, recorded output of two versions."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.domain.job import AdminState, Job
from gputop.schedulers.slurm_read import (
    SlurmNode,
    Unreadable,
    holds_nodes,
    parse_controllers,
    parse_jobs,
    parse_jobs_json,
    parse_nodes,
    parse_nodes_json,
)
from gputop.schedulers.slurm_state import (
    SUFFIXES,
    Gres,
    expand_nodes,
    gpus_of,
    parse_gres,
    parse_state,
    parse_time,
)

FIXTURES = Path(__file__).parents[2] / "fixtures"
SLURM = FIXTURES / "slurm"


def rows(name: str) -> list[dict[str, str]]:
    with (FIXTURES / "cases" / name).open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


@pytest.mark.parametrize("row", rows("11-slurm-node-states.tsv"), ids=lambda row: row["state"])
def test_case_11_states_of_nodes(row: dict[str, str]) -> None:
    state = parse_state(row["state"])
    assert state.base == row["base"]
    held = {AdminState.DRAINING: "draining", AdminState.DRAINED: "drained"}.get(state.admin, "no")
    assert held == row["draining_or_drained"]
    assert state.responding is (row["responding"] == "yes")
    assert state.can_take_jobs is (row["can_take_jobs"] == "yes")


@pytest.mark.parametrize("row", rows("12-slurm-gres.tsv"), ids=lambda row: row["gres_used"])
def test_case_12_generic_resources(row: dict[str, str]) -> None:
    indexes = tuple(int(index) for index in (row["used_indexes"] or "").split(",") if index)
    assert parse_gres(row["gres"], row["gres_used"]) == Gres(int(row["total"]), int(row["used"]), indexes)


def test_gpus_of_several_kinds_are_added_and_other_resources_left_out() -> None:
    configured = "gpu:a100:4(S:0-1),mps:100,gpu:v100:2,shard:8,gpu"
    assert parse_gres(configured, "gpu:a100:2(IDX:0,2),gpu:v100:1(IDX:5)") == Gres(7, 3, (0, 2, 5))
    assert [gpus_of(text) for text in ("gres:gpu:h100:4", "gres/gpu:4", "gpu:1g.10gb:7", "N/A", "", None)] == [
        4,
        4,
        7,
        None,
        None,
        None,
    ]


@pytest.mark.parametrize(("mark", "flag"), SUFFIXES.items())
def test_marks_after_a_state_are_flags(mark: str, flag: str) -> None:
    state = parse_state(f"mixed{mark}+DRAIN")
    assert (state.base, state.flags) == ("MIXED", {flag, "drain"})
    assert state.admin is AdminState.DRAINING


def test_an_epilog_that_still_runs_is_draining_not_drained() -> None:
    assert parse_state("IDLE+COMPLETING+DRAIN").admin is AdminState.DRAINING
    assert parse_state("IDLE+FAIL").admin is AdminState.DRAINED
    assert [parse_state(text).admin for text in ("UNKNOWN", "FUTURE", "")] == [AdminState.UNKNOWN] * 3


@given(st.text())
def test_any_text_is_read_as_some_state_gres_and_nodes_without_an_error(text: str) -> None:
    parse_state(text)
    parse_gres(text, text)
    gpus_of(text)
    parse_time(text)
    parse_controllers(text)


def brief(node: SlurmNode) -> tuple[str, str, str | None, str | None, int, int]:
    return (node.name, node.state.text, node.reason, node.reason_by, node.gres.total, node.gres.used)


GPU01 = ("gpu01", "MIXED+DRAIN", "gputop:alice:OPS-1: why not", "root", 8, 4)
GPU02 = ("gpu02", "MIXED+DRAIN+REBOOT_REQUESTED", "gputop:alice:OPS-2: kernel", "root", 8, 4)


def test_nodes_of_22_05_read_the_same_from_text_and_json() -> None:
    text = parse_nodes((SLURM / "scontrol-node-22.05.txt").read_text())
    json = parse_nodes_json((SLURM / "sinfo-22.05.json").read_bytes())
    assert [brief(node) for node in text] == [GPU01, GPU02, ("gpu03", "MIXED", None, None, 8, 8)]
    assert [brief(node) for node in json] == [brief(node) for node in text]
    for one, other in zip(text, json, strict=True):
        assert (one.address, one.hostname, one.reason_at) == (other.address, other.hostname, other.reason_at)
        assert one.booted_at is not None
        assert other.booted_at is not None
        assert abs((one.booted_at - other.booted_at).total_seconds()) <= 2


def test_nodes_of_24_11_read_the_same_from_text_and_json() -> None:
    text = parse_nodes((SLURM / "scontrol-node-24.11.txt").read_text())
    json = parse_nodes_json((SLURM / "scontrol-node-24.11.json").read_bytes())
    assert [brief(node) for node in text] == [GPU01, GPU02, ("gpu03", "IDLE", None, None, 8, 0)]
    assert json == text
    assert text[0].reason_at == datetime(2026, 12, 1, 5, 39, 47, tzinfo=UTC)


def test_jobs_of_22_05_read_the_same_from_text_and_json() -> None:
    text = {one.job.id: one for one in parse_jobs((SLURM / "squeue-22.05.txt").read_text())}
    json = {one.job.id: one for one in parse_jobs_json((SLURM / "squeue-22.05.json").read_bytes())}
    assert json.keys() - text.keys() == {"1"}, "the finished job is in the JSON alone"
    assert not holds_nodes(json["1"].job)
    for number, one in text.items():
        other = json[number]
        for field in ("name", "user", "state", "nodes", "started_at", "ends_at"):
            assert getattr(one.job, field) == getattr(other.job, field), (number, field)
        assert one.gpus == other.gpus
    assert json["2"].gpus == {"gpu01": 4, "gpu02": 4}
    assert (json["4"].job.ends_at, json["4"].job.requeueable, json["2"].job.requeueable) == (None, False, True)


def test_jobs_of_24_11_are_read_from_json() -> None:
    running, pending = (one.job for one in parse_jobs_json((SLURM / "squeue-24.11.json").read_bytes()))
    assert (running.id, running.name, running.user, running.state, running.nodes) == (
        "1",
        "evil |x State=IDLE",
        "root",
        "RUNNING",
        ("gpu01", "gpu02"),
    )
    assert running.ends_at is not None
    assert running.started_at is not None
    assert (running.ends_at - running.started_at).total_seconds() == 600
    assert (pending.state, pending.nodes, pending.ends_at) == ("PENDING", (), None)


@pytest.mark.parametrize("version", ["22.05", "24.11"])
def test_tasks_of_arrays_and_parts_of_jobs_have_a_name_that_means_nothing_else(version: str) -> None:
    text = [one.job for one in parse_jobs((SLURM / f"squeue-arrays-{version}.txt").read_text())]
    json = [one.job for one in parse_jobs_json((SLURM / f"squeue-arrays-{version}.json").read_bytes())]
    named = {job.id: (job.handle, job.nodes) for job in text}
    assert {job.id: (job.handle, job.nodes) for job in json} == named
    array, whole = ("17", "15") if version == "22.05" else ("20", "18")
    assert [handle for handle, nodes in sorted(named.values()) if nodes] == [
        f"{whole}+0",
        f"{whole}+1",
        *(f"{array}_{task}" for task in (1, 2, 3)),
    ]
    assert named[array] == (array, ()), "what waits of the array"


STATES = [
    ("gpu01", "IDLE+DRAIN", "root"),
    ("gpu02", "IDLE+DRAIN+MAINTENANCE+RESERVED", "root"),
    ("gpu03", "IDLE+RESERVED", None),
    ("gpu04", "IDLE+POWERED_DOWN", None),
    ("gpu05", "IDLE+NOT_RESPONDING", None),
    ("gpu06", "IDLE+COMPLETING+PLANNED", None),
]


@pytest.mark.parametrize("version", ["22.05", "24.11"])
def test_flags_and_reasons_of_all_kinds_read_the_same_from_text_and_json(version: str) -> None:
    program = "sinfo" if version == "22.05" else "scontrol-node"
    text = parse_nodes((SLURM / f"scontrol-node-states-{version}.txt").read_text())
    json = parse_nodes_json((SLURM / f"{program}-states-{version}.json").read_bytes())
    for nodes in (text, json):
        found = [(node.name, node.state.text, node.reason_by if node.state.cordoned else None) for node in nodes]
        assert found == STATES
        assert (nodes[0].reason or "").splitlines()[0] == 'bad "NIC" it\'s'
        assert nodes[1].reason == "gputop:alice:OPS-1: fan"
    assert [node.reason_at for node in text[:2]] == [node.reason_at for node in json[:2]]


def test_what_is_not_slurm_s_output_says_nothing() -> None:
    for text in (b"", b"{", b"[]", b'{"nodes": null}', b'{"nodes": [1]}', b'{"nodes": [{}]}'):
        with pytest.raises(Unreadable):
            parse_nodes_json(text)
    for text in (b'{"jobs": [{"job_id": 1}]}', b'{"jobs": [], "errors": [{"error": "x"}]}'):
        with pytest.raises(Unreadable):
            parse_jobs_json(text)
    with pytest.raises(Unreadable):
        parse_nodes("slurm_load_node error: oops")
    for line in ("1|RUNNING", "x|RUNNING|u|p|n|s|e|b|name"):
        with pytest.raises(Unreadable):
            parse_jobs(line)


@pytest.mark.parametrize(
    ("written", "why", "by"),
    [
        ("fan [2] is bad [bob@2026-03-01T10:15:00]", "fan [2] is bad", "bob"),
        ("fan [2] State=IDLE [bob@2026-03-01T10:15:00] Comment=x", "fan [2] State=IDLE", "bob"),
        ("Xid=79 RealMemory=1 [bob@2026-03-01T10:15:00]", "Xid=79 RealMemory=1", "bob"),
        (
            "as [ann@2026-01-01T00:00:00] said [bob@2026-03-01T10:15:00] Extra=y",
            "as [ann@2026-01-01T00:00:00] said",
            "bob",
        ),
        ("NIC [bob@2026-03-01T10:15:00] ReservationName=maint", "NIC", "bob"),
        ("NIC [bob@2026-03-01T10:15:00] Comment=c [ann@2026-01-01T00:00:00]", "NIC", "bob"),
        ("first [bob@2026-03-01T10:15:00]        second line Comment=c", "first", "bob"),
        ("Not responding", "Not responding", None),
    ],
)
def test_a_reason_may_hold_anything_without_being_mistaken(written: str, why: str, by: str | None) -> None:
    (node,) = parse_nodes(f"NodeName=a State=IDLE+DRAIN CfgTRES=cpu=32 Reason={written}")
    assert (node.state.text, node.reason, node.reason_by) == ("IDLE+DRAIN", why, by)
    assert node.reason_at == (datetime(2026, 3, 1, 10, 15, tzinfo=UTC) if by else None)


def test_lists_of_nodes_controllers_and_finished_jobs() -> None:
    assert expand_nodes("gpu[01-03,07]") == ("gpu01", "gpu02", "gpu03", "gpu07")
    assert expand_nodes("") == ()
    assert expand_nodes("gpu[3-1") == ("gpu[3-1",)
    assert parse_controllers("SlurmctldHost[0]        = ctl1(10.0.0.1)\nSlurmctldHost[1] = ctl2\nX = y") == (
        "ctl1",
        "10.0.0.1",
        "ctl2",
    )
    held = [Job(id="1", state=state, nodes=("a",)) for state in ("RUNNING", "COMPLETING", "SUSPENDED", "CANCELLED")]
    assert [holds_nodes(job) for job in held] == [True, True, True, False]
