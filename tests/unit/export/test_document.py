"""The JSON document: the contract of docs/reference/json.md, key for key."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from gputop.domain.event import EndpointResolved, FrameReceived, HostsChanged, LinkChanged
from gputop.domain.host import Endpoint
from gputop.domain.link import LinkState
from gputop.domain.problem import ProblemKind
from gputop.domain.reading import DEVICE_METRICS, Device, Partition, ProcessReading
from gputop.export.document import DeviceObject
from gputop.export.to_json import schema, to_json
from gputop.fleet.demo import demo_fleet
from gputop.fleet.fleet import Fleet
from gputop.fleet.reduce import reduce
from tests.fakes.builders import a_frame, a_link, a_problem, a_spec
from tests.fakes.clock import START

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

KEYS: dict[str, str] = {
    "": "schema as_of source totals hosts",
    "totals": "hosts hosts_ok devices devices_busy devices_idle devices_unknown memory_used_bytes memory_total_bytes "
    "power_watts",
    "host": "name address user port jump groups labels link age_seconds clock_skew_seconds route driver_version "
    "cuda_version kernel_version boot_id machine_id uptime_seconds cpu memory_used_bytes memory_total_bytes "
    "admin_state admin devices problems events",
    "link": "state since problem",
    "problem": "kind summary detail hint since",
    "cpu": "cores utilization_percent load_1m",
    "device": "index uuid pci_bus_id vendor model serial minor_number state utilization_percent "
    "memory_utilization_percent encoder_utilization_percent decoder_utilization_percent memory_used_bytes "
    "memory_total_bytes memory_reserved_bytes bar1_used_bytes bar1_total_bytes temperature_celsius "
    "memory_temperature_celsius temperature_slowdown_celsius temperature_shutdown_celsius fan_percent power_watts "
    "power_average_watts power_instant_watts power_limit_watts power_default_limit_watts energy_joules sm_clock_mhz "
    "memory_clock_mhz sm_clock_max_mhz memory_clock_max_mhz performance_state compute_mode persistence_mode "
    "throttle_reasons pcie nvlink ecc remapped_rows retired_pages recovery_action mig_mode partitions processes "
    "processes_known occupancy problems",
    "pcie": "generation generation_max width width_max tx_bytes_per_second rx_bytes_per_second replay_count",
    "nvlink": "links_active links_total tx_bytes_per_second rx_bytes_per_second error_count",
    "ecc": "mode pending_mode corrected_volatile uncorrected_volatile corrected_aggregate uncorrected_aggregate",
    "remapped_rows": "corrected uncorrected pending failed",
    "retired_pages": "single_bit double_bit pending",
    "partition": "kind index uuid profile gpu_instance_id compute_instance_id memory_used_bytes memory_total_bytes "
    "utilization_percent",
    "process": "pid name command user kind memory_used_bytes utilization_percent gpu_instance_id compute_instance_id "
    "container job started_at",
}
"""Written out from the contract, in its order: this table must not be made from the code."""


def fleet_of(*events: Any, now: datetime = START) -> Fleet:
    spec = a_spec("gpu-01", groups=("train",), labels={"rack": "r1"})
    return reduce(Fleet(as_of=now), [HostsChanged(source="ssh", hosts=(spec,)), *events], now)


def a_session(now: datetime = START, **frame: Any) -> Fleet:
    """The fleet of one host with one frame at `START`."""
    return fleet_of(
        LinkChanged(host="gpu-01", link=a_link()),
        FrameReceived(host="gpu-01", frame=a_frame(**frame)),
        now=now,
    )


def read(fleet: Fleet) -> Any:
    return json.loads(to_json(fleet))


@pytest.fixture(scope="module")
def demo() -> Any:
    return read(demo_fleet(7, 24, AT)[0])


def objects(document: Any) -> dict[str, list[dict[str, Any]]]:
    """Every object of a document by its name in `KEYS`."""
    hosts = document["hosts"]
    devices = [device for host in hosts for device in host["devices"]]
    found = {"": [document], "totals": [document["totals"]], "host": hosts, "device": devices}
    found["link"] = [host["link"] for host in hosts]
    found["cpu"] = [host["cpu"] for host in hosts]
    found["problem"] = [problem for owner in (*hosts, *devices) for problem in owner["problems"]]
    for name in ("pcie", "nvlink", "ecc", "remapped_rows", "retired_pages"):
        found[name] = [device[name] for device in devices]
    found["partition"] = [part for device in devices for part in device["partitions"]]
    found["process"] = [process for device in devices for process in device["processes"]]
    return found


@pytest.mark.parametrize("name", KEYS)
def test_every_key_is_there_in_the_order_of_the_contract(demo: Any, name: str) -> None:
    found = objects(demo)[name]
    assert found
    assert all(list(one) == KEYS[name].split() for one in found)


def test_a_host_that_was_never_reached_has_every_key_too() -> None:
    document = read(fleet_of())
    (host,) = document["hosts"]
    assert list(host) == KEYS["host"].split()
    assert host["link"]["state"] == "pending"
    assert (host["devices"], host["problems"], host["events"], host["jump"]) == ([], [], [], [])
    assert host["cpu"] == {"cores": None, "utilization_percent": None, "load_1m": None}
    assert host["age_seconds"] is None


def test_the_document_is_valid_under_the_printed_schema(demo: Any) -> None:
    Draft202012Validator.check_schema(schema())
    validator = Draft202012Validator(schema())
    for document in (demo, read(fleet_of()), read(a_session())):
        assert [error.message for error in validator.iter_errors(document)] == []


def test_the_schema_asks_for_every_key_and_allows_new_ones(demo: Any) -> None:
    validator = Draft202012Validator(schema())
    smaller = json.loads(json.dumps(demo))
    del smaller["hosts"][0]["devices"][0]["pcie"]["width"]
    assert [error.message for error in validator.iter_errors(smaller)] == ["'width' is a required property"]
    larger = json.loads(json.dumps(demo)) | {"later": 1}
    assert validator.is_valid(larger)


def test_every_metric_stands_somewhere_in_the_document() -> None:
    groups = ("pcie_", "nvlink_", "ecc_", "remapped_rows_", "retired_pages_")
    flat = {name for name in DEVICE_METRICS if not name.startswith(groups)}
    assert flat <= set(DeviceObject.__struct_fields__)
    nested = {f"{group}{name}" for group in groups for name in KEYS[group.rstrip("_")].split()}
    assert nested == set(DEVICE_METRICS) - flat


def test_what_could_not_be_read_is_null_and_never_zero() -> None:
    (host,) = read(a_session(utilization=(None,), columns={"power_watts": [None]}))["hosts"]
    (device,) = host["devices"]
    assert device["utilization_percent"] is None
    assert device["power_watts"] is None
    assert device["temperature_celsius"] is None
    assert device["throttle_reasons"] == []
    assert read(a_session(columns={"power_watts": [None]}))["totals"]["power_watts"] is None


def test_a_zero_that_was_read_stays_a_zero() -> None:
    (host,) = read(a_session(utilization=(0.0,)))["hosts"]
    assert host["devices"][0]["utilization_percent"] == 0


@pytest.mark.parametrize(
    ("utilization", "processes", "word"), [(80.0, (), "busy"), (0.0, (), "free"), (None, (), "unknown")]
)
def test_occupancy_says_busy_free_or_unknown(
    utilization: float | None, processes: tuple[ProcessReading, ...], word: str
) -> None:
    document = read(a_session(utilization=(utilization,), processes=processes))
    assert document["hosts"][0]["devices"][0]["occupancy"] == word
    counts = [document["totals"][f"devices_{kind}"] for kind in ("busy", "idle", "unknown")]
    assert counts == [int(word == one) for one in ("busy", "free", "unknown")]


def test_a_stale_host_keeps_its_values_with_their_age_and_counts_as_unknown() -> None:
    document = read(a_session(now=START + timedelta(seconds=41)))
    (host,) = document["hosts"]
    assert host["link"]["state"] == "stale"
    assert host["link"]["problem"]["kind"] == "agent-silent"
    assert host["age_seconds"] == 41
    assert host["devices"][0]["utilization_percent"] == 50
    assert host["devices"][0]["occupancy"] == "unknown"
    assert document["totals"]["devices_unknown"] == 1
    assert document["totals"]["memory_used_bytes"] is None


def test_problems_stand_with_their_host_or_their_device() -> None:
    fleet = a_session(
        utilization=(None, 50.0),
        columns={"state": ["lost", "ok"]},
        problems=(a_problem(ProblemKind.PERMISSION, "no access"),),
        device_problems={0: (a_problem(hint="reboot"),)},
    )
    (host,) = read(fleet)["hosts"]
    assert [problem["kind"] for problem in host["problems"]] == ["permission"]
    assert [problem["hint"] for problem in host["devices"][0]["problems"]] == ["reboot"]
    assert host["devices"][1]["problems"] == []
    assert host["devices"][0]["state"] == "lost"


def test_partitions_and_processes_stand_with_their_device() -> None:
    fleet = a_session(
        utilization=(None, None),
        partitions=(Partition(device_index=1, index=0, profile="3g.40gb", memory_used_bytes=5),),
        processes=(ProcessReading(device_index=1, pid=7, user="alice", kind="compute"),),
    )
    first, second = read(fleet)["hosts"][0]["devices"]
    assert (first["partitions"], first["processes"]) == ([], [])
    assert second["partitions"][0]["profile"] == "3g.40gb"
    assert second["processes"][0]["user"] == "alice"
    assert second["processes_known"] is True


def test_how_a_host_is_reached_is_what_was_resolved() -> None:
    endpoint = Endpoint(address="10.0.0.7", port=2222, user="ops", jump=("me@bastion:22",))
    (host,) = read(fleet_of(EndpointResolved(host="gpu-01", endpoint=endpoint)))["hosts"]
    assert (host["address"], host["port"], host["user"]) == ("10.0.0.7", 2222, "ops")
    assert host["jump"] == ["me@bastion:22"]
    assert host["labels"] == {"rack": "r1"}


def test_this_machine_has_no_port() -> None:
    spec = a_spec("here", local=True)
    (host,) = read(reduce(Fleet(as_of=START), [HostsChanged(source="local", hosts=(spec,))], START))["hosts"]
    assert host["port"] is None


def test_text_from_a_server_is_data_only() -> None:
    evil = 'a"b\x1b[2J\u202e\ud800[bold]'
    fleet = a_session(devices=(Device(index=0, model=evil.replace("\ud800", "")),))
    text = to_json(fleet)
    assert "\x1b" not in text
    assert json.loads(text)["hosts"][0]["devices"][0]["model"] == evil.replace("\ud800", "")


def test_every_link_state_is_a_word_of_the_schema() -> None:
    states = schema()["$defs"]["LinkObject"]["properties"]["state"]
    assert set(schema()["$defs"]["LinkState"]["enum"] if "$ref" in states else states["enum"]) == set(LinkState)
