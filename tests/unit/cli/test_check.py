"""`gputop hosts --check`: what works on each host, and what to do about what does not."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gputop.cli.check import document, report, way
from gputop.cli.main import main
from gputop.domain.host import Endpoint, Host, HostSpec
from gputop.domain.link import Link, LinkState
from gputop.domain.problem import Problem, ProblemKind
from gputop.domain.reading import Device, Frame, HostFacts
from gputop.fleet.reduce import new_host

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LOST = Problem(kind=ProblemKind.DEVICE_LOST, summary="GPU 1 is lost", hint="drain, then reboot")
REFUSED = Problem(kind=ProblemKind.AUTH_REFUSED, summary="every key was refused\x1b[2J", hint="add a key")


def a_host(name: str, state: LinkState, problem: Problem | None = None, frame: Frame | None = None) -> Host:
    host = new_host(HostSpec(name=name), NOW)
    link = Link(state=state, since=NOW, problem=problem)
    end = Endpoint(address="10.0.0.7", port=22, user="ops", jump=("ops@b1:22",))
    return Host(spec=host.spec, link=link, reported=link, endpoint=end, frame=frame)


def a_frame(**also: object) -> Frame:
    return Frame(
        sequence=1,
        sampled_at=NOW,
        received_at=NOW,
        interval_seconds=2.0,
        route="nvml",
        facts=HostFacts(driver_version="550.90"),
        devices=(Device(index=0, model="H100"), Device(index=1, model="H100")),
        **also,  # type: ignore[arg-type]
    )


HOSTS = [
    a_host("gpu1", LinkState.OK, frame=a_frame()),
    a_host("gpu2", LinkState.DEGRADED, LOST, a_frame(device_problems={1: (LOST,)})),
    a_host("gpu3", LinkState.AUTH_FAILED, REFUSED),
    a_host("gpu4", LinkState.CONNECTING),
]


def test_each_host_is_a_line_and_its_troubles_follow_with_the_next_step() -> None:
    assert report(HOSTS) == [
        "HOST  STATE        WAY                                READ",
        "gpu1  ok           ops@10.0.0.7:22 through ops@b1:22  2 H100, driver 550.90, by nvml",
        "gpu2  degraded     ops@10.0.0.7:22 through ops@b1:22  2 H100, driver 550.90, by nvml",
        "    GPU 1 is lost",
        "      -> drain, then reboot",
        "gpu3  auth-failed  ops@10.0.0.7:22 through ops@b1:22  –",
        "    every key was refused[2J",
        "      -> add a key",
        "gpu4  no answer    ops@10.0.0.7:22 through ops@b1:22  –",
    ]


def test_programs_get_the_same() -> None:
    lost = document(HOSTS)[1]
    assert lost["state"] == "degraded"
    assert lost["endpoint"] == {"address": "10.0.0.7", "port": 22, "user": "ops", "jump": ("ops@b1:22",)}
    assert (lost["route"], lost["driver_version"], lost["devices"]) == ("nvml", "550.90", 2)
    assert [problem["kind"] for problem in lost["problems"]] == ["device-lost"]
    assert json.dumps(document(HOSTS))


def test_a_way_shows_addresses_of_both_kinds_and_this_machine() -> None:
    host = a_host("x", LinkState.OK)
    six = Host(spec=host.spec, link=host.link, reported=host.link, endpoint=Endpoint(address="::1", port=2222))
    assert way(six) == "[::1]:2222"
    here = Host(spec=HostSpec(name="x", local=True), link=host.link, reported=host.link)
    assert way(here) == "this machine"


def test_a_check_that_reaches_nobody_says_why_and_ends_with_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["hosts", "--check", "--ssh-config", "none", "-l", "ops", "127.0.0.1:1"]) == 3
    _, line, *trouble = capsys.readouterr().out.splitlines()
    assert line.split()[:3] == ["127.0.0.1", "unreachable", "ops@127.0.0.1:1"]
    assert "refused" in trouble[0]
    assert trouble[1].startswith("      -> ")
