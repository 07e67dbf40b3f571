"""Questions about one host: one of a kind under way, answers kept for a while, nothing that can block."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec import structs

from gputop.actions.enquiries import KEEP_SECONDS, Enquiries
from gputop.actions.plan import BackEnds
from gputop.actions.raw_tools import raw_tools
from gputop.domain.call import CommandResult, RunHere, RunOn
from gputop.domain.host import Host
from gputop.domain.instance import Instance, PowerState
from gputop.domain.job import AdminState, NodeState
from gputop.domain.problem import Problem, ProblemKind
from gputop.domain.reading import Device
from tests.fakes.acts import a_host
from tests.fakes.builders import a_frame
from tests.fakes.clock import ManualClock


class Office:
    """A scheduler, or a power provider, that answers when it is let."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.calls = 0
        self.given_up = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def observe(self, hosts: Sequence[Host]) -> Mapping[str, Any]:
        self.calls += 1
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        if isinstance(self.answer, Exception):
            raise self.answer
        return {host.name: self.answer for host in hosts}


class Programs:
    """A Runner."""

    def __init__(self, result: CommandResult) -> None:
        self.result = result
        self.ran: list[tuple[str, ...]] = []

    async def run(self, call: RunHere | RunOn, *, deadline_seconds: float) -> CommandResult:
        self.ran.append(call.argv)
        return self.result


NODE = NodeState(host="gpu-01", scheduler="slurm", node="n1", admin=AdminState.SCHEDULABLE)
INSTANCE = Instance(host="gpu-01", provider="ec2", power=PowerState.RUNNING)


class Desk:
    def __init__(self, *, has_power: bool = True, result: CommandResult | None = None) -> None:
        self.clock = ManualClock()
        self.scheduler, self.power = Office(NODE), Office(INSTANCE)
        self.programs = Programs(result or CommandResult(exit_status=0, stdout=b"text\n"))
        ends: Any = BackEnds(scheduler=self.scheduler, power=self.power if has_power else None)  # type: ignore[arg-type]
        self.enquiries = Enquiries({"gpu-01": ends}, self.programs, self.clock)
        self.changes = 0
        self.enquiries.changed = self._count
        self.host = a_host("gpu-01")

    def _count(self) -> None:
        self.changes += 1

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


async def test_both_are_asked_at_once_and_each_answer_is_told_when_it_comes() -> None:
    desk = Desk()
    desk.power.may_answer.clear()
    desk.enquiries.ask(desk.host)
    assert desk.enquiries.known("gpu-01", "scheduler").is_asking
    await desk.settle()
    assert desk.enquiries.known("gpu-01", "scheduler").answer == NODE
    assert desk.enquiries.known("gpu-01", "scheduler").answered_for == desk.clock.now()
    assert desk.enquiries.known("gpu-01", "instance").is_asking
    desk.power.may_answer.set()
    await desk.settle()
    assert desk.enquiries.known("gpu-01", "instance").answer == INSTANCE
    assert desk.changes == 2


async def test_an_answer_is_kept_for_a_while_unless_a_person_asks_again() -> None:
    desk = Desk()
    for seconds, anew, calls in ((0, False, 1), (KEEP_SECONDS - 1, False, 1), (2, False, 2), (1, True, 3)):
        await desk.clock.advance(seconds)
        desk.enquiries.ask(desk.host, anew=anew)
        await desk.settle()
        assert desk.scheduler.calls == calls


async def test_a_question_under_way_is_not_asked_twice() -> None:
    desk = Desk()
    desk.scheduler.may_answer.clear()
    for _ in range(3):
        desk.enquiries.ask(desk.host, anew=True)
        await desk.settle()
    assert desk.scheduler.calls == 1


async def test_whoever_leaves_gives_up_and_the_next_look_asks_at_once() -> None:
    desk = Desk()
    desk.scheduler.may_answer.clear()
    desk.enquiries.ask(desk.host)
    await desk.settle()
    desk.enquiries.leave("gpu-01")
    await desk.settle()
    assert desk.scheduler.given_up == 1
    assert not desk.enquiries.known("gpu-01", "scheduler").is_asking
    desk.scheduler.may_answer.set()
    desk.enquiries.ask(desk.host)
    await desk.settle()
    assert desk.enquiries.known("gpu-01", "scheduler").answer == NODE


async def test_a_fault_is_told_and_the_answer_before_it_stays_with_its_age() -> None:
    desk = Desk()
    desk.enquiries.ask(desk.host)
    await desk.settle()
    before = desk.clock.now()
    desk.scheduler.answer = RuntimeError("no such table")
    await desk.clock.advance(60)
    desk.enquiries.ask(desk.host)
    await desk.settle()
    known = desk.enquiries.known("gpu-01", "scheduler")
    assert (known.answer, known.answered_for, known.trouble) == (NODE, before, "RuntimeError: no such table")
    desk.scheduler.answer = NODE
    desk.enquiries.ask(desk.host, anew=True)
    await desk.settle()
    assert desk.enquiries.known("gpu-01", "scheduler").trouble == ""


