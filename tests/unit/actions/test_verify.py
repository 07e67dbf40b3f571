"""What a reading proves, and what it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from gputop.actions.faults import KernelLog
from gputop.actions.gate import gate_items, passes
from gputop.actions.verify import emptiness, first_frame
from gputop.domain.action import CheckState
from gputop.domain.host import Host
from gputop.domain.link import LinkState
from gputop.domain.proof import rebooted
from gputop.domain.reading import DeviceEvent, HostFacts
from gputop.health.catalog import default_catalog
from gputop.readers.join import join
from gputop.readers.recognize import read_text
from gputop.readers.text import plain
from gputop.sources.file import frame
from tests.fakes.acts import BOOT, MIB, a_host, a_policy, a_process
from tests.fakes.builders import a_frame, a_link
from tests.fakes.clock import START

CASES = Path(__file__).parents[2] / "fixtures" / "cases"
EMPTY: dict[str, Any] = {"memory_used_bytes": [4 * MIB] * 2}


def state_of(host: Host | None, **fields: Any) -> CheckState:
    return emptiness(host, a_policy(**fields), ("GPU-0", "GPU-1")).state


def framed(**columns: Any) -> Host:
    return a_host(frame=a_frame(utilization=(0.0, 0.0), columns=EMPTY | columns))


def test_devices_without_process_and_below_the_baseline_are_empty() -> None:
    assert state_of(framed()) is CheckState.DONE


@pytest.mark.parametrize(
    "host",
    [
        None,
        a_host(frame=None),
        a_host(link=a_link(LinkState.STALE)),
        a_host(link=a_link(LinkState.UNREACHABLE)),
        framed(processes_known=[True, False]),
        framed(memory_used_bytes=[0, None]),
        framed(state=["ok", "lost"]),
        framed(state=["ok", "error"]),
        a_host(frame=a_frame(utilization=(0.0,), columns={"memory_used_bytes": [0]})),
        a_host(frame=a_frame(utilization=(), columns={})),
        a_host(frame=a_frame(utilization=(0.0, 0.0), columns=EMPTY), expect_devices=8),
    ],
    ids=["not watched", "no frame", "stale", "unreachable", "processes unknown", "memory unknown", "a lost device",
         "an error", "a missing device", "no device", "fewer than expected"],
)  # fmt: skip
def test_what_is_not_known_is_not_empty(host: Host | None) -> None:
    assert state_of(host) is CheckState.UNKNOWN


@pytest.mark.parametrize(
    ("process", "state"),
    [
        (a_process(), CheckState.NOT_DONE),
        (a_process(name=None, user=None), CheckState.NOT_DONE),
        (a_process(name="[Not Found]"), CheckState.NOT_DONE),
        (a_process(name="/usr/lib/xorg/Xorg", kind="graphics", user="root"), CheckState.DONE),
        (a_process(name="gnome-shell", kind="graphics", user="gdm"), CheckState.DONE),
        (a_process(name="nvidia-persistenced", user="nvidia-persistenced"), CheckState.DONE),
        (a_process(name="nvidia-persistenced"), CheckState.NOT_DONE),
        (a_process(name="nvidia-persistenced", user=None), CheckState.NOT_DONE),
        (a_process(name="gnome-shell", kind="graphics"), CheckState.NOT_DONE),
        (a_process(name="python", user="root"), CheckState.NOT_DONE),
        (a_process(name=None, kind="graphics", user="root"), CheckState.NOT_DONE),
        (a_process(name="python", kind="both"), CheckState.NOT_DONE),
    ],
)
def test_which_processes_make_a_device_busy(process: Any, state: CheckState) -> None:
    frame = a_frame(utilization=(0.0, 0.0), columns=EMPTY, processes=(process,))
    assert state_of(a_host(frame=frame)) is state


def test_memory_above_the_baseline_is_busy_and_named() -> None:
    check = emptiness(framed(memory_used_bytes=[0, 3000 * MIB]), a_policy(), ())
    assert check.state is CheckState.NOT_DONE
    assert check.left == ("GPU 1: 3,000 MiB in use without a process that can be seen",)


@pytest.mark.parametrize(
    ("before", "now", "state"),
    [
        (BOOT, "99999999-2222-4333-8444-555555555555\n", CheckState.DONE),
        (BOOT, f"{BOOT}\n", CheckState.NOT_DONE),
        (BOOT, "cat: /proc/sys/kernel/random/boot_id: No such file or directory", CheckState.UNKNOWN),
        (BOOT, "", CheckState.UNKNOWN),
        (BOOT, None, CheckState.UNKNOWN),
        (None, BOOT, CheckState.UNKNOWN),
        ("error", BOOT, CheckState.UNKNOWN),
    ],
)
def test_a_reboot_is_proven_by_two_valid_and_different_boot_ids(
    before: str | None, now: str | None, state: CheckState
) -> None:
    assert rebooted(before, now).state is state


def test_a_first_reading_with_a_missing_or_lost_device_is_not_healthy() -> None:
    assert first_frame(framed(), ("GPU-0", "GPU-1")).state is CheckState.DONE
    assert first_frame(framed(), ("GPU-0", "GPU-7")).state is CheckState.NOT_DONE
    assert first_frame(framed(state=["ok", "lost"])).state is CheckState.NOT_DONE
    assert first_frame(None).state is CheckState.UNKNOWN


def test_a_first_reading_with_fewer_devices_than_at_an_earlier_drain_is_not_healthy() -> None:
    missing = first_frame(framed(), (), 8)
    assert (missing.state, missing.summary) == (CheckState.NOT_DONE, "2 of 8 devices are well")
    assert first_frame(framed(), (), 2).state is CheckState.DONE
    counted = framed()
    counted = structs.replace(counted, spec=structs.replace(counted.spec, expect_devices=2))
    assert first_frame(counted, (), 8).state is CheckState.DONE, "the inventory knows better"


def gate_of(host: Host, peers: tuple[Host, ...] = (), kernel: str | None = "") -> dict[str, str]:
    log = KernelLog(text=kernel, whole=True) if kernel is not None else None
    return {item.name: item.state for item in gate_items(host, peers, log, default_catalog())}


def test_the_gate_tells_ok_from_bad_from_not_checked() -> None:
    facts = HostFacts(driver_version="550.90.07")
    columns = EMPTY | {"pcie_width": [16, 16], "pcie_width_max": [16, 16], "remapped_rows_pending": [False, False]}
    frame = a_frame(utilization=(0.0, 0.0), columns=columns, facts=facts)
    host = a_host("a", frame=frame, groups=("train",), expect_devices=2)
    peer = a_host("b", frame=structs.replace(frame, facts=HostFacts(driver_version="535.1")), groups=("train",))
    same = a_host("c", frame=frame, groups=("train",))
    good = {
        "devices": "ok",
        "xid": "ok",
        "remap": "ok",
        "link width": "ok",
        "driver": "ok",
        "dcgmi diag": "not-checked",
    }
    assert gate_of(host, (same,)) == good
    assert gate_of(host, (peer,))["driver"] == "bad"
    assert gate_of(host, (peer, same))["driver"] == "ok", "half of the group has it"
    assert gate_of(host, (peer, peer, same))["driver"] == "bad"
    assert gate_of(host)["driver"] == "not-checked"
    assert gate_of(host, kernel=None)["xid"] == "not-checked"
    assert gate_of(host, kernel="NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.")["xid"] == "bad"
    assert gate_of(host, kernel="NVRM: Xid (PCI:0000:3b:00): 31, pid=1, MMU Fault")["xid"] == "ok"
    fallen = DeviceEvent(kind="fell-off-bus", message="GPU has fallen off the bus", severity="reboot")
    assert gate_of(structs.replace(host, events=(fallen,)))["xid"] == "bad"
    narrow = structs.replace(frame, columns=structs.replace(frame.columns, pcie_width=[16, 8]))
    assert gate_of(structs.replace(host, frame=narrow))["link width"] == "bad"
    pending = structs.replace(frame, columns=structs.replace(frame.columns, remapped_rows_pending=[None, True]))
    assert gate_of(structs.replace(host, frame=pending))["remap"] == "bad"
    one = structs.replace(frame, columns=structs.replace(frame.columns, remapped_rows_pending=[None, False]))
    assert gate_of(structs.replace(host, frame=one))["remap"] == "not-checked", "GPU 0 does not tell"


def test_bad_items_block_a_resume_and_unchecked_ones_do_not() -> None:
    unchecked = gate_items(framed(), (), None, default_catalog())
    assert passes(unchecked).state is CheckState.DONE
    assert "not checked: devices, xid, remap, link width, driver" in passes(unchecked).summary
    assert passes(gate_items(framed(state=["ok", "lost"]), (), None, default_catalog())).state is CheckState.BLOCKED


def test_case_01_a_process_list_that_is_not_supported_never_lets_a_gpu_be_taken_for_empty() -> None:
    names = "index,uuid,name,temperature.gpu,utilization.gpu,memory.used,memory.total,fan.speed,power.draw"
    columns = f"nvidia-smi --query-gpu={names} --format=csv,noheader,nounits"
    told = read_text(plain((CASES / "01-query-gpu-na.csv").read_bytes()), columns)
    lists = (CASES / "01-compute-apps-na.csv").read_text()
    apps = read_text(plain(lists.encode()))
    ended = read_text(plain(lists.splitlines(keepends=True)[1].encode()))  # the one process that is named has ended
    for processes in (apps, ended):
        host = a_host(frame=frame(join([told, processes]), START))
        check = emptiness(host, a_policy(idle_memory_bytes=100 * 1024 * MIB), ())
        assert check.state is CheckState.UNKNOWN
        assert "does not tell its processes" in check.summary
