"""What nvidia-smi prints, in the wordings met in fleets."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.probes.reader import WireReader
from gputop.probes.smi_route import SmiDialect
from gputop.remote import nvidia_smi
from gputop.remote.metrics import Sample
from gputop.remote.nvidia_smi import FAST, SLOW, Picture, Query
from tests.remote.agents import FIXTURES

CASES = FIXTURES / "cases"
MIB = 1024 * 1024


def case(name: str) -> str:
    return (CASES / name).read_text()


def picture(names: str) -> Picture:
    """One of an nvidia-smi that offers these names."""
    found = Picture()
    found.take_help("\n".join(f'"{name}"' for name in names.split()))
    return found


def sample(found: Picture) -> Sample:
    return found.sample(now=1.0, patience=10.0, look_up=lambda pid: None)


def readings(found: Picture, *keys: str) -> list[tuple[Any, ...]]:
    return [tuple(values.get(key) for key in keys) for values in sample(found).values]


def test_all_ways_of_saying_no_value_are_none() -> None:
    query = Query(
        FAST,
        {
            "index",
            "uuid",
            "name",
            "temperature.gpu",
            "utilization.gpu",
            "memory.used",
            "memory.total",
            "fan.speed",
            "power.draw",
        },
    )
    assert query.argument == (
        "--query-gpu=index,uuid,name,utilization.gpu,memory.used,memory.total,temperature.gpu,fan.speed,power.draw"
    )
    found = []
    for line in case("01-query-gpu-na.csv").splitlines():
        # The case has the columns in its own order.
        index, uuid, name, temperature, utilization, used, total, fan, power = line.split(", ")
        row = query.row(", ".join((index, uuid, name, utilization, used, total, temperature, fan, power)))
        assert row is not None
        found.append(
            (
                row["index"],
                row["temperature_celsius"],
                row["utilization_percent"],
                row["memory_used_bytes"],
                row["memory_total_bytes"],
                row["fan_percent"],
                row["power_watts"],
            )
        )
    assert found == [
        (0, 35, 0, 0, 32510 * MIB, None, 42.10),
        (1, 64, None, 360 * MIB, 2004 * MIB, None, None),
        (2, 51, 97, 70212 * MIB, 81920 * MIB, None, 388.54),
    ]


@pytest.mark.parametrize(
    "cell",
    [
        "[N/A]",
        "N/A",
        "",
        " ",
        "[Not Supported]",
        "[Unknown Error]",
        "[GPU requires reset]",
        "[Insufficient Permissions]",
        "[Function Not Found]",
        "[Requested functionality has been deprecated]",
        "ERR!",
        "Unknown Error",
    ],
)
def test_a_cell_without_a_value_is_none_by_every_reader(cell: str) -> None:
    for key, convert, _ in (*FAST, *SLOW):
        assert convert(cell) is None, key


@pytest.mark.parametrize(("cell", "number"), [("37.29 W", 37.29), (" 16x", 16), ("0", 0), ("52 %", 52), ("-3", -3)])
def test_units_are_left_off(cell: str, number: float) -> None:
    assert nvidia_smi.number(cell) == number


def test_a_list_of_processes_that_is_not_supported_is_not_known() -> None:
    found = picture("index uuid count")
    for index in (0, 1):
        found.take_line(f"{index}, GPU-00000000-0000-4000-8000-00000000000{index + 1}, 2", 0.0)
    found.take_apps(0, case("01-compute-apps-na.csv"))
    assert readings(found, "processes_known") == [(True,), (False,)]
    (process,) = sample(found).processes or []
    assert (process["device_index"], process["pid"], process["name"]) == (0, 4101, "python3")
    assert process["memory_used_bytes"] == 1012 * MIB


def test_names_of_processes_may_hold_commas() -> None:
    assert nvidia_smi.apps("GPU-a, 7, python3 train.py --sizes 1, 2, [N/A]\nNo running processes found\n") == [
        ("GPU-a", 7, "python3 train.py --sizes 1, 2", None)
    ]


def test_a_mismatch_of_driver_and_library_is_told_by_its_text_whatever_the_exit_status() -> None:
    for status in (18, 255, 1):
        problem = nvidia_smi.failure(status, case("05-driver-mismatch.txt"))
        assert problem["kind"] == "driver-mismatch"
        assert problem["detail"] == case("05-driver-mismatch.txt").strip()


def test_instances_are_listed_below_their_devices() -> None:
    (first, instances), (second, none) = nvidia_smi.listing(case("06-list-mig.txt"))
    assert [profile for profile, _, _ in instances] == ["3g.40gb", "1g.10gb", "1g.10gb"]
    assert [index for _, index, _ in instances] == [0, 1, 2]
    assert none == []
    assert (first, second) == (
        "GPU-00000000-0000-4000-8000-000000000060",
        "GPU-00000000-0000-4000-8000-000000000064",
    )


def test_a_device_that_is_not_capable_of_mig_has_no_mode() -> None:
    modes = [nvidia_smi.mode(line.split(", ")[2]) for line in case("07-mig-mode.csv").splitlines()]
    assert modes == [None, "disabled", "enabled"]


def test_blank_lines_of_a_stream_are_nothing() -> None:
    found = picture("index temperature.gpu utilization.gpu")
    seen = []
    for line in case("08-stream-blank-lines.csv").splitlines():
        # The case has temperature before utilization.
        cells = line.split(", ")
        found.take_line(", ".join([cells[0], *reversed(cells[1:])]), 0.0)
        if line.strip():
            values = readings(found, "temperature_celsius", "utilization_percent")
            seen.append((int(cells[0]), *values[int(cells[0])]))
    assert seen == [(0, 35, 12), (1, 36, 0), (0, 35, 14), (1, 36, 3)]
    assert len(found.devices) == 2


def test_noise_of_login_files_is_never_a_reading() -> None:
    before, _, rest = case("09-shell-noise.txt").partition("@@BEGIN@@\n")
    inside, _, status = rest.partition("@@END ")
    assert status.startswith("0@@")
    rows = [line.split(", ") for line in inside.splitlines()]
    framed = "".join(f"cafe stream1 {index}, {used}, {heat}\n" for index, heat, used in rows)
    helped = 'cafe help "index"\ncafe help "temperature.gpu"\ncafe help "utilization.gpu"\ncafe help exit 0\n'
    stream = before + helped + before + framed + before + "cafe time 1764550000\ncafe done \n"
    reader, dialect = WireReader("cafe"), SmiDialect("cafe", 1.0)
    lines = [line for body in reader.feed(stream.encode()) for line in dialect.take(body, 1.0)]
    assert len(lines) == 2
    columns = lines[1].columns  # type: ignore[union-attr]
    assert columns.temperature_celsius == [41, 40]
    assert columns.utilization_percent == [97, 0]
    assert reader.noise_lines == 6


def test_a_program_that_is_not_there_is_missing_after_all_places_were_tried() -> None:
    problem = nvidia_smi.failure(127, case("10-not-found.stderr.txt"))
    assert problem["kind"] == "tool-missing"
    assert problem["detail"]
    for place in ("/usr/bin/nvidia-smi", "/usr/lib/wsl/lib/nvidia-smi", "command not found"):
        assert place in problem["detail"]


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "driver-not-loaded"),
        (6, "No devices were found", "no-devices"),
        (4, "Failed to initialize NVML: Insufficient Permissions", "permission"),
        (15, "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.", "device-lost"),
        (None, "", "tool-failed"),
        (255, "ERROR: Option and is not recognized.", "tool-failed"),
    ],
)
def test_failures_are_told_apart(status: int | None, text: str, kind: str) -> None:
    assert nvidia_smi.failure(status, text)["kind"] == kind


def test_only_what_the_help_offers_is_asked_for_and_aliases_are_known() -> None:
    help_text = (
        'List of valid properties to query for the switch "--query-gpu=":\n\n'
        '"index"\nZero based index.\n\n"clocks.current.sm" or "clocks.sm"\nClock.\n\n"clocks_throttle_reasons.active"\n'
    )
    found = picture("")
    found.take_help(help_text)
    assert found.fast.argument == "--query-gpu=index,clocks.current.sm,clocks_throttle_reasons.active"


def test_without_help_the_names_that_are_known_everywhere_are_asked_for() -> None:
    assert Query(FAST, nvidia_smi.offered("")).argument.startswith("--query-gpu=index,uuid,pci.bus_id,name,count")


def test_a_device_whose_rows_stop_coming_is_in_error_and_the_other_goes_on() -> None:
    found = picture("index uuid utilization.gpu")
    found.take_line("0, GPU-a, 5", 0.0)
    found.take_line("1, GPU-b, 6", 0.0)
    found.take_line("0, GPU-a, 7", 20.0)
    late = found.sample(now=20.0, patience=10.0, look_up=lambda pid: None)
    assert [values["state"] for values in late.values] == ["ok", "error"]
    assert late.values[1].get("utilization_percent") is None
    assert [problem["kind"] for problem in late.device_problems[1]] == ["probe-hung"]


def test_a_device_that_cannot_be_reached_and_was_never_seen_is_listed_by_its_bus_id() -> None:
    found = picture("index uuid pci.bus_id")
    found.take_line("0, GPU-a, 00000000:01:00.0", 0.0)
    found.take_line("Unable to determine the device handle for GPU1: 00000000:02:00.0: Unknown Error", 0.0)
    late = sample(found)
    assert [(device["index"], device["pci_bus_id"]) for device in found.devices] == [
        (0, "00000000:01:00.0"),
        (1, "00000000:02:00.0"),
    ]
    assert late.values[1]["state"] == "error"
    assert [problem["kind"] for problem in late.device_problems[1]] == ["device-error"]
    found.take_line("1, GPU-b, 00000000:02:00.0", 0.0)
    assert [device["uuid"] for device in found.devices] == ["GPU-a", "GPU-b"]
    assert not sample(found).device_problems
