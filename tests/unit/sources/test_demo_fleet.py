"""The demo fleet is a pure function, always in trouble, and never impossible."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputop.domain.reading import DEVICE_METRICS
from gputop.health.bursts import same_device
from gputop.remote.wire import LINE_LIMIT, pack
from gputop.sources.demo import FEWEST_HOSTS, MOST_HOSTS, DemoHost, condition, frame, hello, plan
from gputop.sources.demo.trouble import booted_at

AT = 1_767_323_045.0
"""2026-01-02T03:04:05Z"""

moments = st.floats(min_value=1.5e9, max_value=2.2e9)
seeds = st.integers(min_value=0, max_value=2**31)


def test_the_default_fleet_has_24_hosts_and_three_models() -> None:
    fleet = plan()
    assert len(fleet) == 24
    assert sum(host.devices for host in fleet) >= 150
    assert {host.model.name for host in fleet} == {"NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVIDIA L4"}
    assert len({(host.pool, host.driver) for host in fleet}) == len({host.driver for host in fleet}) == 3
    assert any(host.is_mig for host in fleet)
    assert {host.pool for host in fleet} == {"train", "research", "inference"}
    assert all(re.fullmatch(r"(gpu-\d{3}|a100-\d\d|inf-\d\d)", host.name) for host in fleet)


@pytest.mark.parametrize("hosts", [FEWEST_HOSTS, 7, 100, MOST_HOSTS])
def test_a_fleet_of_any_size_has_hosts_of_different_names(hosts: int) -> None:
    assert len({host.name for host in plan(3, hosts)}) == hosts


@pytest.mark.parametrize("hosts", [0, FEWEST_HOSTS - 1, MOST_HOSTS + 1])
def test_a_fleet_of_an_impossible_size_is_refused(hosts: int) -> None:
    with pytest.raises(ValueError, match="hosts, not"):
        plan(1, hosts)


@given(seed=seeds, at=moments, hosts=st.integers(FEWEST_HOSTS, 40))
@settings(max_examples=150, deadline=None)
def test_at_every_moment_each_kind_of_trouble_is_there(seed: int, at: float, hosts: int) -> None:
    found = [condition(host, at) for host in plan(seed, hosts)]
    assert any(not trouble.is_reachable for trouble in found)
    assert any(trouble.is_silent for trouble in found)
    assert any(trouble.lost_device is not None for trouble in found)
    assert any(trouble.fault for trouble in found)
    assert any(trouble.is_held for trouble in found)
    assert any(trouble.is_reachable and not trouble.is_silent and not trouble.fault for trouble in found)


@given(at=moments)
@settings(max_examples=40, deadline=None)
def test_at_every_moment_at_least_150_devices_can_be_told_of(at: float) -> None:
    shown = [host for host in plan() if condition(host, at).is_reachable]
    assert sum(len(hello(host, at)["devices"]["index"]) for host in shown) >= 150


def test_troubles_go_round_so_that_the_history_shows_changes() -> None:
    hours = range(0, 3600, 60)
    unreachable = {host.name for host in plan() for s in hours if not condition(host, AT + s).is_reachable}
    silent = {host.name for host in plan() for s in hours if condition(host, AT + s).is_silent}
    assert len(unreachable) > 3
    assert len(silent) > 3


def test_a_host_that_lost_a_device_restarts_to_get_it_back() -> None:
    host, end = next(
        (host, AT + s)
        for s in range(0, 40_000, 20)
        for host in plan()
        if condition(host, AT + s).lost_device is not None and condition(host, AT + s + 20).lost_device is None
    )
    assert not condition(host, end + 40).is_reachable
    back = end + 140
    assert condition(host, back).is_reachable
    assert hello(host, back)["facts"]["boot_id"] != hello(host, end)["facts"]["boot_id"]
    assert frame(host, back, 1)["host"]["uptime_seconds"] < 200


@given(seed=seeds, at=moments, number=st.integers(0, 23))
@settings(max_examples=80, deadline=None)
def test_no_reading_is_impossible(seed: int, at: float, number: int) -> None:
    host = plan(seed)[number]
    devices = hello(host, at)["devices"]
    message = frame(host, at, 17)
    check_columns(host, message["columns"], len(devices["index"]))
    check_parts(message, len(devices["index"]))
    assert 0 <= message["host"]["memory_used_bytes"] <= message["host"]["memory_total_bytes"]
    assert 0 <= message["host"]["cpu_utilization_percent"] <= 100
    assert message["host"]["uptime_seconds"] >= 0
    assert len(pack("token", message)) < LINE_LIMIT / 100


def check_columns(host: DemoHost, columns: dict[str, list[object]], count: int) -> None:
    assert set(columns) <= set(DEVICE_METRICS)
    assert all(len(values) == count for values in columns.values())
    for position, state in enumerate(columns["state"]):
        row = {name: values[position] for name, values in columns.items()}
        if state != "ok":
            assert {row[name] for name in row if name not in ("state", "processes_known", "recovery_action")} == {None}
            assert row["processes_known"] is False
            continue
        numbers = {name: value for name, value in row.items() if isinstance(value, int | float)}
        assert all(value >= 0 for value in numbers.values())
        assert all(value <= 100 for name, value in numbers.items() if name.endswith("_percent"))
        assert numbers["memory_used_bytes"] + numbers["memory_reserved_bytes"] <= numbers["memory_total_bytes"]
        assert numbers["power_watts"] <= numbers["power_limit_watts"] <= numbers["power_default_limit_watts"]
        assert numbers["sm_clock_mhz"] <= numbers["sm_clock_max_mhz"]
        assert 20 < numbers["temperature_celsius"] < numbers["temperature_slowdown_celsius"]
        assert (row["utilization_percent"] is None) == host.is_mig


def check_parts(message: dict[str, object], count: int) -> None:
    for part in ("partitions", "processes"):
        columns = message[part]
        assert isinstance(columns, dict)
        assert len({len(values) for values in columns.values()}) <= 1
        assert all(0 <= index < count for index in columns.get("device_index", []))
    partitions = message["partitions"]
    assert isinstance(partitions, dict)
    for used, total in zip(
        partitions.get("memory_used_bytes", []), partitions.get("memory_total_bytes", []), strict=True
    ):
        assert 0 <= used <= total
    processes = message["processes"]
    assert isinstance(processes, dict)
    assert all(start <= message["t"] for start in processes.get("started_at", []))
    seats = list(zip(processes.get("device_index", []), processes.get("pid", []), strict=True))
    assert len(seats) == len(set(seats))


@given(seed=seeds, at=moments)
@settings(max_examples=20, deadline=None)
def test_held_memory_is_nearly_full_while_nothing_computes(seed: int, at: float) -> None:
    host = next(host for host in plan(seed) if condition(host, at).is_held)
    if at - (condition(host, at).since or at) < 30:
        return
    columns = frame(host, at, 1)["columns"]
    assert max(columns["utilization_percent"]) == 0
    assert all(
        used > 0.85 * total
        for used, total in zip(columns["memory_used_bytes"], columns["memory_total_bytes"], strict=True)
    )


def test_a_device_that_is_cooled_badly_is_hotter_slower_and_says_why() -> None:
    host, columns, slow = next(
        (host, columns, position)
        for host in plan()
        for columns in [frame(host, AT, 1)["columns"]]
        if host.model.nvlinks and not host.is_mig and columns.get("throttle_reasons")
        for position, reasons in enumerate(columns["throttle_reasons"])
        if reasons and "sw_thermal" in reasons
    )
    others = [n for n in range(host.devices) if n != slow and columns["utilization_percent"][n] > 90]
    assert others
    assert columns["temperature_celsius"][slow] > max(columns["temperature_celsius"][n] for n in others)
    assert columns["sm_clock_mhz"][slow] < min(columns["sm_clock_mhz"][n] for n in others)
    assert columns["power_watts"][slow] < min(columns["power_watts"][n] for n in others)


def test_jobs_start_and_end_within_minutes() -> None:
    seen = [set(zip_jobs(AT + minute * 60)) for minute in range(0, 21, 5)]
    assert all(later - earlier and earlier - later for earlier, later in pairwise(seen))


def zip_jobs(at: float) -> list[tuple[str, str]]:
    found = []
    for host in plan():
        processes = frame(host, at, 1)["processes"]
        found += [(host.name, job) for job in processes.get("job", []) if job]
    return found


def test_a_job_over_several_hosts_has_the_same_number_on_each() -> None:
    jobs = set(zip_jobs(AT))
    assert any(len({host for host, name in jobs if name == job and host.startswith("gpu-")}) >= 2 for _, job in jobs)


def test_power_and_temperature_follow_the_work() -> None:
    idle, busy = [], []
    for host in plan():
        columns = frame(host, AT, 1)["columns"]
        if host.model.limit_watts != 700 or not columns.get("power_watts"):
            continue
        for utilization, power, temperature in zip(
            columns["utilization_percent"], columns["power_watts"], columns["temperature_celsius"], strict=True
        ):
            if utilization is not None:
                (busy if utilization > 90 else idle if utilization == 0 else []).append((power, temperature))
    assert busy
    assert idle
    assert max(power for power, _ in idle) < min(power for power, _ in busy)
    assert max(temperature for _, temperature in idle) < min(temperature for _, temperature in busy)


def test_the_same_moment_gives_the_same_bytes_in_another_process() -> None:
    program = (
        "import json, sys\n"
        "from gputop.sources.demo import plan, hello, frame\n"
        f"json.dump([[hello(h, {AT}), frame(h, {AT}, 3)] for h in plan(11)], sys.stdout)"
    )
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert other.stdout == json.dumps([[hello(host, AT), frame(host, AT, 3)] for host in plan(11)])


def test_another_seed_gives_another_fleet() -> None:
    assert frame(plan(1)[0], AT, 1) != frame(plan(2)[0], AT, 1)


def test_the_kernel_of_a_host_that_lost_a_device_logged_why() -> None:
    for host in plan():
        trouble = condition(host, AT)
        logged = frame(host, AT, 1).get("events", [])
        assert all(booted_at(host, AT) <= event["at"] <= AT for event in logged)
        assert logged == sorted(logged, key=lambda event: event["at"])
        if trouble.lost_device is not None:
            bus = hello(host, AT)["devices"]["pci_bus_id"][trouble.lost_device]
            (fallen,) = (event for event in logged if event["code"] == 79)
            assert same_device(fallen["pci_bus_id"], bus)
            assert fallen["at"] == pytest.approx(trouble.since, abs=0.01)
    codes = {event["code"] for host in plan() for event in frame(host, AT, 1).get("events", [])}
    assert {13, 31, 63, 79, 94} <= codes


def test_a_frame_tells_again_only_what_is_new() -> None:
    everything = [event for host in plan() for event in frame(host, AT, 1).get("events", [])]
    newest = [event for host in plan() for event in frame(host, AT, 2).get("events", [])]
    assert len(everything) > 0
    assert all(event in everything and AT - event["at"] <= 300 for event in newest)
