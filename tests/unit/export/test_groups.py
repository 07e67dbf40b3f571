"""What is known of hosts and devices, in groups of values in words."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import Any

import pytest
from msgspec import structs

from gputop.catalog.format import ABSENT
from gputop.catalog.words import EVENT_ADVICE, RECOVERY_ACTIONS, THROTTLE_REASONS
from gputop.domain.action import Block, HostActState, Loss, LossKind
from gputop.domain.host import Host
from gputop.domain.instance import Instance, PowerState
from gputop.domain.job import AdminState, DisruptionBudget, Job, NodeState, Pod, PodFate
from gputop.domain.link import LinkState
from gputop.domain.reading import DEVICE_METRICS, Device, DeviceColumns, DeviceEvent, Partition, ProcessReading
from gputop.domain.record import Lease
from gputop.export.activity_groups import events_group, processes_group
from gputop.export.device_groups import device_groups
from gputop.export.groups import Group, Item
from gputop.export.host_groups import ages, host_identity, host_load, link_group
from gputop.export.raw_text import raw_lines
from gputop.export.told_groups import instance_group, scheduler_group
from gputop.health.xid import SEVERITIES
from gputop.remote.metrics import THROTTLE_REASONS as CODES
from tests.fakes.builders import a_frame, a_link, a_spec
from tests.fakes.clock import START

GIB = 1024**3
AS_OF = START + timedelta(seconds=1)

PLAIN: dict[str, Any] = {
    "state": "ok", "performance_state": "P2", "compute_mode": "default", "persistence_mode": True,
    "throttle_reasons": [], "ecc_mode": "enabled", "ecc_pending_mode": "enabled", "remapped_rows_pending": False,
    "remapped_rows_failed": False, "retired_pages_pending": False, "recovery_action": "none", "mig_mode": "disabled",
    "processes_known": True, "memory_used_bytes": 40 * GIB, "memory_total_bytes": 80 * GIB,
    "power_default_limit_watts": 700.0, "power_limit_watts": 700.0, "pcie_generation": 5, "pcie_generation_max": 5,
    "pcie_width": 16, "pcie_width_max": 16, "nvlink_links_active": 18, "nvlink_links_total": 18,
    "temperature_celsius": 60.0, "temperature_slowdown_celsius": 90.0,
}  # fmt: skip
"""Of a device that is well; all other values are 1."""

OTHERWISE: dict[str, Any] = {
    "state": "lost", "performance_state": "P8", "compute_mode": "prohibited", "persistence_mode": False,
    "throttle_reasons": ["hw_thermal"], "ecc_mode": "disabled", "ecc_pending_mode": "disabled",
    "remapped_rows_pending": True, "remapped_rows_failed": True, "retired_pages_pending": True,
    "recovery_action": "node-reboot", "mig_mode": "enabled", "processes_known": False,
}  # fmt: skip
"""Another value of those that are no numbers."""


def a_host(*, link: LinkState = LinkState.OK, frame: Any = ..., **columns: Any) -> Host:
    """One device with these values; what is not named is ordinary."""
    if frame is ...:
        values = dict.fromkeys(DEVICE_METRICS, 1) | PLAIN | columns
        frame = structs.replace(
            a_frame(utilization=(50.0,)), columns=DeviceColumns(**{name: [value] for name, value in values.items()})
        )
    return Host(spec=a_spec("gpu-01"), link=a_link(link), reported=a_link(link), frame=frame)


def bare() -> Host:
    """A device of which nothing but its place is known."""
    frame = structs.replace(a_frame(utilization=(None,)), columns=DeviceColumns(), devices=(Device(index=0),))
    return a_host(frame=frame)


def group(title: str, host: Host) -> Group:
    return next(found for found in device_groups(host, 0, AS_OF) if found.title == title)


def value(title: str, label: str, host: Host) -> Item:
    return next(item for item in group(title, host).items if item.label == label)


@pytest.mark.parametrize("metric", DEVICE_METRICS)
def test_every_value_of_a_device_is_told(metric: str) -> None:
    before = device_groups(a_host(), 0, AS_OF)
    usual = (dict.fromkeys(DEVICE_METRICS, 1) | PLAIN)[metric]
    other = OTHERWISE[metric] if metric in OTHERWISE else usual + 5
    if metric.endswith(("bytes", "bytes_per_second", "joules")):
        other = usual + 2**30
    assert device_groups(a_host(**{metric: other}), 0, AS_OF) != before


def test_what_is_not_known_is_a_dash_and_never_0() -> None:
    identity, *groups = device_groups(bare(), 0, AS_OF)
    assert [item.text for item in identity.items if item.text != ABSENT] == [
        "0", "answers", "nvidia", "not known whether busy or idle",
    ]  # fmt: skip
    assert all(found.is_absent and found.absence == "not reported by this device" for found in groups)
    assert not any("0" in item.text for found in groups for item in found.items)


def test_a_lost_device_tells_nothing_of_now_and_says_why() -> None:
    identity, *groups = device_groups(a_host(state="lost"), 0, AS_OF)
    assert value("Identity", "state", a_host(state="lost")).tone == "bad"
    assert identity.items[1].text == "lost: it was there and does not answer"
    assert {found.absence for found in groups} == {"not known: the device is lost"}
    assert all(found.is_absent for found in groups)


def test_old_values_of_a_host_that_is_away_are_not_told_as_its_present() -> None:
    host = a_host(link=LinkState.UNREACHABLE)
    _, *groups = device_groups(host, 0, AS_OF)
    assert {found.absence for found in groups} == {"not known while the host is unreachable"}
    assert host_load(host, AS_OF).is_absent
    assert processes_group(host, AS_OF, UTC).absence == "not known while the host is unreachable"


@pytest.mark.parametrize("name", [name for _, name in CODES])
def test_every_reason_that_the_agent_knows_is_a_sentence(name: str) -> None:
    reason = THROTTLE_REASONS[name]
    assert len(reason.short) <= 9
    item = value("Clocks", "held down by", a_host(throttle_reasons=[name]))
    assert item.text == reason.sentence
    assert len(item.text) > 20


def test_reasons_stand_worst_first_and_one_that_is_new_is_not_hidden() -> None:
    items = group("Clocks", a_host(throttle_reasons=["sw_power_cap", "moonlight", "hw_thermal"])).items[2:]
    assert [item.tone for item in items] == ["warn", "", "warn"]
    assert items[0].text.startswith("too hot")
    assert items[2].text == "moonlight"
    assert value("Clocks", "held down by", a_host(throttle_reasons=[])).text == "nothing"
    assert value("Clocks", "held down by", a_host(throttle_reasons=None)).text == ABSENT


@pytest.mark.parametrize(
    ("columns", "title", "label", "note", "tone"),
    [
        ({"pcie_width": 8}, "Links", "PCIe", "degraded: it has 16 lanes", "warn"),
        ({"pcie_generation": 1, "utilization_percent": 90.0}, "Links", "PCIe",
         "degraded: below gen 5 although it is busy", "warn"),
        ({"pcie_generation": 1, "utilization_percent": 0.0}, "Links", "PCIe",
         "of gen 5; down while idle is normal", ""),
        ({}, "Links", "PCIe", "full speed", ""),
        ({"nvlink_links_active": 17}, "Links", "NVLink", "1 down", "warn"),
        ({"power_limit_watts": 500.0}, "Power", "limit", "capped: by default it may draw 700 W", "warn"),
        ({"temperature_celsius": 88.0}, "Temperature", "GPU", "2 degrees below slowdown", "warn"),
        ({"temperature_celsius": 91.0}, "Temperature", "GPU", "where it slows down, or above", "bad"),
        ({"ecc_pending_mode": "disabled"}, "ECC errors", "ECC", "disabled after the next reset", "warn"),
        ({"remapped_rows_pending": True}, "Memory repair and recovery", "remap pending",
         "a reset of the GPU completes it", "warn"),
        ({"remapped_rows_failed": True}, "Memory repair and recovery", "remap failed",
         "no spare rows: have it replaced", "bad"),
        ({"recovery_action": "node-reboot"}, "Memory repair and recovery", "driver asks for", "", "bad"),
        ({"persistence_mode": False}, "Modes and partitions", "persistence", "the driver may unload between jobs", ""),
    ],
)  # fmt: skip
def test_what_is_out_of_order_says_what_it_means(
    columns: dict[str, Any], title: str, label: str, note: str, tone: str
) -> None:
    item = value(title, label, a_host(**columns))
    assert (item.note, item.tone) == (note, tone)


def test_recovery_actions_and_severities_of_the_agent_all_have_words() -> None:
    assert set(RECOVERY_ACTIONS) == {"none", "gpu-reset", "node-reboot", "drain-p2p", "drain-and-reset", "other"}
    assert set(EVENT_ADVICE) == set(SEVERITIES)


def test_groups_say_how_old_their_values_may_be() -> None:
    found = {one.title: one.age for one in device_groups(a_host(), 0, AS_OF)}
    assert found["Load"] == "1 s old"
    assert found["ECC errors"] == "up to 5 m 01 s old"
    assert found["Clocks"] == "1 s to 5 m 01 s old"
    assert found["Identity"] == ""


def a_process(pid: int, **fields: Any) -> ProcessReading:
    return ProcessReading(device_index=0, pid=pid, **{"user": "alice", "command": "python train.py", **fields})


def with_processes(*processes: ProcessReading, **columns: Any) -> Host:
    host = a_host(**columns)
    assert host.frame is not None
    return structs.replace(host, frame=structs.replace(host.frame, processes=processes))


def test_processes_have_their_owner_and_what_holds_memory_unseen_is_named() -> None:
    host = with_processes(
        a_process(7, memory_used_bytes=10 * GIB, job="slurm 57381", container="c1", started_at=START),
        a_process(8, user=None, command=None, memory_used_bytes=GIB),
    )
    found = processes_group(host, AS_OF, UTC)
    assert [item.label for item in found.items] == ["pid 7", "pid 8", "unattributed"]
    assert found.items[0].text.startswith("alice  GPU 0  10.0 GiB  since ")
    assert found.items[0].text.endswith("slurm 57381  container c1")
    assert found.items[0].note == "python train.py"
    assert (found.items[1].text, found.items[1].note) == (
        "owner not known  GPU 0  1.0 GiB",
        "what it is cannot be seen",
    )
    assert found.items[2].text == "29.0 GiB of GPU 0, held by no process that can be seen"


def test_a_process_list_that_cannot_be_read_is_not_an_empty_one() -> None:
    host = a_host(processes_known=False)
    found = processes_group(host, AS_OF, UTC)
    assert [(item.label, item.text) for item in found.items] == [
        ("not known", "the list of processes could not be read")
    ]
    assert value("Memory", "by processes", host) == Item(
        "by processes", ABSENT, "the list of processes could not be read"
    )
    assert value("Memory", "unattributed", host).text == ABSENT
    assert processes_group(a_host(memory_used_bytes=0), AS_OF, UTC).absence == "none"


def test_a_process_that_does_not_tell_its_memory_makes_the_sum_a_least() -> None:
    host = with_processes(a_process(7, memory_used_bytes=GIB), a_process(8))
    item = value("Memory", "by processes", host)
    assert (item.text, item.note) == ("at least 1.0 GiB", "1 of 2 do not tell")


HOSTILE = "\x1b[2Jrm\u202e -rf\n/"


def test_text_of_servers_is_cleaned_wherever_it_stands() -> None:
    host = with_processes(a_process(7, command=HOSTILE, user=HOSTILE, job=HOSTILE, container=HOSTILE))
    assert host.frame is not None
    device = Device(index=0, uuid=HOSTILE, pci_bus_id=HOSTILE, model=HOSTILE, vendor=HOSTILE, serial=HOSTILE)
    parts = (Partition(device_index=0, uuid=HOSTILE, profile=HOSTILE),)
    facts = structs.replace(host.frame.facts, hostname=HOSTILE, kernel_version=HOSTILE, boot_id=HOSTILE)
    frame = structs.replace(host.frame, devices=(device,), partitions=parts, facts=facts)
    columns = {"performance_state": [HOSTILE], "recovery_action": [HOSTILE], "throttle_reasons": [[HOSTILE]]}
    frame = structs.replace(frame, columns=structs.replace(frame.columns, **columns))
    event = DeviceEvent(kind=HOSTILE, message=HOSTILE, process=HOSTILE, meaning=HOSTILE)
    spec = a_spec(labels={HOSTILE: HOSTILE}, groups=(HOSTILE,))
    host = structs.replace(host, frame=frame, spec=spec, events=(event,))
    node = NodeState(
        host="gpu-01", scheduler=HOSTILE, node=HOSTILE, raw=HOSTILE, reason=HOSTILE, by=HOSTILE, cordoned=True,
        jobs=(Job(id=HOSTILE, user=HOSTILE, name=HOSTILE),), pods=(Pod(namespace=HOSTILE, name=HOSTILE,
        fate=PodFate.EVICT, owner=HOSTILE),), block=Block(kind="x", summary=HOSTILE, hint=HOSTILE),
    )  # fmt: skip
    instance = Instance(host="gpu-01", provider=HOSTILE, id=HOSTILE, raw=HOSTILE, kind=HOSTILE, billing=HOSTILE,
                        notes=(HOSTILE,), console_hint=HOSTILE)  # fmt: skip
    groups = [
        *device_groups(host, 0, AS_OF), host_identity(host, AS_OF, UTC), host_load(host, AS_OF),
        processes_group(host, AS_OF, UTC), events_group(host, host.events, AS_OF, UTC), link_group(host, AS_OF, UTC),
        scheduler_group(node, HostActState.UNKNOWN, AS_OF, UTC), instance_group(instance), ages(host, AS_OF, UTC),
    ]  # fmt: skip
    for found in groups:
        for item in found.items:
            assert all(text.isprintable() for text in (item.label, item.text, item.note)), item


def test_a_drained_node_says_who_why_and_since_when_and_who_is_left() -> None:
    node = NodeState(
        host="gpu-01", scheduler="slurm", node="node17", admin=AdminState.DRAINING, raw="MIXED+DRAIN", cordoned=True,
        reason="replace NIC", by="bob", since=START - timedelta(hours=2), controller=True,
        jobs=(
            Job(id="57381", user="carol", state="RUNNING", partition="gpu", gpus=8, nodes=("a", "b"),
                ends_at=AS_OF + timedelta(hours=6)),
            Job(id="57382", state="COMPLETING", ends_at=AS_OF - timedelta(minutes=5)),
        ),
    )  # fmt: skip
    lease = Lease(host="gpu-01", by="bob", reason="NIC", since=START, until=START + timedelta(hours=1))
    items = scheduler_group(node, HostActState.DRAINING, AS_OF, UTC, [lease]).items
    found = {item.label: item for item in items if item.label}
    assert found["scheduler"].text == "Slurm"
    assert found["node"].text == "node17"
    assert found["says"] == Item("says", "no new work; some may be left", '"MIXED+DRAIN" in its own words', "warn")
    assert found["stands"].note == "no new work; its devices are not proven empty"
    assert (found["reason"].text, found["by"].text) == ("replace NIC", "bob")
    assert found["since"].text.endswith("2 h 00 m ago")
    assert "until" in found["lease"].text
    assert found["controller"].tone == "warn"
    assert found["jobs"].text == "57381  carol  RUNNING  gpu"
    assert found["jobs"].note == "8 GPUs, 6 h 00 m left, on 2 nodes"
    assert items[-1] == Item("", "57382  nobody known  COMPLETING", "over its time limit by 5 m 00 s")


def test_a_host_without_a_scheduler_says_so() -> None:
    node = NodeState(host="gpu-01", scheduler="none", node="gpu-01", admin=AdminState.SCHEDULABLE, raw="no marker",
                     cordoned=False)  # fmt: skip
    items = scheduler_group(node, HostActState.ACTIVE, AS_OF, UTC).items
    assert items[0].text == "none: a marker on the host says whether it is drained"
    assert [item.label for item in items] == ["scheduler", "says", "stands"]
    assert all(not item.tone for item in items)


def test_a_scheduler_that_does_not_answer_is_a_line_and_never_takes_work() -> None:
    block = Block(kind="no-answer", summary="slurmctld does not answer", hint="is it up?")
    node = NodeState(host="gpu-01", scheduler="slurm", block=block)
    items = scheduler_group(node, HostActState.UNKNOWN, AS_OF, UTC).items
    assert Item("cannot tell", "slurmctld does not answer", "is it up?", "warn") in items
    assert next(item for item in items if item.label == "says").text == "not known"
    assert not any(item.label == "jobs" for item in items)


def test_pods_and_budgets_of_a_node() -> None:
    node = NodeState(
        host="gpu-01", scheduler="kubernetes", node="ip-10-3-0-1", admin=AdminState.SCHEDULABLE,
        pods=(Pod(namespace="ml", name="train-1", fate=PodFate.NEEDS_CONSENT, concerns=("empty-dir-data",), gpus=8),
              Pod(namespace="kube-system", name="proxy", fate=PodFate.DAEMON_SET)),
        budgets=(DisruptionBudget(namespace="ml", name="pdb", allowed=0, healthy=2, wanted=2),),
    )  # fmt: skip
    items = scheduler_group(node, HostActState.ACTIVE, AS_OF, UTC).items
    assert Item("pods", "ml/train-1  8 GPUs", "a drain needs consent, empty-dir-data", "warn") in items
    assert Item("", "kube-system/proxy", "of a DaemonSet: a drain leaves it") in items
    assert Item("budgets", "ml/pdb: 0 may be disrupted now", "2 healthy, 2 wanted", "warn") in items


def test_an_instance_says_what_a_stop_loses_and_what_forbids_it() -> None:
    instance = Instance(
        host="gpu-01", provider="ec2", id="i-0abc", kind="p5.48xlarge", power=PowerState.RUNNING, raw="running",
        stop_blocks=(Block(kind="stop-protection", summary="stop protection is on"),),
        stop_losses=(Loss(kind=LossKind.INSTANCE_STORE, summary="30 TB of instance store"),),
        stops_billing=True, billing="volumes stay billed", can_hibernate=True,
    )  # fmt: skip
    items = instance_group(instance).items
    assert Item("id", "i-0abc") in items
    assert Item("type", "p5.48xlarge") in items
    assert Item("no stop", "stop protection is on", "", "warn") in items
    assert Item("a stop loses", "30 TB of instance store", "instance-store-data", "warn") in items
    assert Item("bill", "a stop ends it", "volumes stay billed") in items


def test_raw_output_is_whole_and_without_what_moves_a_cursor() -> None:
    text = "\tGPU0\t\x1b[4mCPU Affinity\x1b[0m\r\n" + "a\u202eb\x07\n" + "x" * 9000 + "\n\n\n"
    lines = raw_lines(text)
    assert lines == ["        GPU0    CPU Affinity", "ab", "x" * 9000]
    assert len(raw_lines("line\n" * 8000)) == 8000
    assert raw_lines("") == []


def test_what_has_no_words_of_its_own_is_not_quoted() -> None:
    instance = Instance(host="gpu-01", provider="ssh", power=PowerState.RUNNING, raw="other", observed_at=START)
    assert next(one for one in instance_group(instance).items if one.label == "power") == Item("power", "on")
    for provider, note in (("ec2", '"other" in its own words'), ("ipmi", '"other" in its own words')):
        told = instance_group(structs.replace(instance, provider=provider)).items
        assert next(one for one in told if one.label == "power") == Item("power", "on", note)
