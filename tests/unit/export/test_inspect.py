"""`gputop inspect` as text and as JSON: every group is there, and both tell the same."""

from __future__ import annotations

import json
from datetime import UTC, timedelta

from msgspec import structs

from gputop.domain.action import ActionKind, HostActState
from gputop.domain.call import RawOutput
from gputop.domain.host import Host
from gputop.domain.instance import Instance, PowerState
from gputop.domain.job import AdminState, NodeState
from gputop.domain.link import LinkChange, LinkState
from gputop.domain.problem import Problem, ProblemKind
from gputop.domain.reading import DeviceEvent, ProcessReading
from gputop.domain.record import AuditEvent, AuditRecord, Lease
from gputop.export.inspect import Inspected, inspect_document, inspect_text
from tests.fakes.builders import a_frame, a_link, a_problem, a_spec
from tests.fakes.clock import START

AS_OF = START + timedelta(seconds=12)


def a_host() -> Host:
    process = ProcessReading(device_index=0, pid=7, user="alice", command="python train.py")
    columns = {"throttle_reasons": [["hw_thermal", "sw_power_cap"], None], "recovery_action": ["node-reboot", None]}
    frame = a_frame(utilization=(50.0, None), processes=(process,), columns=columns)
    return Host(
        spec=a_spec("gpu-01", groups=("train",)),
        link=a_link(),
        reported=a_link(),
        frame=frame,
        problems=(a_problem(ProblemKind.DEVICES_MISSING, "7 of 8 GPUs", hint="reboot it"),),
        device_problems={1: (a_problem(),)},
        events=(DeviceEvent(at=START, kind="xid", code=79, message="GPU has fallen off the bus.", severity="reboot"),),
        link_history=(LinkChange(state=LinkState.OK, at=START),),
    )


def found(**fields: object) -> Inspected:
    node = NodeState(host="gpu-01", scheduler="slurm", node="n1", admin=AdminState.DRAINED, cordoned=True, by="bob",
                     observed_at=START)  # fmt: skip
    record = AuditRecord(time=START, event=AuditEvent.OUTCOME, plan="p", act=ActionKind.REBOOT, host="gpu-01",
                         user="bob", reason="NIC", result="verified")  # fmt: skip
    failed = Problem(kind=ProblemKind.TOOL_FAILED, summary="exit status 255")
    plain: dict[str, object] = {
        "host": a_host(), "state": HostActState.DRAINED, "node": node,
        "instance": Instance(host="gpu-01", provider="ec2", id="i-1", power=PowerState.RUNNING, observed_at=START),
        "kernel": ["NVRM: Xid 79"], "history": [record],
        "leases": [Lease(host="gpu-01", by="bob", reason="NIC", since=START)],
        "raw": [RawOutput(command="nvidia-smi topo -m", text="\t\x1b[4mGPU0\x1b[0m\n", exit_status=0, asked_at=START),
                RawOutput(command="nvidia-smi -q", exit_status=255, problem=failed)],
    }  # fmt: skip
    return Inspected(**(plain | fields))  # type: ignore[arg-type]


def test_the_text_has_every_group_with_its_age() -> None:
    text = inspect_text(found(), AS_OF, UTC)
    assert text.startswith("gpu-01   drained   link ok   as of 2026-01-02 03:04:17 UTC\n")
    for title in (
        "\nIdentity\n", "\nProblems\n", "\nLoad and memory", "\nGPU 0: Identity\n", "\nGPU 0: Load   (12 s old)\n",
        "\nGPU 0: Clocks ", "\nGPU 1: Power", "\nProcesses   (12 s old)\n", "\nScheduler\n", "\nInstance\n",
        "\nKernel events\n", "\nLink\n", "\nActs\n", "\nAges\n", "\nKernel log\n  NVRM: Xid 79\n",
    ):  # fmt: skip
        assert title in text, title
    assert "\nGPU 0: ECC errors: not reported by this device\n" in text
    assert "too hot: the hardware has halved the clocks, or worse" in text
    assert "pid 7                alice  GPU 0" in text
    assert "→ reboot it" in text
    assert "Xid 79  GPU has fallen off the bus.   → drain, then reboot" in text
    assert "\n$ nvidia-smi topo -m\n          GPU0\n" in text
    assert "\n$ nvidia-smi -q\n  failed: exit status 255\n" in text
    assert "None" not in text


