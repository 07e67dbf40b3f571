"""The demo's nvidia-smi prints what its readings say, in NVIDIA's own layout."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gputop import wiring
from gputop.actions.faults import FATAL, LOOK, faults_of, read_log
from gputop.actions.inspect import ask_tool
from gputop.actions.raw_tools import RawTool
from gputop.domain.call import CommandResult
from gputop.domain.clock import SystemClock
from gputop.domain.host import Host
from gputop.fleet.demo import demo_fleet
from gputop.readers.load import load_bytes
from gputop.sources.demo import frame, hello, plan
from gputop.sources.demo.doings import run
from gputop.sources.demo.log import events
from gputop.sources.demo.ordered import Orders
from gputop.sources.demo.tools import nvidia_smi
from gputop.sources.demo_server import start_demo
from gputop.wiring import xid_catalog
from tests.fakes.builders import a_link

AT = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
SEED, HOSTS = 7, 24

ROUNDED = {"power_watts": 0.01, "power_average_watts": 0.01, "pcie_tx_bytes_per_second": 1100.0,
           "pcie_rx_bytes_per_second": 1100.0}  # fmt: skip
"""By how much the text may be off: it has fewer digits, and counts in KB of 1,000 or of 1,024 bytes."""


def said(name: str, *arguments: str) -> tuple[str, int]:
    host = next(host for host in plan(SEED, HOSTS) if host.name == name)
    t = AT.timestamp()
    return nvidia_smi(arguments, hello(host, t), frame(host, t, 1))


def test_gputops_own_reader_finds_the_same_values_in_it() -> None:
    (recording,), _ = load_bytes("q.txt", said("gpu-003", "-q")[0].encode(), None)
    host = next(host for host in plan(SEED, HOSTS) if host.name == "gpu-003")
    columns = frame(host, AT.timestamp(), 1)["columns"]
    assert len(recording.sample["devices"]) == 8
    for position, row in enumerate(recording.sample["devices"]):
        for metric, wanted in ((name, values[position]) for name, values in columns.items() if name in row):
            if metric.startswith("pcie_") and metric.endswith("per_second"):
                assert row[metric] == pytest.approx(wanted, rel=0.03)
            elif metric in ROUNDED:
                assert row[metric] == pytest.approx(wanted, abs=ROUNDED[metric])
            elif metric == "throttle_reasons":
                assert set(row[metric]) == set(wanted)
            elif metric.endswith("_bytes"):
                assert row[metric] == wanted // 2**20 * 2**20
            else:
                assert row[metric] == wanted, metric


def test_one_gpu_is_told_alone_by_number_address_or_uuid() -> None:
    by_number, status = said("gpu-003", "-q", "-i", "2")
    assert (by_number.count("Product Name"), status) == (1, 0)
    address = next(line.split()[1] for line in by_number.splitlines() if line.startswith("GPU 0"))
    assert said("gpu-003", "-q", "-i", address)[0] == by_number
    assert said("gpu-003", "-q", "-i", "99") == ("No devices were found\n", 6)


def test_a_lost_gpu_and_a_driver_that_does_not_match_fail_as_nvidias_tool_does() -> None:
    fleet, _ = demo_fleet(SEED, HOSTS, AT)
    lost = next(host for host in fleet if host.frame and "lost" in (host.frame.column("state") or ()))
    text, status = said(lost.name, "-q")
    assert status == 15
    assert "GPU is lost" in text
    assert text.count("Product Name") == 7
    host = plan(SEED, HOSTS)[0]
    t = AT.timestamp()
    greeting = hello(host, t)
    nobody = {**greeting, "devices": {name: [] for name in greeting["devices"]}}
    empty = {**frame(host, t, 1), "columns": {"state": []}}
    assert nvidia_smi(["-q"], nobody, empty) == ("Failed to initialize NVML: Driver/library version mismatch\n", 18)


def test_the_matrix_and_the_links_and_the_table() -> None:
    assert "GPU0\t X \tNV18" in said("gpu-003", "topo", "-m")[0]
    assert said("gpu-003", "nvlink", "-s")[0].count("26.562 GB/s") == 8 * 18
    assert said("inf-01", "nvlink", "-s")[0].count("Link") == 0
    assert said("gpu-003")[0].count("NVIDIA H100 80GB HBM3") == 8
    assert said("gpu-003", "--help")[1] == 1


def test_gputops_own_reader_finds_every_gpu_in_the_table_with_its_number() -> None:
    for name in ("gpu-001", "gpu-002", "gpu-003"):
        text, _ = said(name)
        (recording,), _ = load_bytes("table.txt", text.encode(), None)
        host = next(host for host in plan(SEED, HOSTS) if host.name == name)
        devices = hello(host, AT.timestamp())["devices"]
        rows = recording.sample["devices"]
        assert [(row["index"], row["pci_bus_id"]) for row in rows] == list(
            zip(devices["index"], devices["pci_bus_id"], strict=True)
        )


async def test_it_is_run_over_ssh_like_any_tool() -> None:
    with start_demo(6, SEED, frozen_at=AT) as demo:
        runner, transport = wiring.make_runner(demo.specs)
        try:
            async with asyncio.timeout(60):
                for spec in demo.specs:
                    tool = RawTool(("nvidia-smi", "-q"), "")
                    output = await ask_tool(spec.name, tool, runner, SystemClock())
                    if output.exit_status == 0:
                        break
        finally:
            await runner.close()
            await transport.close()
    assert output.problem is None
    assert "NVSMI LOG" in output.text


def test_the_gate_of_a_resume_reads_the_kernel_log_of_this_boot(tmp_path: Path) -> None:
    t, catalog, fatal = AT.timestamp(), xid_catalog(), set()
    for host in plan(SEED, HOSTS):
        greeting, reading = hello(host, t), frame(host, t, 1)
        if greeting["facts"].get("kernel_log") is None or reading["host"]["uptime_seconds"] is None:
            continue
        ran = run(("sh", "-c", LOOK), host, greeting, reading, tmp_path, t, Orders())
        assert ran is not None
        log = read_log(CommandResult(stdout=ran.out.encode(), exit_status=ran.status))
        assert log is not None
        assert log.whole
        read = faults_of(Host(spec=host.spec, link=a_link(), reported=a_link(), frame=None), log, catalog)
        wanted = [
            event["uptime_seconds"]
            for event in events(host, t, all_since_boot=True)
            if catalog.severity("xid", event["code"], event["message"]) in FATAL
        ]
        assert [fault.uptime_seconds for fault in read] == pytest.approx(wanted, abs=0.1)
        fatal |= {fault.words.split()[1] for fault in read}
    assert fatal, "no host of the demo has a fatal Xid: nothing was compared"