async def test_who_never_answers_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.actions.enquiries.ANSWER_SECONDS", 0.01)
    desk = Desk()
    desk.scheduler.may_answer.clear()
    desk.enquiries.ask(desk.host)
    task = desk.enquiries.known("gpu-01", "scheduler").task
    assert task is not None
    await asyncio.wait({task}, timeout=10)
    await desk.settle()
    assert desk.enquiries.known("gpu-01", "scheduler").trouble.startswith("no answer within")


async def test_closing_ends_what_is_under_way() -> None:
    desk = Desk()
    desk.scheduler.may_answer.clear()
    desk.enquiries.ask(desk.host)
    await desk.settle()
    await desk.enquiries.close()
    assert desk.scheduler.given_up == 1


async def test_nothing_is_asked_where_there_is_nobody() -> None:
    desk = Desk(has_power=False)
    desk.enquiries.ask(desk.host)
    desk.enquiries.ask(a_host("stranger"))
    await desk.settle()
    assert desk.enquiries.known("gpu-01", "instance").asked_at is None
    assert desk.enquiries.known("stranger", "scheduler").asked_at is None


async def test_raw_output_is_whole_with_how_it_ended() -> None:
    text = b"x" * 100_000 + b"\xff\n"
    desk = Desk(result=CommandResult(exit_status=3, stdout=text, stderr=b"warning: old\n"))
    tool = raw_tools(desk.host)[0]
    output = await desk.enquiries.raw("gpu-01", tool)
    assert desk.programs.ran == [tool.argv]
    assert output.command == "nvidia-smi -q"
    assert len(output.text) == 100_002
    assert (output.exit_status, output.error_text, output.asked_at) == (3, "warning: old\n", desk.clock.now())
    assert output.problem is not None
    assert output.problem.summary == "exit status 3: warning: old"


async def test_a_tool_that_is_not_there_is_told_in_words() -> None:
    desk = Desk(result=CommandResult(exit_status=127, stderr=b"sh: 1: exec: nvidia-smi: not found\n"))
    output = await desk.enquiries.raw("gpu-01", raw_tools(desk.host)[0])
    assert output.problem == Problem(kind=ProblemKind.TOOL_MISSING, summary="nvidia-smi was not found on gpu-01")


def tools(*vendors: str, route: str = "nvml") -> list[str]:
    devices = tuple(Device(index=at, vendor=vendor) for at, vendor in enumerate(vendors))
    return [tool.command for tool in raw_tools(a_host("gpu-01", frame=a_frame(devices=devices, route=route)))]


def test_only_tools_of_the_vendors_that_a_host_has_are_offered() -> None:
    assert tools("nvidia", "nvidia") == [
        "nvidia-smi -q", "nvidia-smi topo -m", "nvidia-smi nvlink -s", "nvidia-smi",
    ]  # fmt: skip
    assert tools("huawei") == ["npu-smi info", "npu-smi info -t topo"]
    assert tools("amd", route="amd-smi")[0] == "amd-smi metric"
    assert tools("amd", route="rocm-smi")[0] == "rocm-smi"
    assert {command.split()[0] for command in tools("nvidia", "amd", route="nvml+amd-smi")} == {"nvidia-smi", "amd-smi"}
    assert tools("unheard-of") == []
    assert raw_tools(a_host("gpu-01", frame=None))[0].command == "nvidia-smi -q"


@pytest.mark.parametrize(
    ("address", "index", "wanted"),
    [("00000000:9B:00.0", 5, "00000000:9B:00.0"), ("--help", 5, "5"), ("; reboot", 3, "3"), (None, 2, "2")],
)
def test_one_gpu_is_named_by_its_address_and_never_by_what_is_none(
    address: str | None, index: int, wanted: str
) -> None:
    device = Device(index=index, pci_bus_id=address)
    host = a_host("gpu-01")
    assert host.frame is not None
    host = structs.replace(host, frame=structs.replace(host.frame, devices=(device, device)))
    assert raw_tools(host, device)[0].words == ("nvidia-smi", "-q", "-i", wanted)


def test_tools_beside_the_path_are_found() -> None:
    (amd, *_) = raw_tools(a_host("gpu-01", frame=a_frame(devices=(Device(index=0, vendor="amd"),), route="amd-smi")))
    assert amd.argv[:2] == ("sh", "-c")
    assert "/opt/rocm/bin" in amd.argv[3].split(":")
    assert amd.argv[4:] == ("amd-smi", "metric")
