"""What nvidia-smi prints, in the wordings met in fleets."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.probes.reader import WireReader
from gputop.probes.smi_route import SmiDialect
from gputop.remote import nvidia_columns, nvidia_smi
from gputop.remote.metrics import Sample
from gputop.remote.nvidia_smi import FAST, FAST_NAMES, MEDIUM, MEDIUM_NAMES, Query
from gputop.remote.smi_picture import Picture
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
        (),
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
                row.get("utilization_percent"),
                row["memory_used_bytes"],
                row["memory_total_bytes"],
                row.get("fan_percent"),
                row.get("power_watts"),
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
    names = {name for _, _, choices in nvidia_columns.COLUMNS for name in choices}
    for keys, more in ((FAST, FAST_NAMES), (MEDIUM, MEDIUM_NAMES)):
        query = Query(keys, more, {*names, *more})
        row = query.row(",".join(["0", *[cell] * query.argument.count(",")]))
        assert row is not None
        assert {key for key, value in row.items() if value} <= {"vendor", "problems", "state"}, row


@pytest.mark.parametrize(
    ("cell", "kind", "state"),
    [
        ("[GPU requires reset]", "requires-reset", "ok"),
        ("[Insufficient Permissions]", "permission", "ok"),
        ("[GPU is lost]", "device-lost", "lost"),
    ],
)
def test_an_error_in_a_cell_is_a_problem_of_its_device(cell: str, kind: str, state: str) -> None:
    found = picture("index uuid count utilization.gpu fan.speed")
    found.take_line(f"0, GPU-a, 5, {cell}, 2", 0.0)
    found.take_line("1, GPU-b, 5, 30 %, 2", 0.0)
    told = sample(found)
    assert [values["state"] for values in told.values] == [state, "ok"]
    assert [problem["kind"] for problem in told.device_problems[0]] == [kind]
    assert told.values[1]["fan_percent"] == 30


def test_a_list_of_processes_that_is_not_supported_is_not_known() -> None:
    found = picture("index uuid count")
    for index in (0, 1):
        found.take_line(f"{index}, GPU-00000000-0000-4000-8000-00000000000{index + 1}, 2", 0.0)
    found.take("apps", 0, case("01-compute-apps-na.csv"))
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


def test_instances_are_listed_below_their_devices_and_have_the_values_of_the_detail() -> None:
    found = picture("index uuid pci.bus_id")
    found.take_line("0, GPU-00000000-0000-4000-8000-000000000060, 00000000:01:00.0", 0.0)
    found.take_line("1, GPU-00000000-0000-4000-8000-000000000064, 00000000:02:00.0", 0.0)
    found.take("list", 0, case("06-list-mig.txt"))
    found.take(
        "detail",
        0,
        '<nvidia_smi_log><gpu id="00000000:01:00.0"><mig_devices><mig_device><index>1</index>'
        "<gpu_instance_id>9</gpu_instance_id><fb_memory_usage><used>12 MiB</used></fb_memory_usage>"
        "</mig_device></mig_devices></gpu></nvidia_smi_log>",
    )
    partitions = sample(found).partitions or []
    assert [(part["device_index"], part["index"], part["profile"]) for part in partitions] == [
        (0, 0, "3g.40gb"),
        (0, 1, "1g.10gb"),
        (0, 2, "1g.10gb"),
    ]
    assert [part.get("gpu_instance_id") for part in partitions] == [None, 9, None]
    assert partitions[1]["memory_used_bytes"] == 12 * MIB


def test_a_device_that_is_not_capable_of_mig_has_no_mode() -> None:
    query = Query(("index", "model", "mig_mode"), (), {"index", "name", "mig.mode.current"})
    rows = [query.row(line) or {} for line in case("07-mig-mode.csv").splitlines()]
    assert [row.get("mig_mode") for row in rows] == [None, "disabled", "enabled"]


def test_what_is_asked_beside_the_stream_comes_at_its_own_pace() -> None:
    found = Picture(medium=30.0, slow=300.0)

    def asked(now: float) -> list[str]:
        words = []
        while (question := found.question(now, 2.0)) is not None:
            words.append(question[0])
        return words

    assert asked(100.0) == ["apps", "medium", "detail", "links", "errors"]
    assert asked(104.0) == []
    assert asked(105.0) == ["apps"]
    assert asked(130.0) == ["apps", "medium"]
    assert asked(400.0) == ["apps", "medium", "detail", "links", "errors"]


def test_what_has_waited_longest_is_asked_first_so_that_nothing_starves() -> None:
    found = Picture(medium=30.0, slow=300.0)
    words = []
    for step in range(200):  # each answer takes as long as the time after which processes are asked for again
        question = found.question(10.0 * step, 10.0)
        words.append(question[0] if question else None)
    assert words[:5] == ["apps", "medium", "detail", "links", "errors"]
    assert words.count("medium") > 40
    assert words.count("errors") >= 6


def test_what_moves_is_not_taken_from_an_answer_that_is_minutes_old() -> None:
    found = picture("index uuid pci.bus_id")
    found.take_line("0, GPU-a, 00000000:01:00.0", 0.0)
    found.take(
        "detail",
        0,
        '<nvidia_smi_log><cuda_version>12.4</cuda_version><gpu id="00000000:01:00.0"><uuid>GPU-a</uuid>'
        "<minor_number>3</minor_number><pci><tx_util>100 KB/s</tx_util><replay_counter>4</replay_counter></pci>"
        "<temperature><gpu_temp>41 C</gpu_temp><gpu_temp_slow_threshold>89 C</gpu_temp_slow_threshold></temperature>"
        "</gpu></nvidia_smi_log>",
    )
    (values,) = sample(found).values
    assert (values["temperature_slowdown_celsius"], values["pcie_replay_count"]) == (89, 4)
    assert "temperature_celsius" not in values
    assert "pcie_tx_bytes_per_second" not in values
    assert (found.devices[0]["minor_number"], found.facts["cuda_version"]) == (3, "12.4")


def test_graphics_processes_of_the_detail_are_told_only_while_they_run() -> None:
    found = picture("index uuid")
    found.take_line("0, GPU-a", 0.0)
    found.take("apps", 0, "GPU-a, 7, python3, 100\n")
    rows = "".join(
        f"<process_info><pid>{pid}</pid><type>{kind}</type><used_memory>50 MiB</used_memory></process_info>"
        for pid, kind in ((7, "C+G"), (8, "G"), (9, "G"), (10, "C"))
    )
    log = f"<nvidia_smi_log><gpu id='x'><uuid>GPU-a</uuid><processes>{rows}</processes></gpu></nvidia_smi_log>"
    found.take("detail", 0, log)
    told = found.sample(1.0, 10.0, look_up=lambda pid: None if pid == 9 else {"name": f"p{pid}"})
    assert [(row["pid"], row["kind"], row["name"]) for row in told.processes or []] == [
        (7, "both", "p7"),
        (8, "graphics", "p8"),
    ]


def test_blank_lines_of_a_stream_are_nothing() -> None:
    found = picture("index temperature.gpu utilization.gpu")
    seen = []
    for line in case("08-stream-blank-lines.csv").splitlines():
        # The query has utilization before temperature.
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
    assert Query(FAST, (), nvidia_smi.offered("")).argument.startswith("--query-gpu=index,uuid,pci.bus_id,name,")


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