def test_a_host_that_never_answered_is_told_as_far_as_it_is_known() -> None:
    link = structs.replace(a_link(LinkState.UNREACHABLE), problem=a_problem(ProblemKind.NO_ROUTE, "no route to host"))
    host = structs.replace(a_host(), frame=None, link=link, problems=(), device_problems={}, events=())
    text = inspect_text(found(host=host, node=None, instance=None, kernel=None, history=(), raw=()), AS_OF, UTC)
    assert "  link                 no route to host" in text
    assert "\nLoad and memory: not known while the host is unreachable\n" in text
    assert "\nScheduler: not asked\n" in text
    assert "\nKernel log\n  not known while the host is unreachable\n" in text
    assert "\nKernel events: not known while the host is unreachable\n" in text
    assert "\n  via                  –\n" in text
    assert "\nActs: none in the audit log\n" in text
    assert "\nAges: no reading yet\n" in text


def test_nothing_is_said_of_a_host_whose_login_still_runs() -> None:
    host = structs.replace(a_host(), frame=None, link=a_link(LinkState.CONNECTING), problems=(), device_problems={},
                           events=())  # fmt: skip
    text = inspect_text(found(host=host, node=None, instance=None, kernel=None, history=None, raw=()), AS_OF, UTC)
    assert "\nProblems: not known while the host is connecting\n" in text
    assert "\nActs: not known: the audit log could not be read\n" in text
    assert ": none" not in text


def test_only_a_kernel_log_that_was_read_has_nothing_in_it() -> None:
    frame = a_frame(utilization=(50.0, None))
    followed = structs.replace(frame, facts=structs.replace(frame.facts, kernel_log="/dev/kmsg"))
    host = structs.replace(a_host(), frame=structs.replace(frame, facts=structs.replace(frame.facts, kernel_log=None)),
                           events=())  # fmt: skip
    text = inspect_text(found(host=host, kernel=None), AS_OF, UTC)
    assert "\nKernel events: not known: the kernel log is not followed\n" in text
    assert "\nKernel log\n  could not be read\n" in text
    host = structs.replace(host, frame=followed)
    assert "\nKernel events: nothing was logged\n" in inspect_text(found(host=host), AS_OF, UTC)
    host = structs.replace(host, link=a_link(LinkState.UNREACHABLE))
    text = inspect_text(found(host=host), AS_OF, UTC)
    assert "\nKernel events: nothing was logged until the last reading\n" in text


def test_the_document_has_every_group_its_ages_and_what_codes_mean() -> None:
    document = json.loads(json.dumps(inspect_document(found(), AS_OF)))
    assert document["schema"] == "gputop-inspect/1"
    assert set(document) == {
        "schema", "as_of", "state", "host", "ages", "words", "scheduler", "leases", "instance", "kernel", "raw",
        "link_history", "acts",
    }  # fmt: skip
    assert document["ages"] == {
        "reading_seconds": 12.0, "limits_and_modes_seconds_at_most": 42.0, "counters_and_maxima_seconds_at_most": 312.0,
        "scheduler_seconds": 12.0, "instance_seconds": 12.0,
    }  # fmt: skip
    assert document["words"]["throttle_reasons"]["sw_power_cap"].startswith("at its power limit")
    assert document["words"]["recovery_action"] == {"node-reboot": "reboot the server"}
    assert document["host"]["devices"][0]["processes"][0]["user"] == "alice"
    assert document["leases"][0]["by"] == "bob"
    assert document["raw"][0]["text"] == "\t\x1b[4mGPU0\x1b[0m\n"
    assert [raw["problem"] for raw in document["raw"]] == [None, "exit status 255"]
    assert document["raw"][0]["exit_status"] == 0
