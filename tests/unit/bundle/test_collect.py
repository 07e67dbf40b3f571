"""What is asked of a host, in which order, and what is said of what cannot be had."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec import structs

from gputop.bundle.collect import gather
from gputop.bundle.items import Gathered, Item, Lines, Progress, Text
from gputop.bundle.tools import HOST_TOOLS, vendor_tools
from gputop.domain.action import ActionKind
from gputop.domain.link import LinkState
from gputop.domain.reading import Device
from gputop.domain.record import AuditEvent, AuditRecord
from gputop.fleet.series import SeriesStore
from tests.fakes.clock import START
from tests.unit.bundle.lab import LATE, LOST, Lab, said


@pytest.fixture
def make(tmp_path: Path) -> Callable[[], Lab]:
    return lambda: Lab(tmp_path)


async def gathered(lab: Lab, name: str = "gpu-01", **fields: object) -> Gathered:
    own: dict[str, object] = {"records": [], "series": None, "listen": lambda _: None}
    return await lab.wait(gather(lab.acts, name, **{**own, **fields}))  # type: ignore[arg-type]


def items(found: Gathered) -> dict[str, Item]:
    return {item.path: item for item in found.items}


def text(item: Item) -> str:
    assert isinstance(item.body, Text)
    return item.body.content.decode()


async def test_each_thing_is_asked_once_and_stands_under_its_own_path(make: Callable[[], Lab]) -> None:
    lab = make()
    found = await gathered(lab)
    expected = [tool.path for tool in (*HOST_TOOLS, *vendor_tools(lab.hosts["gpu-01"]))]
    own = ["host.json", "facts.json", "frames.jsonl", "audit.jsonl"]
    assert list(items(found)) == [*own, *expected]
    assert len(lab.asked) == len(set(lab.asked)) == len(expected)
    assert found.answered
    assert text(items(found)["tools/nvidia-smi-q.txt"]) == "nvidia-smi -q\n"
    frames = items(found)["frames.jsonl"].body
    assert isinstance(frames, Lines)
    assert len({frame["sampled_at"] for frame in frames.values}) == found.frames == 3


async def test_nothing_more_is_asked_of_a_driver_that_hangs_but_all_else_is(make: Callable[[], Lab]) -> None:
    lab = make()
    lab.answers["nvidia-smi -q"] = LATE
    found = await gathered(lab)
    assert [command for command in lab.asked if command.startswith("nvidia-smi")] == ["nvidia-smi -q"]
    assert items(found)["tools/nvidia-smi-q.txt"].problem == "no end within 45 s"
    assert items(found)["tools/nvidia-smi-topo-m.txt"].problem == (
        "not asked: nvidia-smi -q did not end: the driver may hang, and nothing more is asked of it"
    )
    assert items(found)["lspci-vv.txt"].problem is None


async def test_one_that_was_ended_by_its_host_counts_as_hanging_too(make: Callable[[], Lab]) -> None:
    lab = make()
    lab.answers["nvidia-smi topo"] = said("", 124)
    found = await gathered(lab)
    assert items(found)["tools/nvidia-smi-topo-m.txt"].problem == "was ended at its deadline"
    assert items(found)["tools/nvidia-smi-q.txt"].problem is None
    assert "not asked" in str(items(found)["tools/nvidia-smi-q-x.xml"].problem)


@pytest.mark.parametrize(
    ("answer", "problem", "has_body"),
    [
        (said("", 127, "sh: 1: exec: lspci: not found"), "lspci is not on this host", False),
        (said("half", 1, "lspci: Cannot open\n"), "exit status 1: lspci: Cannot open", True),
        (said("\n"), "printed nothing", True),
        (said(""), "printed nothing", False),
        (structs.replace(said("x" * 9), truncated=True), "printed more than is kept: its end is missing", True),
        (LOST, "connection lost", False),
    ],
)
async def test_what_a_program_did_not_do_is_said(
    make: Callable[[], Lab], answer: object, problem: str, has_body: bool
) -> None:
    lab = make()
    lab.answers["lspci -nn"] = answer  # type: ignore[assignment]
    item = items(await gathered(lab))["lspci.txt"]
    assert item.problem == problem
    assert (item.body is not None) is has_body


async def test_a_kernel_log_that_may_not_be_read_is_told_by_the_words_of_its_programs(make: Callable[[], Lab]) -> None:
    lab = make()
    refused = "read kernel buffer failed: Operation not permitted"
    lab.answers["sh -c for try"] = said(
        "", 1, f"dmesg -T: dmesg: {refused}\ndmesg: dmesg: {refused}\njournalctl -k: printed nothing\n"
    )
    found = await gathered(lab)
    assert items(found)["kernel.log"].problem == f"dmesg -T: dmesg: {refused}; journalctl -k: printed nothing"


async def test_a_host_that_cannot_be_reached_is_asked_nothing_and_what_was_known_of_it_stays(
    make: Callable[[], Lab],
) -> None:
    lab = make()
    lab.silence("gpu-01")
    found = await gathered(lab)
    assert not found.answered
    assert lab.asked == []
    assert items(found)["versions.txt"].problem == "not asked: unreachable: no route to host (10.3.0.17:22)"
    assert items(found)["host.json"].problem == "no reading of it is known"
    assert items(found)["host.json"].body is not None
    assert items(found)["frames.jsonl"].problem == "0 of 3 came"


async def test_a_login_that_was_refused_is_not_tried_again(make: Callable[[], Lab]) -> None:
    lab = make()
    lab.silence("gpu-01", LinkState.AUTH_FAILED)
    lab.stage.machines.answers.clear()  # a look would wait for ever
    found = await gathered(lab)
    assert items(found)["lspci.txt"].problem == "not asked: auth-failed: no route to host (10.3.0.17:22)"


async def test_a_host_whose_programs_cannot_be_run_is_asked_one_only(make: Callable[[], Lab]) -> None:
    lab = make()
    lab.answers["sh -c for command"] = LOST
    found = await gathered(lab)
    assert len(lab.asked) == 1
    assert found.answered, "its readings came"
    assert items(found)["kernel.log"].problem == "not asked: connection lost"


async def test_the_tools_of_the_vendors_that_are_seen_are_asked(make: Callable[[], Lab]) -> None:
    lab = make()
    frame = lab.hosts["gpu-01"].frame
    assert frame is not None
    devices = (Device(index=0, vendor="amd"), Device(index=1, vendor="huawei"))
    lab.change("gpu-01", frame=structs.replace(frame, devices=devices))
    await gathered(lab)
    assert "amd-smi metric" in lab.asked
    assert "npu-smi info" in lab.asked
    assert not [command for command in lab.asked if command.startswith("nvidia-smi")]


async def test_the_last_minutes_stand_in_it_with_an_empty_field_where_nothing_was_seen(make: Callable[[], Lab]) -> None:
    lab = make()
    series, frame = SeriesStore(), lab.hosts["gpu-01"].frame
    assert frame is not None
    series.push("gpu-01", structs.replace(frame, received_at=START - timedelta(seconds=60)))
    found = await gathered(lab, series=series)
    header, *rows = text(items(found)["history.csv"]).splitlines()
    assert header == "at,gpu,utilization_percent,memory_percent"
    assert rows[0].startswith("2026-01-02T03:03:05Z,,0.00,")
    assert {row.split(",")[1] for row in rows} == {"", "0", "1"}
    assert (
        items(await gathered(lab, series=SeriesStore()))["history.csv"].problem == "nothing was seen of it in that time"
    )


async def test_the_audit_log_of_the_host_is_in_it_or_why_not(make: Callable[[], Lab]) -> None:
    lab = make()
    record = AuditRecord(time=START, event=AuditEvent.OUTCOME, plan="p", act=ActionKind.DRAIN, host="gpu-01")
    item = items(await gathered(lab, records=[record]))["audit.jsonl"]
    assert isinstance(item.body, Lines)
    assert item.body.values[0]["act"] == "drain"
    item = items(await gathered(lab, records="audit.jsonl: Permission denied"))["audit.jsonl"]
    assert (item.body, item.problem) == (None, "audit.jsonl: Permission denied")


async def test_what_is_done_is_told_while_it_is_done(make: Callable[[], Lab]) -> None:
    lab = make()
    told: list[Progress] = []
    await gathered(lab, listen=told.append)
    assert told[0].doing == "asking for a reading"
    assert "nvidia-smi -q -x" in [progress.doing for progress in told]
